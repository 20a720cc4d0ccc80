//! Encoders of the two algorithms. Decoding exists only as a test oracle.

use super::{Algorithm, Configuration, WINDOW, Write};
use oncewire_codec::table::{COMPACT_LIMIT, CompactTable, FingerprintTable, Markers, NO_OFFSET};
use oncewire_codec::{ConfigError, Geometry, Kernels, Log, varint};
use std::ops::Range;

/// A repeated range of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Match {
    at: usize,
    len: usize,
    /// Offset in the cache.
    source: u64,
}

/// Totals over all encoded units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) units: u64,
    pub(super) bytes: u64,
    pub(super) encoded: u64,
    pub(super) matches: u64,
    /// Chunks whose fingerprint was known but whose content differed. Only counted by a check pass.
    pub(super) collisions: u64,
    /// Fingerprints that the modified algorithm dropped because its table was full.
    pub(super) dropped: u64,
}

/// Encodes units one at a time against a cache that holds all earlier units.
///
/// An encoded unit is: the varint of its length; the varint of its number of matches; for each
/// match, the varint of the number of literals before it, those literals, the varint of the match
/// length, and the varint of the distance from the unit's own place in the cache back to the
/// source; then the remaining literals. Sizes are counted to the byte.
pub(super) struct Encoding {
    kernels: Kernels,
    configuration: Configuration,
    log: Log,
    index: Index,
    markers: Vec<u32>,
    matches: Vec<Match>,
    out: Vec<u8>,
    check: bool,
    counts: Counts,
}

enum Index {
    Original {
        table: Box<dyn FingerprintTable>,
        fingerprints: Vec<u64>,
        found: Vec<u64>,
        scratch: (Vec<u64>, Vec<u32>),
    },
    Modified {
        table: NameTable,
        chunks: Vec<Chunk>,
    },
}

struct Chunk {
    at: usize,
    len: usize,
    name: u64,
    matched: bool,
}

impl Encoding {
    /// Allocates for `bytes` bytes in `units` units and touches all memory, so that no run pays for
    /// page faults. With `check`, hits of the modified algorithm are compared with the cached
    /// content and counted as collisions if they differ; they are used either way.
    pub(super) fn new(
        configuration: Configuration,
        bytes: u64,
        units: u64,
        check: bool,
    ) -> Result<Encoding, ConfigError> {
        let geometry = Geometry::new(bytes.max(1), 0)?;
        let mut log = Log::new(geometry)?;
        log.prefault();
        let distance = u64::from(configuration.distance);
        let index = match configuration.algorithm {
            Algorithm::Original => {
                // Runs can have more markers than the expected distance predicts; the extra ones
                // overwrite others.
                let entries = (2 * bytes / distance).max(1024);
                let mut table: Box<dyn FingerprintTable> = if bytes <= COMPACT_LIMIT {
                    Box::new(CompactTable::<u32>::new(geometry, entries)?)
                } else {
                    Box::new(CompactTable::<u64>::new(geometry, entries)?)
                };
                table.prefault();
                Index::Original {
                    table,
                    fingerprints: Vec::new(),
                    found: Vec::new(),
                    scratch: Default::default(),
                }
            }
            // On average content, the table is at most half full: most chunks of a unit end at a
            // marker, and one ends with the unit.
            Algorithm::Modified => Index::Modified {
                table: NameTable::new(2 * (bytes / distance + units) + 1024),
                chunks: Vec::new(),
            },
        };
        let (kernels, counts) = (Kernels::detect(), Counts::default());
        let (markers, matches, out) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Encoding { kernels, configuration, log, index, markers, matches, out, check, counts })
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes of cache and index.
    pub(super) fn memory(&self) -> u64 {
        let index = match &self.index {
            Index::Original { table, .. } => table.memory(),
            Index::Modified { table, .. } => table.entries.len() * size_of::<(u64, u64)>(),
        };
        self.log.geometry().capacity() + index as u64
    }

    /// Encodes the next unit; the result is valid until the next call.
    pub(super) fn encode(&mut self, unit: &[u8]) -> &[u8] {
        let offset = self.log.end();
        self.find_markers(unit);
        self.matches.clear();
        self.find_matches(unit, offset);
        self.write(unit, offset);
        match self.configuration.write {
            Write::All => self.log.write(offset, unit),
            Write::New => {
                for run in literal_runs(unit.len(), &self.matches) {
                    self.log.append(&unit[run]);
                }
            }
        }
        self.remember(unit.len(), offset);
        self.counts.units += 1;
        self.counts.bytes += unit.len() as u64;
        self.counts.encoded += self.out.len() as u64;
        self.counts.matches += self.matches.len() as u64;
        &self.out
    }

    /// Finds the special fingerprints as published: positions whose window has a Rabin fingerprint
    /// of 0 modulo the distance.
    fn find_markers(&mut self, unit: &[u8]) {
        const STEP: usize = 1024;
        let period = self.configuration.distance as usize;
        let (mut count, mut from) = (0, 0);
        loop {
            if self.markers.len() < count + STEP {
                self.markers.resize(count + STEP, 0);
            }
            let found = self.kernels.modp(
                unit,
                WINDOW,
                period,
                true,
                from,
                &mut self.markers[count..count + STEP],
            );
            count += found.count;
            from = found.resume;
            if found.count < STEP {
                break;
            }
        }
        self.markers.truncate(count);
    }

    fn find_matches(&mut self, unit: &[u8], offset: u64) {
        match &mut self.index {
            Index::Original { table, fingerprints, found, .. } => {
                fingerprints.resize(self.markers.len(), 0);
                found.resize(self.markers.len(), 0);
                self.kernels.fingerprints(unit, &self.markers, WINDOW, 0, fingerprints);
                table.look_up(
                    fingerprints,
                    Markers { block: offset, positions: &self.markers },
                    found,
                );
                let mut done = 0;
                for (i, &source) in found.iter().enumerate() {
                    if let Some(&soon) = found.get(i + 8)
                        && soon != NO_OFFSET
                    {
                        self.log.prefetch(soon);
                    }
                    let marker = self.markers[i] as usize;
                    if source >= offset || marker < done {
                        continue;
                    }
                    let forward =
                        self.kernels.common_prefix(&unit[marker..], self.log.read(source..offset));
                    if forward < WINDOW {
                        continue;
                    }
                    let back =
                        self.kernels.common_suffix(&unit[done..marker], self.log.read(0..source));
                    let found = Match {
                        at: marker - back,
                        len: back + forward,
                        source: source - back as u64,
                    };
                    done = found.at + found.len;
                    self.matches.push(found);
                }
            }
            Index::Modified { table, chunks } => {
                chunks.clear();
                let mut start = 0;
                let ends =
                    self.markers.iter().map(|&marker| marker as usize + WINDOW).chain([unit.len()]);
                for end in ends {
                    // Markers closer together than a window occur only in runs, one at each byte.
                    if end - start >= WINDOW {
                        chunks.push(Chunk {
                            at: start,
                            len: end - start,
                            name: name(&unit[start..end]),
                            matched: false,
                        });
                        start = end;
                    }
                }
                for chunk in chunks {
                    let Some(source) = table.get(chunk.name) else { continue };
                    chunk.matched = true;
                    if self.check {
                        let held = self.log.read(source..(source + chunk.len as u64).min(offset));
                        self.counts.collisions +=
                            u64::from(*held != unit[chunk.at..chunk.at + chunk.len]);
                    }
                    match self.matches.last_mut() {
                        Some(last)
                            if last.at + last.len == chunk.at
                                && last.source + last.len as u64 == source =>
                        {
                            last.len += chunk.len
                        }
                        _ => self.matches.push(Match { at: chunk.at, len: chunk.len, source }),
                    }
                }
            }
        }
    }

    fn write(&mut self, unit: &[u8], offset: u64) {
        self.out.clear();
        varint::put(&mut self.out, unit.len() as u64);
        varint::put(&mut self.out, self.matches.len() as u64);
        let mut done = 0;
        for found in &self.matches {
            varint::put(&mut self.out, (found.at - done) as u64);
            self.out.extend_from_slice(&unit[done..found.at]);
            varint::put(&mut self.out, found.len as u64);
            varint::put(&mut self.out, offset + found.at as u64 - found.source);
            done = found.at + found.len;
        }
        self.out.extend_from_slice(&unit[done..]);
    }

    /// Adds the cached part of the unit to the index.
    fn remember(&mut self, unit_len: usize, offset: u64) {
        let all = self.configuration.write == Write::All;
        match &mut self.index {
            Index::Original { table, fingerprints, .. } if all => {
                table.insert(fingerprints, Markers { block: offset, positions: &self.markers });
            }
            Index::Original { table, fingerprints, scratch: (new, places), .. } => {
                new.clear();
                places.clear();
                let (mut i, mut base) = (0, 0);
                for run in literal_runs(unit_len, &self.matches) {
                    while i < self.markers.len() && (self.markers[i] as usize) < run.start {
                        i += 1;
                    }
                    while i < self.markers.len() && self.markers[i] as usize + WINDOW <= run.end {
                        new.push(fingerprints[i]);
                        places.push((base + self.markers[i] as usize - run.start) as u32);
                        i += 1;
                    }
                    base += run.len();
                }
                table.insert(new, Markers { block: offset, positions: places });
            }
            Index::Modified { table, chunks } => {
                // Bytes before the chunk that were not cached.
                let mut left_out = 0;
                for chunk in chunks {
                    if all || !chunk.matched {
                        let place = offset + (chunk.at - left_out) as u64;
                        self.counts.dropped += u64::from(!table.put(chunk.name, place));
                    } else {
                        left_out += chunk.len;
                    }
                }
            }
        }
    }
}

/// The non-empty ranges of a unit that no match covers.
fn literal_runs(len: usize, matches: &[Match]) -> impl Iterator<Item = Range<usize>> {
    let starts = std::iter::once(0).chain(matches.iter().map(|found| found.at + found.len));
    let ends = matches.iter().map(|found| found.at).chain(std::iter::once(len));
    starts.zip(ends).map(|(start, end)| start..end).filter(|run| !run.is_empty())
}

/// Modulus of chunk names: a Mersenne prime.
const PRIME: u64 = (1 << 61) - 1;
/// The point at which the polynomial is evaluated. It is public, so names can be forged; use it for
/// measurements only.
const POINT: u64 = 0x0123_4567_89ab_cdef;
/// `POINT` to the fourth power.
const POINT_4: u64 = {
    let square = (POINT as u128 * POINT as u128 % PRIME as u128) as u64;
    (square as u128 * square as u128 % PRIME as u128) as u64
};

/// The second fingerprint of the modified algorithm (section 4), over a whole chunk. The chunk's
/// bytes, in digits of seven bytes, and its length are the coefficients of a polynomial modulo
/// [`PRIME`]. The paper updates the fingerprint byte by byte; equal chunks start at equal bytes, so
/// whole digits give the same matches.
///
/// Processes four digits at a time, each lane a polynomial in the fourth power of the point. A
/// single chain of multiplications would take twice as long as everything else.
fn name(chunk: &[u8]) -> u64 {
    let (groups, rest) = chunk.as_chunks::<28>();
    let mut lanes = [0u64; 4];
    for group in groups {
        for (lane, digit) in lanes.iter_mut().zip(group.as_chunks::<7>().0) {
            *lane = multiply(*lane, POINT_4) + number(digit);
        }
    }
    let mut name = 0;
    for lane in lanes {
        // `name` is below 2^61 + 8 and the lane below 2^62, so the sum is below 2^63.
        name = multiply(name, POINT) + lane;
    }
    for digit in rest.chunks(7) {
        name = multiply(name, POINT) + number(digit);
    }
    (multiply(name, POINT) + chunk.len() as u64) % PRIME
}

/// Up to seven bytes as a little-endian number.
#[inline(always)]
fn number(digit: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..digit.len()].copy_from_slice(digit);
    u64::from_le_bytes(bytes)
}

/// `a * b` modulo [`PRIME`]. For `a` below `2^63`, the result is below `PRIME + 8`; with a digit
/// added it is below `2^63` again.
#[inline(always)]
fn multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    let folded = (product as u64 & PRIME) + (product >> 61) as u64;
    (folded & PRIME) + (folded >> 61)
}

/// Names and the offsets of their newest content. An open-addressing table with linear probing.
struct NameTable {
    /// Name + 1 and offset. Unused entries hold [`UNUSED`].
    entries: Vec<(u64, u64)>,
    room: u64,
}

/// Not 0, so that initialization touches the memory. Names are below 2^61.
const UNUSED: u64 = u64::MAX;

impl NameTable {
    fn new(entries: u64) -> NameTable {
        NameTable { entries: vec![(UNUSED, 0); entries as usize], room: entries - entries / 8 }
    }

    #[inline(always)]
    fn first(&self, name: u64) -> usize {
        // Names are values of a polynomial; single bits of them need not be evenly distributed.
        let spread = name.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(spread) * self.entries.len() as u128) >> 64) as usize
    }

    #[inline(always)]
    fn find(&self, name: u64) -> usize {
        let mut at = self.first(name);
        // Terminates, since an eighth of the entries stays unused.
        while self.entries[at].0 != name && self.entries[at].0 != UNUSED {
            at = if at + 1 == self.entries.len() { 0 } else { at + 1 };
        }
        at
    }

    #[inline(always)]
    fn get(&self, name: u64) -> Option<u64> {
        let (found, offset) = self.entries[self.find(name)];
        (found == name).then_some(offset)
    }

    /// Returns `false` if the table is full.
    #[inline(always)]
    fn put(&mut self, name: u64, offset: u64) -> bool {
        let at = self.find(name);
        if self.entries[at].0 == UNUSED {
            if self.room == 0 {
                return false;
            }
            self.room -= 1;
        }
        self.entries[at] = (name, offset);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncewire_kernels::random::SplitMix64;
    use proptest::prelude::*;

    /// A decoder that shares nothing with the encoder but the format description.
    fn decode(wire: &[u8], cache: &mut Vec<u8>, write: Write) -> Vec<u8> {
        let mut rest = wire;
        let len = varint::take(&mut rest).unwrap() as usize;
        let matches = varint::take(&mut rest).unwrap();
        let (mut unit, mut new) = (Vec::new(), Vec::new());
        for _ in 0..matches {
            let literals = varint::take(&mut rest).unwrap() as usize;
            unit.extend(&rest[..literals]);
            new.extend(&rest[..literals]);
            rest = &rest[literals..];
            let matched = varint::take(&mut rest).unwrap() as usize;
            let distance = varint::take(&mut rest).unwrap() as usize;
            let source = cache.len() + unit.len() - distance;
            unit.extend_from_slice(&cache[source..source + matched]);
        }
        unit.extend(rest);
        new.extend(rest);
        cache.extend(if write == Write::All { &unit } else { &new });
        assert_eq!(unit.len(), len);
        unit
    }

    fn noise(seed: u64, len: usize) -> Vec<u8> {
        SplitMix64(seed).bytes(len)
    }

    fn configurations() -> impl Iterator<Item = Configuration> {
        let algorithms = [Algorithm::Original, Algorithm::Modified];
        let writes = [Write::All, Write::New];
        algorithms.into_iter().flat_map(move |algorithm| {
            writes.into_iter().flat_map(move |write| {
                [32, 128, 2048].map(|distance| Configuration {
                    algorithm,
                    write,
                    distance,
                    layer: super::super::Layer::Buffers,
                })
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn encoded_units_decode(parts in prop::collection::vec((0usize..6, 0usize..3000, 0usize..9000), 1..40)) {
            // Units are cut from a few sources, so that they repeat in part.
            let sources: Vec<Vec<u8>> = (0..5).map(|seed| noise(seed, 12_000)).chain([vec![0; 12_000]]).collect();
            let units: Vec<Vec<u8>> = parts
                .chunks(3)
                .map(|parts| parts.iter().flat_map(|&(source, start, len)| sources[source][start..start + len].to_vec()).collect())
                .collect();
            let bytes = units.iter().map(|unit| unit.len() as u64).sum();
            for configuration in configurations() {
                let mut encoding = Encoding::new(configuration, bytes, units.len() as u64, true).unwrap();
                let mut cache = Vec::new();
                for unit in &units {
                    let wire = encoding.encode(unit).to_vec();
                    prop_assert!(decode(&wire, &mut cache, configuration.write) == *unit, "{:?}", configuration);
                }
                let counts = encoding.counts();
                prop_assert_eq!((counts.bytes, counts.collisions, counts.dropped), (bytes, 0, 0));
            }
        }
    }

    #[test]
    fn chunks_match_their_definition() {
        let unit = noise(3, 20_000);
        let configuration = Configuration {
            algorithm: Algorithm::Modified,
            write: Write::All,
            distance: 64,
            layer: super::super::Layer::Buffers,
        };
        let mut encoding = Encoding::new(configuration, 20_000, 1, true).unwrap();
        encoding.encode(&unit);
        let Index::Modified { chunks, .. } = &encoding.index else { unreachable!("as configured") };
        // Oracle: a chunk ends at each window that is a marker, unless it would be shorter than a
        // window.
        let marker = |window: &[u8]| {
            Kernels::detect().modp(window, WINDOW, 64, true, 0, &mut [0]).count == 1
        };
        let (mut ends, mut start) = (Vec::new(), 0);
        for end in WINDOW..=unit.len() {
            if end - start >= WINDOW && (marker(&unit[end - WINDOW..end]) || end == unit.len()) {
                ends.push(end);
                start = end;
            }
        }
        assert_eq!(chunks.iter().map(|chunk| chunk.at + chunk.len).collect::<Vec<_>>(), ends);
        assert!((120..300).contains(&ends.len()), "{}", ends.len());
    }

    #[test]
    fn names_depend_on_length_and_every_byte() {
        let chunk = noise(9, 100);
        let mut names = vec![name(&chunk)];
        names.extend((0..100).map(|len| name(&chunk[..len])));
        for at in 0..100 {
            let mut other = chunk.clone();
            other[at] ^= 1;
            names.push(name(&other));
        }
        names.push(name(&[0; 40]));
        names.push(name(&[0; 41]));
        let distinct = names.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert_eq!(distinct, names.len());
        // Oracle: one digit at a time.
        for len in [0, 6, 7, 27, 28, 29, 56, 83, 100] {
            let mut plain = 0u128;
            for digit in chunk[..len].chunks(7) {
                plain = (plain * u128::from(POINT) + u128::from(number(digit))) % u128::from(PRIME);
            }
            plain = (plain * u128::from(POINT) + len as u128) % u128::from(PRIME);
            assert_eq!(u128::from(name(&chunk[..len])), plain);
        }
        for (a, b) in [((1 << 62) + 12345, PRIME - 1), (0, 5), (u64::MAX >> 1, POINT)] {
            assert_eq!(
                u128::from(multiply(a, b) % PRIME),
                u128::from(a) * u128::from(b) % u128::from(PRIME)
            );
        }
    }

    #[test]
    fn a_full_table_is_reported() {
        let mut table = NameTable::new(8);
        let put = (0..20).filter(|&name| table.put(name, name + 100)).count();
        assert_eq!(put, 7);
        assert!((0..7).all(|name| table.get(name) == Some(name + 100)) && table.get(19).is_none());
        assert!(table.put(3, 5) && table.get(3) == Some(5));
    }
}
