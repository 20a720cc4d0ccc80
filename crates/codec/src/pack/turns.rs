//! Who does what when several threads pack: the same output for any number of them.
//!
//! Each thread asks for what there is to do: hand the next batch of frames to the output, find
//! repeats in the next batch of content, or write a batch as frames. Only one at a time does either
//! of the first two. Batches of different entropy contexts are written side by side, those of one
//! context in order. The number of batches between input and output is limited; at the limit, the
//! thread that finds repeats writes as well, so that no processor waits for another.

use super::{CONTEXTS, RUN, context_of};
use std::collections::VecDeque;

/// Where a batch between finding and output is.
enum Slot<B> {
    Found(B),
    /// A thread writes its frames.
    Busy,
    Written(B),
}

/// What a thread does next; what it takes goes back by the method that is named.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn<F, W, S, B> {
    /// Find the repeats of the next batch, in this one if there is a used one: [`Turns::found`].
    Find(F, Option<B>),
    /// Write a batch as frames: [`Turns::wrote`].
    Write(Writing<W, B>),
    /// Hand frames to the output: [`Turns::emitted`].
    Emit(S, B),
    /// Wait until a thread has given something back.
    Wait,
    /// Nothing is left to do.
    End,
}

/// A batch that a thread writes as frames.
#[derive(Debug, PartialEq, Eq)]
pub struct Writing<W, B> {
    number: u64,
    /// The entropy context of its frames.
    pub context: usize,
    /// What writes frames of this context.
    pub writer: W,
    /// The batch.
    pub batch: B,
}

/// Batches on their way from the input to the output, and who has them. `F` finds repeats, `W`
/// writes frames of one of [`CONTEXTS`] contexts, `S` takes them, `B` is a batch. Its owner has
/// threads and a lock; this has neither.
///
/// ```
/// use oncewire_codec::pack::{Turn, Turns};
///
/// // A thread that packs three batches alone.
/// let mut turns = Turns::new(0_u32..3, [(), (), (), ()], Vec::new(), 1, 1 << 20);
/// loop {
///     match turns.next(0) {
///         Turn::Find(mut content, _) => {
///             let batch = content.next();
///             turns.found(content, batch.map(|number| (u64::from(number) << 20, number)));
///         }
///         Turn::Write(writing) => turns.wrote(writing),
///         Turn::Emit(mut output, number) => {
///             output.push(number);
///             turns.emitted(output, number);
///         }
///         Turn::Wait => unreachable!("there is no other thread"),
///         Turn::End => break,
///     }
/// }
/// assert_eq!(turns.into_output(), Some(vec![0, 1, 2]));
/// ```
pub struct Turns<F, W, S, B> {
    /// `None` while a thread uses it.
    finding: Option<F>,
    output: Option<S>,
    writers: [Option<W>; CONTEXTS],
    /// The input has ended, or failed.
    has_ended: bool,
    is_over: bool,
    /// Batches in order, with their contexts.
    slots: VecDeque<(usize, Slot<B>)>,
    /// Most of them.
    most: usize,
    /// Number of the first of them.
    first: u64,
    free: Vec<B>,
}

impl<F, W, S, B> Turns<F, W, S, B> {
    /// For this many threads, and batches of at most `batch` bytes of content each.
    pub fn new(
        finding: F,
        writers: [W; CONTEXTS],
        output: S,
        threads: usize,
        batch: usize,
    ) -> Turns<F, W, S, B> {
        // One thread finds while each of the others writes a run.
        let most = if threads <= 1 { 1 } else { (threads - 1) * (RUN as usize / batch.max(1)) + 2 };
        Turns {
            finding: Some(finding),
            output: Some(output),
            writers: writers.map(Some),
            has_ended: false,
            is_over: false,
            slots: VecDeque::new(),
            most,
            first: 0,
            free: Vec::new(),
        }
    }

    /// What a thread does next that last wrote with context `last`.
    pub fn next(&mut self, last: usize) -> Turn<F, W, S, B> {
        if self.is_over {
            return Turn::End;
        }
        if matches!(self.slots.front(), Some((_, Slot::Written(_))))
            && let Some(output) = self.output.take()
            && let Some((_, Slot::Written(batch))) = self.slots.pop_front()
        {
            self.first += 1;
            return Turn::Emit(output, batch);
        }
        if !self.has_ended
            && self.slots.len() < self.most
            && let Some(finding) = self.finding.take()
        {
            return Turn::Find(finding, self.free.pop());
        }
        if let Some(at) = self.writable(last) {
            let (context, slot) = &mut self.slots[at];
            if let Slot::Found(batch) = std::mem::replace(slot, Slot::Busy)
                && let Some(writer) = self.writers[*context].take()
            {
                let number = self.first + at as u64;
                return Turn::Write(Writing { number, context: *context, writer, batch });
            }
        }
        if self.has_ended && self.slots.is_empty() && self.output.is_some() {
            return Turn::End;
        }
        Turn::Wait
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

    /// Takes back what finds repeats, with a batch and the position of its first byte, or with
    /// `None` at the end of the input, or if that failed: what was found before still goes to the
    /// output.
    pub fn found(&mut self, finding: F, batch: Option<(u64, B)>) {
        self.finding = Some(finding);
        match batch {
            Some((start, batch)) => self.slots.push_back((context_of(start), Slot::Found(batch))),
            None => self.has_ended = true,
        }
    }

    /// Takes back a batch that was written.
    pub fn wrote(&mut self, writing: Writing<W, B>) {
        let Writing { number, context, writer, batch } = writing;
        self.writers[context] = Some(writer);
        let at = (number - self.first) as usize;
        if let Some((_, slot)) = self.slots.get_mut(at) {
            *slot = Slot::Written(batch);
        }
    }

    /// Takes back the output, and a batch that it has taken.
    pub fn emitted(&mut self, output: S, batch: B) {
        self.output = Some(output);
        self.free.push(batch);
    }

    /// There is nothing more to do for any thread: one has failed.
    pub fn end(&mut self) {
        self.is_over = true;
    }

    /// The output, unless a thread has kept it.
    pub fn into_output(self) -> Option<S> {
        self.output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Numbers = Turns<(), (), Vec<u64>, u64>;

    fn turns(threads: usize) -> Numbers {
        Turns::new((), [(); CONTEXTS], Vec::new(), threads, 1 << 20)
    }

    fn found(turns: &mut Numbers, number: u64) {
        assert!(matches!(turns.next(0), Turn::Find((), _)));
        turns.found((), Some((number << 20, number)));
    }

    fn writing(turns: &mut Numbers, last: usize) -> Writing<(), u64> {
        match turns.next(last) {
            Turn::Write(writing) => writing,
            other => panic!("{other:?}"),
        }
    }

    /// Threads that give back what they have in every order: the output is that of one thread.
    #[test]
    fn the_output_is_in_order_whoever_is_fast() {
        let mut random = oncewire_kernels::random::SplitMix64(1);
        for threads in [1, 2, 3, 5, 8] {
            let (mut turns, mut number) = (turns(threads), 0);
            let mut held: Vec<Turn<(), (), Vec<u64>, u64>> = Vec::new();
            loop {
                let is_full = held.len() == threads;
                match if is_full { Turn::Wait } else { turns.next(0) } {
                    Turn::End => break,
                    Turn::Wait => {
                        let at = random.below(held.len() as u64) as usize;
                        match held.swap_remove(at) {
                            Turn::Find((), _) => {
                                let batch = (number < 50).then_some((number << 20, number));
                                number += 1;
                                turns.found((), batch);
                            }
                            Turn::Write(writing) => turns.wrote(writing),
                            Turn::Emit(mut output, batch) => {
                                output.push(batch);
                                turns.emitted(output, batch);
                            }
                            Turn::Wait | Turn::End => unreachable!(),
                        }
                    }
                    turn => held.push(turn),
                }
            }
            assert_eq!(turns.into_output(), Some((0..50).collect()), "{threads} threads");
        }
    }

    #[test]
    fn one_context_is_written_in_order_and_several_side_by_side() {
        let mut turns = turns(3);
        for number in 0..10 {
            found(&mut turns, number);
        }
        // The limit: two runs, and two more.
        let first = writing(&mut turns, 0);
        assert_eq!((first.context, first.batch), (0, 0));
        // The next batch of that context waits for its writer, one of another context does not. A
        // thread goes on with the context that it has.
        let second = writing(&mut turns, 2);
        assert_eq!((second.context, second.batch), (2, 8));
        let third = writing(&mut turns, 0);
        assert_eq!((third.context, third.batch), (1, 4));
        assert_eq!(turns.next(0), Turn::Wait);
        turns.wrote(second);
        assert_eq!(writing(&mut turns, 2).batch, 9);
        // Nothing goes out before the first.
        assert_eq!(turns.next(0), Turn::Wait);
        turns.wrote(first);
        assert!(matches!(turns.next(0), Turn::Emit(_, 0)));
    }

    #[test]
    fn a_failed_input_ends_after_what_was_found_and_a_failed_thread_at_once() {
        let mut turns = turns(2);
        found(&mut turns, 0);
        assert!(matches!(turns.next(0), Turn::Find((), None)));
        turns.found((), None);
        let writing = writing(&mut turns, 0);
        assert_eq!(turns.next(0), Turn::Wait);
        turns.wrote(writing);
        let Turn::Emit(output, batch) = turns.next(0) else { panic!("the batch goes out") };
        assert_eq!(turns.next(0), Turn::Wait);
        turns.emitted(output, batch);
        assert_eq!(turns.next(0), Turn::End);

        let mut failed = self::turns(2);
        found(&mut failed, 0);
        failed.end();
        assert_eq!(failed.next(0), Turn::End);
    }
}
