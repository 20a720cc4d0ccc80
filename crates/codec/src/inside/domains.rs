//! State for each isolation domain.

/// A value for each of up to `MOST` domains, by key; the most recently used is last.
#[derive(Debug)]
pub(super) struct Domains<T, const MOST: usize>(Vec<(u64, T)>);

impl<T, const MOST: usize> Default for Domains<T, MOST> {
    fn default() -> Domains<T, MOST> {
        Domains(Vec::new())
    }
}

impl<T: Default, const MOST: usize> Domains<T, MOST> {
    /// Upper bound of the memory in bytes. The list grows by doubling.
    pub(super) const MEMORY: usize = 2 * MOST * size_of::<(u64, T)>();

    /// Memory in bytes as of now.
    pub(super) fn memory(&self) -> usize {
        self.0.capacity() * size_of::<(u64, T)>()
    }

    /// The value of a domain. If there are too many, the least recently used is dropped.
    pub(super) fn of(&mut self, key: u64) -> &mut T {
        match self.0.iter().rposition(|(known, _)| *known == key) {
            Some(nth) => self.0[nth..].rotate_left(1),
            None => {
                if self.0.len() == MOST {
                    self.0.remove(0);
                }
                self.0.push((key, T::default()));
            }
        }
        let last = self.0.len() - 1;
        &mut self.0[last].1
    }

    /// All values.
    pub(super) fn all(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().map(|(_, of)| of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_that_was_used_least_recently_is_forgotten() {
        let mut domains = Domains::<u64, 3>::default();
        for key in [1, 2, 3, 1, 4] {
            *domains.of(key) += 10 * key;
        }
        assert_eq!([1, 3, 4, 2].map(|key| *domains.of(key)), [20, 30, 40, 0]);
        assert_eq!(*domains.of(1), 0, "forgotten for the second");
        assert!(domains.memory() <= Domains::<u64, 3>::MEMORY);
    }
}
