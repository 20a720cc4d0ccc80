//! Counts how often payloads that are not remembered were seen.

use super::name::Name;

/// A table of a fixed number of counters. A payload's place follows from its name; the newest
/// payload of a place has it.
///
/// Forgetting delays an inclusion and harms nothing. It depends on the sequence of payloads only,
/// so both ends forget alike.
#[derive(Debug)]
pub(super) struct Sights {
    /// The upper 56 bits tell names apart, the lower 8 count. 0 is empty. Allocated at the first
    /// sight.
    slots: Vec<u64>,
    len: usize,
}

impl Sights {
    pub(super) fn new(len: usize) -> Sights {
        Sights { slots: Vec::new(), len }
    }

    /// Counts a sight. Returns the count since the payload has its place, at most 255.
    pub(super) fn count(&mut self, name: Name) -> u8 {
        self.slots.resize(self.len, 0);
        let halves = u128::from_le_bytes(name.0);
        let slot = &mut self.slots[(((halves as u64 as u128) * self.len as u128) >> 64) as usize];
        let tag = (halves >> 64) as u64 & !0xff;
        let before = if *slot & !0xff == tag { *slot as u8 } else { 0 };
        let now = before.saturating_add(1);
        *slot = tag | u64::from(now);
        now
    }

    pub(super) fn clear(&mut self) {
        self.slots.fill(0);
    }

    pub(super) fn memory(&self) -> usize {
        self.slots.len() * size_of::<u64>()
    }

    pub(super) fn slots(&self) -> &[u64] {
        &self.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_until_another_takes_the_place() {
        let mut sights = Sights::new(1);
        let (a, b) = (Name([0x11; 16]), Name([0x22; 16]));
        assert_eq!(
            [sights.count(a), sights.count(a), sights.count(b), sights.count(a)],
            [1, 2, 1, 1]
        );
        for _ in 0..300 {
            sights.count(b);
        }
        assert_eq!(sights.count(b), 255);
        sights.clear();
        assert_eq!(sights.count(b), 1);
    }
}
