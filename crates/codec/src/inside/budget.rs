//! Limits the work of looking inside: a budget for each byte, and more for each byte saved.
//!
//! Work is counted, not timed. A unit is about the cost of reading a deflate token, 5 to 9 ns. In
//! the long run, content may cost [`PER_BYTE`] plus [`PER_SAVED`] units for each byte: at most 8.

use super::domains::Domains;

/// Units to read the description of a deflate code and build its tables.
pub(super) const CODE: u64 = 1000;
/// Units to look for a run at a place of the log, without reading its tokens.
pub(super) const JUMP: u64 = 32;
/// Units to look for a token, and its successors, among the next ones in the log.
pub(super) const RESUME: u64 = 6;
/// Units to check whether distances change by the same amount.
pub(super) const BEND: u64 = 32;
/// Units for a zstd block, without its literals and sequences.
pub(super) const ZSTD_BLOCK: u64 = 700;

/// Units to unpack zstd blocks.
pub(super) fn unpacking(blocks: usize, literals: usize, sequences: usize) -> u64 {
    blocks as u64 * ZSTD_BLOCK + literals as u64 / 4 + 6 * sequences as u64
}

/// Units for each byte of content, opened or not. New deflate content takes 1 to 3.
const PER_BYTE: u64 = 5;
/// Additional units for each byte saved.
const PER_SAVED: u64 = 3;
/// Units that a flow, and a domain, may overdraw. One flow uses up a quarter of its domain's share,
/// so that others are still opened.
const AHEAD: i64 = 16 << 20;
const DOMAIN_AHEAD: i64 = 4 * AHEAD;
/// Bytes that are not opened once the budget is used up: the first time, and at most. The number
/// doubles each time while content saves less than one byte in [`WORTH`], until the debt is paid
/// back.
const LEAST_DECLINED: u64 = 1 << 20;
const MOST_DECLINED: u64 = 64 << 20;
const WORTH: u64 = 8;

/// The work available to a flow or a domain.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    left: i64,
    /// Upper bound.
    most: i64,
    /// Bytes left that are not opened.
    declined: u64,
    /// The same, the next time.
    next: u64,
    /// Bytes opened, and bytes saved, since the last refusal.
    opened: u64,
    saved: u64,
}

impl Default for Budget {
    /// Of a domain.
    fn default() -> Budget {
        Budget::new(DOMAIN_AHEAD)
    }
}

impl Budget {
    fn new(most: i64) -> Budget {
        Budget { left: most, most, declined: 0, next: LEAST_DECLINED, opened: 0, saved: 0 }
    }

    /// Of a flow.
    pub(super) fn of_flow() -> Budget {
        Budget::new(AHEAD)
    }

    /// Whether the next block must not be opened.
    fn declines(&self) -> bool {
        self.declined > 0
    }

    /// Records that a block of `len` bytes was not opened. A refusal earns only enough to test
    /// whether content has improved.
    fn pass(&mut self, len: usize) {
        let enough = (LEAST_DECLINED * PER_BYTE) as i64;
        let most = if self.declines() { self.left.max(enough) } else { self.most };
        self.declined = self.declined.saturating_sub(len as u64);
        self.left = (self.left + (len as u64 * PER_BYTE) as i64).min(most);
    }

    /// Records the `work` of looking inside a block of `len` bytes, and the bytes that it saved.
    fn spend(&mut self, len: usize, work: u64, saved: u64) {
        self.opened += len as u64;
        self.saved += saved;
        let earned = len as u64 * PER_BYTE + saved * PER_SAVED;
        self.left = (self.left + earned as i64 - work as i64).min(self.most);
        if self.left == self.most {
            self.next = LEAST_DECLINED;
        }
        if self.left < 0 {
            let (opened, saved) =
                (std::mem::take(&mut self.opened), std::mem::take(&mut self.saved));
            if saved * WORTH >= opened {
                self.next = LEAST_DECLINED;
            }
            self.declined = self.next;
            self.next = (2 * self.next).min(MOST_DECLINED);
        }
    }
}

/// Most domains whose budget is kept.
const MAX_DOMAINS: usize = 64;

/// The budgets of domains.
pub(super) type Budgets = Domains<Budget, MAX_DOMAINS>;

impl Budgets {
    /// Whether a block of `len` bytes of a flow of this domain must not be opened.
    pub(super) fn declines(&mut self, key: u64, flow: &mut Budget, len: usize) -> bool {
        let domain = self.of(key);
        let declines = domain.declines() || flow.declines();
        if declines {
            domain.pass(len);
            flow.pass(len);
        }
        declines
    }

    /// Records the `work` of looking inside a block of `len` bytes of a flow, and the bytes that it
    /// saved.
    pub(super) fn spend(&mut self, key: u64, flow: &mut Budget, len: usize, work: u64, saved: u64) {
        flow.spend(len, work, saved);
        self.of(key).spend(len, work, saved);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_costs_much_and_saves_little_is_declined_for_longer_and_longer() {
        let mut budget = Budget::of_flow();
        let (mut opened, mut declined) = (0, 0);
        for _ in 0..10_000 {
            if budget.declines() {
                budget.pass(1 << 16);
                declined += 1;
            } else {
                budget.spend(1 << 16, 100 << 16, 0);
                opened += 1;
            }
        }
        assert!(opened < 50, "{opened} opened, {declined} declined");
    }

    #[test]
    fn what_saves_is_declined_as_far_as_it_costs_more_than_it_may() {
        let len = 1 << 16;
        for (units, saved) in [(6, 0), (8, len / 2), (20, len), (50, len / 2), (7, len)] {
            let mut budget = Budget::of_flow();
            let (mut work, mut opened) = (0, 0);
            let rounds = 20_000;
            for _ in 0..rounds {
                if budget.declines() {
                    budget.pass(len);
                } else {
                    budget.spend(len, units << 16, saved as u64);
                    work += units << 16;
                    opened += 1;
                }
            }
            let all = (rounds * len) as u64;
            let allowed = all * PER_BYTE + (opened * saved) as u64 * PER_SAVED;
            // And what one block may be too much.
            assert!(work <= allowed + AHEAD as u64 + (units << 16), "{units}, {saved}: {work}");
            // What saves uses most of that.
            assert!(saved == 0 || work > allowed * 4 / 5 || opened == rounds, "{units}, {saved}");
        }
    }

    #[test]
    fn a_flow_uses_up_a_part_of_what_its_domain_may() {
        let mut domains = Budgets::default();
        let mut flow = Budget::of_flow();
        for _ in 0..20_000 {
            if !domains.declines(1, &mut flow, 1 << 16) {
                domains.spend(1, &mut flow, 1 << 16, 60 << 16, 0);
            }
            assert!(!domains.of(1).declines());
        }
    }

    #[test]
    fn domains_are_charged_each_for_itself() {
        let mut domains = Budgets::default();
        for key in 0..2 * MAX_DOMAINS as u64 {
            domains.of(key).spend(0, DOMAIN_AHEAD as u64 + 1, 0);
            assert!(domains.of(key).declines() && !domains.of(1 << 60).declines());
        }
        assert!(domains.memory() <= Budgets::MEMORY);
    }
}
