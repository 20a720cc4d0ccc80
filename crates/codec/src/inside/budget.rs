//! How much work looking inside may cost: so much for each byte, and more for each byte saved.
//!
//! Work is counted, not timed. A unit is about what reading a deflate token takes, 5 to 10 ns.

use super::domains::Domains;

/// Units to read the description of a deflate code and to build its tables.
pub(super) const CODE: u64 = 1000;
/// Units to look for a run at a place of the log, without its tokens.
pub(super) const JUMP: u64 = 32;
/// Units to look whether distances change alike.
pub(super) const BEND: u64 = 32;
/// Units for a zstd block, without its literals and sequences.
pub(super) const ZSTD_BLOCK: u64 = 1000;

/// Units to unpack zstd blocks.
pub(super) fn unpacking(blocks: usize, literals: usize, sequences: usize) -> u64 {
    blocks as u64 * ZSTD_BLOCK + literals as u64 / 4 + 4 * sequences as u64
}

/// Units for each byte of content: new content in deflate takes 1 to 3.
const PER_BYTE: u64 = 8;
/// Units on top for each byte saved.
const PER_SAVED: u64 = 16;
/// Units that content may be ahead of that.
const AHEAD: i64 = 8 << 20;
/// Bytes that are not opened when the work is used up: at first, and at most. Twice as many each
/// time, until content has paid for all that it was ahead.
const LEAST_DECLINED: u64 = 1 << 20;
const MOST_DECLINED: u64 = 64 << 20;

/// The work that a flow, or a domain, has left.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    left: i64,
    /// Bytes that are not opened.
    declined: u64,
    /// As many the next time.
    next: u64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { left: AHEAD, declined: 0, next: LEAST_DECLINED }
    }
}

impl Budget {
    /// Whether a block of `len` bytes is not to be opened.
    pub(super) fn declines(&mut self, len: usize) -> bool {
        let declines = self.declined > 0;
        self.declined = self.declined.saturating_sub(len as u64);
        declines
    }

    /// Looking inside a block of `len` bytes took so much `work`, and saved so many bytes.
    pub(super) fn spend(&mut self, len: usize, work: u64, saved: u64) {
        let allowed = len as u64 * PER_BYTE + saved * PER_SAVED;
        self.left = (self.left + allowed as i64 - work as i64).min(AHEAD);
        if self.left == AHEAD {
            self.next = LEAST_DECLINED;
        }
        if self.left < 0 {
            self.declined = self.next;
            self.next = (2 * self.next).min(MOST_DECLINED);
            // Enough to see whether it has become better.
            self.left = AHEAD / 8;
        }
    }
}

/// Domains whose budget is remembered.
const MAX_DOMAINS: usize = 64;

/// The budgets of domains.
pub(super) type Budgets = Domains<Budget, MAX_DOMAINS>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_costs_much_and_saves_little_is_declined_for_longer_and_longer() {
        let mut budget = Budget::default();
        let (mut opened, mut declined) = (0, 0);
        for _ in 0..10_000 {
            if budget.declines(1 << 16) {
                declined += 1;
            } else {
                budget.spend(1 << 16, 100 << 16, 0);
                opened += 1;
            }
        }
        assert!(opened < 40, "{opened} opened, {declined} declined");
        // As much work is fine if it saves, and what it saves makes good.
        while budget.declines(1 << 16) {}
        for _ in 0..1000 {
            assert!(!budget.declines(1 << 16));
            budget.spend(1 << 16, 20 << 16, 60_000);
        }
        assert_eq!(budget.next, LEAST_DECLINED);
        let mut domains = Budgets::default();
        for key in 0..2 * MAX_DOMAINS as u64 {
            domains.of(key).spend(0, 9 << 20, 0);
            assert!(domains.of(key).declines(1) && !domains.of(1 << 60).declines(1));
        }
        assert!(domains.memory() <= Budgets::MEMORY);
    }
}
