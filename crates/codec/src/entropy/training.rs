//! Making frozen contexts from content.
//!
//! The prefix is put together from segments with what is frequent, as in Liao, Petri, Moffat and Wirth,
//! "Effective Construction of Relative Lempel-Ziv Dictionaries" (WWW 2016): from each of equal parts of
//! the content the segment whose strings occur most often in all of it, of which later segments get no
//! credit any more. Then the codes are those of the content itself, in pieces as of datagrams.

use super::frozen::{
    FrozenContext, FrozenWriter, Lengths, MAX_LITERAL_CODES, MAX_PREFIX, PLAIN_COLUMNS, cheapest,
};
use oncewire_kernels::{Kernels, byte_counts, huffman_lengths};
use std::ops::Range;

/// Length of the strings that are counted, in bytes.
const STRING: usize = 8;
/// Bits of a string's hash.
const HASH_BITS: u32 = 20;
/// Bytes of a segment. From 64 to 512 there is no difference in what is saved.
const SEGMENT: usize = 256;
/// Bytes of a piece whose literals are coded for the statistics: those of a datagram.
const PIECE: usize = 1400;
/// Most content that is looked at; the newest.
pub const MAX_TRAINING: usize = 2 << 20;
/// Rounds of the clustering of pieces by their literals.
const ROUNDS: usize = 6;
/// A byte that is rarer than once in this many has no word in a code for one kind of literals.
const RARE: u32 = 20_000;

/// Content to make a context from.
#[derive(Clone, Copy, Debug)]
pub struct Training<'a> {
    content: &'a [u8],
    prefix: usize,
}

/// What a context is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trained {
    /// Where the prefix is in the content, one part after the other: at most 128.
    pub segments: Vec<Range<usize>>,
    /// The codes, as of [`FrozenContext::codes`].
    pub codes: Vec<u8>,
}

impl Trained {
    /// The context, of the content that it was made from.
    pub fn context(&self, content: &[u8]) -> FrozenContext {
        let prefix = join(content, &self.segments);
        FrozenContext::new(&prefix, &self.codes).expect("training makes complete codes")
    }
}

fn join(content: &[u8], segments: &[Range<usize>]) -> Vec<u8> {
    segments.iter().flat_map(|segment| &content[segment.clone()]).copied().collect()
}

impl<'a> Training<'a> {
    /// A context with a prefix of at most `prefix` bytes and at most [`MAX_PREFIX`], from the last
    /// [`MAX_TRAINING`] bytes of `content`.
    pub fn new(content: &'a [u8], prefix: usize) -> Training<'a> {
        Training { content, prefix: prefix.min(MAX_PREFIX) }
    }

    /// Makes the context. It takes about 0.2 s and 16 MB for the most content.
    pub fn finish(self) -> Trained {
        let passed = self.content.len().saturating_sub(MAX_TRAINING);
        let content = &self.content[passed..];
        let segments = select(content, self.prefix);
        let codes = codes(content, join(content, &segments)).codes();
        let shift = |segment: Range<usize>| segment.start + passed..segment.end + passed;
        Trained { segments: segments.into_iter().map(shift).collect(), codes }
    }
}

/// Whether a string is worth having, and how often it occurs.
struct Strings {
    counts: Vec<u32>,
    /// How often a string is in the window.
    inside: Vec<u16>,
}

impl Strings {
    fn hash(content: &[u8], at: usize) -> usize {
        let word = content[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - HASH_BITS)) as usize
    }

    fn enter(&mut self, string: usize) -> u64 {
        self.inside[string] += 1;
        if self.inside[string] == 1 { self.counts[string].into() } else { 0 }
    }

    fn leave(&mut self, string: usize) -> u64 {
        self.inside[string] -= 1;
        if self.inside[string] == 0 { self.counts[string].into() } else { 0 }
    }
}

/// Chooses segments of at most `most` bytes together, the best one last.
fn select(content: &[u8], most: usize) -> Vec<Range<usize>> {
    let parts = (most / SEGMENT).min(content.len() / SEGMENT);
    if parts == 0 {
        return Vec::new();
    }
    let mut strings = Strings { counts: vec![0; 1 << HASH_BITS], inside: vec![0; 1 << HASH_BITS] };
    for at in 0..=content.len() - STRING {
        strings.counts[Strings::hash(content, at)] += 1;
    }
    let (part, window) = (content.len() / parts, SEGMENT - STRING + 1);
    let mut chosen = Vec::new();
    for from in (0..parts).map(|nth| nth * part) {
        let last = from + part - STRING;
        let (mut score, mut best, mut start) = (0, 0, from);
        for at in from..=last {
            score += strings.enter(Strings::hash(content, at));
            if at >= from + window {
                score -= strings.leave(Strings::hash(content, at - window));
            }
            if score > best && at + 1 >= from + window {
                (best, start) = (score, at + 1 - window);
            }
        }
        for at in (last + 1).saturating_sub(window).max(from)..=last {
            strings.leave(Strings::hash(content, at));
        }
        // Without what occurs once at its ends.
        let own = || start..start + window;
        let is_frequent = |&at: &usize| strings.counts[Strings::hash(content, at)] > 1;
        if let (Some(first), Some(end)) = (own().find(is_frequent), own().rfind(is_frequent)) {
            chosen.push((best, first..end + STRING));
        }
        own().for_each(|at| strings.counts[Strings::hash(content, at)] = 0);
    }
    chosen.sort_by_key(|&(score, _)| score);
    chosen.into_iter().map(|(_, segment)| segment).collect()
}

/// The context of a prefix with codes for `content`.
fn codes(content: &[u8], prefix: Vec<u8>) -> FrozenContext {
    let even: Lengths = [8; 256];
    let mut context = FrozenContext { prefix, plain: [even; PLAIN_COLUMNS], literals: vec![even] };
    let mut writer = FrozenWriter::new(Kernels::detect(), &context);
    let mut counts = [[0; 256]; PLAIN_COLUMNS];
    let mut pieces = Vec::new();
    for piece in content.chunks(PIECE) {
        let found = writer.find(std::iter::once(piece));
        let columns = [&found.tokens, &found.high, &found.low, &found.runs, &found.lens];
        for (counts, column) in counts.iter_mut().zip(columns) {
            add(counts, &byte_counts(column));
        }
        pieces.push(byte_counts(&found.literals));
    }
    context.plain = counts.map(|counts| complete(&counts));
    context.literals = cluster(&pieces);
    context
}

fn add(sum: &mut [u32; 256], counts: &[u32; 256]) {
    sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

fn sum<'a>(all: impl Iterator<Item = &'a [u32; 256]>) -> [u32; 256] {
    all.fold([0; 256], |mut sum, counts| {
        add(&mut sum, counts);
        sum
    })
}

/// A code with words for all bytes.
fn complete(counts: &[u32; 256]) -> Lengths {
    huffman_lengths(&counts.map(|count| 16 * count + 1))
}

/// A code for all literals, and codes for kinds of them: pieces are grouped by which code takes the
/// fewest bits, codes are made from groups, and again (Lloyd 1982).
fn cluster(pieces: &[[u32; 256]]) -> Vec<Lengths> {
    let mut codes = vec![complete(&sum(pieces.iter()))];
    let kinds = MAX_LITERAL_CODES - 1;
    // At first by how many bits a literal takes.
    let mut order: Vec<(u64, usize)> = pieces
        .iter()
        .enumerate()
        .map(|(nth, counts)| {
            let (_, bits) = cheapest(counts, codes.iter()).unwrap_or_default();
            (1000 * bits as u64 / u64::from(counts.iter().sum::<u32>().max(1)), nth)
        })
        .collect();
    order.sort_unstable();
    let mut kind = vec![0; pieces.len()];
    for (rank, &(_, nth)) in order.iter().enumerate() {
        kind[nth] = rank * kinds / pieces.len();
    }
    let of_kind = |kind: &[usize], this: usize| {
        sum(pieces.iter().zip(kind).filter(|&(_, &kind)| kind == this).map(|(counts, _)| counts))
    };
    for _ in 0..ROUNDS {
        let trial: Vec<Lengths> = (0..kinds).map(|this| complete(&of_kind(&kind, this))).collect();
        for (kind, counts) in kind.iter_mut().zip(pieces) {
            *kind = cheapest(counts, trial.iter()).map_or(0, |(nth, _)| nth);
        }
    }
    for this in 0..kinds {
        let counts = of_kind(&kind, this);
        let rare = counts.iter().sum::<u32>() / RARE;
        let common = counts.map(|count| if count > rare { count } else { 0 });
        // Of fewer than two bytes there is no code.
        if common.iter().filter(|&&count| count > 0).count() > 1 {
            codes.push(huffman_lengths(&common));
        }
    }
    codes.truncate(MAX_LITERAL_CODES);
    codes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_has_what_is_frequent() {
        let phrase = b"what every datagram of this flow has in it, once or twice; ";
        let mut content = Vec::new();
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2000 {
            content.extend_from_slice(phrase);
            content.extend((0..200).map(|_| random.u8(..)));
        }
        let trained = Training::new(&content, 1024).finish();
        assert!(trained.segments.iter().map(Range::len).sum::<usize>() <= 1024);
        let context = trained.context(&content);
        assert!(context.prefix().windows(phrase.len()).any(|part| part == phrase));
        // The most content only, and nothing of too little.
        assert!(trained.segments.iter().all(|part| part.end <= content.len()));
        for len in [0, 1, 7, 8, 255, 256, 1399, 1400, 3000] {
            let content = &content[..len];
            let trained = Training::new(content, MAX_PREFIX).finish();
            let context = trained.context(content);
            assert!(context.prefix().len() <= len);
            assert!(trained.segments.len() <= MAX_PREFIX / SEGMENT);
        }
    }
}
