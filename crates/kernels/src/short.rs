//! Short matches in what a matcher left over, found by looking up 64 positions at a time, and their
//! execution.
//!
//! Every position is entered in a table by a hash of the 6 bytes there. An entry is 32 bits: the
//! low 16 of the position, and 16 of the hash as a tag. So whether a position has a candidate is
//! known for 64 positions from one comparison of tags, without a branch; only those that have one
//! are compared with it.

use crate::Kernels;
#[cfg(target_arch = "x86_64")]
use crate::Level;

/// Farthest that a match may lie back.
pub const SHORT_REACH: usize = 0xffff;
/// The last distance before the first match.
pub const SHORT_FIRST_DISTANCE: u16 = 8;
/// Shortest match in bytes.
pub const SHORT_LEAST: usize = 4;
/// Values of a token's fields that say that more follows.
const MORE_LITERALS: usize = 7;
const MORE_LENGTH: usize = 15;
/// The value of a byte of `more` that says that three more bytes follow.
const ESCAPE: usize = 255;
/// Bytes that a buffer must have after what is read or written, because copies are of whole words.
pub const SHORT_SLACK: usize = 128;
/// Positions that are looked up at once.
const BATCH: usize = 64;
/// Bytes that a hash is made of.
const HASHED: usize = 6;
/// Of the two tables of a deep search.
const HASHED_SHORT: usize = 5;
const HASHED_LONG: usize = 8;

/// What short matches are made of, in columns.
///
/// A match is a token: bit 7 is set if its distance is not that of the match before; bits 4 to 6
/// are the literals before it, 7 meaning 7 and what a byte of `runs` adds; bits 0 to 3 are its
/// length less 4, 15 meaning 19 and what a byte of `lens` adds. A byte of 255 is followed by three
/// bytes of `large`, which are added instead.
#[derive(Clone, Debug, Default)]
pub struct ShortMatches {
    /// One byte for each match.
    pub tokens: Vec<u8>,
    /// The upper byte of each distance that is stated.
    pub high: Vec<u8>,
    /// The lower byte.
    pub low: Vec<u8>,
    /// Of runs of 7 literals and more.
    pub runs: Vec<u8>,
    /// Of matches of 19 bytes and more.
    pub lens: Vec<u8>,
    /// Three bytes for each 255 in `runs` and `lens`, in the order of tokens, `runs` first.
    pub large: Vec<u8>,
    /// What is in no match.
    pub literals: Vec<u8>,
}

impl ShortMatches {
    /// Memory as of now, in bytes.
    pub fn memory(&self) -> usize {
        let ShortMatches { tokens, high, low, runs, lens, large, literals } = self;
        [tokens, high, low, runs, lens, large, literals].into_iter().map(Vec::capacity).sum()
    }

    /// Room for the matches and literals of `len` bytes, with all columns empty.
    fn make_room(&mut self, len: usize) {
        let matches = len / SHORT_LEAST + 1;
        let ShortMatches { tokens, high, low, runs, lens, large, literals } = self;
        for (column, most) in [
            (tokens, matches),
            (high, matches),
            (low, matches),
            (runs, len / (MORE_LITERALS + SHORT_LEAST) + 1),
            (lens, len / (SHORT_LEAST + MORE_LENGTH) + 1),
            (large, 3 * (len / ESCAPE + 1)),
            (literals, len + 32),
        ] {
            column.clear();
            // One more may be written than counts, and four bytes for three.
            column.reserve(most + 4);
        }
    }
}

/// Where the next byte of each column of [`ShortMatches`] goes.
#[derive(Clone, Copy)]
struct Ends {
    tokens: *mut u8,
    high: *mut u8,
    low: *mut u8,
    runs: *mut u8,
    lens: *mut u8,
    large: *mut u8,
    literals: *mut u8,
}

impl Ends {
    fn of(out: &mut ShortMatches) -> Ends {
        let ShortMatches { tokens, high, low, runs, lens, large, literals } = out;
        Ends {
            tokens: tokens.as_mut_ptr(),
            high: high.as_mut_ptr(),
            low: low.as_mut_ptr(),
            runs: runs.as_mut_ptr(),
            lens: lens.as_mut_ptr(),
            large: large.as_mut_ptr(),
            literals: literals.as_mut_ptr(),
        }
    }

    /// Appends the last `run` literals, and makes what was written count.
    ///
    /// # Safety
    /// As of [`Ends::push`]; the ends began as those of `out`, which was not changed since.
    unsafe fn end(mut self, from: *const u8, run: usize, out: &mut ShortMatches) {
        // SAFETY: there is room for all literals and 32 more.
        unsafe {
            copy_words(from, self.literals, run);
            self.literals = self.literals.add(run);
        }
        let ShortMatches { tokens, high, low, runs, lens, large, literals } = out;
        for (column, end) in [
            (tokens, self.tokens),
            (high, self.high),
            (low, self.low),
            (runs, self.runs),
            (lens, self.lens),
            (large, self.large),
            (literals, self.literals),
        ] {
            // SAFETY: `end` is in the column's allocation, and what is before it was written.
            unsafe {
                let len = end.offset_from(column.as_ptr()) as usize;
                column.set_len(len);
            }
        }
    }

    /// Appends a match of `len` bytes, at least 4, after the `run` literals at `from`.
    ///
    /// # Safety
    /// All matches and literals together have at most as many bytes as [`ShortMatches::make_room`]
    /// was told, and `from` has 31 bytes more than `run`.
    #[inline(always)]
    unsafe fn push(
        &mut self,
        from: *const u8,
        run: usize,
        len: usize,
        distance: usize,
        is_new: bool,
    ) {
        let more = len - SHORT_LEAST;
        let token = u8::from(is_new) << 7
            | (run.min(MORE_LITERALS) << 4) as u8
            | more.min(MORE_LENGTH) as u8;
        // SAFETY: there is room for a match and its literals in each column, and for one byte more
        // than counts; literals are followed by room for 32 more.
        unsafe {
            self.tokens.write(token);
            self.tokens = self.tokens.add(1);
            self.high.write((distance >> 8) as u8);
            self.high = self.high.add(usize::from(is_new));
            self.low.write(distance as u8);
            self.low = self.low.add(usize::from(is_new));
            copy_words(from, self.literals, run);
            self.literals = self.literals.add(run);
            if run >= MORE_LITERALS {
                put_more(run - MORE_LITERALS, &mut self.runs, &mut self.large);
            }
            if more >= MORE_LENGTH {
                put_more(more - MORE_LENGTH, &mut self.lens, &mut self.large);
            }
        }
    }
}

/// # Safety
/// There is room for one byte in `column`, and for four in `large`.
#[inline(always)]
unsafe fn put_more(value: usize, column: &mut *mut u8, large: &mut *mut u8) {
    // SAFETY: by the caller.
    unsafe {
        column.write(value.min(ESCAPE) as u8);
        *column = column.add(1);
        if value >= ESCAPE {
            large.cast::<[u8; 4]>().write_unaligned((value as u32).to_le_bytes());
            *large = large.add(3);
        }
    }
}

/// Finds short matches. Keeps its table from call to call.
#[derive(Clone, Debug)]
pub struct ShortSearch {
    /// Bits of an index.
    bits: u32,
    table: Vec<u32>,
    /// Of a deep search.
    long: Vec<u32>,
    is_deep: bool,
    last: u16,
}

impl ShortSearch {
    /// A search with a table of `2^bits` entries, 8 to 16, which is allocated when first used. A
    /// deep one has two, for short and for long matches, and looks whether a match that begins one
    /// byte later is better.
    pub fn new(bits: u32, is_deep: bool) -> ShortSearch {
        assert!((8..=16).contains(&bits), "8 to 16 bits");
        let (table, long) = (Vec::new(), Vec::new());
        ShortSearch { bits, table, long, is_deep, last: SHORT_FIRST_DISTANCE }
    }

    /// Forgets all positions.
    pub fn reset(&mut self) {
        self.table.fill(0);
        self.long.fill(0);
        self.last = SHORT_FIRST_DISTANCE;
    }

    /// Memory as of now, in bytes.
    pub fn memory(&self) -> usize {
        (self.table.capacity() + self.long.capacity()) * size_of::<u32>()
    }

    /// Memory in bytes, once used.
    pub fn most_memory(bits: u32, is_deep: bool) -> usize {
        size_of::<u32>() << bits << u32::from(is_deep)
    }

    /// Finds matches for `content[from..end]`, at most 2^24 bytes, each in what is before it in
    /// `content`, and puts them in `out`. What is before `from` was searched by the calls before;
    /// its first byte has `position` in all that was ever searched, modulo 2^16. `content` has at
    /// least [`SHORT_SLACK`] bytes from `end` on, on whose values the result may depend.
    pub fn search(
        &mut self,
        kernels: Kernels,
        content: &[u8],
        from: usize,
        end: usize,
        position: u16,
        out: &mut ShortMatches,
    ) {
        assert!(from <= end && end - from < 1 << 24 && end + SHORT_SLACK <= content.len());
        out.make_room(end - from);
        if self.table.is_empty() {
            self.table.resize(1 << self.bits, 0);
            if self.is_deep {
                self.long.resize(1 << self.bits, 0);
            }
        }
        match kernels.level() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: both levels include AVX2, BMI1, BMI2 and LZCNT, and `Kernels` holds a level
            // only if the machine has it.
            Level::Avx2 | Level::Avx512 => unsafe {
                search_avx2(self, content, from, end, position, out);
            },
            _ if self.is_deep => deep::<Portable>(self, content, from, end, position, out),
            _ => search::<Portable>(self, content, from, end, position, out),
        }
    }
}

/// Looks up 64 positions.
trait Probe {
    /// Enters positions `position..position + 64`, of which `bytes` begin at the first, in a table
    /// of `1 << bits` entries, by a hash of `H` bytes, in order. `old` becomes what their entries were; returned is which
    /// of these have the same tag.
    fn probe<const H: usize>(
        table: &mut [u32],
        bits: u32,
        bytes: &[u8; BATCH + 16],
        position: u16,
        old: &mut [u32; BATCH],
    ) -> u64;

    /// From which of the first 61 positions 4 bytes are equal.
    fn repeats(a: &[u8; BATCH], b: &[u8; BATCH]) -> u64;

    /// How many bytes agree of the 32 at each place.
    fn agree(a: &[u8; 32], b: &[u8; 32]) -> usize;
}

struct Portable;

/// Of the first `H` bytes, 5 to 8.
#[inline(always)]
fn hash<const H: usize>(bytes: &[u8; 8]) -> u32 {
    let word = u64::from_le_bytes(*bytes);
    (word as u32)
        .wrapping_mul(0x9e37_79b1)
        .wrapping_add(((word >> (8 * (H - 4))) as u32).wrapping_mul(0x85eb_ca77))
}

/// The index of a hash, and the entry of a position with it.
#[inline(always)]
fn entry(hash: u32, bits: u32, position: u16) -> (usize, u32) {
    ((hash >> (32 - bits)) as usize, hash << bits & 0xffff_0000 | u32::from(position))
}

impl Probe for Portable {
    #[inline(always)]
    fn probe<const H: usize>(
        table: &mut [u32],
        bits: u32,
        bytes: &[u8; BATCH + 16],
        position: u16,
        old: &mut [u32; BATCH],
    ) -> u64 {
        let mut same = 0;
        for (nth, window) in bytes.windows(8).take(BATCH).enumerate() {
            let Some(window) = window.first_chunk() else { break };
            let (index, new) = entry(hash::<H>(window), bits, position.wrapping_add(nth as u16));
            old[nth] = std::mem::replace(&mut table[index], new);
            same |= u64::from((old[nth] ^ new) >> 16 == 0) << nth;
        }
        same
    }

    #[inline(always)]
    fn repeats(a: &[u8; BATCH], b: &[u8; BATCH]) -> u64 {
        let equal =
            a.iter().zip(b).enumerate().fold(0, |mask, (i, (x, y))| mask | u64::from(x == y) << i);
        runs_of_four(equal)
    }

    #[inline(always)]
    fn agree(a: &[u8; 32], b: &[u8; 32]) -> usize {
        let (a, b) = (a.as_chunks::<8>().0, b.as_chunks::<8>().0);
        for (nth, (x, y)) in a.iter().zip(b).enumerate() {
            let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
            if difference != 0 {
                return 8 * nth + difference.trailing_zeros() as usize / 8;
            }
        }
        32
    }
}

#[inline(always)]
fn runs_of_four(equal: u64) -> u64 {
    let two = equal & equal >> 1;
    two & two >> 2
}

#[cfg(target_arch = "x86_64")]
struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Probe for Avx2 {
    #[inline(always)]
    fn probe<const H: usize>(
        table: &mut [u32],
        bits: u32,
        bytes: &[u8; BATCH + 16],
        position: u16,
        old: &mut [u32; BATCH],
    ) -> u64 {
        use std::arch::x86_64::*;
        assert!(table.len() == 1 << bits);
        let mut indices = [0u32; BATCH];
        let mut new = [0u32; BATCH];
        // SAFETY: only called from functions with AVX2. Loads are of 16 bytes at up to 56 of 80;
        // stores of 8 numbers at multiples of 8 up to 56 of 64. Indices have `bits` bits.
        unsafe {
            let first = _mm256_setr_epi8(
                0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6, 4, 5, 6, 7, 5, 6, 7, 8, 6, 7, 8, 9,
                7, 8, 9, 10,
            );
            let second = _mm256_add_epi8(first, _mm256_set1_epi8((H - 4) as i8));
            let factor = _mm256_set1_epi32(0x9e37_79b1_u32 as i32);
            let other = _mm256_set1_epi32(0x85eb_ca77_u32 as i32);
            let low = _mm256_set1_epi32(0xffff);
            let steps = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let (down, up) = (_mm_cvtsi32_si128(32 - bits as i32), _mm_cvtsi32_si128(bits as i32));
            for at in (0..BATCH).step_by(8) {
                let x = _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.as_ptr().add(at).cast()));
                let hash = _mm256_add_epi32(
                    _mm256_mullo_epi32(_mm256_shuffle_epi8(x, first), factor),
                    _mm256_mullo_epi32(_mm256_shuffle_epi8(x, second), other),
                );
                let start = _mm256_set1_epi32(i32::from(position) + at as i32);
                let positions = _mm256_and_si256(_mm256_add_epi32(start, steps), low);
                let tags = _mm256_andnot_si256(low, _mm256_sll_epi32(hash, up));
                let index = _mm256_srl_epi32(hash, down);
                _mm256_storeu_si256(indices.as_mut_ptr().add(at).cast(), index);
                _mm256_storeu_si256(
                    new.as_mut_ptr().add(at).cast(),
                    _mm256_or_si256(tags, positions),
                );
            }
            for nth in 0..BATCH {
                let slot = table.get_unchecked_mut(indices[nth] as usize);
                old[nth] = std::mem::replace(slot, new[nth]);
            }
            let mut same = 0;
            for at in (0..BATCH).step_by(8) {
                let x = _mm256_xor_si256(
                    _mm256_loadu_si256(old.as_ptr().add(at).cast()),
                    _mm256_loadu_si256(new.as_ptr().add(at).cast()),
                );
                let is_same = _mm256_cmpeq_epi32(_mm256_srli_epi32(x, 16), _mm256_setzero_si256());
                let bits = _mm256_movemask_ps(_mm256_castsi256_ps(is_same)) as u32;
                same |= u64::from(bits) << at;
            }
            same
        }
    }

    #[inline(always)]
    fn repeats(a: &[u8; BATCH], b: &[u8; BATCH]) -> u64 {
        use std::arch::x86_64::*;
        // SAFETY: only called from functions with AVX2; 32 bytes are read at 0 and 32 of 64.
        unsafe {
            let x = _mm256_loadu_si256(a.as_ptr().cast());
            let y = _mm256_loadu_si256(b.as_ptr().cast());
            let first = _mm256_movemask_epi8(_mm256_cmpeq_epi8(x, y)) as u32;
            let x = _mm256_loadu_si256(a.as_ptr().add(32).cast());
            let y = _mm256_loadu_si256(b.as_ptr().add(32).cast());
            let second = _mm256_movemask_epi8(_mm256_cmpeq_epi8(x, y)) as u32;
            runs_of_four(u64::from(first) | u64::from(second) << 32)
        }
    }

    #[inline(always)]
    fn agree(a: &[u8; 32], b: &[u8; 32]) -> usize {
        use std::arch::x86_64::*;
        // SAFETY: only called from functions with AVX2; both have 32 bytes.
        unsafe {
            let x = _mm256_loadu_si256(a.as_ptr().cast());
            let y = _mm256_loadu_si256(b.as_ptr().cast());
            let equal = _mm256_movemask_epi8(_mm256_cmpeq_epi8(x, y)) as u32;
            (!equal).trailing_zeros() as usize
        }
    }
}

/// # Safety
/// The machine must have AVX2, BMI1, BMI2 and LZCNT.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
unsafe fn search_avx2(
    state: &mut ShortSearch,
    content: &[u8],
    from: usize,
    end: usize,
    position: u16,
    out: &mut ShortMatches,
) {
    if state.is_deep {
        deep::<Avx2>(state, content, from, end, position, out);
    } else {
        search::<Avx2>(state, content, from, end, position, out);
    }
}

/// As many bytes as agree before `a` and `b`, at most 8 and `most`.
#[inline(always)]
fn agree_before(content: &[u8], a: usize, b: usize, most: usize) -> usize {
    let most = most.min(b);
    if let (Some(x), Some(y)) = (content[..a].last_chunk::<8>(), content[..b].last_chunk::<8>()) {
        let difference = u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        (difference.leading_zeros() as usize / 8).min(most)
    } else {
        (0..most).take_while(|&back| content[a - 1 - back] == content[b - 1 - back]).count()
    }
}

/// As many bytes as agree from `a` and from `b` below it on, before `a` reaches `end`.
#[inline(always)]
fn agree_from<P: Probe>(content: &[u8], a: usize, b: usize, end: usize) -> usize {
    let mut len = 0;
    while let (Some(x), Some(y)) =
        (content[a + len..].first_chunk(), content[b + len..].first_chunk())
    {
        let agree = P::agree(x, y);
        len += agree;
        if agree < 32 || a + len >= end {
            break;
        }
    }
    len.min(end - a)
}

/// From which positions of the batch 4 bytes are as `distance` before.
#[inline(always)]
fn repeats<P: Probe>(content: &[u8], batch: usize, here: &[u8; BATCH], distance: usize) -> u64 {
    if distance > batch {
        return 0;
    }
    match content[batch - distance..].first_chunk() {
        Some(there) => P::repeats(here, there),
        None => 0,
    }
}

/// The search, of which the caller has checked the arguments.
#[inline(always)]
fn search<P: Probe>(
    state: &mut ShortSearch,
    content: &[u8],
    from: usize,
    end: usize,
    position: u16,
    out: &mut ShortMatches,
) {
    let ShortSearch { bits, table, last, .. } = state;
    let bits = *bits;
    let mut old = [0; BATCH];
    let mut ends = Ends::of(out);
    let mut last_distance = usize::from(*last);
    // Up to where all is written, and the first position of the batch.
    let mut done = from;
    let mut batch = from;
    while batch < end {
        // There are as many: the slack has more.
        let Some(bytes) = content[batch..].first_chunk() else { break };
        let at_batch = position.wrapping_add(batch as u16);
        let mut found = P::probe::<HASHED>(table, bits, bytes, at_batch, &mut old);
        let Some(here) = bytes.first_chunk::<BATCH>() else { break };
        let left = left(batch, done, end);
        found &= left;
        let mut again = repeats::<P>(content, batch, here, last_distance) & left;
        while found | again != 0 {
            let nth = (found | again).trailing_zeros() as usize;
            let at = batch + nth;
            let distance = if again >> nth & 1 == 1 {
                last_distance
            } else {
                usize::from(at_batch.wrapping_add(nth as u16).wrapping_sub(old[nth] as u16))
            };
            let len = if distance.wrapping_sub(1) < at {
                agree_from::<P>(content, at, at - distance, end)
            } else {
                0
            };
            if len < SHORT_LEAST {
                let others = !(1u64 << nth);
                found &= others;
                again &= others;
                continue;
            }
            let back = agree_before(content, at, at - distance, at - done);
            let run = at - back - done;
            // SAFETY: matches and literals are those of `content[from..end]`, for which there is
            // room; `done + run` is below `end`, which has more than 31 bytes after it.
            unsafe {
                let literals = content.as_ptr().add(done);
                ends.push(literals, run, len + back, distance, distance != last_distance);
            }
            last_distance = distance;
            done = at + len;
            let passed = done - batch;
            if passed >= BATCH {
                break;
            }
            let after = left & u64::MAX << passed;
            found &= after;
            again = repeats::<P>(content, batch, here, last_distance) & after;
        }
        batch = next_batch(batch, done);
    }
    // SAFETY: as above; the rest are literals.
    unsafe { ends.end(content.as_ptr().add(done), end - done, out) };
    *last = last_distance as u16;
}

/// Which positions of the batch are not below `done` and not from `end` on.
#[inline(always)]
fn left(batch: usize, done: usize, end: usize) -> u64 {
    let from_done = match done.saturating_sub(batch) {
        passed @ 0..BATCH => u64::MAX << passed,
        _ => 0,
    };
    match end - batch {
        before @ 0..BATCH => from_done & ((1 << before) - 1),
        _ => from_done,
    }
}

/// The batch after `batch`, if all up to `done` is in matches.
#[inline(always)]
fn next_batch(mut batch: usize, done: usize) -> usize {
    // Where nothing was found for long, look at less.
    if done + 2048 < batch {
        return batch + BATCH * (1 + ((batch - done) >> 11).min(8));
    }
    batch += BATCH;
    while done >= batch + BATCH {
        batch += BATCH;
    }
    batch
}

/// A match that could be taken.
#[derive(Clone, Copy)]
struct Candidate {
    len: usize,
    distance: usize,
    /// What it saves, roughly, in quarters of a byte.
    gain: i32,
}

/// The deep search. It prefers what saves more to what comes first.
#[inline(always)]
fn deep<P: Probe>(
    state: &mut ShortSearch,
    content: &[u8],
    from: usize,
    end: usize,
    position: u16,
    out: &mut ShortMatches,
) {
    let ShortSearch { bits, table, long, last, .. } = state;
    let bits = *bits;
    let (mut old, mut old_long) = ([0; BATCH], [0; BATCH]);
    let mut ends = Ends::of(out);
    let mut last_distance = usize::from(*last);
    let mut done = from;
    let mut batch = from;
    while batch < end {
        let Some(bytes) = content[batch..].first_chunk() else { break };
        let at_batch = position.wrapping_add(batch as u16);
        let mut found = P::probe::<HASHED_SHORT>(table, bits, bytes, at_batch, &mut old);
        let mut found_long = P::probe::<HASHED_LONG>(long, bits, bytes, at_batch, &mut old_long);
        let Some(here) = bytes.first_chunk::<BATCH>() else { break };
        let left = left(batch, done, end);
        found &= left;
        found_long &= left;
        let mut again = repeats::<P>(content, batch, here, last_distance) & left;
        // The best match at the `nth` position.
        macro_rules! best {
            ($nth:expr) => {{
                let nth: usize = $nth;
                let (at, low) = (batch + nth, at_batch.wrapping_add(nth as u16));
                let mut best = Candidate { len: 0, distance: 0, gain: 0 };
                if again >> nth & 1 == 1 {
                    let len = agree_from::<P>(content, at, at - last_distance, end);
                    if len >= SHORT_LEAST {
                        let gain = 4 * len as i32 + 4;
                        best = Candidate { len, distance: last_distance, gain };
                    }
                }
                for (found, old) in [(found_long, &old_long), (found, &old)] {
                    let distance = usize::from(low.wrapping_sub(old[nth] as u16));
                    if found >> nth & 1 == 1
                        && distance.wrapping_sub(1) < at
                        && distance != best.distance
                    {
                        let len = agree_from::<P>(content, at, at - distance, end);
                        let gain = 4 * len as i32 - distance.ilog2() as i32;
                        if len > SHORT_LEAST && gain > best.gain {
                            best = Candidate { len, distance, gain };
                        }
                    }
                }
                best
            }};
        }
        loop {
            let any = found | found_long | again;
            if any == 0 {
                break;
            }
            let mut nth = any.trailing_zeros() as usize;
            let mut best = best!(nth);
            if best.gain <= 0 {
                let others = !(1u64 << nth);
                (found, found_long, again) = (found & others, found_long & others, again & others);
                continue;
            }
            // Whether to begin later is better.
            let mut tries = 0;
            while tries < 2 && nth + tries + 1 < BATCH {
                tries += 1;
                if any >> (nth + tries) & 1 == 1 {
                    let next = best!(nth + tries);
                    if next.gain > best.gain + 3 * tries as i32 {
                        best = next;
                        nth += tries;
                        tries = 0;
                    }
                }
            }
            let at = batch + nth;
            let Candidate { len, distance, .. } = best;
            let back = agree_before(content, at, at - distance, at - done);
            let run = at - back - done;
            // SAFETY: matches and literals are those of `content[from..end]`, for which there is
            // room; `done + run` is below `end`, which has more than 31 bytes after it.
            unsafe {
                let literals = content.as_ptr().add(done);
                ends.push(literals, run, len + back, distance, distance != last_distance);
            }
            last_distance = distance;
            done = at + len;
            let passed = done - batch;
            if passed >= BATCH {
                break;
            }
            let after = left & u64::MAX << passed;
            found &= after;
            found_long &= after;
            again = repeats::<P>(content, batch, here, last_distance) & after;
        }
        batch = next_batch(batch, done);
    }
    // SAFETY: as above; the rest are literals.
    unsafe { ends.end(content.as_ptr().add(done), end - done, out) };
    *last = last_distance as u16;
}

/// What of [`ShortMatches`] follows from its tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShortCounts {
    /// Distances that are stated.
    pub distances: usize,
    /// Bytes of `runs`.
    pub runs: usize,
    /// Bytes of `lens`.
    pub lens: usize,
    /// Sum of the matches' lengths, without what `lens` adds.
    pub matched: usize,
}

impl ShortCounts {
    /// Counts what at most 2^16 tokens need.
    pub fn of(tokens: &[u8]) -> ShortCounts {
        let mut counts = ShortCounts::default();
        // Few enough for sums of 16 bits.
        for tokens in tokens.chunks(2048) {
            let (mut distances, mut runs, mut lens, mut matched) = (0u16, 0u16, 0u16, 0u16);
            for &token in tokens {
                let len = u16::from(token & 15);
                distances += u16::from(token >> 7);
                runs += u16::from(token & 0x70 == 0x70);
                lens += u16::from(len == MORE_LENGTH as u16);
                matched += len + SHORT_LEAST as u16;
            }
            counts.distances += usize::from(distances);
            counts.runs += usize::from(runs);
            counts.lens += usize::from(lens);
            counts.matched += usize::from(matched);
        }
        counts
    }
}

/// The columns of [`ShortMatches`], to execute. `literals` is followed by [`SHORT_SLACK`] more
/// bytes, which count for nothing.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "as in ShortMatches")]
pub struct ShortColumns<'a> {
    pub tokens: &'a [u8],
    pub high: &'a [u8],
    pub low: &'a [u8],
    pub runs: &'a [u8],
    pub lens: &'a [u8],
    pub large: &'a [u8],
    pub literals: &'a [u8],
}

impl ShortColumns<'_> {
    /// Puts the content of the matches and all literals at `content[at..end]`, after what was put
    /// there before, and updates the distance of the last match. `content` has at least
    /// [`SHORT_SLACK`] bytes from `end` on, whose values are lost.
    ///
    /// Returns whether the columns give just that: otherwise they refer to what is not there, have
    /// too much or too little of something, or have another length.
    pub fn execute(
        &self,
        kernels: Kernels,
        content: &mut [u8],
        at: usize,
        end: usize,
        last: &mut u16,
    ) -> bool {
        if at > end
            || content.len() < end + SHORT_SLACK
            || self.literals.len() < SHORT_SLACK
            || self.low.len() != self.high.len()
        {
            return false;
        }
        match kernels.level() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: both levels include AVX2, BMI1, BMI2 and LZCNT, and `Kernels` holds a level
            // only if the machine has it.
            Level::Avx2 | Level::Avx512 => unsafe { execute_avx2(self, content, at, end, last) },
            _ => execute(self, content, at, end, last),
        }
    }
}

/// # Safety
/// The machine must have AVX2, BMI1, BMI2 and LZCNT.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
unsafe fn execute_avx2(
    columns: &ShortColumns<'_>,
    content: &mut [u8],
    at: usize,
    end: usize,
    last: &mut u16,
) -> bool {
    execute(columns, content, at, end, last)
}

/// The value of a byte of `column`, with what follows it in `large`.
#[inline(always)]
fn take_more(column: &mut &[u8], large: &mut &[u8]) -> Option<usize> {
    let (&value, rest) = column.split_first()?;
    *column = rest;
    if usize::from(value) < ESCAPE {
        return Some(value.into());
    }
    let (&[a, b, c], rest) = large.split_first_chunk()?;
    *large = rest;
    Some(u32::from_le_bytes([a, b, c, 0]) as usize)
}

/// Copies `len` bytes in words of 32. What follows them in `to` is lost, up to 31 bytes.
///
/// # Safety
/// Both have at least `len` bytes, rounded up to the next multiple of 32 and at least 32; `from`
/// is at least 32 bytes before `to`, or they do not overlap.
#[inline(always)]
unsafe fn copy_words(from: *const u8, to: *mut u8, len: usize) {
    let mut done = 0;
    loop {
        // SAFETY: within what the caller vouches for.
        unsafe {
            let word = from.add(done).cast::<[u8; 32]>().read_unaligned();
            to.add(done).cast::<[u8; 32]>().write_unaligned(word);
        }
        done += 32;
        if done >= len {
            return;
        }
    }
}

#[inline(always)]
fn execute(
    columns: &ShortColumns<'_>,
    content: &mut [u8],
    at: usize,
    end: usize,
    last: &mut u16,
) -> bool {
    let ShortColumns { tokens, high, low, mut runs, mut lens, mut large, literals } = *columns;
    let literals_end = literals.len() - SHORT_SLACK;
    let mut distance = usize::from(*last);
    let (mut to, mut from, mut stated) = (at, 0, 0);
    let base = content.as_mut_ptr();
    for &token in tokens {
        let mut run = usize::from(token >> 4) & MORE_LITERALS;
        let mut len = usize::from(token) & MORE_LENGTH;
        if token & 0x80 != 0 {
            let (Some(&high), Some(&low)) = (high.get(stated), low.get(stated)) else {
                return false;
            };
            distance = usize::from(high) << 8 | usize::from(low);
            stated += 1;
        }
        if run == MORE_LITERALS {
            match take_more(&mut runs, &mut large) {
                Some(more) => run += more,
                None => return false,
            }
        }
        if len == MORE_LENGTH {
            match take_more(&mut lens, &mut large) {
                Some(more) => len += more,
                None => return false,
            }
        }
        len += SHORT_LEAST;
        // Both sums are below 2^26.
        let is_there = run <= literals_end - from
            && run + len <= end - to
            && distance.wrapping_sub(1) < to + run;
        if !is_there {
            return false;
        }
        // SAFETY: `from + run` and `to + run + len` are at most `literals_end` and `end`, which have
        // 64 bytes after them, so whole words of 32 may be read and written; the source begins at
        // least at the first byte of `content` and below the match.
        unsafe {
            copy_words(literals.as_ptr().add(from), base.add(to), run);
            from += run;
            to += run;
            let (begin, source) = (base.add(to), base.add(to).sub(distance));
            if distance >= 32 {
                copy_words(source, begin, len);
            } else {
                repeat(source, begin, distance, len);
            }
        }
        to += len;
    }
    let tail = literals_end - from;
    let is_whole = tail == end - to
        && stated == high.len()
        && runs.is_empty()
        && lens.is_empty()
        && large.is_empty();
    if is_whole {
        content[to..end].copy_from_slice(&literals[from..literals_end]);
        *last = distance as u16;
    }
    is_whole
}

/// Copies `len` bytes from less than 32 bytes before: they repeat.
///
/// # Safety
/// `from` is `distance` bytes before `to`, at least one; `to` has `len` bytes and 64 more.
#[inline(always)]
unsafe fn repeat(from: *const u8, to: *mut u8, distance: usize, len: usize) {
    let (mut done, mut step) = (0, distance);
    // What is there since `from` are whole periods, so it may be copied as a whole, and doubles.
    while step < 16 && done < len {
        // SAFETY: 16 bytes are read from before `to + len`, and written at most 15 beyond that.
        // What is written beyond `step` bytes is written again, before it is read.
        unsafe {
            let word = from.cast::<[u8; 16]>().read_unaligned();
            to.add(done).cast::<[u8; 16]>().write_unaligned(word);
        }
        done += step;
        step *= 2;
    }
    while done < len {
        // SAFETY: the source is at least 16 bytes before; 16 bytes are written from below
        // `to + len`.
        unsafe {
            let word = to.add(done).sub(step).cast::<[u8; 16]>().read_unaligned();
            to.add(done).cast::<[u8; 16]>().write_unaligned(word);
        }
        done += 16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Text of few words, with runs and with noise.
    fn content() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            4 => (0usize..12).prop_map(|word| {
                let words = ["the ", "wire ", "of ", "content", "log; ", "abcabcabc", "0", "--\n", "x", "sent once ", "block", ", "];
                words[word].as_bytes().to_vec()
            }),
            1 => (any::<u8>(), 1usize..400).prop_map(|(byte, len)| vec![byte; len]),
            1 => proptest::collection::vec(any::<u8>(), 1..200),
        ];
        let most = if cfg!(miri) { 8 } else { 400 };
        proptest::collection::vec(piece, 0..most).prop_map(|pieces| pieces.concat())
    }

    fn columns<'a>(found: &'a ShortMatches, literals: &'a [u8]) -> ShortColumns<'a> {
        let ShortMatches { tokens, high, low, runs, lens, large, .. } = found;
        ShortColumns { tokens, high, low, runs, lens, large, literals }
    }

    fn with_slack(bytes: &[u8]) -> Vec<u8> {
        [bytes, &[0; SHORT_SLACK]].concat()
    }

    proptest! {
        #[test]
        fn every_level_finds_the_same_and_it_comes_back(content in content(), cut in 0usize..5000, position: u16, is_deep: bool) {
            let cut = cut.min(content.len());
            let mut all = Vec::new();
            for kernels in Kernels::available() {
                let mut search = ShortSearch::new(12, is_deep);
                let (mut first, mut second) = (ShortMatches::default(), ShortMatches::default());
                let padded = with_slack(&content);
                search.search(kernels, &padded, 0, cut, position, &mut first);
                search.search(kernels, &padded, cut, content.len(), position, &mut second);
                let mut back = vec![0; content.len() + SHORT_SLACK];
                let mut last = SHORT_FIRST_DISTANCE;
                for (found, at, end) in [(&first, 0, cut), (&second, cut, content.len())] {
                    let counts = ShortCounts::of(&found.tokens);
                    prop_assert_eq!(counts.distances, found.low.len());
                    prop_assert_eq!((counts.runs, counts.lens), (found.runs.len(), found.lens.len()));
                    let literals = with_slack(&found.literals);
                    prop_assert!(columns(found, &literals).execute(kernels, &mut back, at, end, &mut last));
                }
                prop_assert_eq!(&back[..content.len()], &content);
                all.push((format!("{second:?}"), last));
            }
            prop_assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
        }

        #[test]
        fn garbage_is_refused_or_gives_the_same_at_every_level(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 7),
            at in 0usize..300,
            len in 0usize..600,
            last: u16,
        ) {
            let literals = with_slack(&parts[6]);
            let low = &parts[2][..parts[1].len().min(parts[2].len())];
            let columns = ShortColumns {
                tokens: &parts[0],
                high: &parts[1][..low.len()],
                low,
                runs: &parts[3],
                lens: &parts[4],
                large: &parts[5],
                literals: &literals,
            };
            let results: Vec<_> = Kernels::available()
                .map(|kernels| {
                    let mut last = last;
                    let mut content = vec![7; at + len + SHORT_SLACK];
                    let done = columns.execute(kernels, &mut content, at, at + len, &mut last);
                    (done, done.then_some((last, content[..at + len].to_vec())))
                })
                .collect();
            prop_assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
        }
    }

    #[test]
    fn what_is_too_much_or_too_little_is_refused() {
        let text = b"abcdefgh abcdefgh abcdefgh 12345 abcdefgh";
        let mut found = ShortMatches::default();
        let kernels = Kernels::detect();
        ShortSearch::new(12, false).search(
            kernels,
            &with_slack(text),
            0,
            text.len(),
            0,
            &mut found,
        );
        assert!(!found.tokens.is_empty());
        let literals = with_slack(&found.literals);
        let run = |columns: ShortColumns<'_>, end: usize| {
            let mut content = vec![0; 400];
            let mut last = SHORT_FIRST_DISTANCE;
            columns.execute(kernels, &mut content, 0, end, &mut last)
        };
        let good = columns(&found, &literals);
        assert!(run(good, text.len()));
        assert!(!run(good, text.len() - 1) && !run(good, text.len() + 1));
        assert!(!run(ShortColumns { runs: &[0, 0, 0, 0, 0, 0, 0, 0], ..good }, text.len()));
        assert!(!run(ShortColumns { large: &[0], ..good }, text.len()));
        assert!(!run(ShortColumns { literals: &literals[1..], ..good }, text.len()));
        assert!(!run(ShortColumns { tokens: &good.tokens[1..], ..good }, text.len()));
    }
}
