//! Optimal: the Bloom-filter upper bound (thesis section 2.2) on repeats of earlier packets.

use super::{Run, Sizes, Tally};
use crate::batch::{Charge, Direction, View};
use oncewire_codec::ConfigError;
use oncewire_family::optimal::{Filter, Optimal};
use oncewire_report::format::share as percent;

/// One filter for each direction.
pub(crate) struct Bound {
    window: usize,
    cache: Sizes,
    charge: Charge,
    filters: [Option<Optimal>; Direction::ALL.len()],
    tally: Tally,
}

impl Bound {
    pub(crate) fn new(window: usize, cache: Sizes, charge: Charge) -> Bound {
        Bound {
            window,
            cache,
            charge,
            filters: [const { None }; Direction::ALL.len()],
            tally: Tally::default(),
        }
    }

    /// The largest false savings that the filters, at their current fill, would report for random
    /// bytes.
    fn bias(&self) -> f64 {
        self.filters
            .iter()
            .flatten()
            .map(|filter| filter.false_positive_bias(1, 1 << 20).apparent_savings)
            .fold(0.0, f64::max)
    }
}

impl Run for Bound {
    fn batch(&mut self, view: &View<'_>) -> Result<(), ConfigError> {
        for packet in view.batch.packets().iter().filter(|packet| packet.len > 0) {
            let filter = match &mut self.filters[packet.direction.index()] {
                Some(filter) => filter,
                empty => {
                    // If everything fits, nothing is evicted, and the filter takes a third of the
                    // memory.
                    let kind = if self.cache.holds_all(packet.direction) {
                        Filter::Lines
                    } else {
                        Filter::CountingBloom
                    };
                    let pointer = u64::from(self.charge.per_match);
                    let cache = self.cache.of(packet.direction);
                    let optimal = Optimal::new(self.window, cache, pointer, kind)?;
                    empty.insert(optimal.of_earlier_blocks())
                }
            };
            let found = filter.add_block(view.batch.payload(packet));
            self.tally
                .add(packet, found.saved_bytes.saturating_sub(u64::from(self.charge.per_packet)));
        }
        Ok(())
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn memory(&self) -> u64 {
        self.filters.iter().flatten().map(|filter| filter.memory() as u64).sum()
    }

    fn notes(&self) -> Vec<String> {
        let bias = self.bias();
        if bias < 0.0005 {
            return Vec::new();
        }
        vec![format!(
            "The bound's Bloom filter would report savings of {} for random bytes; `optimal` may be too high by that much.",
            percent(bias)
        )]
    }
}
