//! The first half of an encoder finds what repeats in a block.

use super::EncoderStats;
use crate::adapt::{Effort, Stage};
use crate::chunks::{self, Backlog, ChunkIndex, Stream};
use crate::domain::{Domain, Sharing};
use crate::error::{ConfigError, EncodeError};
use crate::format::{self, ChecksumSeed, Descriptors, Head, LiteralCoding};
use crate::inside::{Inside, ONLY_FLOW, Place, Plan};
use crate::limits::{DEFAULT_BLOCK, MAX_BLOCK, MAX_OFFSET};
use crate::log::{Log, Width};
use crate::matcher::{Density, Match, Matcher};
use crate::policy::{CachePolicy, literal_runs};
use crate::search::{Past, SearchMemory};
use std::ops::Range;

mod restore;

pub use restore::Recalled;

/// A block as matches and the literals between them. A [`Finder`] makes it; a
/// [`FrameWriter`](super::FrameWriter) writes it.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    pub(crate) offset: u64,
    /// `(offset, padding before it)`, if the frame states it.
    pub(crate) explicit: Option<(u64, u64)>,
    pub(crate) block_len: usize,
    pub(crate) checksum: u64,
    /// The literals look compressible.
    pub(crate) dense: bool,
    /// The log's content depends on the matches, so the frame must carry them even where they do
    /// not pay.
    pub(crate) binding: bool,
    /// Upper limit of the entropy stage.
    pub(crate) stage: Stage,
    pub(crate) matches: Vec<Match>,
    /// If positions have a fixed width.
    pub(crate) width: Option<Width>,
    /// Then, of each match: see [`crate::entropy::FixedWidth`].
    pub(crate) joined: Vec<bool>,
    /// What the literals repeat inside deflate streams and zstd frames.
    pub(crate) plan: Plan,
}

impl Tokens {
    /// The block's offset in the log.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes of the block.
    pub fn block_len(&self) -> usize {
        self.block_len
    }

    /// The matches: ascending and disjoint.
    pub fn matches(&self) -> &[Match] {
        &self.matches
    }
}

/// How a block is searched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    /// It looks compressible.
    pub(crate) dense: bool,
    /// Index it; otherwise [`Finder::index`] does so later. Only with a log and
    /// [`CachePolicy::All`].
    pub(crate) note: bool,
}

/// The first half of an encoder: log and matcher, or a [`Store`](crate::search::Store). Turns
/// blocks into [`Tokens`].
pub struct Finder {
    pub(crate) past: Past,
    effort: Effort,
    pub(super) max_block: usize,
    pub(super) seed: ChecksumSeed,
    pub(super) explicit_offsets: bool,
    pub(crate) policy: CachePolicy,
    /// Most matches of a block.
    pub(crate) max_matches: Option<usize>,
    /// Whether incompressible blocks are sampled sparsely.
    pub(crate) sparse: bool,
    pub(crate) sharing: Sharing,
    pub(crate) key: u64,
    pub(super) domain: Domain,
    /// What domains share, once there are two.
    pub(super) chunks: Option<ChunkIndex>,
    /// What they could share, until then.
    pub(super) backlog: Backlog,
    /// The bytes of a block that enter the log, if not all of it.
    pub(super) kept: Vec<u8>,
    /// Looks inside deflate streams and zstd frames.
    pub(crate) inside: Option<Inside>,
    /// Whether something of the last block was opened.
    is_following: bool,
    opening: bool,
    hurrying: bool,
    stats: EncoderStats,
}

impl Finder {
    pub(crate) fn new(
        past: Past,
        period: usize,
        max_block: usize,
        seed: ChecksumSeed,
        explicit_offsets: bool,
    ) -> Finder {
        Finder {
            past,
            effort: Effort::full(period),
            max_block,
            seed,
            explicit_offsets,
            policy: CachePolicy::All,
            max_matches: None,
            sparse: true,
            sharing: Sharing::All,
            key: 0,
            domain: Domain::COMMON,
            chunks: None,
            backlog: Backlog::default(),
            kept: Vec::new(),
            inside: None,
            is_following: false,
            opening: true,
            hurrying: false,
            stats: EncoderStats::default(),
        }
    }

    /// Finds the matches of `block`, appends it to the log, and describes it in `tokens`.
    ///
    /// # Errors
    /// [`EncodeError::BlockTooLarge`] and [`EncodeError::OffsetsExhausted`]; nothing was changed.
    pub fn find(&mut self, block: &[u8], tokens: &mut Tokens) -> Result<(), EncodeError> {
        self.find_in(None, block, block.len(), tokens)
    }

    /// As [`Finder::find`], with the flow that the block belongs to: the first `len` bytes of
    /// `content`. What follows is not part of the block.
    pub(super) fn find_in(
        &mut self,
        stream: Option<&mut Stream>,
        content: &[u8],
        len: usize,
        tokens: &mut Tokens,
    ) -> Result<(), EncodeError> {
        let block = &content[..len];
        let (offset, padding) = self.place(len)?;
        // First, because it streams the block into the processor's cache; sparse sampling would
        // wait for memory at every marker.
        tokens.checksum = self.seed.checksum(offset, padding, block);
        let how = How { dense: looks_compressible(block), note: true };
        self.search(stream, content, len, offset, how, tokens);
        self.append(block, tokens);
        tokens.explicit = self.explicit_offsets.then_some((offset, padding));
        Ok(())
    }

    /// Where the next block goes, if it has `len` bytes, and the padding before it.
    ///
    /// # Errors
    /// As [`Finder::find`].
    pub(crate) fn place(&self, len: usize) -> Result<(u64, u64), EncodeError> {
        let max = self.most_now();
        if len > max {
            return Err(EncodeError::BlockTooLarge { len, max });
        }
        let end = self.past.end();
        let offset = self.past.geometry().place(end, len);
        if offset + MAX_BLOCK as u64 >= MAX_OFFSET {
            return Err(EncodeError::OffsetsExhausted);
        }
        Ok((offset, offset - end))
    }

    /// Largest block now, in bytes.
    fn most_now(&self) -> usize {
        // Padding of a fixed width is shorter than any block.
        let most = if self.past.width().is_some() { DEFAULT_BLOCK } else { MAX_BLOCK };
        self.max_block.min(most)
    }

    /// Finds the matches of a block that goes to `offset`, and indexes it, unless the policy
    /// decides by the matches what of it to index.
    pub(crate) fn search(
        &mut self,
        stream: Option<&mut Stream>,
        content: &[u8],
        len: usize,
        offset: u64,
        how: How,
        tokens: &mut Tokens,
    ) {
        let block = &content[..len];
        let How { dense, note } = how;
        let density = self.density(dense);
        tokens.matches.clear();
        tokens.joined.clear();
        tokens.width = self.past.width();
        tokens.plan.clear();
        let flow = stream.as_ref().map_or(ONLY_FLOW, |stream| stream.id());
        // What is not shared needs no chunks.
        let stream = stream.filter(|stream| stream.is_shared());
        let opens = self.opens();
        if let Some(inside) = self.inside.as_mut().filter(|_| !opens) {
            inside.pass(flow, offset..offset + block.len() as u64);
        }
        match &mut self.past {
            Past::Log { log, matcher } if !self.effort.search() => {
                if note {
                    matcher.pass(log, block, offset, density);
                } else {
                    matcher.interrupt();
                }
                if let (Some(chunks), Some(stream)) = (&self.chunks, stream) {
                    chunks.pass(stream, log.geometry(), offset, block.len());
                }
            }
            Past::Log { log, matcher } if self.policy == CachePolicy::All => {
                if note {
                    matcher.find(log, block, offset, density, &mut tokens.matches);
                } else {
                    matcher.look(log, block, offset, density, &mut tokens.matches);
                }
                match (&mut self.chunks, stream) {
                    (Some(chunks), Some(stream)) => {
                        chunks.find(log, stream, content, len, offset, &mut tokens.matches);
                    }
                    (None, Some(stream)) if self.sharing == Sharing::Chunks => {
                        self.backlog.note(stream, log.geometry(), offset, block);
                    }
                    _ => {}
                }
                keep_longest(self.max_matches, &mut tokens.matches);
                if let Some(inside) = self.inside.as_mut().filter(|_| opens) {
                    let place = Place { log, offset, key: self.domain.key(self.key), flow };
                    let before = inside.stats.opened_bytes;
                    inside.find(&place, block, &mut tokens.matches, &mut tokens.plan);
                    self.is_following = inside.stats.opened_bytes > before;
                }
                if tokens.width.is_some() {
                    note_joined(log, offset, block.len(), &tokens.matches, &mut tokens.joined);
                }
            }
            Past::Log { log, matcher } => {
                matcher.look(log, block, offset, density, &mut tokens.matches);
                keep_longest(self.max_matches, &mut tokens.matches);
            }
            Past::Store(store) if !self.effort.search() => store.pass(block, offset),
            Past::Store(store) => {
                store.find(block, offset, density, &mut tokens.matches);
                keep_longest(self.max_matches, &mut tokens.matches);
            }
        }
        tokens.offset = offset;
        tokens.block_len = block.len();
        tokens.dense = dense;
        tokens.binding = self.policy != CachePolicy::All;
        tokens.stage = match self.effort.stage() {
            Stage::Full if self.hurrying => Stage::Light,
            stage => stage,
        };
    }

    /// Appends the block that was searched last to the log, and counts it.
    pub(crate) fn append(&mut self, block: &[u8], tokens: &Tokens) {
        let Tokens { offset, dense, .. } = *tokens;
        let density = self.density(dense);
        match &mut self.past {
            // Without matches every policy keeps the whole block.
            Past::Log { log, .. } if self.policy == CachePolicy::All || !self.effort.search() => {
                log.write(offset, block);
            }
            Past::Log { log, matcher } => {
                self.kept.clear();
                self.policy.keep(block, &tokens.matches, &mut self.kept);
                // Even if nothing is kept: the block may have started a generation.
                log.write(offset, &self.kept);
                note_kept(
                    self.policy,
                    matcher.as_mut(),
                    &self.kept,
                    offset,
                    block.len(),
                    density,
                    &tokens.matches,
                );
            }
            Past::Store(_) => {}
        }
        self.stats.blocks += 1;
        self.stats.block_bytes += block.len() as u64;
        self.stats.matches += tokens.matches.len() as u64;
        self.stats.matched_bytes +=
            tokens.matches.iter().map(|found| u64::from(found.len)).sum::<u64>();
        self.stats.incompressible_blocks += u64::from(!dense);
        self.stats.passed_blocks += u64::from(!self.effort.search());
    }

    /// How much of `content` to pass to [`Finder::find`] as the next block: at most `most` bytes, and
    /// less where a block of zstd begins that would be divided otherwise, since what repeats in one
    /// is found only if it ends in the same block as it begins. All of `content`, if it is not more
    /// than `most`. Two blocks in a row have more than `most` bytes together, as long as there is
    /// more content. At most [`DEFAULT_BLOCK`] where the last block was opened: with larger ones, less
    /// of what is inside streams is found. More than 0, unless there is no content or `most` is 0.
    pub fn cut(&self, content: &[u8], most: usize) -> usize {
        self.cut_in(ONLY_FLOW, content, most)
    }

    /// As [`Finder::cut`], of a flow.
    pub(super) fn cut_in(&self, flow: u64, content: &[u8], most: usize) -> usize {
        let most = if self.is_following { most.min(DEFAULT_BLOCK) } else { most };
        match &self.inside {
            Some(inside) if self.opens() && most < content.len() => inside.cut(flow, content, most),
            _ => most.min(content.len()),
        }
    }

    /// Whether blocks are looked into, if that is possible.
    fn opens(&self) -> bool {
        self.opening && self.effort.search() && self.effort.stage() == Stage::Full
    }

    /// See [`Encoder::enter`](super::Encoder::enter).
    pub fn enter(&mut self, domain: Domain) {
        if self.sharing != Sharing::All && domain != self.domain {
            self.domain = domain;
            self.past.enter(domain);
            // As long as there is one domain, chunks cost no time; nor if another has sent a few
            // words only.
            if self.sharing == Sharing::Chunks
                && self.chunks.is_none()
                && self.past.end() >= chunks::WORTH_SHARING
            {
                let backlog = std::mem::take(&mut self.backlog);
                self.chunks = ChunkIndex::new(self.past.geometry().capacity(), self.key, backlog);
            }
        }
    }

    /// See [`Encoder::prime`](super::Encoder::prime). Does not count in the statistics of blocks
    /// and matches.
    ///
    /// # Errors
    /// As [`Finder::find`].
    pub fn prime(&mut self, content: &[u8]) -> Result<(), EncodeError> {
        let (before, end) = (self.stats, self.past.end());
        // The decoder does not learn the matches, so it can only keep all of it.
        let policy = std::mem::take(&mut self.policy);
        let mut tokens = Tokens::default();
        let taken =
            content.chunks(self.max_block).try_for_each(|block| self.find(block, &mut tokens));
        (self.stats, self.policy) = (before, policy);
        taken?;
        if let Past::Store(store) = &mut self.past {
            store.primed(end);
        }
        Ok(())
    }

    /// How densely to sample a block that looks compressible or not.
    pub(super) fn density(&self, dense: bool) -> Density {
        if dense || !self.sparse { Density::Period(self.effort.period()) } else { Density::Sparse }
    }

    /// See [`Encoder::acknowledge`](super::Encoder::acknowledge).
    pub fn acknowledge(&mut self, low: u64) {
        if let Past::Store(store) = &mut self.past {
            store.acknowledge(low);
        }
    }

    /// Memory of content and table, in bytes, once they are full.
    pub fn memory(&self) -> usize {
        let SearchMemory { log, table, .. } = self.past.memory();
        (log + table) as usize
    }

    pub(crate) fn content(&self, range: Range<u64>) -> Option<&[u8]> {
        // A log of new content only holds parts of blocks.
        if self.policy == CachePolicy::All { self.past.content(range) } else { None }
    }

    pub(super) fn rewind(&mut self, offset: u64, seed: ChecksumSeed) -> Result<(), EncodeError> {
        match &mut self.past {
            Past::Log { log, matcher } => {
                if !log.rewind(offset) {
                    return Err(EncodeError::NotHeld { offset, len: 0 });
                }
                matcher.interrupt();
            }
            Past::Store(store) => store.rewind(offset)?,
        }
        self.rewound(offset, seed);
        Ok(())
    }

    /// The log ends at `offset` now.
    fn rewound(&mut self, offset: u64, seed: ChecksumSeed) {
        if let Some(chunks) = &mut self.chunks {
            chunks.rewind(offset);
        }
        self.backlog.rewind(offset);
        if let Some(inside) = &mut self.inside {
            inside.rewind(offset);
        }
        self.seed = seed;
    }

    /// See [`Encoder::repair`](super::Encoder::repair).
    ///
    /// # Errors
    /// As [`Encoder::repair`](super::Encoder::repair).
    pub fn repair(&self, offset: u64, len: usize, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let not_held = EncodeError::NotHeld { offset, len };
        let end =
            offset.checked_add(len as u64).filter(|_| len <= self.most_now()).ok_or(not_held)?;
        let content = self.content(offset..end).ok_or(not_held)?;
        let padding = self.past.padding_before(&(offset..end)).ok_or(not_held)?;
        let head = Head {
            width: self.past.width(),
            literals: LiteralCoding::Raw,
            descriptors: Descriptors::None,
            explicit: Some((offset, padding)),
            fresh: false,
            context: 0,
            block_len: len,
            offset,
            dependencies: offset..offset,
            descriptors_len: 0,
            literals_len: len,
        };
        format::write_head(&head, &mut Vec::new(), out);
        out.extend_from_slice(content);
        out.extend_from_slice(&self.seed.checksum(offset, padding, content).to_le_bytes());
        Ok(())
    }

    /// See [`Encoder::set_period`](super::Encoder::set_period).
    ///
    /// # Errors
    /// [`ConfigError::Period`].
    pub fn set_period(&mut self, period: usize) -> Result<(), ConfigError> {
        ConfigError::check_period(period)?;
        self.effort = self.effort.with_period(period);
        Ok(())
    }

    /// See [`Encoder::set_effort`](super::Encoder::set_effort). The tokens tell the
    /// [`FrameWriter`](crate::FrameWriter).
    pub fn set_effort(&mut self, effort: Effort) {
        self.effort = effort;
    }

    /// See [`Encoder::set_opening`](super::Encoder::set_opening).
    pub fn set_opening(&mut self, opening: bool) {
        self.opening = opening;
    }

    /// See [`Encoder::set_hurrying`](super::Encoder::set_hurrying). The tokens tell the
    /// [`FrameWriter`](crate::FrameWriter).
    pub fn set_hurrying(&mut self, hurrying: bool) {
        self.hurrying = hurrying;
    }

    /// Counters since the finder was built.
    pub fn stats(&self) -> EncoderStats {
        let inside = self.inside.as_ref().map(|inside| inside.stats).unwrap_or_default();
        EncoderStats { matcher: self.past.stats(), inside, ..self.stats }
    }
}

/// Notes of each match whether its source and that of the match before lie both in the block itself,
/// or both in content of the block's domain without anything of others in between.
fn note_joined(log: &Log, offset: u64, len: usize, matches: &[Match], joined: &mut Vec<bool>) {
    let floor = log.floor(offset, len);
    let (mut extent, mut was_within) = (0..0, false);
    joined.extend(matches.iter().map(|found| {
        let source = found.source..found.source + u64::from(found.len);
        let lies_in =
            |extent: &Range<u64>| extent.start <= source.start && source.end <= extent.end;
        let is_within = source.start >= offset;
        let is_joined = if is_within { was_within } else { lies_in(&extent) };
        if is_within {
            extent = 0..0;
        } else if !is_joined {
            extent = log.extent(source.start, floor).filter(lies_in).unwrap_or(0..0);
        }
        was_within = is_within;
        is_joined
    }));
}

/// Indexes the bytes of a block that entered the log.
fn note_kept(
    policy: CachePolicy,
    matcher: &mut dyn Matcher,
    kept: &[u8],
    offset: u64,
    block_len: usize,
    density: Density,
    matches: &[Match],
) {
    if !policy.notes_runs_apart() {
        return matcher.note(kept, offset, density);
    }
    let mut done = 0;
    for run in literal_runs(block_len, matches) {
        let at = done;
        done += run.len();
        matcher.note(&kept[at..done], offset + at as u64, density);
    }
}

/// Keeps the `max` longest matches, the leftmost of equally long ones, in their order.
fn keep_longest(max: Option<usize>, matches: &mut Vec<Match>) {
    let Some(max) = max.filter(|&max| matches.len() > max) else { return };
    if max > 0 {
        matches
            .select_nth_unstable_by_key(max - 1, |found| (std::cmp::Reverse(found.len), found.at));
    }
    matches.truncate(max);
    matches.sort_unstable_by_key(|found| found.at);
}

/// Bytes examined to judge a block, in runs of [`PROBE_RUN`].
const PROBE: usize = 512;
const PROBE_RUN: usize = 64;

/// Whether a block's byte values are distributed unevenly enough for an entropy stage to pay.
///
/// Counts a sample of bytes. Among `n` evenly distributed bytes, each of the `n(n-1)/2` pairs
/// agrees with probability 1/256. Less than a quarter more than that (ten standard deviations)
/// means compressed or encrypted content. Short blocks count as compressible.
pub(crate) fn looks_compressible(block: &[u8]) -> bool {
    if block.len() < PROBE {
        return true;
    }
    let mut counts = [0u16; 256];
    let stride = (block.len() - PROBE_RUN) / (PROBE / PROBE_RUN - 1);
    for run in 0..PROBE / PROBE_RUN {
        for &byte in &block[run * stride..][..PROBE_RUN] {
            counts[usize::from(byte)] += 1;
        }
    }
    let squares: u32 = counts.iter().map(|&count| u32::from(count) * u32::from(count)).sum();
    // The sum of squares is n plus twice the number of agreeing pairs.
    let even = (PROBE + PROBE * (PROBE - 1) / 256) as u32;
    squares > even + even / 4
}

#[cfg(test)]
mod tests {
    use crate::{DEFAULT_BLOCK, Encoder, MAX_BLOCK, Tokens};
    use std::io::Write;

    #[test]
    fn blocks_are_small_where_a_stream_is_opened() {
        let mut state = 1u64;
        let mut letter = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            b'a' + (state >> 60) as u8
        };
        let text: Vec<u8> = (0..4 * MAX_BLOCK).map(|_| letter()).collect();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        gzip.write_all(&text).unwrap();
        let stream = gzip.finish().unwrap();
        let builder = Encoder::builder().cache(1 << 22).max_block(MAX_BLOCK).inside(true);
        let (mut finder, _) = builder.build_halves().unwrap();
        let mut tokens = Tokens::default();
        for (content, next) in [(&text, MAX_BLOCK), (&stream, DEFAULT_BLOCK), (&text, MAX_BLOCK)] {
            finder.find(&content[..MAX_BLOCK], &mut tokens).unwrap();
            assert_eq!(finder.cut(&content[MAX_BLOCK..], MAX_BLOCK), next);
        }
    }
}
