//! What of a log the decoder is known to have: see [`crate::reach`].

use super::Log;
use crate::ranges::RangeSet;
use crate::reach::{Delivery, Reach};
use std::ops::Range;

impl Log {
    /// The decoder has stored `range` of this log. Content that has left the log does not matter.
    pub fn acknowledge(&mut self, range: Range<u64>) {
        self.acknowledge_new(range, &mut RangeSet::default());
    }

    /// As [`Log::acknowledge`]. Adds what of `range` was not acknowledged before to `new`.
    pub(crate) fn acknowledge_new(&mut self, range: Range<u64>, new: &mut RangeSet) {
        let (floor, end) = (self.end().saturating_sub(self.geometry().capacity()), self.end());
        self.delivery_mut().acknowledge(range.start..range.end.min(end), floor, new);
    }

    /// Nothing refers to `range` any more, whatever is acknowledged: its content was rejected
    /// (Santos and Wetherall, section 3.1.2: such entries are illegal until the decoder is reset).
    /// Content that is yet to be written does not belong to it.
    pub fn withdraw(&mut self, range: Range<u64>) {
        let (floor, end) = (self.end().saturating_sub(self.geometry().capacity()), self.end());
        self.delivery_mut().withdraw(range.start..range.end.min(end), floor);
    }

    /// What [`Log::extent`] finds from now on. A new log has [`Reach::Sent`].
    pub fn set_reach(&mut self, reach: Reach) {
        if reach != self.delivery.as_ref().map_or(Reach::default(), |delivery| delivery.reach) {
            self.delivery_mut().reach = reach;
        }
    }

    /// End of the highest content that was acknowledged.
    pub fn acknowledged_end(&self) -> u64 {
        self.delivery.as_ref().map_or(0, |delivery| delivery.highest())
    }

    /// How often content was withdrawn.
    pub(crate) fn withdrawals(&self) -> u64 {
        self.delivery.as_ref().map_or(0, |delivery| delivery.withdrawals())
    }

    /// Whether something of `range` was withdrawn.
    pub(crate) fn is_withdrawn(&self, range: &Range<u64>) -> bool {
        self.delivery.as_ref().is_some_and(|delivery| delivery.is_withdrawn(range))
    }

    /// Bytes of the notes on what was acknowledged and withdrawn.
    pub(crate) fn delivery_memory(&self) -> usize {
        self.delivery.as_ref().map_or(0, |delivery| delivery.memory())
    }

    fn delivery_mut(&mut self) -> &mut Delivery {
        let capacity = self.geometry().capacity();
        self.delivery.get_or_insert_with(|| Box::new(Delivery::new(capacity)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Geometry;

    #[test]
    fn extents_are_divided_by_what_the_decoder_has() {
        let mut log = Log::new(Geometry::new(1000, 0).unwrap()).unwrap();
        log.append(&[1; 600]);
        assert_eq!(log.extent(300, 0), Some(0..600));
        log.acknowledge(100..400);
        assert_eq!(log.extent(300, 0), Some(0..600), "all that was sent");
        log.set_reach(Reach::Acknowledged);
        assert_eq!((log.extent(300, 0), log.extent(99, 0)), (Some(100..400), None));
        log.withdraw(200..250);
        let found = [150, 200, 300].map(|offset| log.extent(offset, 0));
        assert_eq!(found, [Some(100..200), None, Some(250..400)]);
        log.acknowledge(500..5000);
        assert_eq!((log.extent(550, 0), log.acknowledged_end()), (Some(500..600), 600));
        log.append(&[2; 300]);
        assert_eq!((log.extent(550, 0), log.extent(600, 0)), (Some(500..600), None));
        log.withdraw(850..5000);
        log.set_reach(Reach::Sent);
        assert_eq!((log.extent(840, 0), log.extent(850, 0)), (Some(250..850), None));
        log.set_reach(Reach::Acknowledged);
        // The ring overwrites the first hundred bytes.
        log.append(&[3; 100]);
        log.append(&[4; 100]);
        log.acknowledge(0..150);
        assert_eq!((log.extent(120, 100), log.extent(99, 100)), (Some(100..200), None));
        log.set_reach(Reach::Sent);
        assert_eq!(log.extent(950, 0), Some(900..1000), "it was not written yet when withdrawn");
    }
}
