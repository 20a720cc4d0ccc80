//! How an encoder finds what repeats: the part of it that can be exchanged.
//!
//! [`EncoderBuilder::search`](crate::EncoderBuilder::search) takes a [`Search`], which says how
//! much memory it will use and builds a [`Searcher`]. The default is [`MaxMatchSearch`]. A decoder
//! does not depend on the choice.

use crate::domain::Domain;
use crate::error::{ConfigError, EncodeError};
use crate::log::{Geometry, Log, Width};
use crate::matcher::{Density, Match, MatchStats, Matcher, MaxMatch};
use crate::policy::CachePolicy;
use crate::sampler::{AnySampler, Sampler};
use crate::table::{COMPACT_LIMIT, CompactTable, slot_bytes};
use oncewire_kernels::{FilePages, Kernels};
use std::fmt::Debug;
use std::ops::Range;

/// The parameters of an encoder that concern its search, as given to the builder.
///
/// [`Search::memory`] may see parameters that [`Search::build`] would refuse; its result then means
/// nothing, but it must not panic.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SearchSettings {
    /// Size of the content log in bytes.
    pub cache: u64,
    /// How far ahead of its contiguous content the decoder accepts frames, in bytes.
    pub span: u64,
    /// Largest block in bytes.
    pub max_block: usize,
    /// Which content enters the log.
    pub policy: CachePolicy,
    /// Bytes under one fingerprint.
    pub window: usize,
    /// Sampling period in bytes.
    pub period: usize,
    /// Chooses the markers.
    pub sampler: AnySampler,
    /// Entries of the table as asked for; `None` leaves the number to the search.
    pub table_entries: Option<u64>,
    /// Whether the table uses its memory as fingerprints are stored.
    pub growing_table: bool,
    /// Key of the fingerprints.
    pub fingerprint_key: u64,
    /// The instruction set to use.
    pub kernels: Kernels,
}

impl SearchSettings {
    /// Entries of a fingerprint table: as asked for, or one for each fingerprint that the sampler
    /// is expected to make of a full log.
    pub fn fingerprint_entries(&self) -> u64 {
        let expected =
            || (self.cache as f64 / self.sampler.expected_rate(self.period)).ceil() as u64;
        self.table_entries.unwrap_or_else(expected).max(1)
    }
}

/// Memory of a [`Searcher`] in bytes, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchMemory {
    /// Content: the log, or what a [`Store`] keeps of it.
    pub log: u64,
    /// The table.
    pub table: u64,
    /// Working memory for one block. A matcher's fixed-size batch need not be counted.
    pub scratch: u64,
}

/// Makes the part of an encoder that finds repeats.
pub trait Search: Debug + Send + Sync + 'static {
    /// The memory that what [`Search::build`] returns will use. `log` and `table` are exact,
    /// `scratch` is an upper bound.
    fn memory(&self, settings: &SearchSettings) -> SearchMemory;

    /// Builds it, for a log of this geometry.
    ///
    /// # Errors
    /// [`ConfigError`] for parameters that do not fit together, or without memory.
    fn build(&self, settings: &SearchSettings, geometry: Geometry)
    -> Result<Searcher, ConfigError>;

    /// Whether blocks that look incompressible are sampled at [`Density::Sparse`].
    fn samples_sparsely(&self) -> bool {
        true
    }

    /// Whether what it builds keeps [`Domain`]s apart ([`Matcher::enter`]). Needed for any
    /// [`Sharing`](crate::Sharing) but `All`.
    fn isolates_domains(&self) -> bool {
        false
    }
}

/// What a [`Search`] builds.
pub enum Searcher {
    /// A matcher; the encoder holds the content log.
    Matcher(Box<dyn Matcher>),
    /// A search that keeps content, or parts of it, itself; the encoder holds no log.
    Store(Box<dyn Store>),
}

/// A search that stands in place of both log and matcher. It sees all content in order and decides
/// what of it to keep.
///
/// It works with [`CachePolicy::All`] only; [`Search::build`] must refuse other policies.
pub trait Store: Send {
    /// Size and rules of the decoder's log.
    fn geometry(&self) -> Geometry;

    /// End of the newest block: where the next goes, padding aside.
    fn end(&self) -> u64;

    /// Appends the matches of `block`, which goes to `offset`, to `matches`, and indexes the
    /// block. Matches ascend, are disjoint, and refer only to what the decoder is known to hold, or
    /// to the block itself before the match.
    fn find(&mut self, block: &[u8], offset: u64, density: Density, matches: &mut Vec<Match>);

    /// Takes note of a block that goes to `offset`, without looking for matches.
    fn pass(&mut self, block: &[u8], offset: u64);

    /// The decoder has verified all content below `low`. Values beyond [`Store::end`] count as the
    /// end; lower ones than before change nothing.
    fn acknowledge(&mut self, low: u64);

    /// Both ends have all content from `from` to the end by other means
    /// ([`crate::Encoder::prime`]).
    fn primed(&mut self, from: u64);

    /// Forgets what was encoded at `offset` and above; the decoder holds all below.
    ///
    /// # Errors
    /// [`EncodeError::NotHeld`] as [`crate::Encoder::rewind`]; nothing was changed.
    fn rewind(&mut self, offset: u64) -> Result<(), EncodeError>;

    /// The bytes of `range`, once encoded as one block, if they are still here.
    fn content(&self, range: Range<u64>) -> Option<&[u8]>;

    /// Padding before the block that was encoded at `range`, if that is still known.
    fn padding_before(&self, range: &Range<u64>) -> Option<u64>;

    /// Counters since the store was made.
    fn stats(&self) -> MatchStats;

    /// Memory in use.
    fn memory(&self) -> SearchMemory;

    /// Touches all memory, for measurements.
    fn prefault(&mut self);
}

/// [`MaxMatch`] over EndRE's [`CompactTable`]: the default.
///
/// The matcher's loop is compiled for SAMPLEHASH and SAMPLEBYTE; other samplers cost one virtual
/// call a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MaxMatchSearch;

impl Search for MaxMatchSearch {
    fn memory(&self, settings: &SearchSettings) -> SearchMemory {
        let table = settings.fingerprint_entries().saturating_mul(slot_bytes(settings.cache));
        SearchMemory { log: settings.cache, table, scratch: 0 }
    }

    fn build(
        &self,
        settings: &SearchSettings,
        geometry: Geometry,
    ) -> Result<Searcher, ConfigError> {
        let matcher = match &settings.sampler {
            AnySampler::SampleHash(sampler) => max_match(*sampler, settings, geometry)?,
            AnySampler::SampleByte(sampler) => max_match(sampler.clone(), settings, geometry)?,
            AnySampler::Other(sampler) => max_match(sampler.clone(), settings, geometry)?,
        };
        Ok(Searcher::Matcher(matcher))
    }

    fn isolates_domains(&self) -> bool {
        true
    }
}

fn max_match<S: Sampler>(
    sampler: S,
    settings: &SearchSettings,
    geometry: Geometry,
) -> Result<Box<dyn Matcher>, ConfigError> {
    let SearchSettings { kernels, window, fingerprint_key: key, .. } = *settings;
    let entries = settings.fingerprint_entries();
    Ok(if geometry.capacity() <= COMPACT_LIMIT {
        Box::new(MaxMatch::new(
            sampler,
            CompactTable::<u32>::new(geometry, entries)?.growing(settings.growing_table),
            kernels,
            window,
            key,
        ))
    } else {
        Box::new(MaxMatch::new(
            sampler,
            CompactTable::<u64>::new(geometry, entries)?.growing(settings.growing_table),
            kernels,
            window,
            key,
        ))
    })
}

/// What an encoder knows of the past.
pub(crate) enum Past {
    /// All content that the decoder has, and where to look for it.
    Log { log: Log, matcher: Box<dyn Matcher> },
    /// What the search keeps by itself.
    Store(Box<dyn Store>),
}

impl Past {
    pub(crate) fn build(
        search: &dyn Search,
        settings: &SearchSettings,
        geometry: Geometry,
        content: Option<FilePages>,
    ) -> Result<Past, ConfigError> {
        Ok(match search.build(settings, geometry)? {
            Searcher::Matcher(matcher) => {
                let log = match content {
                    Some(content) => Log::of_file(geometry, content),
                    None => Log::new(geometry)?,
                };
                Past::Log { log, matcher }
            }
            Searcher::Store(store) => Past::Store(store),
        })
    }

    pub(crate) fn geometry(&self) -> Geometry {
        match self {
            Past::Log { log, .. } => log.geometry(),
            Past::Store(store) => store.geometry(),
        }
    }

    /// The next blocks belong to `domain`. A store has no domains.
    pub(crate) fn enter(&mut self, domain: Domain) {
        if let Past::Log { log, matcher } = self {
            log.enter(domain);
            matcher.enter(domain);
        }
    }

    /// See [`Log::width`]. A store has no domains.
    pub(crate) fn width(&self) -> Option<Width> {
        match self {
            Past::Log { log, .. } => log.width(),
            Past::Store(_) => None,
        }
    }

    pub(crate) fn end(&self) -> u64 {
        match self {
            Past::Log { log, .. } => log.end(),
            Past::Store(store) => store.end(),
        }
    }

    pub(crate) fn content(&self, range: Range<u64>) -> Option<&[u8]> {
        match self {
            Past::Log { log, .. } => {
                let floor = log.floor(log.end(), 0);
                let extent = log.extent_of_all(range.start, floor)?;
                (range.start <= range.end && range.end <= extent.end).then(|| log.read(range))
            }
            Past::Store(store) => store.content(range),
        }
    }

    pub(crate) fn padding_before(&self, range: &Range<u64>) -> Option<u64> {
        match self {
            Past::Log { log, .. } => log.padding_before(range.start),
            Past::Store(store) => store.padding_before(range),
        }
    }

    pub(crate) fn stats(&self) -> MatchStats {
        match self {
            Past::Log { matcher, .. } => matcher.stats(),
            Past::Store(store) => store.stats(),
        }
    }

    /// Memory in use, the matcher's batch included.
    pub(crate) fn memory(&self) -> SearchMemory {
        match self {
            Past::Log { log, matcher } => {
                let table = matcher.table_memory();
                let scratch = matcher.memory() - table;
                SearchMemory {
                    log: log.memory() as u64,
                    table: table as u64,
                    scratch: scratch as u64,
                }
            }
            Past::Store(store) => store.memory(),
        }
    }

    /// Memory in use for notes on domains, in bytes.
    pub(crate) fn domains_memory(&self) -> usize {
        match self {
            Past::Log { log, .. } => log.runs_memory(),
            Past::Store(_) => 0,
        }
    }

    pub(crate) fn prefault(&mut self) {
        match self {
            Past::Log { log, matcher } => {
                log.prefault();
                matcher.prefault();
            }
            Past::Store(store) => store.prefault(),
        }
    }
}
