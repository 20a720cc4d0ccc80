//! Short matches to literals.

use super::{ESCAPE, MORE_LENGTH, MORE_LITERALS, SHORT_LEAST, SHORT_SLACK};
use crate::Kernels;
#[cfg(target_arch = "x86_64")]
use crate::Level;

/// What of [`ShortMatches`](super::ShortMatches) follows from its tokens.
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
    /// What tokens need.
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

/// The columns of [`ShortMatches`](super::ShortMatches), to execute. `literals` is followed by
/// [`SHORT_SLACK`] more bytes, which count for nothing.
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
pub(super) unsafe fn copy_words(from: *const u8, to: *mut u8, len: usize) {
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

/// Copies 8 bytes.
///
/// # Safety
/// Both have as many.
#[inline(always)]
unsafe fn copy_word(from: *const u8, to: *mut u8) {
    // SAFETY: by the caller.
    unsafe { to.cast::<u64>().write_unaligned(from.cast::<u64>().read_unaligned()) }
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
            let (literals, mut begin) = (literals.as_ptr().add(from), base.add(to));
            if run < MORE_LITERALS {
                copy_word(literals, begin);
            } else {
                copy_words(literals, begin, run);
            }
            begin = begin.add(run);
            let source = begin.sub(distance);
            if distance < 8 {
                repeat(source, begin, distance, len);
            } else if len < SHORT_LEAST + MORE_LENGTH {
                copy_word(source, begin);
                copy_word(source.add(8), begin.add(8));
                copy_word(source.add(16), begin.add(16));
            } else if distance >= 32 {
                copy_words(source, begin, len);
            } else {
                repeat(source, begin, distance, len);
            }
        }
        from += run;
        to += run;
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
