//! Max-match over a shared log (thesis section 2.2; EndRE section 5.2.2).

use super::{Run, Sizes, Tally};
use crate::batch::{Cache, Charge, Direction, Matches, Packet, View};
use oncewire_codec::matcher::{Density, Match, Matcher};
use oncewire_codec::sampler::Sampler;
use oncewire_codec::table::{COMPACT_LIMIT, CompactTable};
use oncewire_codec::{ConfigError, Geometry, Kernels};
use oncewire_family::PublishedMaxMatch;
use oncewire_family::SamplerKind;

/// Parameters of a max-match.
#[derive(Clone, Debug)]
pub(crate) struct MaxMatchParams {
    pub(crate) sampler: SamplerKind,
    /// Window in bytes.
    pub(crate) window: usize,
    /// Sampling period in bytes.
    pub(crate) period: usize,
    /// Reach of matches, in bytes of payload.
    pub(crate) sizes: Sizes,
    pub(crate) charge: Charge,
}

/// Fingerprint table slots for each fingerprint that the cache is expected to hold. Slots are
/// overwritten: with one slot each, every third fingerprint would be lost before its content. Where
/// fingerprints are dense, their neighbors compensate for that.
const SLOTS: f64 = 2.0;
const SLOTS_IF_DENSE: f64 = 1.0;
const DENSE: usize = 8;

/// Key of the fingerprints. It is fixed, so that figures repeat; the only adversary of a study is
/// the author of the capture.
const KEY: u64 = 0x6f6e_6365_7769_7265;

impl MaxMatchParams {
    /// A matcher over a log with this geometry.
    pub(crate) fn matcher(
        &self,
        direction: Direction,
        geometry: Geometry,
    ) -> Result<Box<dyn Matcher>, ConfigError> {
        let slots = if self.period <= DENSE { SLOTS_IF_DENSE } else { SLOTS };
        let expected = self.sizes.of(direction) as f64 / self.sampler.expected_rate(self.period);
        let (entries, reach) = (((expected * slots) as u64).max(1 << 10), self.sizes.asked());
        let (kernels, sampler) = (Kernels::detect(), self.sampler.boxed());
        Ok(if geometry.capacity() <= COMPACT_LIMIT {
            let table = CompactTable::<u32>::new(geometry, entries)?;
            Box::new(
                PublishedMaxMatch::new(sampler, table, kernels, self.window, KEY, None)
                    .with_reach(reach),
            )
        } else {
            let table = CompactTable::<u64>::new(geometry, entries)?;
            Box::new(
                PublishedMaxMatch::new(sampler, table, kernels, self.window, KEY, None)
                    .with_reach(reach),
            )
        })
    }
}

/// One max-match, with a fingerprint table for each direction.
pub(crate) struct MaxMatchRun {
    params: MaxMatchParams,
    matchers: [Option<Box<dyn Matcher>>; Direction::ALL.len()],
    tally: Tally,
    scratch: Vec<Match>,
}

impl MaxMatchRun {
    pub(crate) fn new(params: MaxMatchParams, tally: Tally) -> MaxMatchRun {
        MaxMatchRun {
            params,
            matchers: [const { None }; Direction::ALL.len()],
            tally,
            scratch: Vec::new(),
        }
    }

    /// Returns an error if a parameter is out of range.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let MaxMatchParams { window, period, .. } = self.params;
        if !(12..=64).contains(&window) {
            return Err(ConfigError::Window { window });
        }
        if !(4..=1024).contains(&period) {
            return Err(ConfigError::Period { period });
        }
        Ok(())
    }

    /// Appends the matches of a packet with payload, and counts what they save.
    pub(crate) fn find(
        &mut self,
        packet: &Packet,
        payload: &[u8],
        cache: &Cache,
        matches: &mut Vec<Match>,
    ) -> Result<u32, ConfigError> {
        let matcher = match &mut self.matchers[packet.direction.index()] {
            Some(matcher) => matcher,
            empty => empty.insert(self.params.matcher(packet.direction, cache.log().geometry())?),
        };
        let start = matches.len();
        matcher.find(
            cache.log(),
            payload,
            packet.offset,
            Density::Period(self.params.period),
            matches,
        );
        let saved = self.params.charge.saved(&matches[start..]);
        self.tally.add(packet, u64::from(saved));
        Ok(saved)
    }

    /// Finds and keeps the matches of a batch.
    pub(crate) fn find_all(
        &mut self,
        batch: &crate::Batch,
        caches: &crate::Caches,
        matches: &mut Matches,
    ) -> Result<(), ConfigError> {
        matches.clear();
        for packet in batch.packets() {
            let mut outcome = Ok(0);
            matches.push_with(|found| {
                if let (true, Some(cache)) = (packet.len > 0, caches.get(packet.direction)) {
                    outcome = self.find(packet, batch.payload(packet), cache, found);
                }
            });
            outcome?;
        }
        Ok(())
    }
}

impl Run for MaxMatchRun {
    fn batch(&mut self, view: &View<'_>) -> Result<(), ConfigError> {
        let mut matches = std::mem::take(&mut self.scratch);
        for packet in view.batch.packets() {
            if let (true, Some(cache)) = (packet.len > 0, view.caches.get(packet.direction)) {
                matches.clear();
                self.find(packet, view.batch.payload(packet), cache, &mut matches)?;
            }
        }
        self.scratch = matches;
        Ok(())
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn memory(&self) -> u64 {
        self.matchers.iter().flatten().map(|matcher| matcher.memory() as u64).sum()
    }

    fn bytes_per_fingerprint(&self) -> Option<f64> {
        let stats = self.matchers.iter().flatten().map(|matcher| matcher.stats());
        let (bytes, looked_up) =
            stats.fold((0, 0), |sum, stats| (sum.0 + stats.sampled_bytes, sum.1 + stats.looked_up));
        (looked_up > 0).then(|| bytes as f64 / looked_up as f64)
    }
}
