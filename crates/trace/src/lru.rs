//! A map of bounded size that forgets what was used longest ago.

use std::collections::HashMap;
use std::hash::Hash;

const NONE: u32 = u32::MAX;

/// A map from `K` to `V` that knows the order in which its entries were last used. All operations take constant time.
///
/// It does not bound itself: callers [`pop_oldest`](Lru::pop_oldest) before they insert, since what is evicted mostly has to be ended.
#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    index: HashMap<K, u32>,
    nodes: Vec<Node<K, V>>,
    /// The free nodes are a list too.
    free: u32,
    newest: u32,
    oldest: u32,
}

#[derive(Debug)]
struct Node<K, V> {
    entry: Option<(K, V)>,
    newer: u32,
    older: u32,
}

impl<K: Clone + Eq + Hash, V> Default for Lru<K, V> {
    fn default() -> Lru<K, V> {
        Lru { index: HashMap::new(), nodes: Vec::new(), free: NONE, newest: NONE, oldest: NONE }
    }
}

impl<K: Clone + Eq + Hash, V> Lru<K, V> {
    /// Bytes that an entry takes at most, without what its key and value own: the growing tables are up to half empty.
    pub(crate) const ENTRY: usize = 2 * size_of::<Node<K, V>>() + 4 * (size_of::<(K, u32)>() + 1);

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// The value of `key`, which becomes the newest.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let at = *self.index.get(key)?;
        self.unlink(at);
        self.link(at);
        self.nodes[at as usize].entry.as_mut().map(|(_, value)| value)
    }

    /// The value of `key`, without using it.
    pub(crate) fn peek(&self, key: &K) -> Option<&V> {
        self.nodes[*self.index.get(key)? as usize].entry.as_ref().map(|(_, value)| value)
    }

    /// As [`peek`](Lru::peek), to change it.
    pub(crate) fn peek_mut(&mut self, key: &K) -> Option<&mut V> {
        self.nodes[*self.index.get(key)? as usize].entry.as_mut().map(|(_, value)| value)
    }

    /// The entry that was used longest ago.
    pub(crate) fn oldest(&self) -> Option<(&K, &V)> {
        self.nodes.get(self.oldest as usize)?.entry.as_ref().map(|(key, value)| (key, value))
    }

    /// Puts in a value as the newest; returns the one that it replaces.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let replaced = self.remove(&key);
        let node = Node { entry: Some((key.clone(), value)), newer: NONE, older: NONE };
        let at = if self.free == NONE {
            self.nodes.push(node);
            u32::try_from(self.nodes.len() - 1).expect("callers bound the map far below 2^32 entries")
        } else {
            let at = self.free;
            self.free = self.nodes[at as usize].older;
            self.nodes[at as usize] = node;
            at
        };
        self.index.insert(key, at);
        self.link(at);
        replaced
    }

    /// Takes out an entry.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.index.remove(key)?;
        self.unlink(at);
        let node = &mut self.nodes[at as usize];
        node.older = self.free;
        self.free = at;
        node.entry.take().map(|(_, value)| value)
    }

    /// Takes out the entry that was used longest ago.
    pub(crate) fn pop_oldest(&mut self) -> Option<(K, V)> {
        let key = self.oldest()?.0.clone();
        let value = self.remove(&key)?;
        Some((key, value))
    }

    fn link(&mut self, at: u32) {
        let newest = self.newest;
        let node = &mut self.nodes[at as usize];
        (node.newer, node.older) = (NONE, newest);
        match newest {
            NONE => self.oldest = at,
            newest => self.nodes[newest as usize].newer = at,
        }
        self.newest = at;
    }

    fn unlink(&mut self, at: u32) {
        let (newer, older) = (self.nodes[at as usize].newer, self.nodes[at as usize].older);
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a vector in the order of use.
        #[test]
        fn it_is_a_vector_in_the_order_of_use(steps in prop::collection::vec((0u8..4, 0u8..12), 0..300)) {
            let mut lru = Lru::default();
            let mut naive: Vec<(u8, usize)> = Vec::new();
            for (time, &(step, key)) in steps.iter().enumerate() {
                let at = naive.iter().position(|&(k, _)| k == key);
                match step {
                    0 => {
                        let old = at.map(|at| naive.remove(at).1);
                        naive.push((key, time));
                        prop_assert_eq!(lru.insert(key, time), old);
                    }
                    1 => {
                        let old = at.map(|at| naive.remove(at));
                        naive.extend(old);
                        prop_assert_eq!(lru.get_mut(&key).copied(), old.map(|(_, value)| value));
                    }
                    2 => prop_assert_eq!(lru.remove(&key), at.map(|at| naive.remove(at).1)),
                    _ => {
                        prop_assert_eq!(lru.peek(&key).copied(), at.map(|at| naive[at].1));
                        prop_assert_eq!(lru.pop_oldest(), (!naive.is_empty()).then(|| naive.remove(0)));
                    }
                }
                prop_assert_eq!(lru.len(), naive.len());
                prop_assert_eq!(lru.oldest().map(|(&k, &v)| (k, v)), naive.first().copied());
            }
            prop_assert!(lru.nodes.len() <= 12);
        }
    }
}
