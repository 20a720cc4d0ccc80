//! Unpacking with two threads: one reads the input and undoes the entropy stage of frames, the other
//! one puts their blocks together, verifies and writes them.

use super::{Source, binary_to_terminal, is_binary, refuse, truncated};
use crate::args::UnpackArgs;
use crate::endpoint::Input;
use crate::failure::Outcome;
use crate::output::{Output, give_up};
use indicatif::ProgressBar;
use oncewire_codec::pack::{FrameParts, FramesStep, PackBlocks, PackFrames, PackReader};
use std::num::NonZero;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

/// Frames in a row that do not need the log before a second thread is started.
pub(super) const FEW: usize = 16;

/// Frames that are handed over at once, because waking a thread takes as long as reading a tenth of
/// a frame.
const GROUP: usize = 8;

/// Most groups that wait for the second thread: it bounds their memory.
const QUEUE: usize = 2;

/// Whether there is a processor for a second thread.
pub(super) fn is_possible() -> bool {
    std::thread::available_parallelism().is_ok_and(|count| count > NonZero::<usize>::MIN)
}

/// What the second thread does next.
enum Task {
    /// To put together blocks, whose frames had as many bytes.
    Blocks(Vec<(FrameParts, usize)>),
    /// To write out what is there, because the input makes us wait.
    Flush,
}

/// What both threads need to know.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub(super) args: &'a UnpackArgs,
    pub(super) to_terminal: bool,
    pub(super) bar: &'a ProgressBar,
}

/// Unpacks frames until the end of the pack or one that needs the log. Returns the reader and
/// whether the pack has ended.
///
/// # Errors
/// The first failure in the order of the content. Ends the program instead if the other thread may
/// be blocked on the input.
pub(super) fn run(
    reader: PackReader,
    source: &mut Source,
    input: &mut Input,
    output: &mut Output,
    shown: Shown<'_>,
) -> Outcome<(PackReader, bool)> {
    let (mut frames, blocks) = reader.split();
    let (tasks, todo) = sync_channel(QUEUE);
    let (spare, spares) = channel();
    let name = input.name.clone();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let result = write(blocks, output, todo, spare, &name, shown);
            // The other thread may wait for an input that stays silent.
            result.unwrap_or_else(|failure| give_up(&failure))
        });
        let ended = read(&mut frames, source, input, &tasks, &spares, shown.args);
        drop(tasks);
        let blocks = writing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok((frames.join(blocks), ended?))
    })
}

/// The first thread. Returns whether the pack has ended.
fn read(
    frames: &mut PackFrames,
    source: &mut Source,
    input: &mut Input,
    tasks: &SyncSender<Task>,
    spares: &Receiver<FrameParts>,
    args: &UnpackArgs,
) -> Outcome<bool> {
    let mut parts = FrameParts::default();
    let mut group = Vec::with_capacity(GROUP);
    // A task that cannot be sent: the other thread has panicked, which ends both.
    let send = |group: &mut Vec<_>| {
        let _ = tasks.send(Task::Blocks(std::mem::replace(group, Vec::with_capacity(GROUP))));
    };
    loop {
        let step = match frames.step(source.bytes(), &mut parts) {
            Ok(step) => step,
            Err(error) => {
                // What comes before it still goes to the output.
                send(&mut group);
                return Err(refuse(error, &input.name, args));
            }
        };
        match step {
            FramesStep::NeedMore(_) => {
                if !input.is_ready() {
                    send(&mut group);
                    if tasks.send(Task::Flush).is_err() {
                        return Ok(false);
                    }
                }
                let more = source.refill(input, None);
                if !matches!(more, Ok(1..)) {
                    send(&mut group);
                }
                if more? == 0 {
                    return Err(truncated(frames.total(), source, &input.name));
                }
            }
            FramesStep::Parts { consumed } => {
                source.consume(consumed);
                let next = spares.try_recv().unwrap_or_default();
                group.push((std::mem::replace(&mut parts, next), consumed));
                if group.len() == GROUP {
                    send(&mut group);
                }
            }
            FramesStep::NeedsLog => {
                send(&mut group);
                return Ok(false);
            }
            FramesStep::End { consumed } => {
                send(&mut group);
                source.consume(consumed);
                return Ok(true);
            }
        }
    }
}

/// The second thread.
fn write(
    mut blocks: PackBlocks,
    output: &mut Output,
    todo: Receiver<Task>,
    spare: Sender<FrameParts>,
    name: &str,
    Shown { args, to_terminal, bar }: Shown<'_>,
) -> Outcome<PackBlocks> {
    for task in todo {
        let group = match task {
            Task::Blocks(group) => group,
            Task::Flush => {
                output.flush()?;
                continue;
            }
        };
        for (parts, consumed) in group {
            let content = blocks.assemble(&parts).map_err(|error| refuse(error, name, args))?;
            if to_terminal && is_binary(content) {
                return Err(binary_to_terminal());
            }
            output.write(content)?;
            bar.inc(consumed as u64);
            // Nobody takes it at the end.
            let _ = spare.send(parts);
        }
    }
    Ok(blocks)
}
