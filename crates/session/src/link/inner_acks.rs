//! Which content the inner receivers of TCP have acknowledged: how Santos and Wetherall learn what the
//! far end has (section 3.1.3), without feedback of the link.

use std::collections::VecDeque;
use std::ops::Range;

/// Flows whose content in flight is remembered. Of two that share a place, the newer one.
const FLOWS: usize = 1024;
/// Packets or runs in flight of each; the oldest are forgotten, and never count as acknowledged.
const MOST: usize = 256;

/// Content in flight. At most 10 MiB.
#[derive(Debug, Default)]
pub(super) struct InnerAcks {
    flows: Vec<Flow>,
}

#[derive(Debug, Default)]
struct Flow {
    key: u64,
    sent: VecDeque<Segment>,
}

/// A packet or a run: its sequence numbers, and where its content begins in the log.
#[derive(Debug)]
struct Segment {
    start: u32,
    end: u32,
    offset: u64,
}

/// Sequence numbers wrap around (RFC 9293 section 3.4).
fn is_below(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}

impl InnerAcks {
    /// Content was sent that begins with this sequence number and lies in `range` of the log. It takes
    /// the place of an earlier copy, since an acknowledgment does not say which of the two arrived.
    pub(super) fn sent(&mut self, flow: u64, sequence: u32, range: &Range<u64>) {
        if flow == 0 || range.is_empty() {
            return;
        }
        self.flows.resize_with(FLOWS, Flow::default);
        let known = &mut self.flows[flow as usize % FLOWS];
        if known.key != flow {
            known.key = flow;
            known.sent.clear();
        }
        let end = sequence.wrapping_add((range.end - range.start) as u32);
        known.sent.retain(|old| !is_below(sequence, old.end) || !is_below(old.start, end));
        if known.sent.len() == MOST {
            known.sent.pop_front();
        }
        known.sent.push_back(Segment { start: sequence, end, offset: range.start });
    }

    /// The flow's receiver expects this sequence number next. Passes the ranges of the log that it has
    /// received.
    pub(super) fn acknowledged(&mut self, flow: u64, next: u32, mut each: impl FnMut(Range<u64>)) {
        let Some(known) = self.flows.get_mut(flow as usize % FLOWS) else { return };
        if known.key != flow {
            return;
        }
        known.sent.retain(|segment| {
            if is_below(next, segment.end) {
                return true;
            }
            let len = segment.end.wrapping_sub(segment.start);
            each(segment.offset..segment.offset + u64::from(len));
            false
        });
    }

    /// Forgets all: another log was begun.
    pub(super) fn clear(&mut self) {
        self.flows.clear();
    }

    /// Memory as of now, in bytes.
    pub(super) fn memory(&self) -> usize {
        let segments: usize = self.flows.iter().map(|flow| flow.sent.capacity()).sum();
        self.flows.capacity() * size_of::<Flow>() + segments * size_of::<Segment>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acknowledged(acks: &mut InnerAcks, flow: u64, next: u32) -> Vec<(u64, u64)> {
        let mut ranges = Vec::new();
        acks.acknowledged(flow, next, |range| ranges.push((range.start, range.end)));
        ranges
    }

    #[test]
    fn content_counts_once_its_last_byte_is_acknowledged() {
        let mut acks = InnerAcks::default();
        let start = u32::MAX - 149;
        assert!(acknowledged(&mut acks, 7, start).is_empty(), "nothing was sent");
        for nth in 0..4u32 {
            let offset = 1000 + 100 * u64::from(nth);
            acks.sent(7, start.wrapping_add(100 * nth), &(offset..offset + 100));
        }
        assert!(acknowledged(&mut acks, 7, start).is_empty());
        assert!(acknowledged(&mut acks, 8, start.wrapping_add(400)).is_empty(), "another flow");
        assert_eq!(acknowledged(&mut acks, 7, start.wrapping_add(199)), [(1000, 1100)]);
        // Both of the two in the middle again, as one run.
        acks.sent(7, start.wrapping_add(100), &(5000..5200));
        assert_eq!(acknowledged(&mut acks, 7, start.wrapping_add(300)), [(5000, 5200)]);
        assert_eq!(acknowledged(&mut acks, 7, start.wrapping_add(400)), [(1300, 1400)]);
        assert!(acknowledged(&mut acks, 7, start.wrapping_add(400)).is_empty(), "once");
    }

    #[test]
    fn memory_is_bounded() {
        let mut acks = InnerAcks::default();
        for nth in 0..300_000u32 {
            let offset = u64::from(nth) * 10;
            acks.sent(1 + u64::from(nth) % 1000, nth, &(offset..offset + 1));
        }
        let memory = acks.memory();
        assert!((1 << 20..10 << 20).contains(&memory), "{memory} bytes");
    }
}
