//! Flows larger than a cache: when their content repeats, the first copy has been evicted.

use crate::lru::LruCache;
use crate::results::LargeFlows;

/// Most flows counted at once. The least recently used one is evicted, and starts over if it
/// continues.
const MOST_FLOWS: usize = 1 << 16;

/// The payload of each flow, and how many ended flows carried more than each cache size.
pub(super) struct FlowSizes {
    flows: LruCache<u64, u64>,
    /// One entry per cache size.
    large: Vec<LargeFlows>,
}

impl FlowSizes {
    pub(super) fn new(caches: impl Iterator<Item = u64>) -> FlowSizes {
        FlowSizes {
            flows: LruCache::unbounded(),
            large: caches.map(|cache| LargeFlows { cache, ..LargeFlows::default() }).collect(),
        }
    }

    /// Adds `bytes` of payload to a flow.
    pub(super) fn add(&mut self, flow: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        match self.flows.get_mut(&flow) {
            Some(sum) => *sum += bytes,
            None => {
                if self.flows.len() >= MOST_FLOWS
                    && let Some((_, sum)) = self.flows.pop_lru()
                {
                    self.end(sum);
                }
                self.flows.put(flow, bytes);
            }
        }
    }

    fn end(&mut self, bytes: u64) {
        for large in self.large.iter_mut().filter(|large| bytes > large.cache) {
            large.flows += 1;
            large.bytes += bytes;
            large.largest = large.largest.max(bytes);
        }
    }

    /// Ends all flows.
    pub(super) fn finish(&mut self) {
        while let Some((_, bytes)) = self.flows.pop_lru() {
            self.end(bytes);
        }
    }

    /// Flows larger than a cache of that size, which is one of those asked about; `None` if there
    /// are none.
    pub(super) fn larger_than(&self, cache: u64) -> Option<LargeFlows> {
        self.large.iter().find(|large| large.cache == cache && large.flows > 0).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_count_for_every_cache_that_they_exceed_and_in_bounded_memory() {
        let mut sizes = FlowSizes::new([100, 1000].into_iter());
        for _ in 0..10 {
            sizes.add(1, 101);
            sizes.add(2, 10);
        }
        (3..10).for_each(|flow| sizes.add(flow, 101));
        for flow in 100..100 + MOST_FLOWS as u64 + 5 {
            sizes.add(flow, 1);
            assert!(sizes.flows.len() <= MOST_FLOWS);
        }
        sizes.finish();
        assert_eq!(
            sizes.larger_than(100),
            Some(LargeFlows { cache: 100, flows: 8, bytes: 1010 + 7 * 101, largest: 1010 })
        );
        assert_eq!(
            sizes.larger_than(1000),
            Some(LargeFlows { cache: 1000, flows: 1, bytes: 1010, largest: 1010 })
        );
        assert_eq!(sizes.larger_than(5000), None);
    }
}
