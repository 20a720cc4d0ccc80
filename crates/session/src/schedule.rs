//! Which flow of a lane sends next: deficit round robin (Shreedhar and Varghese, SIGCOMM 1995),
//! with new flows first as in RFC 8290 section 4.1.

use crate::flow::{FlowId, Turn};
use std::collections::VecDeque;

/// Bytes that a flow may send per round.
pub(crate) const QUANTUM: i64 = 16 << 10;

/// The flows of a lane that have something to send. A flow that starts to send goes before all that
/// have used up a round, so a flow that sends a little now and then never waits behind bulk
/// transfers.
#[derive(Debug, Default)]
pub(crate) struct Round {
    new: VecDeque<FlowId>,
    old: VecDeque<FlowId>,
}

impl Round {
    /// Adds a flow that has something to send, if it is not there yet.
    pub(crate) fn enter(&mut self, flow: FlowId, turn: &mut Turn) {
        if !turn.waiting {
            *turn = Turn { waiting: true, deficit: QUANTUM };
            self.new.push_back(flow);
        }
    }

    /// The flow at the front; its turn lasts until [`Round::sent`] or [`Round::leave`].
    pub(crate) fn front(&self) -> Option<FlowId> {
        self.new.front().or(self.old.front()).copied()
    }

    /// Whether the front flow is the only one.
    pub(crate) fn is_alone(&self) -> bool {
        self.new.len() + self.old.len() <= 1
    }

    /// Entries, including those of flows that are gone.
    pub(crate) fn len(&self) -> usize {
        self.new.len() + self.old.len()
    }

    /// Removes the flows for which `stays` is false.
    pub(crate) fn retain(&mut self, stays: impl Fn(FlowId) -> bool) {
        self.new.retain(|&flow| stays(flow));
        self.old.retain(|&flow| stays(flow));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.old.is_empty()
    }

    fn pop(&mut self) -> (Option<FlowId>, bool) {
        match self.new.pop_front() {
            Some(flow) => (Some(flow), true),
            None => (self.old.pop_front(), false),
        }
    }

    /// The front flow sent `len` bytes. Once it has used up its quantum it goes behind all others.
    pub(crate) fn sent(&mut self, len: usize, turn: &mut Turn) {
        turn.deficit -= len as i64;
        if turn.deficit > 0 {
            return;
        }
        if let (Some(flow), _) = self.pop() {
            // A block may be several quanta long: the flow then waits that many rounds.
            self.old.push_back(flow);
        }
    }

    /// If the front flow has overdrawn its quantum in earlier rounds, gives it another one. Returns
    /// whether it still has to wait and went behind all others.
    pub(crate) fn pass(&mut self, turn: &mut Turn) -> bool {
        if turn.deficit > 0 {
            return false;
        }
        turn.deficit += QUANTUM;
        if turn.deficit > 0 {
            return false;
        }
        if let (Some(flow), _) = self.pop() {
            self.old.push_back(flow);
        }
        true
    }

    /// The front flow has nothing to send. A new flow goes behind the others once before it leaves,
    /// or a flow that stops and continues would count as new again and again.
    pub(crate) fn leave(&mut self, turn: Option<&mut Turn>) {
        let (Some(flow), was_new) = self.pop() else { return };
        if let Some(turn) = turn {
            if was_new && !self.old.is_empty() {
                self.old.push_back(flow);
            } else {
                turn.waiting = false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Drives a round: each flow has some bytes queued; blocks are at most `block` bytes. Returns
    /// (flow, bytes) in order of sending.
    fn drive(
        queued: &mut BTreeMap<u64, usize>,
        block: usize,
        arrivals: &[(usize, u64, usize)],
    ) -> Vec<(u64, usize)> {
        let mut round = Round::default();
        let mut turns: BTreeMap<u64, Turn> = BTreeMap::new();
        for &flow in queued.keys() {
            round.enter(FlowId(flow), turns.entry(flow).or_default());
        }
        let mut sent = Vec::new();
        while let Some(FlowId(flow)) = round.front() {
            for &(_, new, len) in arrivals.iter().filter(|&&(when, ..)| when == sent.len()) {
                if queued.get(&new).is_none_or(|&have| have == 0) && !turns.contains_key(&new) {
                    queued.insert(new, len);
                    round.enter(FlowId(new), turns.entry(new).or_default());
                }
            }
            let Some(FlowId(flow)) = round.front().or(Some(FlowId(flow))) else { break };
            let turn = turns.get_mut(&flow).unwrap();
            let len = queued[&flow].min(block);
            if len == 0 {
                round.leave(Some(turn));
            } else if !round.pass(turn) {
                *queued.get_mut(&flow).unwrap() -= len;
                round.sent(len, turn);
                sent.push((flow, len));
            }
        }
        sent
    }

    #[test]
    fn busy_flows_share_by_bytes_whatever_their_block_sizes() {
        let mut queued = BTreeMap::from([(0, 4 << 20), (2, 4 << 20), (4, 4 << 20)]);
        let sent = drive(&mut queued, 64 << 10, &[]);
        let mut so_far = BTreeMap::new();
        for &(flow, len) in &sent[..sent.len() - 8] {
            *so_far.entry(flow).or_insert(0usize) += len;
        }
        let (least, most) = (so_far.values().min().unwrap(), so_far.values().max().unwrap());
        assert!(most - least <= 128 << 10, "{so_far:?}");
    }

    #[test]
    fn a_new_small_flow_goes_before_busy_ones() {
        let mut queued: BTreeMap<u64, usize> = (0..50).map(|flow| (flow, 1 << 20)).collect();
        let sent = drive(&mut queued, 16 << 10, &[(200, 99, 1000)]);
        let at = sent.iter().position(|&(flow, _)| flow == 99).unwrap();
        assert!((200..=201).contains(&at), "{at}");
    }

    #[test]
    fn every_byte_is_sent_and_the_round_ends_empty() {
        let mut queued: BTreeMap<u64, usize> =
            (0..20).map(|flow| (flow, (flow as usize * 7919) % 300_000)).collect();
        let whole: usize = queued.values().sum();
        let sent = drive(&mut queued, 40_000, &[]);
        assert_eq!(sent.iter().map(|&(_, len)| len).sum::<usize>(), whole);
    }
}
