//! Packing with any number of threads, with the same output.
//!
//! Each thread takes what there is to do: the next batch of frames to the output, the next batch of
//! content to find repeats in, or a batch to write as frames. Only one at a time does either of the
//! first two. Batches of different entropy contexts are written side by side, those of one context
//! in order. The number of batches between input and output is limited; at the limit, the thread
//! that finds repeats writes as well, so that no processor waits for another.

use super::batch::{Batch, Finding};
use super::format::Writer;
use crate::adapting::Spent;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, give_up};
use cpu_time::ThreadTime;
use indicatif::ProgressBar;
use oncewire_codec::pack::{CONTEXTS, RUN, Summary, context_of};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The end of the work: frames to the output.
pub(super) struct Sink {
    pub(super) output: Output,
    pub(super) summary: Summary,
    pub(super) bar: ProgressBar,
}

impl Sink {
    fn take(&mut self, batch: &Batch) -> Outcome {
        self.output.write(&batch.frames)?;
        self.output.flush()?;
        for tokens in batch.tokens() {
            self.summary.add_tokens(tokens);
        }
        self.bar.inc(batch.len as u64);
        Ok(())
    }
}

/// Where a batch between finding and output is.
enum Slot {
    Found(Batch),
    /// A thread writes its frames.
    Busy,
    Written(Batch),
}

struct State<'a> {
    /// `None` while a thread uses it.
    finding: Option<Finding<'a>>,
    sink: Option<Sink>,
    writers: [Option<Writer>; CONTEXTS],
    /// The input has ended, or failed.
    ended: bool,
    /// A thread has panicked.
    panicked: bool,
    failure: Option<Failure>,
    /// Batches in order.
    slots: VecDeque<(usize, Slot)>,
    /// Number of the first of them.
    first: u64,
    free: Vec<Batch>,
}

/// What a thread does next.
#[expect(clippy::large_enum_variant, reason = "one exists at a time, for a megabyte of content")]
enum Step<'a> {
    Find(Finding<'a>, Batch),
    Write { number: u64, context: usize, writer: Writer, batch: Batch },
    Emit(Sink, Batch),
    Wait,
    End,
}

impl<'a> State<'a> {
    /// The next step for a thread that last wrote with context `last`.
    fn next(&mut self, most: usize, last: usize) -> Step<'a> {
        if self.panicked || (self.failure.is_some() && !self.ended) {
            return Step::End;
        }
        if matches!(self.slots.front(), Some((_, Slot::Written(_))))
            && let Some(sink) = self.sink.take()
            && let Some((_, Slot::Written(batch))) = self.slots.pop_front()
        {
            self.first += 1;
            return Step::Emit(sink, batch);
        }
        if !self.ended
            && self.slots.len() < most
            && let Some(finding) = self.finding.take()
        {
            return Step::Find(finding, self.free.pop().unwrap_or_default());
        }
        if let Some(at) = self.writable(last) {
            let (context, slot) = &mut self.slots[at];
            if let Slot::Found(batch) = std::mem::replace(slot, Slot::Busy)
                && let Some(writer) = self.writers[*context].take()
            {
                let number = self.first + at as u64;
                return Step::Write { number, context: *context, writer, batch };
            }
        }
        if self.ended && self.slots.is_empty() && self.sink.is_some() {
            return Step::End;
        }
        Step::Wait
    }

    /// Place of the batch to write next: of context `last`, whose state is in this processor's
    /// cache, or else the first.
    fn writable(&self, last: usize) -> Option<usize> {
        let mut seen = [false; CONTEXTS];
        let mut first = None;
        for (at, (context, slot)) in self.slots.iter().enumerate() {
            if matches!(slot, Slot::Written(_)) || std::mem::replace(&mut seen[*context], true) {
                continue;
            }
            if matches!(slot, Slot::Found(_)) && self.writers[*context].is_some() {
                if *context == last {
                    return Some(at);
                }
                first = first.or(Some(at));
            }
        }
        first
    }
}

struct Shared<'a> {
    state: Mutex<State<'a>>,
    changed: Condvar,
    /// Most batches between input and output.
    most: usize,
    threads: usize,
    spent: Option<Spent>,
}

/// Tells the other threads if this one panics; they would wait for it.
struct OnPanic<'s, 'a>(&'s Shared<'a>);

impl Drop for OnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().panicked = true;
            self.0.changed.notify_all();
        }
    }
}

impl<'a> Shared<'a> {
    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the work after a failure of the output or of a writer. With several threads, one may be
    /// blocked on an input that stays silent.
    fn fail(&self, failure: Failure) {
        if self.threads > 1 {
            give_up(&failure);
        }
        self.lock().failure.get_or_insert(failure);
    }

    fn work(&self) {
        let _on_panic = OnPanic(self);
        let mut last = 0;
        let mut state = self.lock();
        loop {
            match state.next(self.most, last) {
                Step::End => return,
                Step::Wait => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                Step::Find(mut finding, mut batch) => {
                    drop(state);
                    let found = finding.next(&mut batch);
                    state = self.lock();
                    state.finding = Some(finding);
                    match found {
                        Ok(true) => {
                            let context = context_of(batch.start);
                            state.slots.push_back((context, Slot::Found(batch)));
                        }
                        Ok(false) => state.ended = true,
                        // What was found before still goes to the output.
                        Err(failure) => {
                            state.ended = true;
                            state.failure = Some(failure);
                        }
                    }
                }
                Step::Write { number, context, mut writer, mut batch } => {
                    drop(state);
                    last = context;
                    let begun = self.spent.as_ref().map(|_| ThreadTime::now());
                    let written = batch.write(&mut writer, context);
                    if let Some((spent, begun)) = self.spent.as_ref().zip(begun) {
                        spent.add_since(begun);
                    }
                    if let Err(failure) = written {
                        return self.fail(failure);
                    }
                    state = self.lock();
                    state.writers[context] = Some(writer);
                    let at = (number - state.first) as usize;
                    state.slots[at].1 = Slot::Written(batch);
                }
                Step::Emit(mut sink, batch) => {
                    drop(state);
                    let taken = sink.take(&batch);
                    if let Err(failure) = taken {
                        return self.fail(failure);
                    }
                    state = self.lock();
                    state.sink = Some(sink);
                    state.free.push(batch);
                }
            }
            self.changed.notify_all();
        }
    }
}

/// Packs everything that `finding` finds, with up to `threads` threads, this one included.
///
/// # Errors
/// The first failure. Ends the program instead if others may be blocked on the input.
pub(super) fn run(
    finding: Finding<'_>,
    writers: Vec<Writer>,
    sink: Sink,
    threads: usize,
    spent: Option<Spent>,
) -> Outcome<Sink> {
    let mut writers = writers.into_iter();
    let state = State {
        finding: Some(finding),
        sink: Some(sink),
        writers: std::array::from_fn(|_| writers.next()),
        ended: false,
        panicked: false,
        failure: None,
        slots: VecDeque::new(),
        first: 0,
        free: Vec::new(),
    };
    // One thread finds while each of the others writes a run.
    let most =
        if threads == 1 { 1 } else { (threads - 1) * RUN as usize / super::batch::BATCH + 2 };
    let shared = Shared { state: Mutex::new(state), changed: Condvar::new(), most, threads, spent };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| shared.work());
        }
        shared.work();
    });
    let state = shared.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (state.failure, state.sink) {
        (Some(failure), _) => Err(failure),
        (None, Some(sink)) => Ok(sink),
        (None, None) => Err(Failure::failed("a thread of the program ended early")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::{BATCH, Batches, Source};
    use super::*;
    use crate::endpoint::Input;
    use oncewire_codec::Encoder;
    use std::io::{self, Write};
    use std::sync::Arc;

    /// The size of each write.
    #[derive(Clone, Default)]
    struct Calls(Arc<Mutex<Vec<usize>>>);

    impl Write for Calls {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push(bytes.len());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn writes_are_few() {
        // Half of the content repeats, for both small and large frames.
        let mut state = 1u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 56) as u8
        });
        let half: Vec<u8> = noise.take(4 << 20).collect();
        let content: &'static [u8] = [&half[..], &half].concat().leak();
        for threads in 1..=5 {
            let calls = Calls::default();
            let mut input = Input::memory("test", content);
            let builder = Encoder::builder().cache(16 << 20).contexts(CONTEXTS);
            let (mut finder, writers) = builder.build_parts(None, CONTEXTS).unwrap();
            let output = Output::over(Box::new(calls.clone()), "test".into());
            let bar = ProgressBar::hidden();
            let sink = Sink { output, summary: Summary::default(), bar };
            let finding = Finding {
                source: Source::Read(Batches::new(&mut input, 64 << 10)),
                block: 64 << 10,
                generation: None,
                finder: &mut finder,
                adapting: &mut None,
                checksum: None,
                store: &mut None,
                position: 0,
            };
            let writers = writers.into_iter().map(Writer::Oncewire).collect();
            let sink = run(finding, writers, sink, threads, None).unwrap();
            let written = sink.output.written();
            sink.output.finish().unwrap();
            let calls = calls.0.lock().unwrap();
            assert_eq!(calls.iter().sum::<usize>() as u64, written);
            // A batch of random bytes is a megabyte plus headers.
            assert!(calls.len() <= 2 * content.len() / BATCH, "{threads}: {calls:?}");
        }
    }
}
