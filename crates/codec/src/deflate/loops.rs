//! The loops that most of the time of looking inside is spent in. Compiled for BMI2, too, by
//! [`oncewire_kernels`].
//!
//! Nothing predicts whether a literal or a copy is next, so they go from symbol to symbol without
//! a branch: after a length, the next symbol is looked up among the distances.

use super::bits::{BitReader, BitWriter};
use super::code::{DISTANCES, Entry, HAS_WORD};
use super::{Code, MAX_DISTANCE, Stop, Token, distance_parts};
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

impl BitReader<'_> {
    /// The next token. At its end, a reader may be past the end of the data: check
    /// [`BitReader::is_past_end`] before the token is believed.
    ///
    /// # Errors
    /// [`Stop`]; after [`Stop::End`] the reader is behind the end-of-block symbol.
    #[inline(always)]
    pub(crate) fn token(&mut self, code: &Code) -> Result<Token, Stop> {
        // Two code words of 15 bits, and 5 and 13 extra bits, fit what a refill gives.
        self.refill();
        let entry = code.entry(self.buffer, 0);
        if entry.is_special() {
            self.consume(entry.bits());
            return Err(if entry.is_end() { Stop::End } else { Stop::Bad });
        }
        let value = entry.value(entry.extra(self.buffer));
        self.consume(entry.bits());
        if entry.is_length() == 0 {
            return Ok(Token(value));
        }
        let entry = code.entry(self.buffer, u32::MAX);
        if entry.is_special() {
            return Err(Stop::Bad);
        }
        let token = Token(value + entry.value(entry.extra(self.buffer)));
        self.consume(entry.bits());
        Ok(token)
    }

    /// Appends up to `most` tokens, and where each of them begins: in bits, with `base` added.
    /// Returns where the last one ends, and what comes next if `most` were not to be had.
    pub(crate) fn append_tokens(
        &mut self,
        code: &Code,
        most: usize,
        base: u32,
        tokens: &mut Vec<Token>,
        starts: &mut Vec<u32>,
    ) -> (u32, Option<Stop>) {
        self.append_by(Kernels::detect(), code, most, base, tokens, starts)
    }

    fn append_by(
        &mut self,
        kernels: Kernels,
        code: &Code,
        most: usize,
        base: u32,
        tokens: &mut Vec<Token>,
        starts: &mut Vec<u32>,
    ) -> (u32, Option<Stop>) {
        let first = tokens.len();
        debug_assert_eq!(starts.len(), first);
        tokens.resize(first + most, Token(0));
        starts.resize(first + most + 1, 0);
        let (count, stop) = kernels.bit_work(ReadTokens {
            reader: self,
            code,
            tokens: &mut tokens[first..],
            starts: &mut starts[first..],
            base,
        });
        let end = starts[first + count];
        tokens.truncate(first + count);
        starts.truncate(first + count);
        (end, stop)
    }

    /// Goes over `tokens` as far as their bits under `code` come next, but not over copies from
    /// `shortest` inflated bytes back or farther, nor near the end. Returns their number.
    pub(crate) fn skip_tokens(&mut self, code: &Code, tokens: &[Token], shortest: u32) -> usize {
        Kernels::detect().bit_work(SkipTokens { reader: self, code, tokens, shortest })
    }
}

impl BitWriter<'_> {
    /// Appends a token. Returns whether there was room and the code has its symbols.
    #[inline(always)]
    #[must_use]
    pub(crate) fn token(&mut self, token: Token, code: &Code) -> bool {
        code.bits_of(token).is_some_and(|(bits, count)| self.put(bits, count))
    }
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

/// Goes over `tokens` as far as their bits come next, but not over copies from `shortest` inflated
/// bytes back or farther, nor close to the end of the data. Returns their number.
///
/// Each symbol that is read has to wait for the one before; what is compared does not.
pub(super) struct SkipTokens<'r, 'a> {
    pub(super) reader: &'r mut BitReader<'a>,
    pub(super) code: &'r Code,
    pub(super) tokens: &'r [Token],
    pub(super) shortest: u32,
}

impl BitWork for SkipTokens<'_, '_> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let SkipTokens { reader, code, tokens, shortest } = self;
        let data = reader.data;
        let mut position = reader.position();
        let mut count = 0;
        for &token in tokens {
            let (Some((bits, len)), Some(next)) = (code.bits_of(token), load(data, position))
            else {
                break;
            };
            let differs = (next ^ bits) & ((1 << len) - 1) != 0;
            if differs | (token.is_copy() & (token.distance() >= shortest)) {
                break;
            }
            position += u64::from(len);
            count += 1;
        }
        *reader = BitReader::new(data, position);
        count
    }
}

/// How distances change while tokens are copied.
pub(crate) trait Distances {
    /// The shortest distance that may change now, at least.
    fn shortest(&self) -> u32;

    /// What becomes of the distance of the copy whose length was just advanced over. Both are from
    /// 1 to [`super::MAX_DISTANCE`].
    fn change(&mut self, distance: u32) -> u32;

    /// Goes over so many inflated bytes of a literal or a length, or none of a distance.
    fn advance(&mut self, inflated: u64);

    /// Whether no distance changes from here on.
    fn are_done(&self) -> bool;
}

/// Distances stay the same.
pub(super) struct Unchanged;

impl Distances for Unchanged {
    #[inline(always)]
    fn shortest(&self) -> u32 {
        u32::MAX
    }

    #[inline(always)]
    fn change(&mut self, distance: u32) -> u32 {
        distance
    }

    #[inline(always)]
    fn advance(&mut self, _: u64) {}

    #[inline(always)]
    fn are_done(&self) -> bool {
        false
    }
}

/// Copies `count` tokens: reads them with one code and writes them with another. Returns whether
/// there were so many, the other code has their symbols, and there was room. Whether `from` went
/// past its end is for the caller to see.
#[must_use]
pub(crate) fn transcode(
    kernels: Kernels,
    from: &mut BitReader<'_>,
    source: &Code,
    to: &mut BitWriter<'_>,
    target: &Code,
    count: u64,
) -> bool {
    transcode_by(kernels, [source, target], from, to, count, &mut Unchanged) == Some(0)
}

/// The same while distances change. Returns how many tokens are left when they do not any more.
#[must_use]
pub(crate) fn transcode_changed(
    kernels: Kernels,
    from: &mut BitReader<'_>,
    source: &Code,
    to: &mut BitWriter<'_>,
    target: &Code,
    count: u64,
    distances: &mut impl Distances,
) -> Option<u64> {
    transcode_by(kernels, [source, target], from, to, count, distances)
}

pub(super) fn transcode_by(
    kernels: Kernels,
    [source, target]: [&Code; 2],
    from: &mut BitReader<'_>,
    to: &mut BitWriter<'_>,
    count: u64,
    distances: &mut impl Distances,
) -> Option<u64> {
    kernels.bit_work(Transcode { from, source, to, target, count, distances })
}

struct Transcode<'r, 'a, 'o, D> {
    from: &'r mut BitReader<'a>,
    source: &'r Code,
    to: &'r mut BitWriter<'o>,
    target: &'r Code,
    count: u64,
    distances: &'r mut D,
}

/// The first symbol of distances that `distances` may change.
#[inline(always)]
fn first_changing(distances: &impl Distances) -> usize {
    match distances.shortest() {
        u32::MAX => usize::MAX,
        shortest => (DISTANCES + distance_parts(shortest.clamp(1, MAX_DISTANCE) - 1).0) as usize,
    }
}

/// The bits of a symbol with these extra bits under another code, and their number; and its word
/// there. Distances from the symbol `changing` on may change.
#[inline(always)]
fn under(
    target: &Code,
    entry: Entry,
    extra: u64,
    distances: &mut impl Distances,
    changing: &mut usize,
) -> (u64, u32, u32) {
    let (mut word, mut extra_under) = (target.word(entry), extra);
    if entry.symbol() >= *changing {
        let distance = distances.change(entry.value(extra) + 1);
        let (symbol, _, extra) = distance_parts(distance - 1);
        (word, extra_under) = (target.distance_word(symbol), u64::from(extra));
        *changing = first_changing(distances);
    }
    distances.advance(entry.inflated(extra));
    let (bits, count) = Entry::bits_under(word, extra_under);
    (bits, count, word)
}

impl<D: Distances> BitWork for Transcode<'_, '_, '_, D> {
    type Output = Option<u64>;

    #[inline(always)]
    fn run(self) -> Option<u64> {
        let Transcode { from, source, to, target, count, distances } = self;
        let data = from.data;
        let mut position = from.position();
        let mut bits = load(data, position).unwrap_or(0);
        let BitWriter { out, mut at, mut buffer, mut held } = std::mem::take(to);
        let mut changing = first_changing(distances);
        let mut left = count;
        let mut is_distance = 0;
        let mut words = HAS_WORD;
        'all: while left >= TOGETHER as u64 && !distances.are_done() {
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
                let extra = entry.extra(bits);
                let (written, count, word) = under(target, entry, extra, distances, &mut changing);
                words &= word;
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
        while done && (is_distance != 0 || left > 0 && !distances.are_done()) {
            from.refill();
            let entry = source.entry(from.buffer, is_distance);
            if entry.is_special() {
                return None;
            }
            let extra = entry.extra(from.buffer);
            let (bits, count, word) = under(target, entry, extra, distances, &mut changing);
            from.consume(entry.bits());
            done = word != 0 && to.put(bits, count);
            is_distance = entry.length_mask();
            left -= u64::from(1 & !is_distance);
        }
        done.then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::super::SLACK;
    use super::super::bits::mask;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tokens_read_at_once_are_those_read_one_by_one(
            data in proptest::collection::vec(any::<u8>(), 0..400),
            start in 0u64..8,
            most in 0usize..200,
        ) {
            let code = Code::fixed();
            let mut reader = BitReader::new(&data, start);
            let (mut tokens, mut starts, mut expected) = (Vec::new(), Vec::new(), None);
            let mut end = reader.position();
            while tokens.len() < most {
                starts.push(end as u32 + 7);
                let token = reader.token(code);
                match token {
                    _ if reader.is_past_end() => expected = Some(Stop::Short),
                    Ok(token) => {
                        tokens.push(token);
                        end = reader.position();
                        continue;
                    }
                    Err(stop) => expected = Some(stop),
                }
                starts.pop();
                break;
            }
            for kernels in Kernels::available() {
                let mut at_once = BitReader::new(&data, start);
                let (mut found, mut begins) = (Vec::new(), Vec::new());
                let (found_end, stop) =
                    at_once.append_by(kernels, code, most, 7, &mut found, &mut begins);
                prop_assert_eq!(&found, &tokens);
                prop_assert_eq!((&begins, found_end, stop), (&starts, end as u32 + 7, expected));
                let behind = if stop == Some(Stop::End) { reader.position() } else { end };
                prop_assert_eq!(at_once.position(), behind);

                // And over them, up to the first that differs or is near the end.
                let mut over = BitReader::new(&data, start);
                let skipped = kernels.bit_work(SkipTokens {
                    reader: &mut over,
                    code,
                    tokens: &tokens,
                    shortest: u32::MAX,
                });
                let near = starts.iter().filter(|&&at| u64::from(at - 7) / 8 + 8 > data.len() as u64);
                prop_assert_eq!(skipped, tokens.len() - near.count());
                prop_assert_eq!(over.position(), starts.get(skipped).map_or(end, |&at| (at - 7).into()));
                if let Some(nth) = tokens[..skipped].iter().position(|token| token.is_copy()) {
                    let mut others = tokens.clone();
                    others[nth] = others[nth].moved(1).or(others[nth].moved(-1)).unwrap();
                    let far = tokens[nth].distance();
                    for (tokens, shortest) in [(&others, u32::MAX), (&tokens, far)] {
                        let reader = &mut BitReader::new(&data, start);
                        let skip = SkipTokens { reader, code, tokens, shortest };
                        prop_assert_eq!(kernels.bit_work(skip), nth);
                    }
                }

                // And back: under the same code, the same bits.
                let mut out = vec![0; data.len() + 2 * SLACK];
                let (mut from, mut to) = (BitReader::new(&data, start), BitWriter::new(&mut out));
                let first = u64::from(data.first().map_or(0, |byte| byte & mask(start as u32) as u8));
                prop_assert!(to.put(first, start as u32));
                let count = tokens.len() as u64;
                prop_assert_eq!(transcode_by(kernels, [code; 2], &mut from, &mut to, count, &mut Unchanged), Some(0));
                prop_assert_eq!((from.position(), to.position()), (end, end));
                let whole = (end / 8) as usize;
                let same = to.written()[..whole] == data[..whole];
                prop_assert!(same || data.is_empty());
                prop_assert_eq!(transcode_by(kernels, [code; 2], &mut from, &mut to, u64::MAX, &mut Unchanged), None);
            }
        }
    }
}
