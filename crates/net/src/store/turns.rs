//! In what order the threads that read serve sessions.

use std::collections::{HashMap, HashSet, VecDeque};

/// Requests that wait, at most. A session has at most 64 and one for each lane.
const MOST: usize = 4096;

/// What threads do next. Drivers take turns, a read each: one that repeats much must not keep the
/// others waiting. A thread has a driver for itself: two would wait for the same log, and hold up
/// whoever is behind them.
#[derive(Debug)]
pub(super) struct Turns<T> {
    /// Requests that wait, by driver; there is at least one for each.
    reads: HashMap<u64, VecDeque<T>>,
    /// How many these are.
    count: usize,
    /// Drivers with requests that no thread has, in order.
    turns: VecDeque<u64>,
    /// Drivers that a thread has.
    busy: HashSet<u64>,
    /// Drivers whose sessions may have content that is not found yet.
    found: VecDeque<u64>,
}

/// What became of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pushed {
    /// A thread has to wake for it.
    Turn,
    /// A thread comes to it that has the driver, or is about to wake for it.
    Behind,
    /// Too many wait.
    Full,
}

/// What a thread does for a driver.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Work<T> {
    /// Reads what was asked for.
    Read(u64, T),
    /// Reads what nobody waits for, so that it is found.
    Find(u64),
}

impl<T> Work<T> {
    pub(super) fn driver(&self) -> u64 {
        match self {
            Work::Read(driver, _) | Work::Find(driver) => *driver,
        }
    }
}

impl<T> Default for Turns<T> {
    fn default() -> Turns<T> {
        let (reads, turns, found) = (HashMap::new(), VecDeque::new(), VecDeque::new());
        Turns { reads, count: 0, turns, busy: HashSet::new(), found }
    }
}

impl<T> Turns<T> {
    /// A driver asks for something.
    pub(super) fn push(&mut self, driver: u64, read: T) -> Pushed {
        if self.count == MOST {
            return Pushed::Full;
        }
        self.count += 1;
        let waiting = self.reads.entry(driver).or_default();
        waiting.push_back(read);
        if waiting.len() == 1 && !self.busy.contains(&driver) {
            self.turns.push_back(driver);
            return Pushed::Turn;
        }
        Pushed::Behind
    }

    /// A driver's session may have content that is not found yet.
    pub(super) fn find(&mut self, driver: u64) {
        if !self.found.contains(&driver) {
            self.found.push_back(driver);
        }
    }

    /// A thread begins with this, and calls [`Turns::end`] when it is done.
    pub(super) fn begin(&mut self) -> Option<Work<T>> {
        let work = self.next_read().or_else(|| {
            let at = self.found.iter().position(|driver| !self.busy.contains(driver))?;
            self.found.remove(at).map(Work::Find)
        })?;
        self.busy.insert(work.driver());
        Some(work)
    }

    fn next_read(&mut self) -> Option<Work<T>> {
        let driver = self.turns.pop_front()?;
        let waiting = self.reads.get_mut(&driver)?;
        let read = waiting.pop_front()?;
        if waiting.is_empty() {
            self.reads.remove(&driver);
        }
        self.count -= 1;
        Some(Work::Read(driver, read))
    }

    /// A thread is done with a driver.
    pub(super) fn end(&mut self, driver: u64) {
        self.busy.remove(&driver);
        if self.reads.contains_key(&driver) {
            self.turns.push_back(driver);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_take_turns_and_have_a_thread_each() {
        let mut turns = Turns::default();
        assert_eq!(turns.push(1, 0), Pushed::Turn);
        assert!((1..64).all(|nth| turns.push(1, nth) == Pushed::Behind));
        let pushed = [(2, 0), (2, 1), (3, 0)].map(|(driver, nth)| turns.push(driver, nth));
        assert_eq!(pushed, [Pushed::Turn, Pushed::Behind, Pushed::Turn]);
        turns.find(1);
        turns.find(4);
        // Five threads.
        let begun: Vec<_> = (0..5).map(|_| turns.begin()).collect();
        let expected = [Work::Read(1, 0), Work::Read(2, 0), Work::Read(3, 0), Work::Find(4)];
        assert_eq!(begun, expected.into_iter().map(Some).chain([None]).collect::<Vec<_>>());
        assert_eq!(turns.push(3, 1), Pushed::Behind, "its thread comes back to it");
        [2, 1, 3, 4].into_iter().for_each(|driver| turns.end(driver));
        let rest: Vec<_> = std::iter::from_fn(|| {
            let work = turns.begin()?;
            turns.end(work.driver());
            Some(work)
        })
        .collect();
        assert_eq!(rest[..3], [Work::Read(2, 1), Work::Read(1, 1), Work::Read(3, 1)]);
        assert_eq!(rest[64..], [Work::Read(1, 63), Work::Find(1)]);
        assert_eq!((turns.count, turns.reads.len(), turns.turns.len()), (0, 0, 0));
    }

    #[test]
    fn requests_are_bounded() {
        let mut turns = Turns::default();
        assert!((0..MOST as u64).all(|nth| turns.push(nth % 7, nth) != Pushed::Full));
        assert_eq!(turns.push(8, 0), Pushed::Full);
        assert!(turns.begin().is_some() && turns.push(8, 0) == Pushed::Turn);
    }
}
