//! Which counters of a peer's datagrams have been received: RFC 4303 section 3.4.3, with the ring of
//! words of RFC 6479.

use std::ops::RangeInclusive;

/// Datagrams behind the newest that are still accepted, as in WireGuard.
pub const REPLAY_WINDOW: u64 = 8192;
/// Counters are below this, as QUIC's packet numbers are (RFC 9000 section 12.3).
pub const COUNTERS: u64 = 1 << 62;
/// One word more than the window, so that the word that advancing clears is outside of it.
const WORDS: usize = REPLAY_WINDOW as usize / 64 + 1;

/// The window. Memory is constant, and so is the work for a counter.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    /// The highest counter received, plus 1.
    next: u64,
    bits: [u64; WORDS],
}

impl Default for ReplayWindow {
    fn default() -> ReplayWindow {
        ReplayWindow { next: 0, bits: [0; WORDS] }
    }
}

fn place(counter: u64) -> (usize, u64) {
    ((counter / 64 % WORDS as u64) as usize, 1 << (counter % 64))
}

impl ReplayWindow {
    /// The highest counter received, plus 1; 0 at the start.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Whether a datagram with this counter is neither a repeat nor too old to tell.
    pub fn admits(&self, counter: u64) -> bool {
        if counter >= self.next {
            return counter < COUNTERS;
        }
        let (word, bit) = place(counter);
        self.next - counter <= REPLAY_WINDOW && self.bits[word] & bit == 0
    }

    /// Notes a counter, once the datagram has been opened. Returns whether it was admitted.
    pub fn record(&mut self, counter: u64) -> bool {
        if !self.admits(counter) {
            return false;
        }
        if counter >= self.next {
            let skipped: RangeInclusive<u64> = self.next.div_ceil(64)..=counter / 64;
            if skipped.end() - self.next / 64 >= WORDS as u64 {
                self.bits = [0; WORDS];
            } else {
                for word in skipped {
                    self.bits[(word % WORDS as u64) as usize] = 0;
                }
            }
            self.next = counter + 1;
        }
        let (word, bit) = place(counter);
        self.bits[word] |= bit;
        true
    }

    /// The counter whose low 32 bits a datagram has, nearest to the one expected next (RFC 9000
    /// appendix A.3).
    pub fn restore(&self, low: u32) -> u64 {
        const WINDOW: u64 = 1 << 32;
        let candidate = (self.next & !(WINDOW - 1)) | u64::from(low);
        if candidate + WINDOW / 2 <= self.next {
            candidate.saturating_add(WINDOW)
        } else if candidate > self.next + WINDOW / 2 && candidate >= WINDOW {
            candidate - WINDOW
        } else {
            candidate
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        /// Beside a set of everything received.
        #[test]
        fn as_a_set(steps in proptest::collection::vec((0u8..6, 0u64..20_000), 1..400)) {
            let mut window = ReplayWindow::default();
            let (mut seen, mut next) = (HashSet::new(), 0u64);
            for (kind, distance) in steps {
                let counter = match kind {
                    0 => next + distance,
                    1 => next + distance % 70,
                    2 => next.saturating_sub(distance),
                    3 => next.saturating_sub(distance % 200),
                    4 => next.saturating_sub(REPLAY_WINDOW + distance % 3),
                    _ => next,
                };
                let expected = !seen.contains(&counter) && counter + REPLAY_WINDOW >= next;
                prop_assert_eq!(window.admits(counter), expected, "{} of {}", counter, next);
                prop_assert_eq!(window.record(counter), expected);
                if expected {
                    seen.insert(counter);
                    next = next.max(counter + 1);
                }
                prop_assert_eq!(window.next(), next);
            }
        }

        #[test]
        fn a_counter_is_restored_from_its_low_bits(next: u32, above in 0u64..1 << 20, distance in -0x7fff_ffffi64..0x7fff_ffff) {
            let next = u64::from(next) | above << 32;
            let window = ReplayWindow { next, ..ReplayWindow::default() };
            if let Some(counter) = next.checked_add_signed(distance) {
                prop_assert_eq!(window.restore(counter as u32), counter);
            }
        }
    }

    #[test]
    fn counters_have_an_end() {
        let mut window = ReplayWindow::default();
        assert!(!window.record(u64::MAX) && !window.record(COUNTERS));
        assert!(window.record(COUNTERS - 1));
        assert!(!window.admits(0) && !window.admits(COUNTERS - 1));
        assert_eq!(window.restore(u32::MAX), COUNTERS - 1);
    }
}
