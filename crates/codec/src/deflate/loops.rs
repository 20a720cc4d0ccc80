//! The loops that most of the time of looking inside is spent in. Compiled for BMI2, too, by
//! [`oncewire_kernels`].
//!
//! Nothing predicts whether a literal or a copy is next, so they go from symbol to symbol without
//! a branch: after a length, the next symbol is looked up among the distances.

use super::bits::{BitReader, BitWriter};
use super::code::{Entry, HAS_WORD};
use super::{Code, Stop, Token};
use oncewire_kernels::{BitWork, Kernels};

/// Symbols read in a row: two have no more bits than a token, or two literals.
const TOGETHER: usize = 2;
/// Tokens that are kept on the stack, and by how many more may be read.
const BATCH: usize = 64;
const SPARE: usize = TOGETHER - 1;
/// The fewest bits that a load gives.
const LOADED: u64 = 57;
/// The most bits of a code word.
const WORD: u64 = 15;

/// The bits of `data` from `position` on, at least [`LOADED`]; `None` near the end.
#[inline(always)]
fn load(data: &[u8], position: u64) -> Option<u64> {
    let at = (position / 8) as usize;
    let bytes = data.get(at..at + 8)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*bytes) >> (position % 8))
}

/// Reads tokens, and where each of them begins: in bits, with `base` added. `starts`
/// has one place more than `tokens`, for where the last one ends. Returns their number, and what comes next if that is no token.
///
/// After [`Stop::End`], the reader is behind the end-of-block symbol; otherwise, behind the last
/// token.
pub(super) struct ReadTokens<'r, 'a> {
    pub(super) reader: &'r mut BitReader<'a>,
    pub(super) code: &'r Code,
    pub(super) tokens: &'r mut [Token],
    pub(super) starts: &'r mut [u32],
    pub(super) base: u32,
}

impl BitWork for ReadTokens<'_, '_> {
    type Output = (usize, Option<Stop>);

    #[inline(always)]
    fn run(self) -> (usize, Option<Stop>) {
        let ReadTokens { reader, code, tokens, starts, base } = self;
        let most = tokens.len();
        let data = reader.data;
        let first = reader.position();
        starts[0] = (first as u32).wrapping_add(base);
        let mut position = first;
        // What is known of a token of which the distance is to come, and all ones if that is so.
        let (mut begun, mut is_distance) = (0, 0);
        let mut count = 0;
        // The next bits. What the first look-up needs of them was loaded before, so that it need
        // not wait for the load: each symbol has to wait for the one before already.
        let mut bits = load(data, position).unwrap_or(0);
        // Places of fixed number, so that nothing must be compared with the end of a slice.
        let mut some = [Token(0); BATCH + SPARE];
        let mut ends = [0; BATCH + SPARE];
        let mut goes_on = true;
        while goes_on && count < most {
            let begin = BATCH - (most - count).min(BATCH);
            let mut done = begin;
            goes_on = 'some: {
                while done < BATCH {
                    let Some(loaded) = load(data, position) else { break 'some false };
                    let before = position;
                    for nth in 0..TOGETHER {
                        let entry = code.entry(bits, is_distance);
                        if entry.is_special() {
                            break 'some false;
                        }
                        bits = if nth == 0 { loaded } else { bits };
                        let token = begun + entry.value(entry.extra(bits));
                        bits = entry.after(bits);
                        position += u64::from(entry.bits());
                        is_distance = entry.length_mask();
                        some[done] = Token(token);
                        ends[done] = position as u32;
                        begun = token & is_distance;
                        done =
                            done.wrapping_add(1).wrapping_add_signed(is_distance as i32 as isize);
                    }
                    if position - before > LOADED - WORD {
                        let Some(loaded) = load(data, position) else { break 'some false };
                        bits = loaded;
                    }
                }
                true
            };
            let read = (done - begin).min(most - count);
            tokens[count..count + read].copy_from_slice(&some[begin..begin + read]);
            for (start, end) in starts[count + 1..].iter_mut().zip(&ends[begin..begin + read]) {
                *start = end.wrapping_add(base);
            }
            count += read;
        }
        // Back to the end of the last token that is complete and wanted.
        let consumed = starts[count].wrapping_sub((first as u32).wrapping_add(base));
        *reader = BitReader::new(data, first + u64::from(consumed));
        let stop = loop {
            if count == most {
                break None;
            }
            let before = reader.clone();
            let token = reader.token(code);
            if reader.is_past_end() {
                *reader = before;
                break Some(Stop::Short);
            }
            match token {
                Ok(token) => {
                    tokens[count] = token;
                    count += 1;
                    starts[count] = (reader.position() as u32).wrapping_add(base);
                }
                Err(stop) => {
                    if stop != Stop::End {
                        *reader = before;
                    }
                    break Some(stop);
                }
            }
        };
        (count, stop)
    }
}

/// Copies `count` tokens: reads them with one code and writes them with another. Returns whether
/// there were so many, the other code has their symbols, and there was room. Whether `from` went
/// past its end is for the caller to see.
#[must_use]
pub(crate) fn transcode(
    from: &mut BitReader<'_>,
    source: &Code,
    to: &mut BitWriter<'_>,
    target: &Code,
    count: u64,
) -> bool {
    transcode_by(Kernels::detect(), from, source, to, target, count)
}

/// The same by given kernels.
pub(super) fn transcode_by(
    kernels: Kernels,
    from: &mut BitReader<'_>,
    source: &Code,
    to: &mut BitWriter<'_>,
    target: &Code,
    count: u64,
) -> bool {
    kernels.bit_work(Transcode { from, source, to, target, count })
}

struct Transcode<'r, 'a, 'o> {
    from: &'r mut BitReader<'a>,
    source: &'r Code,
    to: &'r mut BitWriter<'o>,
    target: &'r Code,
    count: u64,
}

impl BitWork for Transcode<'_, '_, '_> {
    type Output = bool;

    #[inline(always)]
    fn run(self) -> bool {
        let Transcode { from, source, to, target, count } = self;
        let data = from.data;
        let mut position = from.position();
        let mut bits = load(data, position).unwrap_or(0);
        let BitWriter { out, mut at, mut buffer, mut held } = std::mem::take(to);
        let mut left = count;
        let mut is_distance = 0;
        let mut words = HAS_WORD;
        'all: while left >= TOGETHER as u64 {
            let place = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<8>());
            let (Some(place), Some(loaded)) = (place, load(data, position)) else { break };
            let before = position;
            for nth in 0..TOGETHER {
                let entry = source.entry(bits, is_distance);
                if entry.is_special() {
                    words = 0;
                    break 'all;
                }
                bits = if nth == 0 { loaded } else { bits };
                let word = target.word(entry);
                words &= word;
                let (written, count) = Entry::bits_under(word, entry.extra(bits));
                bits = entry.after(bits);
                position += u64::from(entry.bits());
                buffer |= written << held;
                held += count;
                is_distance = entry.length_mask();
                left = left.wrapping_sub(is_distance as i32 as u64);
            }
            left = left.wrapping_sub(TOGETHER as u64);
            *place = buffer.to_le_bytes();
            at += (held / 8) as usize;
            buffer >>= held & !7;
            held &= 7;
            if position - before > LOADED - WORD {
                let Some(loaded) = load(data, position) else { break };
                bits = loaded;
            }
        }
        *from = BitReader::new(data, position);
        *to = BitWriter { out, at, buffer, held };
        let mut done = words & HAS_WORD != 0;
        while done && (left > 0 || is_distance != 0) {
            from.refill();
            let entry = source.entry(from.buffer, is_distance);
            let word = if entry.is_special() { 0 } else { target.word(entry) };
            let (bits, count) = Entry::bits_under(word, entry.extra(from.buffer));
            from.consume(entry.bits());
            done = word != 0 && to.put(bits, count);
            is_distance = entry.length_mask();
            left -= u64::from(1 & !is_distance);
        }
        done
    }
}
