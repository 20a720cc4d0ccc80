//! Huffman codes of bytes: lengths of words from counts, and streams of words, one or four at once.
//!
//! Words have at most [`HUFFMAN_MAX_BITS`] bits and are numbered as in RFC 1951, section 3.2.2.
//! Their bits fill bytes from the most significant bit on. With four streams, symbol `k` is in
//! stream `k % 4`: four chains of dependent steps that the processor takes at the same time.

use crate::Kernels;
#[cfg(target_arch = "x86_64")]
use crate::Level;

/// Bits of the longest word.
pub const HUFFMAN_MAX_BITS: u32 = 11;
/// Entries of a table to read with: one for each sequence of the most bits that a word has.
const ENTRIES: usize = 1 << HUFFMAN_MAX_BITS;
/// Symbols that a stream can yield after its 64 bits were filled up to at least 56.
const AT_ONCE: usize = 5;

/// How often each byte occurs in `symbols`.
pub fn byte_counts(symbols: &[u8]) -> [u32; 256] {
    // Four tables, so that a run of one byte does not wait for its own last store.
    let mut counts = [[0u32; 256]; 4];
    let (chunks, rest) = symbols.as_chunks::<8>();
    for chunk in chunks {
        for (nth, &symbol) in chunk.iter().enumerate() {
            counts[nth % 4][usize::from(symbol)] += 1;
        }
    }
    for &symbol in rest {
        counts[0][usize::from(symbol)] += 1;
    }
    let [mut sum, others @ ..] = counts;
    for other in others {
        for (sum, count) in sum.iter_mut().zip(other) {
            *sum += count;
        }
    }
    sum
}

/// The lengths in bits of the words of a code for symbols with these counts, of which the sum must
/// stay below 2^32: shortest in sum, then made to fit [`HUFFMAN_MAX_BITS`]. 0 for a symbol that
/// does not occur; with fewer than two symbols, 0 for all.
pub fn huffman_lengths(counts: &[u32; 256]) -> [u8; 256] {
    let mut lengths = [0; 256];
    let mut sorted = [0u64; 256];
    let mut used = 0;
    for (symbol, &count) in counts.iter().enumerate() {
        if count > 0 {
            sorted[used] = u64::from(count) << 8 | symbol as u64;
            used += 1;
        }
    }
    if used < 2 {
        return lengths;
    }
    let sorted = &mut sorted[..used];
    sort_by_count(sorted);
    let mut depths = [0u32; 256];
    for (depth, &entry) in depths.iter_mut().zip(&*sorted) {
        *depth = (entry >> 8) as u32;
    }
    minimum_redundancy(&mut depths[..used]);
    // How many words of each length; those that are too long get the longest.
    let mut words = [0u32; HUFFMAN_MAX_BITS as usize + 1];
    for &depth in &depths[..used] {
        words[depth.min(HUFFMAN_MAX_BITS) as usize] += 1;
    }
    // Then the code may ask for more than there is. To split a shorter word and to move one of the
    // longest beside it gives back one of the smallest parts.
    let mut taken: u32 =
        (1..=HUFFMAN_MAX_BITS).map(|bits| words[bits as usize] << (HUFFMAN_MAX_BITS - bits)).sum();
    while taken > 1 << HUFFMAN_MAX_BITS {
        words[HUFFMAN_MAX_BITS as usize] -= 1;
        let shorter = (1..HUFFMAN_MAX_BITS as usize).rev().find(|&bits| words[bits] > 0);
        // There is one: 256 symbols fit words of 8 bits.
        let shorter = shorter.expect("a word shorter than the longest");
        words[shorter] -= 1;
        words[shorter + 1] += 2;
        taken -= 1;
    }
    let mut rarest_first = sorted.iter();
    for bits in (1..=HUFFMAN_MAX_BITS as usize).rev() {
        for &entry in rarest_first.by_ref().take(words[bits] as usize) {
            lengths[(entry & 255) as usize] = bits as u8;
        }
    }
    lengths
}

/// Sorts entries of a count, from bit 8 on, and a symbol, which ascends: by digits of the counts,
/// the lowest first, as many as the largest has.
fn sort_by_count(entries: &mut [u64]) {
    let mut other = [0u64; 256];
    let other = &mut other[..entries.len()];
    let all = entries.iter().fold(0, |all, &entry| all | entry);
    let mut shift = 8;
    while all >> shift > 0 {
        let digit = |entry: u64| (entry >> shift & 255) as usize;
        let mut places = [0u8; 256];
        // There are at most 256 entries, so the place of the last one fits.
        for &entry in &*entries {
            places[digit(entry)] = places[digit(entry)].wrapping_add(1);
        }
        let mut before = 0u8;
        for place in &mut places {
            (*place, before) = (before, before.wrapping_add(*place));
        }
        for &entry in &*entries {
            let place = &mut places[digit(entry)];
            other[usize::from(*place)] = entry;
            *place = place.wrapping_add(1);
        }
        entries.copy_from_slice(other);
        shift += 8;
    }
}

/// Turns ascending weights, at least two, into the depths of an optimal binary tree, in their
/// place (Moffat and Katajainen, "In-place calculation of minimum-redundancy codes", 1995).
fn minimum_redundancy(a: &mut [u32]) {
    let n = a.len();
    // First pass: weights of inner nodes, and then the parent of each.
    a[0] += a[1];
    let (mut root, mut leaf) = (0, 2);
    for next in 1..n - 1 {
        let mut take = |a: &mut [u32], next: usize| {
            if leaf >= n || (root < next && a[root] < a[leaf]) {
                let weight = a[root];
                a[root] = next as u32;
                root += 1;
                weight
            } else {
                leaf += 1;
                a[leaf - 1]
            }
        };
        let one = take(a, next);
        let other = take(a, next);
        a[next] = one + other;
    }
    // Second pass: depths of inner nodes.
    a[n - 2] = 0;
    for next in (0..n - 2).rev() {
        a[next] = a[a[next] as usize] + 1;
    }
    // Third pass: depths of leaves.
    let (mut available, mut depth) = (1, 0);
    let (mut root, mut next) = (n as isize - 2, n as isize - 1);
    while available > 0 {
        let mut used = 0;
        while root >= 0 && a[root as usize] == depth {
            used += 1;
            root -= 1;
        }
        while available > used {
            a[next as usize] = depth;
            next -= 1;
            available -= 1;
        }
        available = 2 * used;
        depth += 1;
    }
}

/// How many words of each length there are, if the lengths are those of a complete code. At 0, how
/// many symbols have none.
fn complete(lengths: &[u8; 256]) -> Option<[u32; HUFFMAN_MAX_BITS as usize + 1]> {
    let mut counts = [0u32; HUFFMAN_MAX_BITS as usize + 1];
    for &bits in lengths {
        *counts.get_mut(usize::from(bits))? += 1;
    }
    let taken: u32 =
        (1..=HUFFMAN_MAX_BITS).map(|bits| counts[bits as usize] << (HUFFMAN_MAX_BITS - bits)).sum();
    (taken == 1 << HUFFMAN_MAX_BITS).then_some(counts)
}

/// The first word of each length, if the lengths are those of a complete code: RFC 1951, section
/// 3.2.2.
fn first_words(lengths: &[u8; 256]) -> Option<[u32; HUFFMAN_MAX_BITS as usize + 1]> {
    let counts = complete(lengths)?;
    let mut first = [0; HUFFMAN_MAX_BITS as usize + 1];
    for bits in 2..first.len() {
        first[bits] = (first[bits - 1] + counts[bits - 1]) << 1;
    }
    Some(first)
}

/// A code to write with.
#[derive(Clone, Debug)]
pub struct HuffmanWriter {
    /// The word, and its length from bit 16 on; 0 for a symbol without a word.
    words: [u32; 256],
}

impl HuffmanWriter {
    /// The code whose words have these lengths, or `None` if they are not those of a complete code.
    pub fn new(lengths: &[u8; 256]) -> Option<HuffmanWriter> {
        let mut next = first_words(lengths)?;
        let mut words = [0; 256];
        for (word, &bits) in words.iter_mut().zip(lengths) {
            if bits > 0 {
                let next = &mut next[usize::from(bits)];
                *word = *next | u32::from(bits) << 16;
                *next += 1;
            }
        }
        Some(HuffmanWriter { words })
    }

    /// Appends one stream of the words of `symbols`. A symbol without a word writes nothing.
    pub fn write(&self, symbols: &[u8], out: &mut Vec<u8>) {
        self.write_stream(symbols, 0, 1, out);
    }

    /// Appends four streams. Returns the lengths of the first three in bytes.
    pub fn write_four(&self, symbols: &[u8], out: &mut Vec<u8>) -> [usize; 3] {
        std::array::from_fn(|nth| {
            let before = out.len();
            self.write_stream(symbols, nth, 4, out);
            let len = out.len() - before;
            if nth == 2 {
                self.write_stream(symbols, 3, 4, out);
            }
            len
        })
    }

    #[inline(always)]
    fn write_stream(&self, symbols: &[u8], start: usize, step: usize, out: &mut Vec<u8>) {
        let count = symbols.len().saturating_sub(start).div_ceil(step);
        let begin = out.len();
        // 8 bytes are stored at a time.
        out.resize(begin + (count * HUFFMAN_MAX_BITS as usize).div_ceil(8) + 8, 0);
        let room = &mut out[begin..];
        let (mut pending, mut bits, mut at) = (0u64, 0u32, 0);
        let mut symbols = symbols.get(start..).unwrap_or(&[]);
        let put = |symbol: u8, pending: &mut u64, bits: &mut u32| {
            let word = self.words[usize::from(symbol)];
            *bits += word >> 16;
            // With at most 55 bits before it, a word does not leave the 64; and one of no bits is 0.
            *pending |= u64::from(word & 0xffff) << ((64 - *bits) & 63);
        };
        let mut flush = |pending: &mut u64, bits: &mut u32| {
            room[at..at + 8].copy_from_slice(&pending.to_be_bytes());
            at += (*bits / 8) as usize;
            *pending <<= *bits & !7;
            *bits &= 7;
        };
        let rounds = symbols.chunks_exact(AT_ONCE * step);
        symbols = rounds.remainder();
        for round in rounds {
            for nth in 0..AT_ONCE {
                put(round[nth * step], &mut pending, &mut bits);
            }
            flush(&mut pending, &mut bits);
        }
        for &symbol in symbols.iter().step_by(step) {
            put(symbol, &mut pending, &mut bits);
        }
        flush(&mut pending, &mut bits);
        out.truncate(begin + at + usize::from(bits > 0));
    }
}

/// A code to read with.
#[derive(Clone, Debug)]
pub struct HuffmanReader {
    /// For each sequence of the most bits: the symbol that it begins with, and from bit 8 on the
    /// length of its word.
    entries: Box<[u16; ENTRIES]>,
}

impl HuffmanReader {
    /// Memory of a code in bytes.
    pub const MEMORY: usize = size_of::<HuffmanReader>() + ENTRIES * size_of::<u16>();

    /// The code whose words have these lengths, or `None` if they are not those of a complete code.
    pub fn new(lengths: &[u8; 256]) -> Option<HuffmanReader> {
        let mut reader = HuffmanReader { entries: Box::new([0; ENTRIES]) };
        reader.set(lengths).then_some(reader)
    }

    /// Becomes the code of these lengths. Returns whether it is complete; if not, nothing changes.
    pub fn set(&mut self, lengths: &[u8; 256]) -> bool {
        let Some(counts) = complete(lengths) else { return false };
        // Symbols in the order of their words, and behind them those that have none.
        let mut ends = [0usize; HUFFMAN_MAX_BITS as usize + 1];
        ends[0] = 256;
        for bits in 2..ends.len() {
            ends[bits] = ends[bits - 1] + counts[bits - 1] as usize;
        }
        let mut order = [0u8; 512];
        for (symbol, &bits) in lengths.iter().enumerate() {
            let end = &mut ends[usize::from(bits)];
            order[*end & 511] = symbol as u8;
            *end += 1;
        }
        let (mut symbols, mut entries) = (&order[..256], &mut self.entries[..]);
        // Each length by a loop of its own: how many entries a word has is known then.
        macro_rules! fill {
            ($($bits:literal)*) => {$(
                let (words, more) = symbols.split_at(counts[$bits] as usize);
                let (places, rest) = entries.split_at_mut(words.len() << (11 - $bits));
                let places = places.as_chunks_mut::<{ 1 << (11 - $bits) }>().0;
                for (place, &symbol) in places.iter_mut().zip(words) {
                    *place = [u16::from(symbol) | $bits << 8; 1 << (11 - $bits)];
                }
                (symbols, entries) = (more, rest);
            )*};
        }
        fill!(1 2 3 4 5 6 7 8 9 10 11);
        let _ = (symbols, entries);
        true
    }

    /// Reads one stream at the front of `data` into the whole of `out`. Returns how many bytes it
    /// takes; `None` if it takes more than there are, or if bits of 1 follow it in its last byte.
    pub fn read(&self, kernels: Kernels, data: &[u8], out: &mut [u8]) -> Option<usize> {
        let mut streams = [Stream::new(0)];
        self.read_streams(kernels, data, &mut streams, out);
        streams[0].end(data)
    }

    /// Reads four streams at the front of `data`, the first three of these lengths in bytes, into
    /// the whole of `out`. Returns how many bytes they take; `None` if one does not take just its
    /// bytes, or as [`HuffmanReader::read`].
    pub fn read_four(
        &self,
        kernels: Kernels,
        data: &[u8],
        lengths: [usize; 3],
        out: &mut [u8],
    ) -> Option<usize> {
        let mut starts = [0; 4];
        for (nth, len) in lengths.into_iter().enumerate() {
            starts[nth + 1] = starts[nth] + len;
            if starts[nth + 1] > data.len() {
                return None;
            }
        }
        let mut streams = starts.map(Stream::new);
        self.read_streams::<4>(kernels, data, &mut streams, out);
        for (stream, len) in streams.iter().zip(lengths) {
            if stream.end(data)? != len {
                return None;
            }
        }
        Some(starts[3] + streams[3].end(data)?)
    }

    #[inline]
    fn read_streams<const N: usize>(
        &self,
        kernels: Kernels,
        data: &[u8],
        streams: &mut [Stream; N],
        out: &mut [u8],
    ) {
        let done = match kernels.level() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: both levels include BMI2, and `Kernels` holds a level only if the machine has
            // it.
            Level::Avx2 | Level::Avx512 => unsafe { fast_bmi2(&self.entries, data, streams, out) },
            _ => fast(&self.entries, data, streams, out),
        };
        // The rest, where 8 bytes might be more than are left.
        for (nth, symbol) in out.iter_mut().enumerate().skip(done) {
            let stream = &mut streams[nth % N];
            if stream.bits < HUFFMAN_MAX_BITS {
                stream.fill(data);
            }
            *symbol = stream.symbol(&self.entries);
        }
    }
}

/// Where one stream is.
#[derive(Clone, Copy, Debug)]
struct Stream {
    start: usize,
    /// The next byte that is not in `window`. May be beyond the data: then the bits are 0.
    at: usize,
    /// Bits from the most significant one on, and how many of them are known to be there.
    window: u64,
    bits: u32,
}

impl Stream {
    fn new(start: usize) -> Stream {
        Stream { start, at: start, window: 0, bits: 0 }
    }

    /// Makes at least 56 bits known. Beyond the data, they are 0.
    #[inline(always)]
    fn fill(&mut self, data: &[u8]) {
        let rest = data.get(self.at..).unwrap_or(&[]);
        let word = match rest.first_chunk() {
            Some(word) => *word,
            None => {
                let mut word = [0; 8];
                word[..rest.len()].copy_from_slice(rest);
                word
            }
        };
        self.take_in(u64::from_be_bytes(word));
    }

    #[inline(always)]
    fn take_in(&mut self, word: u64) {
        self.window |= word >> self.bits;
        self.at += ((63 - self.bits) >> 3) as usize;
        self.bits |= 56;
    }

    #[inline(always)]
    fn symbol(&mut self, entries: &[u16; ENTRIES]) -> u8 {
        let entry = entries[(self.window >> (64 - HUFFMAN_MAX_BITS)) as usize];
        let bits = u32::from(entry >> 8);
        self.window <<= bits;
        // At least as many are known.
        self.bits -= bits;
        entry as u8
    }

    /// Bytes that the stream took, if they are there and end with bits of 0.
    fn end(&self, data: &[u8]) -> Option<usize> {
        let bits = (self.at - self.start) * 8 - self.bits as usize;
        let len = bits.div_ceil(8);
        let last = self.start + len;
        let is_clean = bits.is_multiple_of(8) || data.get(last - 1)? << (bits % 8) == 0;
        (last <= data.len() && is_clean).then_some(len)
    }
}

/// Reads as many rounds of symbols as have 8 bytes left in each stream. Returns how many symbols.
#[inline(always)]
fn fast<const N: usize>(
    entries: &[u16; ENTRIES],
    data: &[u8],
    streams: &mut [Stream; N],
    out: &mut [u8],
) -> usize {
    let mut done = 0;
    // The streams in local variables, so that they stay in registers.
    let mut now = *streams;
    'rounds: while let Some(symbols) =
        out.get_mut(done..).and_then(|rest| rest.get_mut(..AT_ONCE * N))
    {
        let mut words = [0; N];
        for nth in 0..N {
            match data.get(now[nth].at..).and_then(|rest| rest.first_chunk()) {
                Some(word) => words[nth] = u64::from_be_bytes(*word),
                None => break 'rounds,
            }
        }
        for nth in 0..N {
            now[nth].take_in(words[nth]);
        }
        for turn in 0..AT_ONCE {
            for nth in 0..N {
                symbols[turn * N + nth] = now[nth].symbol(entries);
            }
        }
        done += AT_ONCE * N;
    }
    *streams = now;
    done
}

/// # Safety
/// The machine must have BMI1, BMI2 and LZCNT.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2,lzcnt")]
unsafe fn fast_bmi2<const N: usize>(
    entries: &[u16; ENTRIES],
    data: &[u8],
    streams: &mut [Stream; N],
    out: &mut [u8],
) -> usize {
    fast(entries, data, streams, out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn skewed() -> impl Strategy<Value = Vec<u8>> {
        (proptest::collection::vec(any::<(u8, u8)>(), 0..3000), 0u32..8).prop_map(
            |(pairs, skew)| {
                pairs
                    .into_iter()
                    .map(|(a, b)| ((u32::from(a) * u32::from(b)) >> 8 >> skew) as u8)
                    .collect()
            },
        )
    }

    fn kraft(lengths: &[u8; 256]) -> u32 {
        lengths.iter().filter(|&&bits| bits > 0).map(|&bits| 1 << (11 - bits)).sum()
    }

    #[test]
    fn counts_like_fibonacci_numbers_fit_eleven_bits() {
        let mut counts = [0; 256];
        let (mut a, mut b) = (1u32, 1u32);
        for count in counts.iter_mut().take(40) {
            *count = a;
            (a, b) = (b, a + b);
        }
        let lengths = huffman_lengths(&counts);
        assert_eq!(kraft(&lengths), 1 << 11);
        assert_eq!(lengths[39], 1);
        assert!(lengths[..40].iter().all(|&bits| bits > 0));
    }

    #[test]
    fn lengths_that_are_no_complete_code_are_refused() {
        let mut lengths = [0; 256];
        assert!(HuffmanReader::new(&lengths).is_none());
        lengths[3] = 1;
        assert!(HuffmanReader::new(&lengths).is_none());
        lengths[4] = 2;
        assert!(HuffmanReader::new(&lengths).is_none());
        lengths[5] = 2;
        assert!(HuffmanReader::new(&lengths).is_some() && HuffmanWriter::new(&lengths).is_some());
        lengths[6] = 11;
        assert!(HuffmanReader::new(&lengths).is_none());
        lengths[6] = 12;
        assert!(HuffmanReader::new(&lengths).is_none());
    }

    proptest! {
        #[test]
        fn words_are_as_short_as_an_optimal_tree_where_they_may_be(symbols in skewed()) {
            let counts = byte_counts(&symbols);
            let lengths = huffman_lengths(&counts);
            if counts.iter().filter(|&&count| count > 0).count() >= 2 {
                prop_assert_eq!(kraft(&lengths), 1 << 11);
                // The sum of an optimal tree is that of the weights of its inner nodes.
                let mut weights: Vec<u32> = counts.into_iter().filter(|&count| count > 0).collect();
                let mut optimal = 0;
                while weights.len() > 1 {
                    weights.sort_unstable_by(|a, b| b.cmp(a));
                    let sum = weights.pop().unwrap() + weights.pop().unwrap();
                    optimal += sum;
                    weights.push(sum);
                }
                let sum: u32 = counts.iter().zip(lengths).map(|(&n, bits)| n * u32::from(bits)).sum();
                let longest = lengths.iter().max().unwrap();
                prop_assert!(sum == optimal || (*longest == 11 && sum <= optimal + optimal / 50));
            }
        }

        #[test]
        fn streams_come_back_at_every_level(symbols in skewed(), junk in proptest::collection::vec(any::<u8>(), 0..20)) {
            let lengths = huffman_lengths(&byte_counts(&symbols));
            prop_assume!(lengths != [0; 256]);
            let writer = HuffmanWriter::new(&lengths).unwrap();
            let reader = HuffmanReader::new(&lengths).unwrap();
            let (mut one, mut four) = (Vec::new(), Vec::new());
            writer.write(&symbols, &mut one);
            let len = one.len();
            let lens = writer.write_four(&symbols, &mut four);
            one.extend_from_slice(&junk);
            for kernels in Kernels::available() {
                let mut back = vec![0; symbols.len()];
                prop_assert_eq!(reader.read(kernels, &one, &mut back), Some(len));
                prop_assert_eq!(&back, &symbols);
                prop_assert_eq!(reader.read(kernels, &one[..len - 1], &mut back), None);
                back.fill(0);
                let longer = [&four[..], &junk].concat();
                prop_assert_eq!(reader.read_four(kernels, &longer, lens, &mut back), Some(four.len()));
                prop_assert_eq!(&back, &symbols);
                let moved = [lens[0] + 1, lens[1].saturating_sub(1), lens[2]];
                let _ = reader.read_four(kernels, &four, moved, &mut back);
            }
        }

        #[test]
        fn garbage_gives_the_same_at_every_level(symbols in skewed(), data in proptest::collection::vec(any::<u8>(), 0..900), lens: [u16; 3], count in 0usize..3000) {
            let lengths = huffman_lengths(&byte_counts(&symbols));
            prop_assume!(lengths != [0; 256]);
            let reader = HuffmanReader::new(&lengths).unwrap();
            let lens = lens.map(|len| usize::from(len) % 400);
            let results: Vec<_> = Kernels::available()
                .map(|kernels| {
                    let (mut one, mut four) = (vec![0; count], vec![0; count]);
                    let used = reader.read(kernels, &data, &mut one);
                    (used, one, reader.read_four(kernels, &data, lens, &mut four), four)
                })
                .collect();
            prop_assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
        }
    }
}
