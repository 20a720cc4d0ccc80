//! Max-match, as published.

use oncewire_codec::Log;
use oncewire_codec::matcher::{Density, Match, MatchStats, Matcher, PlacedBlock};
use oncewire_codec::sampler::{AnySampler, Sampler, Sampling};
use oncewire_codec::table::{FingerprintTable, Markers, NO_OFFSET};
use oncewire_kernels::{Kernels, Sampled};

/// The phases of a matcher: the columns of EndRE's Table 3, with the first split in two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Finding markers ("Fingerprint", first part).
    Markers,
    /// Hashing their windows ("Fingerprint", second part).
    Fingerprints,
    /// Looking fingerprints up and growing hits ("InlineMatch").
    Match,
    /// Updating the fingerprint table ("Admin").
    Admin,
    /// Nothing.
    Idle,
}

/// Gets called when a phase begins, once for each phase of a block. The matcher reads no clock; a
/// probe may.
pub trait Probe: Send {
    /// `phase` begins, and the previous one ends.
    fn enter(&mut self, phase: Phase);
}

impl Probe for () {
    #[inline(always)]
    fn enter(&mut self, _: Phase) {}
}

/// Max-match as the papers have it (thesis section 2.2; EndRE section 5.2.2; SmartRE's base
/// implementation, thesis 2187-2270): a block's fingerprints are looked up in what the blocks
/// before left, each hit outside the match before is grown byte by byte both ways, and then all of
/// the block's fingerprints enter the table, each pointing to the newest content that has it.
///
/// It refers to earlier blocks only, samples incompressible content like any other, and lacks what
/// [`MaxMatch`](oncewire_codec::matcher::MaxMatch) adds. It exists for comparison and is never a
/// default.
///
/// If `max_fingerprints` is set, at most that many are used per block (thesis, Table 3.2). The
/// thesis does not say which. Here they are those with the greatest values, so that equal content
/// keeps the same ones wherever it lies in its packet.
pub struct PublishedMaxMatch<T: FingerprintTable, P: Probe = ()> {
    sampler: AnySampler,
    table: T,
    kernels: Kernels,
    window: usize,
    key: u64,
    max_fingerprints: Option<usize>,
    /// Bytes that matches may lie back, from the end of the block; as far as the log reaches if
    /// `None`.
    reach: Option<u64>,
    markers: Vec<u32>,
    fingerprints: Vec<u64>,
    found: Vec<u64>,
    /// Scratch for choosing among too many.
    ranked: Vec<(u64, u32)>,
    stats: MatchStats,
    probe: P,
}

impl<T: FingerprintTable> PublishedMaxMatch<T> {
    /// A matcher over an empty log. `window` is 12..=64 bytes; `key` separates what must not share
    /// fingerprints.
    pub fn new(
        sampler: impl Sampler,
        table: T,
        kernels: Kernels,
        window: usize,
        key: u64,
        max_fingerprints: Option<usize>,
    ) -> PublishedMaxMatch<T> {
        PublishedMaxMatch {
            sampler: sampler.erase(),
            table,
            kernels,
            window,
            key,
            max_fingerprints,
            reach: None,
            markers: Vec::new(),
            fingerprints: Vec::new(),
            found: Vec::new(),
            ranked: Vec::new(),
            stats: MatchStats::default(),
            probe: (),
        }
    }
}

impl<T: FingerprintTable, P: Probe> PublishedMaxMatch<T, P> {
    /// Adds a probe.
    pub fn with_probe<Q: Probe>(self, probe: Q) -> PublishedMaxMatch<T, Q> {
        let PublishedMaxMatch {
            sampler, table, kernels, window, key, max_fingerprints, reach, ..
        } = self;
        let PublishedMaxMatch { markers, fingerprints, found, ranked, stats, .. } = self;
        PublishedMaxMatch {
            sampler,
            table,
            kernels,
            window,
            key,
            max_fingerprints,
            reach,
            markers,
            fingerprints,
            found,
            ranked,
            stats,
            probe,
        }
    }

    /// Limits how far back it refers, as a cache of `bytes` would, so that studies of several cache
    /// sizes can share one log.
    pub fn with_reach(self, bytes: u64) -> Self {
        PublishedMaxMatch { reach: Some(bytes), ..self }
    }

    /// Changes how far back it refers, in bytes.
    pub fn set_reach(&mut self, bytes: u64) {
        self.reach = Some(bytes);
    }

    /// The probe.
    pub fn probe(&self) -> &P {
        &self.probe
    }

    /// The table.
    pub fn table(&self) -> &T {
        &self.table
    }

    /// Fills `markers` and `fingerprints` with those of the content.
    fn sample(&mut self, content: &[u8], density: Density) {
        self.probe.enter(Phase::Markers);
        self.markers.clear();
        let mut at = 0;
        loop {
            let start = self.markers.len();
            // Most payloads are short: there is no need to clear more than they can have.
            let room = (content.len().saturating_sub(at) + 1).min(SAMPLE_STEP);
            self.markers.resize(start + room, 0);
            let free = &mut self.markers[start..];
            let Self { kernels, window, .. } = *self;
            let sampling =
                Sampling { kernels, block: content, window, period: density.period(), from: at };
            let Sampled { count, resume } = match density {
                Density::Period(_) => self.sampler.sample(sampling, free),
                Density::Sparse => self.sampler.sample_sparsely(sampling, free),
            };
            self.markers.truncate(start + count);
            at = resume;
            if count < room {
                break;
            }
        }
        self.probe.enter(Phase::Fingerprints);
        self.fingerprints.resize(self.markers.len(), 0);
        self.kernels.fingerprints(
            content,
            &self.markers,
            self.window,
            self.key,
            &mut self.fingerprints,
        );
        if let Some(max) = self.max_fingerprints
            && self.markers.len() > max
        {
            self.choose(max);
        }
    }

    /// Keeps the `max` greatest fingerprints, in their order in the block.
    fn choose(&mut self, max: usize) {
        self.ranked.clear();
        self.ranked.extend(self.fingerprints.iter().copied().zip(self.markers.iter().copied()));
        if max > 0 {
            self.ranked.select_nth_unstable_by(max - 1, |a, b| b.cmp(a));
        }
        self.ranked.truncate(max);
        self.ranked.sort_unstable_by_key(|&(_, marker)| marker);
        self.markers.clear();
        self.fingerprints.clear();
        for &(fingerprint, marker) in &self.ranked {
            self.markers.push(marker);
            self.fingerprints.push(fingerprint);
        }
    }

    fn match_block(&mut self, log: &Log, block: &PlacedBlock<'_>, matches: &mut Vec<Match>) {
        self.probe.enter(Phase::Match);
        self.found.resize(self.markers.len(), 0);
        let markers = Markers { block: block.offset, positions: &self.markers };
        self.table.look_up(&self.fingerprints, markers, &mut self.found);
        self.stats.looked_up += self.markers.len() as u64;
        self.stats.sampled_bytes += block.bytes.len() as u64;
        let mut done = 0;
        for (i, &source) in self.found.iter().enumerate() {
            if let Some(&soon) = self.found.get(i + PREFETCH_AHEAD)
                && soon != NO_OFFSET
            {
                log.prefetch(soon);
            }
            let marker = self.markers[i] as usize;
            if source == NO_OFFSET || marker < done {
                continue;
            }
            let Some(found) = block.grow(self.kernels, log, marker, source, done, self.window)
            else {
                self.stats.false_hits += 1;
                continue;
            };
            done = found.end();
            matches.push(found);
        }
    }

    fn insert(&mut self, offset: u64) {
        self.probe.enter(Phase::Admin);
        self.table.insert(&self.fingerprints, Markers { block: offset, positions: &self.markers });
        self.probe.enter(Phase::Idle);
    }
}

/// Markers per call of the sampler.
const SAMPLE_STEP: usize = 1024;
/// Number of hits whose source is prefetched.
const PREFETCH_AHEAD: usize = 8;

impl<T: FingerprintTable, P: Probe + 'static> Matcher for PublishedMaxMatch<T, P> {
    fn find(
        &mut self,
        log: &Log,
        bytes: &[u8],
        offset: u64,
        density: Density,
        matches: &mut Vec<Match>,
    ) {
        self.look(log, bytes, offset, density, matches);
        self.insert(offset);
    }

    fn look(
        &mut self,
        log: &Log,
        bytes: &[u8],
        offset: u64,
        density: Density,
        matches: &mut Vec<Match>,
    ) {
        let mut block = PlacedBlock::new(log, bytes, offset);
        if let Some(reach) = self.reach {
            block.floor = block.floor.max((offset + bytes.len() as u64).saturating_sub(reach));
        }
        self.sample(bytes, density);
        self.match_block(log, &block, matches);
    }

    fn note(&mut self, content: &[u8], offset: u64, density: Density) {
        self.sample(content, density);
        self.stats.indexed_only += self.markers.len() as u64;
        self.insert(offset);
    }

    fn interrupt(&mut self) {}

    fn stats(&self) -> MatchStats {
        self.stats
    }

    fn table_entries(&self) -> usize {
        self.table.entries()
    }

    fn table_memory(&self) -> usize {
        self.table.memory()
    }

    fn memory(&self) -> usize {
        let PublishedMaxMatch { markers, fingerprints, found, ranked, .. } = self;
        let scratch = markers.capacity() * 4
            + (fingerprints.capacity() + found.capacity()) * 8
            + ranked.capacity() * 16;
        self.table.memory() + scratch
    }

    fn prefault(&mut self) {
        self.table.prefault();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::Fixed;
    use oncewire_codec::Geometry;
    use oncewire_codec::table::CompactTable;

    fn matcher(max: Option<usize>) -> (Log, PublishedMaxMatch<CompactTable<u32>>) {
        let geometry = Geometry::new(1 << 16, 0).unwrap();
        let table = CompactTable::new(geometry, 1 << 12).unwrap();
        (
            Log::new(geometry).unwrap(),
            PublishedMaxMatch::new(Fixed, table, Kernels::detect(), 32, 0, max),
        )
    }

    fn noise(len: usize, seed: u64) -> Vec<u8> {
        let mut rng = fastrand::Rng::with_seed(seed);
        (0..len).map(|_| rng.u8(..)).collect()
    }

    #[test]
    fn a_block_refers_to_blocks_before_it_and_not_to_itself() {
        let (mut log, mut matcher) = matcher(None);
        let content = noise(1000, 1);
        let twice = [&content[..960], &content[..960]].concat();
        let mut matches = Vec::new();
        matcher.find(&log, &twice, 0, Density::Period(32), &mut matches);
        assert_eq!(matches, []);
        log.append(&twice);
        matcher.find(&log, &content, 1920, Density::Period(32), &mut matches);
        // The newest copy is the second; it ends after 960 bytes.
        assert_eq!(matches, [Match { at: 0, len: 960, source: 960 }]);
    }

    #[test]
    fn few_fingerprints_are_the_same_ones_wherever_content_stands() {
        let (log, mut all) = matcher(None);
        let (_, mut few) = matcher(Some(8));
        let content = noise(4096, 2);
        all.sample(&content, Density::Period(32));
        few.sample(&content, Density::Period(32));
        assert_eq!(few.markers.len(), 8);
        let mut best = all.fingerprints.clone();
        best.sort_unstable_by(|a, b| b.cmp(a));
        assert!(few.fingerprints.iter().all(|fingerprint| best[..8].contains(fingerprint)));
        assert!(few.markers.is_sorted());
        let mut matches = Vec::new();
        few.find(&log, &content, 0, Density::Period(32), &mut matches);
        assert_eq!(few.stats().looked_up, 8);
        let (_, mut none) = matcher(Some(0));
        none.find(&log, &content, 0, Density::Period(32), &mut matches);
        assert_eq!(none.stats().looked_up, 0);
    }

    #[test]
    fn the_probe_hears_every_phase_in_order() {
        #[derive(Default)]
        struct Heard(Vec<Phase>);
        impl Probe for Heard {
            fn enter(&mut self, phase: Phase) {
                self.0.push(phase);
            }
        }
        let (log, matcher) = matcher(None);
        let mut matcher = matcher.with_probe(Heard::default());
        matcher.find(&log, &noise(100, 3), 0, Density::Period(32), &mut Vec::new());
        assert_eq!(
            matcher.probe().0,
            [Phase::Markers, Phase::Fingerprints, Phase::Match, Phase::Admin, Phase::Idle]
        );
    }
}
