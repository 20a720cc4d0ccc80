//! Bytes as content for a sampler. A direct implementation of its definition must find the same
//! markers, at every level, in batches of any size, from any position.

use super::input::{Input, noise, piece, text};
use oncewire_codec::sampler::{self, SampleByte, SampleHash, Sampler};
use oncewire_codec::{ByteSet, Kernels};
use oncewire_family::sampler::{FastCdc, Fixed, Gear, Maxp, MaxpPublished, Modp, Peaks};

/// Sampling periods without a marker before one is forced.
const GAP_PERIODS: usize = 8;
const MAX_GAP: usize = 1024;
const MAXIMUM_GAP_PERIODS: usize = 4;
/// Most content per input in bytes, since the definitions are slow.
const MOST: usize = 2500;
/// The same for Rabin fingerprints, which are computed bit by bit.
const MOST_RABIN: usize = 1000;

/// One search: the parameters that all samplers have.
struct Search<'a> {
    data: &'a [u8],
    window: usize,
    period: usize,
    from: usize,
}

impl Search<'_> {
    /// What a sampler is asked for, from `from` on.
    fn with(&self, kernels: Kernels, from: usize) -> sampler::Sampling<'_> {
        let Search { data: block, window, period, .. } = *self;
        sampler::Sampling { kernels, block, window, period, from }
    }

    /// Exclusive end of the positions that have a complete window.
    fn end(&self) -> usize {
        (self.data.len() + 1).saturating_sub(self.window)
    }

    fn window_at(&self, at: usize) -> &[u8] {
        &self.data[at..at + self.window]
    }

    /// EndRE section 5.1.3.
    fn fixed(&self) -> Vec<u32> {
        (self.from..self.end()).filter(|at| at % self.period == 0).map(|at| at as u32).collect()
    }

    /// EndRE section 5.1.4, with the marking bytes and the strongest position of a gap.
    fn skipping(&self, gap: usize, marks: impl Fn(usize) -> bool) -> Vec<u32> {
        let skip = self.period / 2;
        let strength = |at: usize| {
            let word = u64::from_le_bytes(*self.data[at..].first_chunk().unwrap());
            word.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (word >> 29)
        };
        let (mut markers, mut at) = (Vec::new(), self.from);
        while at < self.end() {
            let member = (at..self.end().min(at + gap)).find(|&i| marks(i));
            let marker = match member {
                Some(marker) => marker,
                None if at + gap < self.end() => {
                    first_greatest(at..at + gap.min(MAX_GAP), strength)
                }
                None => break,
            };
            markers.push(marker as u32);
            at = marker + 1 + skip;
        }
        markers
    }

    fn sample_byte(&self, set: &ByteSet) -> Vec<u32> {
        self.skipping((GAP_PERIODS * self.period).min(MAX_GAP), |at| set.contains(self.data[at]))
    }

    /// The 16-bit hash of four bytes.
    fn hash(&self, at: usize) -> u64 {
        let halves =
            [at, at + 2].map(|at| u64::from(self.data[at]) + 256 * u64::from(self.data[at + 1]));
        (halves[0] * 0x9e37 + halves[1] * 0xc2b3) % 65_536
    }

    fn sample_hash(&self) -> Vec<u32> {
        let limit = 65_536 / (self.period - self.period / 2) as u64;
        self.skipping(GAP_PERIODS * self.period, |at| self.hash(at) < limit)
    }

    /// Spring and Wetherall; our version omits the repeats of a run.
    fn modp(&self, published: bool) -> Vec<u32> {
        let values: Vec<u64> = (0..self.end()).map(|at| rabin(self.window_at(at))).collect();
        let marks = |at: usize| {
            values[at].is_multiple_of(self.period as u64)
                && (published || at == 0 || values[at] != values[at - 1])
        };
        let markers: Vec<u32> =
            (self.from..self.end()).filter(|&at| marks(at)).map(|at| at as u32).collect();
        if self.from == 0 && markers.is_empty() && self.end() > 0 {
            return vec![first_greatest(0..self.end(), |at| values[at]) as u32];
        }
        markers
    }

    /// Local maxima; if none is in `gap` positions, the greatest of them.
    fn maxp(&self, gap: usize) -> Vec<u32> {
        let values = self.data.windows(8);
        let values = values.map(|bytes| u64::from_be_bytes(*bytes.first_chunk().unwrap()));
        self.maxima(&values.collect::<Vec<_>>(), gap)
    }

    fn peaks(&self) -> Vec<u32> {
        self.maxima(
            &(0..(self.data.len() + 1).saturating_sub(4))
                .map(|at| self.hash(at))
                .collect::<Vec<_>>(),
            MAXIMUM_GAP_PERIODS * self.period,
        )
    }

    /// Thesis section 2.2, and the greatest position of a gap.
    fn maxima(&self, values: &[u64], gap: usize) -> Vec<u32> {
        let h = self.period / 2;
        let is_maximum = |at: usize| {
            (at.saturating_sub(h)..at).all(|before| values[before] < values[at])
                && (at + 1..values.len().min(at + h + 1)).all(|behind| values[behind] <= values[at])
        };
        let (mut markers, mut at) = (Vec::new(), self.from);
        while at < self.end() {
            let maximum = (at..self.end().min(at.saturating_add(gap))).find(|&i| is_maximum(i));
            let marker = match maximum {
                Some(marker) => marker,
                None if at.saturating_add(gap) <= self.end() => {
                    first_greatest(at..at + gap, |i| values[i])
                }
                None => break,
            };
            markers.push(marker as u32);
            at = marker + h + 1;
        }
        markers
    }

    /// Ddelta's gear hash of a window.
    fn gear_value(&self, at: usize) -> u64 {
        let hash = self
            .window_at(at)
            .iter()
            .fold(0u64, |hash, &byte| (hash << 1).wrapping_add(gear(byte)));
        hash << (64 - self.window)
    }

    fn gear(&self) -> Vec<u32> {
        let marks = |at: usize| {
            let value = self.gear_value(at);
            value <= u64::MAX / self.period as u64 && (at == 0 || self.gear_value(at - 1) != value)
        };
        (self.from..self.end()).filter(|&at| marks(at)).map(|at| at as u32).collect()
    }

    /// FastCDC, Algorithm 1.
    fn fast_cdc(&self) -> Vec<u32> {
        let (min, average, max) = (self.period / 4, self.period, 8 * self.period);
        let limit = u64::MAX / average as u64;
        let (mut markers, mut start) = (Vec::new(), self.from);
        loop {
            let (mut hash, mut len) = (0u64, min);
            let next = loop {
                // Its last byte ends the chunk, whatever its value.
                if len == max - 1 || start + len >= self.data.len() {
                    break start + max;
                }
                hash = (hash << 1).wrapping_add(gear(self.data[start + len]));
                let limit = if len < average {
                    limit / 4
                } else {
                    limit.saturating_mul(4).min(u64::MAX / 2)
                };
                len += 1;
                if hash << (64 - self.window) <= limit {
                    break start + len;
                }
            };
            if next >= self.end() {
                return markers;
            }
            markers.push(next as u32);
            start = next;
        }
    }

    /// For content of high entropy: byte 116, then a multiple of four; or a hash with a probability
    /// of 1 in 1,024.
    fn sparse(&self, hashed: bool) -> Vec<u32> {
        let pair = |at: usize| self.data[at] == 116 && self.data[at + 1].is_multiple_of(4);
        let marks = |at: &usize| if hashed { self.hash(*at) < 64 } else { pair(*at) };
        (self.from..self.end()).filter(marks).map(|at| at as u32).collect()
    }
}

fn first_greatest(positions: std::ops::Range<usize>, value: impl Fn(usize) -> u64) -> usize {
    positions.rev().max_by_key(|&at| value(at)).unwrap()
}

/// The window as a polynomial over GF(2), modulo the one of degree 56, by long division.
fn rabin(window: &[u8]) -> u64 {
    let bits =
        window.iter().flat_map(|&byte| (0..8).rev().map(move |bit| u64::from(byte >> bit & 1)));
    bits.fold(0, |value, bit| {
        let value = value << 1 | bit;
        if value >> 56 == 1 { value ^ 0x0124_3f6a_8885_a36b } else { value }
    })
}

/// The table of the gear hash: SplitMix64 from 0.
fn gear(byte: u8) -> u64 {
    let state = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(u64::from(byte) + 1);
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// All markers, found `batch` at a time. Positions with a complete window end before `end`.
fn found(
    batch: usize,
    from: usize,
    end: usize,
    sample: impl Fn(usize, &mut [u32]) -> (usize, usize),
) -> Vec<u32> {
    let (mut all, mut at) = (Vec::new(), from);
    let mut markers = vec![0; batch];
    loop {
        let (count, resume) = sample(at, &mut markers);
        assert!(resume >= at, "the search goes back from {at} to {resume}");
        all.extend_from_slice(&markers[..count]);
        at = resume;
        if count < batch {
            // The search is complete: nothing more is found.
            assert!(at >= end, "the search stops at {at} of {end}");
            assert!(at == 0 || sample(at, &mut markers).0 == 0, "more markers from {at} on");
            return all;
        }
    }
}

fn check(search: &Search<'_>, name: &str, expected: &[u32], batch: usize, sampler: &dyn Sampler) {
    for kernels in Kernels::available() {
        for batch in [batch, search.data.len() + 1] {
            let markers = found(batch, search.from, search.end(), |at, markers| {
                let found = sampler.sample(search.with(kernels, at), markers);
                (found.count, found.resume)
            });
            assert_eq!(
                markers,
                expected,
                "{name} at level {}, batches of {batch}",
                kernels.level()
            );
        }
    }
}

/// Properties that need no definition.
fn laws(search: &Search<'_>, markers: &[u32]) {
    assert!(markers.windows(2).all(|pair| pair[0] < pair[1]), "not ascending");
    assert!(markers.first().is_none_or(|&first| first as usize >= search.from));
    assert!(
        markers.last().is_none_or(|&last| last as usize + search.window <= search.data.len()),
        "no whole window"
    );
}

/// Sampler, parameters, then pieces of content.
pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    let kind = input.u8() % 10;
    let window = 12 + usize::from(input.u8() % 53);
    let period = match input.u8() {
        small @ 0..=127 => 4 + usize::from(small),
        large => 4 + usize::from(large - 127) * 8,
    }
    .min(1024);
    let (from, batch) = (input.u16(), 1 + usize::from(input.u8()));
    let members = input.u8();
    let set: ByteSet = input.bytes(usize::from(members % 40)).iter().copied().collect();
    let mut data = Vec::new();
    while !input.is_empty() && data.len() < MOST {
        piece(&mut input, &mut data);
    }
    data.truncate(if matches!(kind, 2 | 3) { MOST_RABIN } else { MOST });
    // Half of them from the start, the others from anywhere, including the end.
    let from = if from % 2 == 0 { 0 } else { from / 2 % (data.len() + 3) };
    let search = Search { data: &data, window, period, from };
    let (name, expected, sampler): (_, Vec<u32>, Box<dyn Sampler>) = match kind {
        0 => ("samplebyte", search.sample_byte(&set), Box::new(SampleByte::new(set))),
        1 => {
            let set = oncewire_codec::ENDRE_MARKER_BYTES.into_iter().collect();
            ("samplebyte", search.sample_byte(&set), Box::new(SampleByte::default()))
        }
        2 => ("modp", search.modp(false), Box::new(Modp::default())),
        3 => ("modp-published", search.modp(true), Box::new(Modp::published())),
        4 => ("maxp", search.maxp(MAXIMUM_GAP_PERIODS * period), Box::new(Maxp)),
        5 => ("gear", search.gear(), Box::new(Gear)),
        6 => ("fastcdc", search.fast_cdc(), Box::new(FastCdc)),
        7 => ("fixed", search.fixed(), Box::new(Fixed)),
        8 => ("samplehash", search.sample_hash(), Box::new(SampleHash)),
        _ => ("peaks", search.peaks(), Box::new(Peaks)),
    };
    check(&search, name, &expected, batch, &*sampler);
    laws(&search, &expected);
    if kind == 4 {
        check(&search, "maxp-published", &search.maxp(usize::MAX), batch, &MaxpPublished);
    }
    match kind {
        4 | 9 => {
            let (apart, gap) = (period / 2, period / 2 + MAXIMUM_GAP_PERIODS * period);
            for pair in expected.windows(2) {
                let distance = (pair[1] - pair[0]) as usize;
                assert!(
                    distance > apart && distance <= gap,
                    "{name}'s markers are {distance} apart"
                );
            }
            let last = expected.last().map_or(from, |&last| last as usize);
            assert!(
                last + gap >= search.end(),
                "{name} leaves {last}..{} without a marker",
                search.end()
            );
        }
        2 | 3 => assert!(
            from > 0 || search.end() == 0 || !expected.is_empty(),
            "a block without a marker"
        ),
        _ => {}
    }
    let sparse = search.sparse(kind == 8);
    for kernels in Kernels::available() {
        let markers = found(batch, from, search.end(), |at, markers| {
            let found = sampler.sample_sparsely(search.with(kernels, at), markers);
            (found.count, found.resume)
        });
        assert_eq!(markers, sparse, "{name}, sparse, at level {}", kernels.level());
    }
}

/// Initial inputs: each sampler on content of each kind.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let piece = |parts: &[&[u8]]| parts.concat();
    let length = |len: usize| (len as u16).to_le_bytes();
    let contents = [
        // Text, random bytes, a run, and a repeat of some of it.
        piece(&[
            &[1, 9],
            &length(700),
            &[2, 3],
            &length(300),
            &[3, 0],
            &length(200),
            &[4],
            &length(900),
            &length(500),
            &[0, 0],
        ]),
        // Runs of several units only.
        piece(&[&[3, 0], &length(900), &[3, 6], &length(700), &[3, 15], &length(400)]),
        // Bytes of the input itself: ascending, then a few that mark.
        piece(&[
            &[0, 200],
            &(0..200).collect::<Vec<u8>>(),
            &[0, 40],
            &b"t\0t\x04te".repeat(7)[..40],
            &[2, 7],
            &length(999),
        ]),
    ];
    let mut seeds = Vec::new();
    for kind in 0..10u8 {
        for (i, content) in contents.iter().enumerate() {
            let i = i as u8;
            let setup = [
                kind,
                [20, 0, 52][usize::from(i)],
                [28, 3 * kind, 131][usize::from(i)],
                0,
                0,
                [63, 0, 2][usize::from(i)],
            ];
            let members: &[u8] = if i == 1 { &[0] } else { &[3, b'e', 0, b'/'] };
            let mut seed = [&setup[..], members, content].concat();
            if i == 2 {
                seed[3] = 77;
            }
            seeds.push(seed);
        }
    }
    // Shorter than a window, exactly a window, and empty.
    for len in [0u8, 30, 32, 33] {
        seeds.push([&[len % 10, 20, 28, 0, 0, 9, 0, 0, len][..], &noise(1, len.into())].concat());
    }
    seeds.push([&[4, 0, 0, 0, 0, 0, 0, 0, 250][..], &text(1, 250)].concat());
    // First a hash that just fails to mark at a period of 32, then one that just marks.
    for hash in [4096u16, 4095] {
        let half = (0..=u16::MAX)
            .find(|half| half.wrapping_mul(0x9e37) == hash)
            .expect("the factor is odd");
        let content = [&half.to_le_bytes()[..], &[0, 0], &text(2, 60)].concat();
        seeds.push([&[8u8, 20, 28, 0, 0, 9, 0, 0, 64][..], &content].concat());
    }
    seeds
}
