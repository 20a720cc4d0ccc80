//! The lanes of a session, and what concerns all of them.

use super::*;
use std::ops::{Deref, DerefMut};

/// The lanes, by number.
pub(super) struct Lanes {
    all: Vec<Lane>,
    /// The lane whose input is looked at first, so that none waits for the others.
    next: usize,
}

impl Deref for Lanes {
    type Target = [Lane];

    fn deref(&self) -> &[Lane] {
        &self.all
    }
}

impl DerefMut for Lanes {
    fn deref_mut(&mut self) -> &mut [Lane] {
        &mut self.all
    }
}

impl Lanes {
    /// Lanes without a transport.
    pub(super) fn new(count: usize, config: &Settings, now: Instant) -> Lanes {
        let all = (0..count).map(|_| Lane::new(Timers::new(config), now)).collect();
        Lanes { all, next: 0 }
    }

    /// Keeps the first lanes only.
    pub(super) fn truncate(&mut self, count: usize) {
        self.all.truncate(count);
    }

    /// The next lane with input that can be processed.
    pub(super) fn next_ready(&mut self) -> Option<usize> {
        let count = self.all.len();
        let mut order = (0..count).map(|nth| (self.next + nth) % count);
        let lane = order.find(|&lane| self.all[lane].is_ready())?;
        self.next = lane + 1;
        Some(lane)
    }

    /// Received bytes that are not processed yet.
    pub(super) fn unprocessed(&self) -> u64 {
        self.iter().map(|lane| lane.unprocessed() as u64).sum()
    }

    /// Frees buffers that hold nothing.
    pub(super) fn free_buffers(&mut self) {
        self.all.iter_mut().for_each(Lane::free_buffers);
    }

    /// Whether every lane waits for content of another one.
    pub(super) fn is_deadlocked(&self) -> bool {
        !self.is_empty() && self.iter().all(Lane::is_waiting)
    }

    /// Whether an EPOCH is unacknowledged on any lane. No other log may begin then: messages of two
    /// lanes can overtake each other, and a late EPOCH would take the peer back to the log before.
    pub(super) fn has_epoch_in_flight(&self) -> bool {
        self.iter().any(Lane::has_epoch_in_flight)
    }

    /// The lane with the fewest flows, preferably one that is up.
    pub(super) fn least_used(&self) -> usize {
        let key = |&lane: &usize| (!self[lane].is_up(), self[lane].flow_count());
        (0..self.len()).min_by_key(key).unwrap_or(0)
    }
}

impl Session {
    /// Notifies the driver, unless it knows already, that a lane has something to send.
    pub(super) fn wake(&mut self, lane: usize) {
        if self.lanes[lane].wake() {
            self.events.push_back(Event::Transmit(lane));
        }
    }

    /// Wakes the lanes that are to be.
    pub(super) fn wake_where(&mut self, wants: impl Fn(&Lane) -> bool) {
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            if wants(lane) && lane.wake() {
                self.events.push_back(Event::Transmit(at));
            }
        }
    }

    /// Gives up a lane's transport with CLOSE, if there is one.
    pub(super) fn drop_lane(&mut self, lane: usize, code: u64, text: &str) {
        if self.lanes[lane].close(code, text) {
            self.events.push_back(Event::Drop(lane));
        }
    }

    /// Gives up every transport with CLOSE.
    pub(super) fn drop_all(&mut self, code: u64, text: &str) {
        (0..self.lanes.len()).for_each(|lane| self.drop_lane(lane, code, text));
    }
}
