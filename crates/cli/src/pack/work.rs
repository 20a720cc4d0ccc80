//! Threads that pack. Which of them does what is up to [`Turns`].

use super::batch::{BATCH, Batch, Finding};
use super::format::Writer;
use crate::adapting::Spent;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, give_up};
use cpu_time::ThreadTime;
use indicatif::ProgressBar;
use oncewire_codec::pack::{CONTEXTS, Summary, Turn, Turns};
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

type Parts<'a> = Turns<Finding<'a>, Writer, Sink, Batch>;

struct State<'a> {
    turns: Parts<'a>,
    failure: Option<Failure>,
}

struct Shared<'a> {
    state: Mutex<State<'a>>,
    changed: Condvar,
    threads: usize,
    spent: Option<Spent>,
}

/// Tells the other threads if this one panics; they would wait for it.
struct OnPanic<'s, 'a>(&'s Shared<'a>);

impl Drop for OnPanic<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().turns.end();
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
        let mut state = self.lock();
        state.failure.get_or_insert(failure);
        state.turns.end();
    }

    fn work(&self) {
        let _on_panic = OnPanic(self);
        let mut last = 0;
        let mut state = self.lock();
        loop {
            match state.turns.next(last) {
                Turn::End => return,
                Turn::Wait => {
                    state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                Turn::Find(mut finding, batch) => {
                    drop(state);
                    let mut batch = batch.unwrap_or_default();
                    let found = finding.next(&mut batch);
                    state = self.lock();
                    let is_found = matches!(found, Ok(true));
                    state.turns.found(finding, is_found.then_some((batch.start, batch)));
                    state.failure = state.failure.take().or(found.err());
                }
                Turn::Write(mut writing) => {
                    drop(state);
                    last = writing.context;
                    let begun = self.spent.as_ref().map(|_| ThreadTime::now());
                    let written = writing.batch.write(&mut writing.writer, last);
                    if let Some((spent, begun)) = self.spent.as_ref().zip(begun) {
                        spent.add_since(begun);
                    }
                    if let Err(failure) = written {
                        return self.fail(failure);
                    }
                    state = self.lock();
                    state.turns.wrote(writing);
                }
                Turn::Emit(mut sink, batch) => {
                    drop(state);
                    let taken = sink.take(&batch);
                    if let Err(failure) = taken {
                        return self.fail(failure);
                    }
                    state = self.lock();
                    state.turns.emitted(sink, batch);
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
    writers: [Writer; CONTEXTS],
    sink: Sink,
    threads: usize,
    spent: Option<Spent>,
) -> Outcome<Sink> {
    let turns = Turns::new(finding, writers, sink, threads, BATCH);
    let state = Mutex::new(State { turns, failure: None });
    let shared = Shared { state, changed: Condvar::new(), threads, spent };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| shared.work());
        }
        shared.work();
    });
    let state = shared.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    match (state.failure, state.turns.into_output()) {
        (Some(failure), _) => Err(failure),
        (None, Some(sink)) => Ok(sink),
        (None, None) => Err(Failure::failed("a thread of the program ended early")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::{Batches, Source};
    use super::super::format::FormatName;
    use super::*;
    use crate::endpoint::Input;
    use oncewire_codec::{Encoder, Entropy};
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
        let half = oncewire_testkit::content::incompressible(1, 4 << 20);
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
            let entropy = Entropy::default();
            let writers = Writer::all(writers, FormatName::Oncewire, entropy).unwrap();
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
