//! Matchers and tables by name, as an encoder's search.

use crate::bucket::{BucketShape, BucketTable};
use crate::chunk::{self, ChunkForm, ChunkMatch, ChunkParams};
use crate::published::PublishedMaxMatch;
use oncewire_codec::matcher::{Matcher, MaxMatch};
use oncewire_codec::search::{MaxMatchSearch, Search, SearchMemory, SearchSettings, Searcher};
use oncewire_codec::table::{COMPACT_LIMIT, CompactTable, FingerprintTable, slot_bytes};
use oncewire_codec::{CachePolicy, ConfigError, Geometry};
use oncewire_kernels::family::NameKey;

/// How an encoder finds what repeats. The decoder need not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatcherKind {
    /// [`MaxMatch`]: grows every hit to the longest equal region. Keeps all content at the encoder,
    /// too.
    #[default]
    MaxMatch,
    /// [`PublishedMaxMatch`]: the papers' max-match, to compare with.
    Published {
        /// Most fingerprints used per block (thesis, Table 3.2), or per run that
        /// [`CachePolicy::NewRuns`] keeps apart; all if `None`.
        max_fingerprints: Option<usize>,
    },
    /// [`crate::chunk`]: finds whole chunks by their names. The encoder keeps only content that is
    /// not acknowledged, and matches refer only to content that is: see
    /// [`Encoder::acknowledge`](oncewire_codec::Encoder::acknowledge).
    ChunkMatch {
        /// Where chunks begin and end.
        form: ChunkForm,
    },
}

/// How an encoder stores fingerprints. Chunk-match has its own table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum TableKind {
    /// [`CompactTable`]: EndRE's.
    #[default]
    Compact,
    /// [`BucketTable`]: SmartRE's, in the given shape.
    Buckets(BucketShape),
}

/// A matcher and a table by name, for
/// [`EncoderBuilder::search`](oncewire_codec::EncoderBuilder::search).
///
/// ```
/// use oncewire_codec::Encoder;
/// use oncewire_family::{FamilySearch, MatcherKind, SamplerKind};
///
/// let published = FamilySearch::new(MatcherKind::Published { max_fingerprints: None });
/// let mut encoder = Encoder::builder().cache(1 << 20).sampler(SamplerKind::Maxp).search(published).build()?;
/// encoder.encode(b"content", &mut Vec::new())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct FamilySearch {
    matcher: MatcherKind,
    table: TableKind,
    chunk_key: [u8; 16],
    backlog: Option<u64>,
    earlier_blocks: bool,
}

impl FamilySearch {
    /// The given matcher, with the compact table where it uses one.
    pub fn new(matcher: MatcherKind) -> FamilySearch {
        FamilySearch { matcher, ..FamilySearch::default() }
    }

    /// How fingerprints are stored. Default EndRE's compact table. A bucketed table takes 8 bytes a
    /// slot, of which it has several for each entry.
    pub fn table(mut self, table: TableKind) -> Self {
        self.table = table;
        self
    }

    /// Secret key of chunk names, for [`MatcherKind::ChunkMatch`]. Default zeros, which is for
    /// measurements only: where content comes from others, use a random key for each session, or
    /// they can prepare chunks with equal names.
    pub fn chunk_key(mut self, key: [u8; 16]) -> Self {
        self.chunk_key = key;
        self
    }

    /// Bytes of unacknowledged content that a chunk matcher keeps for repairs, from one block to
    /// the whole cache. Default one span and one block, at least 4 MiB. Beyond it the oldest is
    /// dropped: it can still be acknowledged and referred to, but no longer be repaired
    /// ([`EncodeError::NotHeld`](oncewire_codec::EncodeError::NotHeld)). Memory: this much.
    pub fn backlog(mut self, bytes: u64) -> Self {
        self.backlog = Some(bytes);
        self
    }

    /// For comparisons of [`MatcherKind::ChunkMatch`] with the papers' max-match: it refers to earlier
    /// blocks only, and samples content that looks incompressible as any other. Default no.
    pub fn earlier_blocks(mut self, only: bool) -> Self {
        self.earlier_blocks = only;
        self
    }

    /// Entries of the chunk table: as asked for, or EndRE's, as many as fit 24 bytes for each
    /// sampling period of the cache (37.5 % of it at a period of 64). Memory: 64 bytes for three.
    fn chunk_entries(settings: &SearchSettings) -> u64 {
        settings
            .table_entries
            .unwrap_or_else(|| chunk::default_entries(settings.cache, settings.period))
    }

    fn backlog_bytes(&self, settings: &SearchSettings) -> u64 {
        self.backlog.unwrap_or_else(|| {
            chunk::default_limit(settings.cache, settings.span, settings.max_block)
        })
    }

    /// The chunk matcher that [`Search::build`] returns, as its own type.
    pub(crate) fn chunk_match(
        &self,
        form: ChunkForm,
        settings: &SearchSettings,
        geometry: Geometry,
    ) -> Result<ChunkMatch, ConfigError> {
        if settings.policy != CachePolicy::All {
            return Err(ConfigError::Conflict(
                "chunk-match needs the cache policy `all`: it keeps no content to choose from",
            ));
        }
        let backlog = self.backlog_bytes(settings);
        if !(settings.max_block as u64..=geometry.capacity()).contains(&backlog) {
            return Err(ConfigError::Backlog { backlog, max: geometry.capacity() });
        }
        let SearchSettings { window, kernels, .. } = *settings;
        let params = ChunkParams {
            form,
            key: NameKey::new(self.chunk_key),
            entries: FamilySearch::chunk_entries(settings),
            backlog: backlog as usize,
            window,
            kernels,
            earlier_blocks: self.earlier_blocks,
        };
        ChunkMatch::new(settings.sampler.clone(), geometry, params)
    }
}

impl Search for FamilySearch {
    fn memory(&self, settings: &SearchSettings) -> SearchMemory {
        let SearchSettings { cache, max_block, .. } = *settings;
        if let MatcherKind::ChunkMatch { .. } = self.matcher {
            let table = chunk::table_bytes(FamilySearch::chunk_entries(settings));
            return SearchMemory { log: self.backlog_bytes(settings), table, scratch: 0 };
        }
        let entries = settings.fingerprint_entries();
        let table = match self.table {
            TableKind::Compact => entries.saturating_mul(slot_bytes(cache)),
            TableKind::Buckets(shape) => shape.bytes(entries),
        };
        // The published matcher keeps all markers of a block, of which there may be one for each
        // byte.
        let published = matches!(self.matcher, MatcherKind::Published { .. });
        SearchMemory {
            log: cache,
            table,
            scratch: if published { 72 * max_block as u64 } else { 0 },
        }
    }

    fn build(
        &self,
        settings: &SearchSettings,
        geometry: Geometry,
    ) -> Result<Searcher, ConfigError> {
        let SearchSettings { kernels, window, fingerprint_key: key, .. } = *settings;
        let entries = settings.fingerprint_entries();
        Ok(match (self.matcher, self.table) {
            (MatcherKind::ChunkMatch { form }, _) => {
                Searcher::Store(Box::new(self.chunk_match(form, settings, geometry)?))
            }
            (MatcherKind::MaxMatch, TableKind::Compact) => {
                MaxMatchSearch.build(settings, geometry)?
            }
            (MatcherKind::MaxMatch, TableKind::Buckets(shape)) => {
                let table = BucketTable::new(geometry, entries, shape)?;
                Searcher::Matcher(Box::new(MaxMatch::new(
                    settings.sampler.clone(),
                    table,
                    kernels,
                    window,
                    key,
                )))
            }
            (MatcherKind::Published { max_fingerprints: most }, TableKind::Compact) => {
                Searcher::Matcher(if geometry.capacity() <= COMPACT_LIMIT {
                    published(CompactTable::<u32>::new(geometry, entries)?, settings, most)
                } else {
                    published(CompactTable::<u64>::new(geometry, entries)?, settings, most)
                })
            }
            (MatcherKind::Published { max_fingerprints: most }, TableKind::Buckets(shape)) => {
                Searcher::Matcher(published(
                    BucketTable::new(geometry, entries, shape)?,
                    settings,
                    most,
                ))
            }
        })
    }

    fn samples_sparsely(&self) -> bool {
        !matches!(self.matcher, MatcherKind::Published { .. }) && !self.earlier_blocks
    }
}

fn published(
    table: impl FingerprintTable,
    settings: &SearchSettings,
    max_fingerprints: Option<usize>,
) -> Box<dyn Matcher> {
    let SearchSettings { kernels, window, fingerprint_key: key, ref sampler, .. } = *settings;
    Box::new(PublishedMaxMatch::new(sampler.clone(), table, kernels, window, key, max_fingerprints))
}
