//! What is to be written to a store, in order.

use super::repeats::{Repeat, Repeats};
use super::{LogHeader, Piece, Place, Run, Unwritten};
use crate::epoch::Epoch;
use std::collections::VecDeque;
use std::ops::Range;

/// Content that is copied out of the log before the driver asks for it, in bytes: the log may be
/// out with a job whenever the driver asks.
const READY: usize = 512 << 10;

/// A block of the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Bytes of padding before it.
    pub(crate) padding: u64,
    /// The chain at its end.
    pub(crate) chain: u64,
    pub(crate) is_place: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin(LogHeader),
    Rewind(Epoch, Place, u64),
    /// Blocks that follow each other, up to a place.
    Content(Block),
    Drop,
}

/// The queue of one log. Without a store nothing enters it.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    has_store: bool,
    /// Steps whose content is in the log; a step for 64 KiB of content.
    steps: VecDeque<Step>,
    /// What of their content repeats earlier content.
    repeats: Repeats,
    /// Steps that come before those, ready for the driver, and their bytes of content.
    ready: VecDeque<Unwritten>,
    ready_bytes: usize,
    /// The driver was told and has not asked since.
    is_told: bool,
}

/// The bytes of a range of a log and whose they are; `None` if the log does not hold them any more.
pub(crate) type Content = Option<(Vec<u8>, Vec<Run>)>;

impl Queue {
    pub(crate) fn new(has_store: bool) -> Queue {
        Queue { has_store, ..Queue::default() }
    }

    pub(crate) fn has_store(&self) -> bool {
        self.has_store
    }

    /// An empty log begins.
    pub(crate) fn begin(&mut self, header: LogHeader) {
        self.replace(Step::Begin(header));
    }

    /// The log was given up.
    pub(crate) fn drop_log(&mut self) {
        self.replace(Step::Drop);
    }

    /// Nothing that was to be written before matters any more.
    fn replace(&mut self, step: Step) {
        if self.has_store {
            self.clear();
            self.steps.push_back(step);
        }
    }

    /// Nothing is to be written.
    pub(crate) fn clear(&mut self) {
        self.steps.clear();
        self.repeats.clear();
        self.ready.clear();
        self.ready_bytes = 0;
    }

    /// The log continues at a place. Content that was queued and lies above it stays queued only if
    /// it was copied: the log does not hold it any more.
    pub(crate) fn rewind(&mut self, epoch: Epoch, to: Place, capacity: u64) {
        if self.has_store {
            while let Some(Step::Content(block)) = self.steps.back_mut() {
                if block.offset < to.offset {
                    // A place, or the end of what is stored, may lie within.
                    if block.offset + block.len > to.offset {
                        block.len = to.offset - block.offset;
                        (block.chain, block.is_place) = (to.chain, false);
                    }
                    break;
                }
                self.steps.pop_back();
            }
            self.repeats.rewind(to.offset);
            self.steps.push_back(Step::Rewind(epoch, to, capacity));
        }
    }

    /// A block was added to the log, of which this repeats earlier content.
    pub(crate) fn push(&mut self, block: Block, repeats: Vec<Repeat>) {
        if !self.has_store {
            return;
        }
        repeats.into_iter().for_each(|repeat| self.repeats.push(repeat));
        match self.steps.back_mut() {
            Some(Step::Content(last))
                if !last.is_place && last.offset + last.len == block.offset =>
            {
                last.len += block.len;
                (last.chain, last.is_place) = (block.chain, block.is_place);
            }
            _ => self.steps.push_back(Step::Content(block)),
        }
    }

    /// Copies what goes up to a place out of the log, as long as there is room. `content` is asked
    /// for ranges of it.
    pub(crate) fn copy(&mut self, mut content: impl FnMut(Range<u64>) -> Content) {
        while self.ready_bytes < READY
            && self.steps.front().is_some_and(|step| match step {
                Step::Content(block) => block.is_place || self.steps.len() > 1,
                _ => true,
            })
        {
            self.copy_one(&mut content);
        }
    }

    /// The log is about to lose its ring: copies what is not written yet, up to `most` bytes. The
    /// rest is left out.
    pub(crate) fn copy_all(&mut self, most: usize, mut content: impl FnMut(Range<u64>) -> Content) {
        while !self.steps.is_empty() {
            if self.ready_bytes >= most {
                self.steps.retain(|step| !matches!(step, Step::Content(_)));
            }
            self.copy_one(&mut content);
        }
    }

    fn copy_one(&mut self, content: &mut impl FnMut(Range<u64>) -> Content) {
        let next = match self.steps.pop_front() {
            Some(Step::Begin(header)) => Unwritten::Begin(header),
            Some(Step::Rewind(epoch, to, capacity)) => Unwritten::Rewind { epoch, to, capacity },
            Some(Step::Drop) => Unwritten::Drop,
            Some(Step::Content(Block { offset, len, padding, chain, is_place })) => {
                let repeats = self.repeats.take(&(offset..offset + len));
                // What was overwritten is left out; the driver sees that by the offsets.
                let Some((bytes, runs)) = content(offset..offset + len) else {
                    self.leave_out();
                    return;
                };
                self.ready_bytes += bytes.len();
                let piece = Piece { offset, padding, bytes, chain, is_place, runs, repeats };
                Unwritten::Content(piece)
            }
            None => return,
        };
        self.ready.push_back(next);
    }

    /// The driver is so slow that content is overwritten before it is copied. What is about to be
    /// overwritten is left out, too: half of what waits. Otherwise, every block that is written has
    /// a gap behind it, which costs the driver a commit, so that it stays as slow.
    fn leave_out(&mut self) {
        let is_content = |step: &&Step| matches!(step, Step::Content(_));
        let waiting = self.steps.iter().take_while(is_content).count();
        self.steps.drain(..waiting / 2);
    }

    /// The next step for the driver. `content` is `None` while the log is out with a job.
    pub(crate) fn next(
        &mut self,
        content: Option<impl FnMut(Range<u64>) -> Content>,
    ) -> Option<Unwritten> {
        if let Some(mut content) = content {
            while self.ready.is_empty() && !self.steps.is_empty() {
                self.copy_one(&mut content);
            }
        }
        let next = self.ready.pop_front();
        match &next {
            Some(Unwritten::Content(piece)) => self.ready_bytes -= piece.bytes.len(),
            Some(_) => {}
            None => self.is_told = false,
        }
        next
    }

    /// Whether the driver has to be told that there is something. It counts as told then.
    pub(crate) fn take_news(&mut self, is_lent: bool) -> bool {
        let has_news = !self.ready.is_empty() || (!is_lent && !self.steps.is_empty());
        has_news && !std::mem::replace(&mut self.is_told, true)
    }

    /// There is no store any more.
    pub(crate) fn give_up(&mut self) {
        self.clear();
        self.has_store = false;
    }

    /// Memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let steps = self.steps.capacity() * size_of::<Step>() + self.repeats.memory();
        (self.ready_bytes + steps) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(offset: u64, len: u64, is_place: bool) -> Block {
        Block { offset, len, padding: 0, chain: offset + len, is_place }
    }

    fn all(range: Range<u64>) -> Content {
        Some((vec![1; (range.end - range.start) as usize], Vec::new()))
    }

    fn drain(queue: &mut Queue) -> Vec<(u64, usize, bool)> {
        std::iter::from_fn(|| queue.next(Some(all)))
            .map(|step| match step {
                Unwritten::Content(piece) => (piece.offset, piece.bytes.len(), piece.is_place),
                Unwritten::Rewind { to, .. } => (to.offset, 0, true),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn blocks_are_joined_up_to_a_place() {
        let mut queue = Queue::new(true);
        queue.push(block(0, 10, false), Vec::new());
        assert!(queue.take_news(false) && !queue.take_news(false), "told once");
        queue.push(block(10, 90, true), Vec::new());
        queue.push(block(100, 5, false), Vec::new());
        queue.copy(all);
        queue.push(block(105, 5, false), Vec::new());
        assert_eq!(queue.next(None::<fn(Range<u64>) -> Content>).map(|_| ()), Some(()));
        assert_eq!(queue.next(None::<fn(Range<u64>) -> Content>), None, "the log is out");
        assert!(!queue.take_news(true) && queue.take_news(false));
        assert_eq!(drain(&mut queue), [(100, 10, false)]);
    }

    #[test]
    fn a_slow_driver_gets_long_stretches() {
        let mut queue = Queue::new(true);
        let (mut next, mut low, mut gaps, mut end, mut written) = (0, 0, 0, 0, 0);
        // For each block that is written, the log gets three, and keeps the newest hundred.
        for _ in 0..1000 {
            for _ in 0..3 {
                queue.push(block(next, 100, true), Vec::new());
                next += 100;
                low = next.max(10_000) - 10_000;
            }
            let held = |range: Range<u64>| all(range.clone()).filter(|_| range.start >= low);
            let Some(Unwritten::Content(piece)) = queue.next(Some(held)) else { panic!() };
            gaps += u64::from(piece.offset != end);
            end = piece.offset + 100;
            written += 1;
        }
        assert!(written == 1000 && gaps <= 1000 / 25, "{gaps} gaps");
    }

    #[test]
    fn without_a_store_nothing_is_queued() {
        let mut queue = Queue::new(false);
        queue.push(block(0, 10, true), Vec::new());
        queue.drop_log();
        assert!(!queue.take_news(false));
        let mut queue = Queue::new(true);
        queue.push(block(0, 10, true), Vec::new());
        queue.give_up();
        queue.push(block(10, 10, true), Vec::new());
        assert!(!queue.take_news(false));
    }

    #[test]
    fn what_is_dropped_by_a_rewind_is_not_asked_of_the_log() {
        let mut queue = Queue::new(true);
        queue.push(block(0, 100, true), Vec::new());
        queue.push(block(100, 100, true), Vec::new());
        queue.push(block(200, 50, false), Vec::new());
        let to = Place { offset: 100, chain: 7 };
        queue.rewind(Epoch { log: 1, number: 2 }, to, 1000);
        queue.push(block(100, 30, false), Vec::new());
        assert_eq!(drain(&mut queue), [(0, 100, true), (100, 0, true), (100, 30, false)]);
        // What does not fit while the ring goes is left out; what the driver must know is not.
        let mut queue = Queue::new(true);
        (0..5).for_each(|nth| queue.push(block(100 * nth, 100, true), Vec::new()));
        queue.rewind(Epoch { log: 1, number: 3 }, Place { offset: 500, chain: 7 }, 1000);
        queue.copy_all(250, all);
        let gone = |_: Range<u64>| -> Content { panic!("the ring is gone") };
        let left: Vec<_> = std::iter::from_fn(|| queue.next(Some(gone))).collect();
        let contents = left.iter().filter(|step| matches!(step, Unwritten::Content(_))).count();
        assert!((contents, left.len()) == (3, 4), "{left:?}");
    }
}
