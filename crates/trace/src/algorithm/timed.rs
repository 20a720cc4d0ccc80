//! Things that stay open for a time, in bounded memory, whatever the clock of the trace does.

use std::collections::{BTreeSet, HashMap};

/// Most bytes that open things hold together. Beyond it the oldest are closed before their time.
const MAX_HELD: usize = 64 << 20;

/// What one more open thing is charged beside its bytes.
const OVERHEAD: usize = 256;

/// Buffers of bytes by key, each open for a time from its first bytes on.
#[derive(Debug)]
pub(crate) struct Timed<T> {
    /// Nanoseconds that each stays open.
    width: i64,
    open: HashMap<u64, Open<T>>,
    /// Keys by the time of their opening. A capture's clock may be late or be set back: it is not
    /// the order of arrival.
    order: BTreeSet<(i64, u64)>,
    held: usize,
    most: usize,
    early: u64,
}

/// What is open.
#[derive(Debug)]
pub(crate) struct Open<T> {
    /// Time of its first bytes in nanoseconds.
    pub(crate) opened: i64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) value: T,
}

impl<T> Timed<T> {
    pub(crate) fn new(width: i64) -> Timed<T> {
        Timed { width, open: HashMap::new(), order: BTreeSet::new(), held: 0, most: 0, early: 0 }
    }

    /// Takes out one that is not open any more at `now`. One that was opened later than `now` by
    /// more than its time is not either: the clock was set back.
    pub(crate) fn expired(&mut self, now: i64) -> Option<Open<T>> {
        let over = |&(opened, _): &(i64, u64)| opened.abs_diff(now) >= self.width.unsigned_abs();
        let first = self.order.first().copied().filter(over);
        let (_, key) = first.or_else(|| self.order.last().copied().filter(over))?;
        self.close(key)
    }

    /// Takes out the oldest if they hold too much together.
    pub(crate) fn too_much(&mut self) -> Option<Open<T>> {
        if self.held <= MAX_HELD {
            return None;
        }
        self.early += 1;
        self.oldest()
    }

    /// Takes out the oldest.
    pub(crate) fn oldest(&mut self) -> Option<Open<T>> {
        let &(_, key) = self.order.first()?;
        self.close(key)
    }

    /// Takes out that of a key.
    pub(crate) fn close(&mut self, key: u64) -> Option<Open<T>> {
        let open = self.open.remove(&key)?;
        self.order.remove(&(open.opened, key));
        self.held -= open.bytes.len() + OVERHEAD;
        Some(open)
    }

    /// Bytes that the key's holds.
    pub(crate) fn len(&self, key: u64) -> usize {
        self.open.get(&key).map_or(0, |open| open.bytes.len())
    }

    /// Gives the key's to `fill`; one that `new` makes is opened `now` if there is none.
    pub(crate) fn with<R>(
        &mut self,
        key: u64,
        now: i64,
        new: impl FnOnce() -> (Vec<u8>, T),
        fill: impl FnOnce(&mut Open<T>) -> R,
    ) -> R {
        let Timed { open, order, held, .. } = self;
        let open = open.entry(key).or_insert_with(|| {
            let (bytes, value) = new();
            order.insert((now, key));
            *held += OVERHEAD;
            Open { opened: now, bytes, value }
        });
        let before = open.bytes.len();
        let outcome = fill(open);
        *held += open.bytes.len() - before;
        self.most = self.most.max(self.held);
        outcome
    }

    /// Most bytes held at a time.
    pub(crate) fn memory(&self) -> u64 {
        self.most as u64
    }

    /// What to know, if some were closed before their time.
    pub(crate) fn notes(&self, what: &str) -> Vec<String> {
        if self.early == 0 {
            return Vec::new();
        }
        vec![format!(
            "{} {what} were closed before their time: those open at once held more than {} MB.",
            self.early,
            MAX_HELD / 1_000_000
        )]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(timed: &mut Timed<()>, key: u64, now: i64, len: usize) {
        timed.with(
            key,
            now,
            || (Vec::new(), ()),
            |open| open.bytes.resize(open.bytes.len() + len, 0),
        );
    }

    fn expired(timed: &mut Timed<()>, now: i64) -> Vec<i64> {
        std::iter::from_fn(|| timed.expired(now)).map(|open| open.opened).collect()
    }

    #[test]
    fn each_is_open_for_its_time_in_whatever_order_they_came() {
        let mut timed = Timed::new(10);
        for (key, now) in [(1, 105), (2, 100), (3, 107)] {
            add(&mut timed, key, now, 1);
        }
        add(&mut timed, 2, 109, 1);
        assert!(expired(&mut timed, 109).is_empty());
        assert_eq!(timed.len(2), 2);
        assert_eq!(expired(&mut timed, 116), [100, 105]);
        assert_eq!(timed.len(2), 0);
    }

    #[test]
    fn a_clock_that_jumps_leaves_nothing_open() {
        let mut timed = Timed::new(10);
        add(&mut timed, 1, i64::MAX, 1);
        add(&mut timed, 2, 0, 1);
        assert_eq!(expired(&mut timed, 5), [i64::MAX]);
        assert_eq!(expired(&mut timed, i64::MIN), [0]);
        add(&mut timed, 3, i64::MIN, 1);
        assert_eq!(expired(&mut timed, i64::MAX), [i64::MIN]);
        assert!(timed.oldest().is_none());
    }

    #[test]
    fn a_clock_that_stands_still_fills_no_memory() {
        let mut timed = Timed::new(10);
        for key in 0..100_000 {
            add(&mut timed, key, 7, 1400);
            while timed.too_much().is_some() {}
        }
        assert!(timed.memory() <= (MAX_HELD + 1400 + OVERHEAD) as u64);
        assert_eq!(timed.notes("windows").len(), 1);
        assert_eq!(timed.held, timed.open.len() * (1400 + OVERHEAD));
    }
}
