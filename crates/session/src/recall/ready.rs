//! Stretches that both ends have read, until they are recalled.

use super::{MOST, MOST_OF_ONE, Recall, Stretch};
use crate::flow::FlowId;
use std::collections::VecDeque;
use std::ops::Range;

/// Where so many wait, those of flows without credit do not.
const MOST_WAITING: usize = MOST / 2;

/// A stretch that both ends have.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) stretch: Stretch,
    pub(crate) bytes: Vec<u8>,
    /// It is what its flow sends at [`Stretch::at`], so it is recalled as that, when it is its turn.
    pub(crate) is_next: bool,
    /// It was that, and its flow does not wait for it any more.
    pub(crate) has_waited: bool,
}

impl Ready {
    /// Without its first `len` bytes, and there are more.
    fn skip(&mut self, len: usize) {
        self.bytes.drain(..len);
        self.stretch.range.start += len as u64;
        self.stretch.at += len as u64;
    }
}

/// All of them, in the order in which both ends had them.
#[derive(Debug, Default)]
pub(crate) struct Queue(VecDeque<Ready>);

impl Queue {
    pub(crate) fn push(&mut self, stretch: Stretch, bytes: Vec<u8>) {
        self.0.push_back(Ready { stretch, bytes, is_next: false, has_waited: false });
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Bytes of all of them.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|ready| ready.bytes.len()).sum()
    }

    /// The first one of a lane of which nothing is known.
    pub(crate) fn front(&self, lane: usize) -> Option<&Ready> {
        self.0.iter().find(|ready| ready.stretch.lane == lane && !ready.is_next)
    }

    /// Takes what [`Queue::front`] returns.
    pub(crate) fn pop(&mut self, lane: usize) -> Option<Ready> {
        let is_front = |ready: &Ready| ready.stretch.lane == lane && !ready.is_next;
        let at = self.0.iter().position(is_front)?;
        self.0.remove(at)
    }

    /// What [`Queue::front`] returns is what its flow sends. Returns whose it is, and of which look.
    pub(crate) fn wait_for_turn(&mut self, lane: usize) -> Option<(FlowId, u64)> {
        let is_front = |ready: &&mut Ready| ready.stretch.lane == lane && !ready.is_next;
        let front = self.0.iter_mut().find(is_front)?;
        (front.is_next, front.has_waited) = (true, true);
        Some((front.stretch.flow, front.stretch.look))
    }

    /// Where in a flow the next one begins that is sent as it is, and its length.
    pub(crate) fn next_of(&self, flow: FlowId) -> Option<(u64, usize)> {
        let own = self.0.iter().filter(|ready| ready.is_next && ready.stretch.flow == flow);
        own.map(|ready| (ready.stretch.at, ready.bytes.len())).min()
    }

    /// Takes the first `most` bytes of the one that begins there in a flow.
    pub(crate) fn take(&mut self, flow: FlowId, at: u64, most: usize) -> Option<Ready> {
        let found = self.0.iter().position(|ready| {
            ready.is_next && (ready.stretch.flow, ready.stretch.at) == (flow, at)
        })?;
        let rest = &mut self.0[found];
        if rest.bytes.len() <= most {
            return self.0.remove(found);
        }
        let mut stretch = rest.stretch.clone();
        stretch.range.end = stretch.range.start + most as u64;
        let bytes = rest.bytes[..most].to_vec();
        rest.skip(most);
        Some(Ready { stretch, bytes, is_next: true, has_waited: true })
    }

    /// A flow has sent everything before `at`; all, if it is gone. What it was to send of the log below
    /// `oldest` is forgotten.
    pub(crate) fn pass(&mut self, flow: FlowId, at: u64, oldest: u64) {
        self.0.retain_mut(|ready| {
            if !ready.is_next || ready.stretch.flow != flow {
                return true;
            }
            let passed = at.saturating_sub(ready.stretch.at);
            let stays = passed < ready.bytes.len() as u64 && ready.stretch.range.start >= oldest;
            if stays && passed > 0 {
                ready.skip(passed as usize);
            }
            stays
        });
    }

    /// What flows were to send of a range of the log is forgotten: one of the disks does not have it.
    pub(crate) fn forget(&mut self, range: &Range<u64>) {
        self.0.retain(|Ready { stretch: Stretch { range: own, .. }, is_next, .. }| {
            !is_next || own.end <= range.start || range.end <= own.start
        });
    }

    /// Removes what a flow was to send that goes on where a range of the log ends. Returns its range.
    pub(crate) fn take_after(&mut self, range: &Range<u64>) -> Option<Range<u64>> {
        let goes_on = |ready: &Ready| ready.is_next && ready.stretch.range.start == range.end;
        let at = self.0.iter().position(goes_on)?;
        self.0.remove(at).map(|ready| ready.stretch.range)
    }

    /// One of those that a flow of the lane is to send goes into the log at once, where there are too
    /// many of them. `is_stalled` says whether a flow can send nothing.
    pub(crate) fn stop_waiting(&mut self, lane: usize, is_stalled: impl Fn(FlowId) -> bool) {
        if self.0.len() < MOST_WAITING {
            return;
        }
        let stalled = |ready: &&mut Ready| {
            ready.is_next && ready.stretch.lane == lane && is_stalled(ready.stretch.flow)
        };
        if let Some(ready) = self.0.iter_mut().find(stalled) {
            (ready.is_next, ready.has_waited) = (false, true);
        }
    }
}

impl Recall {
    /// Whether there is room for all that a look may find.
    pub(crate) fn has_room(&self) -> bool {
        self.fetches.len() + self.ready.len() + MOST_OF_ONE <= MOST
    }

    /// A flow has sent everything before `sent`, or is gone. What both ends have of it and a disk has not
    /// any more is forgotten.
    pub(crate) fn pass(&mut self, flow: FlowId, sent: u64) {
        let oldest = self.end.saturating_sub(self.stored.min(self.peer));
        self.ready.pass(flow, sent, oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncewire_codec::Domain;

    #[test]
    fn a_flow_takes_them_in_its_order_and_others_are_left_alone() {
        let stretch = |flow: u64, lane: usize, at: u64| Stretch {
            flow: FlowId(flow),
            lane,
            log: 1,
            domain: Domain(0),
            range: at..at + 10,
            at,
            look: at,
        };
        let mut queue = Queue::default();
        for (flow, lane, at) in [(2, 0, 50), (4, 1, 7), (2, 0, 20), (2, 0, 30)] {
            queue.push(stretch(flow, lane, at), vec![0; 10]);
        }
        assert_eq!((queue.len(), queue.bytes(), queue.next_of(FlowId(2))), (4, 40, None));
        for at in [50u64, 20] {
            assert_eq!(queue.front(0).map(|ready| ready.stretch.at), Some(at));
            assert_eq!(queue.wait_for_turn(0), Some((FlowId(2), at)));
        }
        assert_eq!(queue.next_of(FlowId(2)), Some((20, 10)));
        let mut take = |flow: u64, at, most| {
            queue.take(FlowId(flow), at, most).map(|ready| (ready.stretch.range, ready.bytes.len()))
        };
        assert_eq!((take(2, 30, 10), take(4, 7, 10)), (None, None));
        assert_eq!((take(2, 20, 3), take(2, 20, 3)), (Some((20..23, 3)), None));
        assert_eq!((take(2, 23, 3), take(2, 30, 10)), (Some((23..26, 3)), None));
        assert_eq!((queue.take_after(&(20..25)), queue.take_after(&(0..30))), (None, None));
        assert_eq!(queue.take_after(&(20..26)), Some(26..30));
        assert_eq!(queue.pop(0).map(|ready| ready.stretch.at), Some(30));
        queue.pass(FlowId(4), u64::MAX, 0);
        queue.pass(FlowId(2), 50, 50);
        queue.forget(&(0..50));
        queue.forget(&(60..70));
        assert_eq!(queue.len(), 2, "none is passed");
        queue.pass(FlowId(2), 52, 50);
        assert_eq!(queue.next_of(FlowId(2)), Some((52, 8)));
        queue.pass(FlowId(2), 52, 53);
        assert_eq!(queue.next_of(FlowId(2)), None, "it is not on disk any more");
        queue.push(stretch(2, 0, 80), vec![0; 10]);
        assert!(queue.wait_for_turn(0).is_some());
        queue.forget(&(7..81));
        assert!(queue.pop(0).is_none() && queue.pop(1).is_some() && queue.len() == 0);
    }

    #[test]
    fn where_many_wait_those_of_flows_without_credit_do_not() {
        let mut queue = Queue::default();
        for at in 0..MOST_WAITING as u64 {
            let flow = FlowId(at % 2);
            let (log, domain, range) = (1, Domain(0), at..at + 1);
            queue.push(Stretch { flow, lane: 0, log, domain, range, at, look: 1 }, vec![0]);
            queue.wait_for_turn(0);
            assert!(queue.front(0).is_none());
            queue.stop_waiting(0, |flow| flow == FlowId(1));
            let front = queue.front(0).map(|ready| (ready.stretch.at, ready.has_waited));
            let is_full = at + 1 == MOST_WAITING as u64;
            assert_eq!(front, is_full.then_some((1, true)));
        }
    }
}
