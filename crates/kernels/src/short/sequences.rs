//! Short matches of content whose long matches are known, for formats that have one list of both.
//!
//! As the search among literals, but distances are those of content, entries of the table have 20
//! bits of a position and 12 of a tag, and only what is in no long match is looked up and entered.

#[cfg(target_arch = "x86_64")]
use super::probe::Avx2;
use super::probe::{Portable, Probe};
use super::search::{agree_before, agree_from, left, next_batch, repeats};
use super::{
    BATCH, HASHED, HASHED_LONG, HASHED_SHORT, LONG_ENOUGH, SHORT_LEAST, SHORT_SLACK, ShortEffort,
};
use crate::Kernels;
#[cfg(target_arch = "x86_64")]
use crate::Level;

/// A match, and the literals before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sequence {
    /// Bytes before the match that are in none.
    pub literals: u32,
    /// Length of the match in bytes.
    pub len: u32,
    /// How far back it is found, in bytes.
    pub distance: u32,
}

/// Bits of a position in an entry, so the farthest match is 2^20 bytes back.
const PLACE: u32 = 20;
const PLACES: u32 = (1 << PLACE) - 1;

/// Finds short matches between long ones. Keeps its table from call to call.
#[derive(Clone, Debug)]
pub struct SequenceSearch {
    /// Bits of an index.
    bits: u32,
    table: Vec<u32>,
    /// Of a deep search.
    long: Vec<u32>,
    effort: ShortEffort,
    last: usize,
}

impl SequenceSearch {
    /// A search with a table of `2^bits` entries, 8 to 18, or two, which are allocated when first
    /// used.
    pub fn new(bits: u32, effort: ShortEffort) -> SequenceSearch {
        assert!((8..=18).contains(&bits), "8 to 18 bits");
        SequenceSearch { bits, table: Vec::new(), long: Vec::new(), effort, last: 1 }
    }

    /// Forgets all positions.
    pub fn reset(&mut self) {
        self.table.fill(0);
        self.long.fill(0);
        self.last = 1;
    }

    /// Appends the matches of `content[from..end]` to `out`: the `known` ones, and short ones among
    /// the literals between and after them, each in what is before it in `content`. The literals
    /// after the last match follow from the lengths. What is before `from` was searched by the calls
    /// before. `content` has at least [`SHORT_SLACK`] bytes from `end` on, on whose values the
    /// result may depend.
    ///
    /// # Panics
    /// If `known` is longer than the content, or the slack is missing.
    pub fn search(
        &mut self,
        kernels: Kernels,
        content: &[u8],
        from: usize,
        end: usize,
        known: &[Sequence],
        out: &mut Vec<Sequence>,
    ) {
        assert!(from <= end && end + SHORT_SLACK <= content.len());
        if self.table.is_empty() {
            self.table.resize(1 << self.bits, 0);
            if self.effort.is_deep() {
                self.long.resize(1 << self.bits, 0);
            }
        }
        match kernels.level() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: both levels include AVX2, BMI1, BMI2 and LZCNT, and `Kernels` holds a level
            // only if the machine has it.
            Level::Avx2 | Level::Avx512 => unsafe {
                search_avx2(self, content, from, end, known, out);
            },
            _ => search_all::<Portable>(self, content, from, end, known, out),
        }
    }
}

/// # Safety
/// The machine must have AVX2, BMI1, BMI2 and LZCNT.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
unsafe fn search_avx2(
    state: &mut SequenceSearch,
    content: &[u8],
    from: usize,
    end: usize,
    known: &[Sequence],
    out: &mut Vec<Sequence>,
) {
    search_all::<Avx2>(state, content, from, end, known, out);
}

#[inline(always)]
fn search_all<P: Wide>(
    state: &mut SequenceSearch,
    content: &[u8],
    from: usize,
    end: usize,
    known: &[Sequence],
    out: &mut Vec<Sequence>,
) {
    let mut at = from;
    for next in known {
        let gap = at + next.literals as usize;
        assert!(gap + next.len as usize <= end, "known matches are part of the content");
        let done = search_gap::<P>(state, content, at, gap, out);
        out.push(Sequence { literals: (gap - done) as u32, ..*next });
        state.last = next.distance as usize;
        at = gap + next.len as usize;
    }
    search_gap::<P>(state, content, at, end, out);
}

/// Returns the end of the last match, or `from`.
#[inline(always)]
fn search_gap<P: Wide>(
    state: &mut SequenceSearch,
    content: &[u8],
    from: usize,
    end: usize,
    out: &mut Vec<Sequence>,
) -> usize {
    if end - from < SHORT_LEAST {
        return from;
    }
    match state.effort {
        ShortEffort::Fast => fast::<P>(state, content, from, end, out),
        ShortEffort::Lazy => lazy::<P, false>(state, content, from, end, out),
        ShortEffort::Deep => lazy::<P, true>(state, content, from, end, out),
    }
}

/// Appends the match of `len` bytes at `at`, which is grown backwards as far as `done`. Returns its
/// end.
#[inline(always)]
fn append(
    out: &mut Vec<Sequence>,
    content: &[u8],
    done: usize,
    at: usize,
    len: usize,
    distance: usize,
) -> usize {
    let back = agree_before(content, at, at - distance, at - done);
    out.push(Sequence {
        literals: (at - back - done) as u32,
        len: (len + back) as u32,
        distance: distance as u32,
    });
    at + len
}

/// How far back the place of an entry is.
#[inline(always)]
fn distance(at: usize, old: u32) -> usize {
    (at as u32).wrapping_sub(old) as usize & PLACES as usize
}

#[inline(always)]
fn fast<P: Wide>(
    state: &mut SequenceSearch,
    content: &[u8],
    from: usize,
    end: usize,
    out: &mut Vec<Sequence>,
) -> usize {
    let SequenceSearch { bits, table, last, .. } = state;
    let mut old = [0; BATCH];
    let mut done = from;
    let mut batch = from;
    while batch < end {
        // There are as many: the slack has more.
        let Some(bytes) = content[batch..].first_chunk() else { break };
        let count = (end - batch).min(BATCH);
        let mut found = P::look_up::<HASHED>(table, *bits, bytes, batch as u32, count, &mut old);
        let Some(here) = bytes.first_chunk::<BATCH>() else { break };
        let left = left(batch, done, end);
        found &= left;
        let mut again = repeats::<P>(content, batch, here, *last) & left;
        while found | again != 0 {
            let nth = (found | again).trailing_zeros() as usize;
            let at = batch + nth;
            let back = if again >> nth & 1 == 1 { *last } else { distance(at, old[nth]) };
            let len = if back.wrapping_sub(1) < at {
                agree_from::<P>(content, at, at - back, end)
            } else {
                0
            };
            if len < SHORT_LEAST {
                let others = !(1u64 << nth);
                found &= others;
                again &= others;
                continue;
            }
            done = append(out, content, done, at, len, back);
            *last = back;
            let passed = done - batch;
            if passed >= BATCH {
                break;
            }
            let after = left & u64::MAX << passed;
            found &= after;
            again = repeats::<P>(content, batch, here, *last) & after;
        }
        batch = next_batch(batch, done);
    }
    done
}

/// A match that could be taken.
#[derive(Clone, Copy)]
struct Candidate {
    len: usize,
    distance: usize,
    /// What it saves, roughly, in quarters of a byte.
    gain: i32,
}

/// Prefers what saves more to what comes first.
#[inline(always)]
fn lazy<P: Wide, const DEEP: bool>(
    state: &mut SequenceSearch,
    content: &[u8],
    from: usize,
    end: usize,
    out: &mut Vec<Sequence>,
) -> usize {
    let SequenceSearch { bits, table, long, last, .. } = state;
    let (mut old, mut old_long) = ([0; BATCH], [0; BATCH]);
    let mut done = from;
    let mut batch = from;
    while batch < end {
        let Some(bytes) = content[batch..].first_chunk() else { break };
        let (count, place) = ((end - batch).min(BATCH), batch as u32);
        let (mut found, mut found_long) = if DEEP {
            (
                P::look_up::<HASHED_SHORT>(table, *bits, bytes, place, count, &mut old),
                P::look_up::<HASHED_LONG>(long, *bits, bytes, place, count, &mut old_long),
            )
        } else {
            (P::look_up::<HASHED>(table, *bits, bytes, place, count, &mut old), 0)
        };
        let Some(here) = bytes.first_chunk::<BATCH>() else { break };
        let left = left(batch, done, end);
        found &= left;
        found_long &= left;
        let mut again = repeats::<P>(content, batch, here, *last) & left;
        // The best match at the `nth` position.
        macro_rules! best {
            ($nth:expr) => {{
                let nth: usize = $nth;
                let at = batch + nth;
                let mut best = Candidate { len: 0, distance: 0, gain: 0 };
                if again >> nth & 1 == 1 {
                    let len = agree_from::<P>(content, at, at - *last, end);
                    if len >= SHORT_LEAST {
                        best = Candidate { len, distance: *last, gain: 4 * len as i32 + 4 };
                    }
                }
                for (found, old) in [(found_long, &old_long), (found, &old)] {
                    let back = distance(at, old[nth]);
                    if found >> nth & 1 == 1 && back.wrapping_sub(1) < at && back != best.distance {
                        let len = agree_from::<P>(content, at, at - back, end);
                        let gain = 4 * len as i32 - back.ilog2() as i32;
                        if len > SHORT_LEAST && gain > best.gain {
                            best = Candidate { len, distance: back, gain };
                            // The other table rarely has a longer one.
                            break;
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
            while tries < 2 && nth + tries + 1 < BATCH && best.len < LONG_ENOUGH {
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
            done = append(out, content, done, batch + nth, best.len, best.distance);
            *last = best.distance;
            let passed = done - batch;
            if passed >= BATCH {
                break;
            }
            let after = left & u64::MAX << passed;
            found &= after;
            found_long &= after;
            again = repeats::<P>(content, batch, here, *last) & after;
        }
        batch = next_batch(batch, done);
    }
    done
}

/// Looks up up to 64 positions in a table of wide entries.
trait Wide: Probe {
    /// Enters positions `place..place + count`, and up to 7 more, of which `bytes` begin at the
    /// first, in a table of `1 << bits` entries, by a hash of `H` bytes, in order. `old` becomes
    /// what their entries were; returned is which of these have the same tag.
    fn look_up<const H: usize>(
        table: &mut [u32],
        bits: u32,
        bytes: &[u8; BATCH + 16],
        place: u32,
        count: usize,
        old: &mut [u32; BATCH],
    ) -> u64;
}

impl Wide for Portable {
    #[inline(always)]
    fn look_up<const H: usize>(
        table: &mut [u32],
        bits: u32,
        bytes: &[u8; BATCH + 16],
        place: u32,
        count: usize,
        old: &mut [u32; BATCH],
    ) -> u64 {
        let mut same = 0;
        for (nth, window) in bytes.windows(8).take(count.next_multiple_of(8)).enumerate() {
            let Some(window) = window.first_chunk() else { break };
            let hash = super::probe::hash::<H>(window);
            let new = hash << bits & !PLACES | place.wrapping_add(nth as u32) & PLACES;
            old[nth] = std::mem::replace(&mut table[(hash >> (32 - bits)) as usize], new);
            same |= u64::from((old[nth] ^ new) >> PLACE == 0) << nth;
        }
        same
    }
}

#[cfg(target_arch = "x86_64")]
impl Wide for Avx2 {
    #[inline(always)]
    fn look_up<const H: usize>(
        table: &mut [u32],
        bits: u32,
        bytes: &[u8; BATCH + 16],
        place: u32,
        count: usize,
        old: &mut [u32; BATCH],
    ) -> u64 {
        use std::arch::x86_64::*;
        assert!(table.len() == 1 << bits && count <= BATCH);
        let mut indices = [0u32; 8];
        let mut new = [0u32; 8];
        let mut same = 0;
        // SAFETY: only called from functions with AVX2. Loads are of 16 bytes at up to 56 of 80,
        // and of 8 numbers at multiples of 8 up to 56 of 64. Indices have `bits` bits.
        unsafe {
            let first = _mm256_setr_epi8(
                0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6, 4, 5, 6, 7, 5, 6, 7, 8, 6, 7, 8, 9,
                7, 8, 9, 10,
            );
            let second = _mm256_add_epi8(first, _mm256_set1_epi8((H - 4) as i8));
            let factor = _mm256_set1_epi32(0x9e37_79b1_u32 as i32);
            let other = _mm256_set1_epi32(0x85eb_ca77_u32 as i32);
            let low = _mm256_set1_epi32(PLACES as i32);
            let steps = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            let (down, up) = (_mm_cvtsi32_si128(32 - bits as i32), _mm_cvtsi32_si128(bits as i32));
            for at in (0..count).step_by(8) {
                let x = _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.as_ptr().add(at).cast()));
                let hash = _mm256_add_epi32(
                    _mm256_mullo_epi32(_mm256_shuffle_epi8(x, first), factor),
                    _mm256_mullo_epi32(_mm256_shuffle_epi8(x, second), other),
                );
                let start = _mm256_set1_epi32(place.wrapping_add(at as u32) as i32);
                let places = _mm256_and_si256(_mm256_add_epi32(start, steps), low);
                let tags = _mm256_andnot_si256(low, _mm256_sll_epi32(hash, up));
                let entries = _mm256_or_si256(tags, places);
                _mm256_storeu_si256(indices.as_mut_ptr().cast(), _mm256_srl_epi32(hash, down));
                _mm256_storeu_si256(new.as_mut_ptr().cast(), entries);
                for nth in 0..8 {
                    let slot = table.get_unchecked_mut(indices[nth] as usize);
                    old[at + nth] = std::mem::replace(slot, new[nth]);
                }
                let before = _mm256_loadu_si256(old.as_ptr().add(at).cast());
                let tag = _mm256_srli_epi32(_mm256_xor_si256(before, entries), PLACE as i32);
                let is_same = _mm256_cmpeq_epi32(tag, _mm256_setzero_si256());
                same |= u64::from(_mm256_movemask_ps(_mm256_castsi256_ps(is_same)) as u32) << at;
            }
        }
        same
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;
    use crate::short::tests::{content, effort, with_slack};
    use proptest::prelude::*;

    /// What the sequences say, if `content` is known before `from`; up to `end`.
    fn executed(content: &[u8], from: usize, end: usize, sequences: &[Sequence]) -> Vec<u8> {
        let mut back = content[..from].to_vec();
        for &Sequence { literals, len, distance } in sequences {
            back.extend_from_slice(&content[back.len()..][..literals as usize]);
            for _ in 0..len {
                back.push(back[back.len() - distance as usize]);
            }
        }
        back.extend_from_slice(&content[back.len()..end]);
        back
    }

    /// Some repeats of `content[from..end]`, at a distance.
    fn known(content: &[u8], from: usize, end: usize, distance: usize) -> Vec<Sequence> {
        let (mut at, mut done, mut known) = (from.max(distance), from, Vec::new());
        while at < end {
            let len = (at..end).take_while(|&at| content[at] == content[at - distance]).count();
            if len >= 12 {
                let literals = (at - done) as u32;
                known.push(Sequence { literals, len: len as u32, distance: distance as u32 });
                done = at + len;
            }
            at += len + 1;
        }
        known
    }

    proptest! {
        #[test]
        fn every_level_finds_the_same_and_it_comes_back(
            content in content(), cut in 0usize..5000, distance in 1usize..300, effort in effort(),
        ) {
            let cut = cut.min(content.len());
            let padded = with_slack(&content);
            let mut all = Vec::new();
            for kernels in Kernels::available() {
                let mut search = SequenceSearch::new(12, effort);
                let mut out = Vec::new();
                for (from, end) in [(0, cut), (cut, content.len())] {
                    out.clear();
                    let known = known(&content, from, end, distance);
                    search.search(kernels, &padded, from, end, &known, &mut out);
                    prop_assert_eq!(&executed(&content, from, end, &out), &content[..end]);
                    prop_assert!(out.iter().all(|found| found.len >= 4 && found.distance > 0));
                    prop_assert!(out.len() >= known.len());
                }
                all.push(out);
            }
            prop_assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
        }
    }

    #[test]
    fn what_is_far_back_is_found() {
        let text = SplitMix64(1).bytes(300_000);
        let both = [&text[..2000], &text[60_000..200_000], &text[..2000]].concat();
        for effort in [ShortEffort::Fast, ShortEffort::Lazy, ShortEffort::Deep] {
            let mut search = SequenceSearch::new(18, effort);
            let mut out = Vec::new();
            let padded = with_slack(&both);
            search.search(Kernels::detect(), &padded, 0, both.len(), &[], &mut out);
            let matched: u32 = out.iter().map(|found| found.len).sum();
            assert!(out.iter().any(|found| found.distance == 142_000), "{out:?}");
            // In noise, not every place is looked at.
            assert!(matched >= 1300, "{matched}");
        }
    }
}
