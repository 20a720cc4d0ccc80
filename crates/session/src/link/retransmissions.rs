//! Which packets their sender sends again: because the first copy was lost, as far as it knows.
//!
//! Such a copy must not refer to the first one, which is what a search finds best: encoded against its
//! own lost copy, a packet is lost for ever (thesis, section 3.5; Le, Srivatsa and Iyengar 2012).

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Flows of TCP whose highest sequence number is remembered. Of two that share a place, the newer one.
const FLOWS: usize = 4096;
/// Payloads of other protocols that are remembered, in the same way.
const PAYLOADS: usize = 1 << 16;

/// What was sent before. 576 KiB once it is used.
#[derive(Debug, Default)]
pub(super) struct Retransmissions {
    /// Key of a flow, and the sequence number after what was sent.
    flows: Vec<(u64, u32)>,
    /// Fingerprints of flow and payload.
    payloads: Vec<u64>,
}

impl Retransmissions {
    /// Takes note of a packet or run, and returns whether some of it was sent before: bytes below the
    /// flow's highest sequence number, or without one, the same payload in the same flow. `flow` is a
    /// hash; 0 stands for no flow.
    pub(super) fn is_repeat(&mut self, flow: u64, sequence: Option<u32>, payload: &[u8]) -> bool {
        if flow == 0 {
            return false;
        }
        let Some(sequence) = sequence else {
            self.payloads.resize(PAYLOADS, 0);
            let fingerprint = xxh3_64_with_seed(payload, flow);
            let place = &mut self.payloads[fingerprint as usize % PAYLOADS];
            return std::mem::replace(place, fingerprint) == fingerprint;
        };
        self.flows.resize(FLOWS, (0, 0));
        let known = &mut self.flows[flow as usize % FLOWS];
        let end = sequence.wrapping_add(payload.len() as u32);
        if known.0 != flow {
            *known = (flow, end);
            return false;
        }
        // Sequence numbers wrap around (RFC 9293 section 3.4).
        let is_below = |one: u32, other: u32| (one.wrapping_sub(other) as i32) < 0;
        let is_repeat = is_below(sequence, known.1);
        if is_below(known.1, end) {
            known.1 = end;
        }
        is_repeat
    }

    /// Memory as of now, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.flows.capacity() * size_of::<(u64, u32)>() + self.payloads.capacity() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_below_the_highest_are_repeats_across_the_wrap() {
        let mut sent = Retransmissions::default();
        let start = u32::MAX - 150;
        let at = |offset: u32| Some(start.wrapping_add(offset));
        for (offset, len, is_repeat) in [
            (0, 100, false),
            (100, 100, false),
            (100, 100, true),
            // The second half is new.
            (150, 100, true),
            (250, 100, false),
            (0, 100, true),
            (350, 1, false),
        ] {
            assert_eq!(sent.is_repeat(7, at(offset), &vec![0; len]), is_repeat, "{offset}");
        }
        assert!(!sent.is_repeat(8, at(0), &[0; 100]), "another flow");
        assert!(!sent.is_repeat(7 + FLOWS as u64, at(0), &[0; 100]), "in the place of the first");
        assert!(!sent.is_repeat(7, at(0), &[0; 100]), "which is forgotten");
        assert!(!sent.is_repeat(0, at(0), &[0; 100]) && !sent.is_repeat(0, at(0), &[0; 100]));
    }

    #[test]
    fn without_sequence_numbers_equal_payloads_of_a_flow_are_repeats() {
        let mut sent = Retransmissions::default();
        assert!(!sent.is_repeat(1, None, b"question"));
        assert!(!sent.is_repeat(2, None, b"question"));
        assert!(!sent.is_repeat(1, None, b"answer"));
        assert!(sent.is_repeat(1, None, b"question") && sent.is_repeat(2, None, b"question"));
        assert!(sent.memory() <= 600 << 10);
    }
}
