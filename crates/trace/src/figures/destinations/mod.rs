//! Figure 13: to how many places the same content is sent (thesis, section 6.4, Figure 6.3).

mod present;

use super::sampled::Sampled;
use super::tally::{TOTAL, merge_equal, share, thin};
use super::{Finding, Observer};
use crate::batch::{Direction, View};
use crate::prefix::{PrefixId, Prefixes};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Chunks of 64 bytes by the number of destination prefixes that they are sent to, and what pairs
/// of these share.
#[derive(Debug)]
pub struct Destinations {
    prefixes: Prefixes,
    copies: Sampled<Copies>,
    /// Most prefixes whose pairs are counted.
    paired: usize,
    /// Payload bytes, those in chunks, and those of packets to addresses in no prefix.
    payload: u64,
    cut: u64,
    left_out: u64,
}

impl Destinations {
    /// Groups destinations by the names of `prefixes`, or, if there are none, by /16 (IPv4) and /32
    /// (IPv6).
    ///
    /// `memory` (bytes, without the table of prefixes) is for chunks, about 80 bytes for each
    /// destination of each; they are sampled when they are more than fit.
    pub fn new(memory: u64, prefixes: impl Into<Option<Prefixes>>) -> Destinations {
        let prefixes = prefixes.into().unwrap_or_default();
        // Pairs take up to an eighth.
        let paired = ((memory / 8 / PAIR_BYTES) as f64).sqrt().min(PAIRED as f64) as usize;
        let matrix = (paired * paired) as u64 * PAIR_BYTES;
        let copies = Sampled::new((memory - matrix.min(memory)) / 10 * 6);
        Destinations { prefixes, copies, paired: paired.max(4), payload: 0, cut: 0, left_out: 0 }
    }
}

/// Length of a chunk in bytes (thesis, section 6.4).
const CHUNK: usize = 64;

/// Bytes at the beginning of a chunk whose hash decides whether it is one.
const MARK: usize = 8;

/// Most prefixes whose pairs are counted.
const PAIRED: usize = 128;

/// Bytes for each place of the square matrix of pairs: its count, and half a pair's names and
/// share.
const PAIR_BYTES: u64 =
    4 + (size_of::<(Place, Place, u64)>() + size_of::<(f64, Place, Place)>()) as u64 / 2;

/// Pairs in the table.
const TOP: usize = 20;

/// Hash of the first bytes of a possible chunk.
fn mark(chunk: &[u8]) -> u32 {
    let mark = u64::from_le_bytes(chunk[..MARK].try_into().expect("a mark is as long as a word"));
    // A multiplicative hash; the constants are those of SplitMix64.
    ((mark ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
}

/// The chunks of a payload: they begin at the local minima of a hash, the first of several, among
/// the 63 places before and after. So they do not overlap, and whether there is one depends on the
/// content around it alone, not, as if they were cut one after the other, on all before.
fn chunks(payload: &[u8]) -> impl Iterator<Item = &[u8]> {
    // Places where a chunk can begin.
    let places = (payload.len() + 1).saturating_sub(CHUNK);
    let at = |place: usize| mark(&payload[place..]);
    // A local minimum is the minimum of its own block.
    (0..places).step_by(CHUNK).filter_map(move |block| {
        let least = (block..places.min(block + CHUNK)).min_by_key(|place| at(*place))?;
        let hash = at(least);
        let before = (least.saturating_sub(CHUNK - 1)..block).all(|place| at(place) > hash);
        let after = (block + CHUNK..places.min(least + CHUNK)).all(|place| at(place) >= hash);
        (before && after).then(|| &payload[least..least + CHUNK])
    })
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Place {
    #[default]
    None,
    Named(u32),
    V4([u8; 2]),
    V6([u8; 4]),
}

impl Place {
    fn bytes(self) -> [u8; 5] {
        match self {
            Place::None => [0; 5],
            Place::Named(id) => {
                let [a, b, c, d] = id.to_be_bytes();
                [1, a, b, c, d]
            }
            Place::V4([a, b]) => [2, a, b, 0, 0],
            Place::V6([a, b, c, d]) => [3, a, b, c, d],
        }
    }

    fn name(self, prefixes: &Prefixes) -> String {
        match self {
            Place::None => String::new(),
            Place::Named(id) => prefixes.name(PrefixId(id)).to_owned(),
            Place::V4([a, b]) => format!("{}/16", Ipv4Addr::new(a, b, 0, 0)),
            Place::V6([a, b, c, d]) => {
                format!(
                    "{}/32",
                    Ipv6Addr::from([
                        u16::from_be_bytes([a, b]),
                        u16::from_be_bytes([c, d]),
                        0,
                        0,
                        0,
                        0,
                        0,
                        0
                    ])
                )
            }
        }
    }
}

/// The copies of a chunk to one place.
#[derive(Clone, Copy, Debug, Default)]
struct Copies {
    /// The lower half of the chunk's hash; the upper half is the key's.
    chunk: u32,
    count: u32,
    place: Place,
    direction: Direction,
}

/// What is held of a chunk and a place at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    direction: Direction,
    chunk: u64,
    place: Place,
    count: u32,
}

impl Destinations {
    fn place(&self, address: IpAddr) -> Option<Place> {
        if !self.prefixes.is_empty() {
            return self.prefixes.lookup(address).map(|id| Place::Named(id.0));
        }
        Some(match address.to_canonical() {
            IpAddr::V4(address) => Place::V4([address.octets()[0], address.octets()[1]]),
            IpAddr::V6(address) => {
                Place::V6(address.octets()[..4].try_into().expect("four of sixteen octets"))
            }
        })
    }
}

impl Observer for Destinations {
    fn batch(&mut self, view: &View<'_>) {
        for packet in view.batch.packets() {
            let Some(flow) = packet.flow.filter(|_| packet.len > 0) else { continue };
            self.payload += u64::from(packet.len);
            let Some(place) = self.place(flow.destination) else {
                self.left_out += u64::from(packet.len);
                continue;
            };
            let place_hash = xxh3_64(&place.bytes());
            for chunk in chunks(view.batch.payload(packet)) {
                self.cut += CHUNK as u64;
                let chunk = xxh3_64_with_seed(chunk, packet.direction.index() as u64);
                // All places of a chunk are in the sample together: the upper half of the key is
                // the chunk's alone.
                let low = (chunk ^ place_hash) as u32;
                if let Some(copies) = self.copies.at(chunk >> 32 << 32 | u64::from(low)) {
                    let count = copies.count.saturating_add(1);
                    *copies =
                        Copies { chunk: chunk as u32, count, place, direction: packet.direction };
                }
            }
        }
    }

    fn finish(self: Box<Self>) -> Finding {
        Finding::Destinations(self.compute())
    }
}

/// Figure 13: chunks by the destinations they are sent to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChunkDestinations {
    /// Each direction with chunks; the total comes last if there are several.
    pub directions: Vec<DirectionDestinations>,
    /// Whether destinations were grouped by a table of prefixes; otherwise by /16 (IPv4) and /32
    /// (IPv6).
    pub named: bool,
    /// Payload in bytes.
    pub payload: u64,
    /// Payload in bytes within chunks.
    pub in_chunks: u64,
    /// Payload in bytes to addresses without a prefix.
    pub without_prefix: u64,
    /// Prefixes whose pairs are counted, at most.
    pub paired: usize,
    /// Prefixes whose pairs are not counted.
    pub not_paired: usize,
    /// How chunks were sampled. `None` if all are known.
    pub sampled: Option<String>,
    /// Memory of the figure's state in bytes.
    pub memory: u64,
}

/// Destinations of the chunks of one direction. Numbers of chunks and bytes are estimates if chunks
/// are sampled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirectionDestinations {
    /// The direction, or `total`.
    pub direction: &'static str,
    /// Chunks by number of destinations: 1, 2, 3, 4, up to 8, 16, 32, 64, and more.
    pub chunks: [u64; NUMBERS.len()],
    /// Share of the chunks by number of destinations, in the same groups.
    pub chunk_shares: [Option<f64>; NUMBERS.len()],
    /// Share of the repeated chunks by number of destinations, in the same groups.
    pub repeated_shares: [Option<f64>; NUMBERS.len()],
    /// Bytes in chunks, all copies counted.
    pub bytes: f64,
    /// Bytes in copies after the first.
    pub redundant: f64,
    /// Redundant bytes as a share of the bytes in chunks.
    pub redundant_share: Option<f64>,
    /// First copies to each further prefix, as a share of the redundant bytes.
    pub across: Option<f64>,
    /// Redundant bytes of chunks with several destinations, as a share of the redundant bytes.
    pub shared: Option<f64>,
    /// Number of destinations, and the share of chunks with at most that many.
    pub up_to: Vec<(f64, f64)>,
    /// The same for repeated chunks.
    pub repeated_up_to: Vec<(f64, f64)>,
    /// Pairs of prefixes that share most, most first.
    pub top_pairs: Vec<PrefixPair>,
    /// Pairs of prefixes that were counted.
    pub pairs: usize,
    /// Those of them that share 5 % of the redundant bytes or more.
    pub strong_pairs: usize,
    /// Share of the redundant bytes, and the share of pairs that share at most that much.
    pub pairs_up_to: Vec<(f64, f64)>,
}

/// Two prefixes that receive the same chunks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrefixPair {
    /// Name of the first prefix.
    pub first: String,
    /// Name of the second prefix.
    pub second: String,
    /// Bytes of the chunks that both receive, each chunk counted once.
    pub bytes: f64,
    /// The same as a share of the redundant bytes.
    pub share: f64,
}

impl Destinations {
    fn compute(self) -> ChunkDestinations {
        let Destinations { prefixes, copies, paired, payload, cut, left_out } = self;
        let scale = 1.0 / copies.rate();
        let memory = copies.memory(size_of::<Entry>() + 16) + (paired * paired) as u64 * PAIR_BYTES;
        let sampled = copies.note("pairs of a chunk and a destination");
        let mut entries: Vec<Entry> = Vec::new();
        entries.reserve_exact(copies.iter().count());
        entries.extend(copies.iter().map(|(key, of)| Entry {
            direction: of.direction,
            chunk: key >> 32 << 32 | u64::from(of.chunk),
            place: of.place,
            count: of.count,
        }));
        drop(copies);
        entries.sort_unstable();

        let mut groups: Vec<(&'static str, &[Entry])> = entries
            .chunk_by(|a, b| a.direction == b.direction)
            .map(|of| (of[0].direction.name(), of))
            .collect();
        if groups.len() > 1 {
            groups.push((TOTAL, &entries));
        }
        let mut not_paired = 0;
        let of = |(direction, entries)| {
            let pairs = Pairs::of(entries, paired);
            not_paired = pairs.places_left_out.max(not_paired);
            DirectionDestinations::of(direction, &Spread::of(entries), &pairs, scale, &prefixes)
        };
        ChunkDestinations {
            directions: groups.into_iter().map(of).collect(),
            named: !prefixes.is_empty(),
            payload,
            in_chunks: cut,
            without_prefix: left_out,
            paired,
            not_paired,
            sampled,
            memory,
        }
    }
}

impl DirectionDestinations {
    fn of(
        direction: &'static str,
        spread: &Spread,
        pairs: &Pairs,
        scale: f64,
        prefixes: &Prefixes,
    ) -> DirectionDestinations {
        let redundant = spread.redundant as f64;
        let mut by_share: Vec<(f64, Place, Place)> = pairs
            .counts
            .iter()
            .map(|(a, b, chunks)| (*chunks as f64 / redundant.max(1.0), *a, *b))
            .collect();
        // Largest first; names break ties, so that figures repeat.
        by_share.sort_unstable_by(|x, y| y.0.total_cmp(&x.0).then((x.1, x.2).cmp(&(y.1, y.2))));
        let top_pairs = by_share.iter().take_while(|(share, ..)| *share > 0.0).take(TOP).map(
            |(share, a, b)| PrefixPair {
                first: a.name(prefixes),
                second: b.name(prefixes),
                bytes: share * redundant * CHUNK as f64 * scale,
                share: *share,
            },
        );
        let mut pairs_up_to = Vec::new();
        if redundant > 0.0 && !by_share.is_empty() {
            let count = by_share.len() as f64;
            // Pairs that share nothing are below the first point.
            let sharing = by_share.iter().enumerate().rev().filter(|(_, (share, ..))| *share > 0.0);
            let points =
                sharing.map(|(i, (share, ..))| (*share, (count - i as f64) / count)).collect();
            pairs_up_to = thin(merge_equal(points), 1000);
        }
        let shares_of = |numbers: [u64; NUMBERS.len()]| {
            let all = numbers.iter().sum::<u64>() as f64;
            numbers.map(|chunks| share(chunks as f64, all))
        };
        DirectionDestinations {
            direction,
            chunks: spread.all.map(|chunks| (chunks as f64 * scale) as u64),
            chunk_shares: shares_of(spread.all),
            repeated_shares: shares_of(spread.repeated),
            bytes: (spread.chunks * CHUNK as u64) as f64 * scale,
            redundant: redundant * CHUNK as f64 * scale,
            redundant_share: share(redundant, spread.chunks as f64),
            across: share(spread.across as f64, redundant),
            shared: share(spread.shared as f64, redundant),
            up_to: cdf(&spread.numbers_all),
            repeated_up_to: cdf(&spread.numbers_repeated),
            top_pairs: top_pairs.collect(),
            pairs: by_share.len(),
            strong_pairs: by_share.iter().filter(|(share, ..)| *share >= 0.05).count(),
            pairs_up_to,
        }
    }
}

/// Numbers of destinations in each row of the table, at most, and their names.
const NUMBERS: [(u32, &str); 9] = [
    (1, "1"),
    (2, "2"),
    (3, "3"),
    (4, "4"),
    (8, "5 to 8"),
    (16, "9 to 16"),
    (32, "17 to 32"),
    (64, "33 to 64"),
    (u32::MAX, "65 and more"),
];

/// Chunks by number of destinations.
#[derive(Debug, Default)]
struct Spread {
    all: [u64; NUMBERS.len()],
    repeated: [u64; NUMBERS.len()],
    /// Chunks by exact number, ascending.
    numbers_all: Vec<(u32, u64)>,
    numbers_repeated: Vec<(u32, u64)>,
    /// Copies of chunks, those beyond the first, the first to each further prefix, and those beyond
    /// the first of chunks with several prefixes.
    chunks: u64,
    redundant: u64,
    across: u64,
    shared: u64,
}

impl Spread {
    fn of(entries: &[Entry]) -> Spread {
        let mut spread = Spread::default();
        let (mut all, mut repeated) = (HashMap::new(), HashMap::new());
        for chunk in by_chunk(entries) {
            let number = chunk.len() as u32;
            let copies: u64 = chunk.iter().map(|entry| u64::from(entry.count)).sum();
            let row = NUMBERS.partition_point(|(most, _)| *most < number);
            spread.all[row] += 1;
            *all.entry(number).or_insert(0u64) += 1;
            if copies > 1 {
                spread.repeated[row] += 1;
                *repeated.entry(number).or_insert(0u64) += 1;
            }
            spread.chunks += copies;
            spread.redundant += copies - 1;
            spread.across += u64::from(number) - 1;
            spread.shared += if number > 1 { copies - 1 } else { 0 };
        }
        let sorted = |numbers: HashMap<u32, u64>| {
            let mut numbers: Vec<_> = numbers.into_iter().collect();
            numbers.sort_unstable();
            numbers
        };
        Spread { numbers_all: sorted(all), numbers_repeated: sorted(repeated), ..spread }
    }
}

fn by_chunk(entries: &[Entry]) -> impl Iterator<Item = &[Entry]> {
    entries.chunk_by(|a, b| (a.direction, a.chunk) == (b.direction, b.chunk))
}

/// Points (number, share of chunks at or below it).
fn cdf(numbers: &[(u32, u64)]) -> Vec<(f64, f64)> {
    let all: u64 = numbers.iter().map(|(_, chunks)| chunks).sum();
    let mut sum = 0;
    let points = numbers.iter().map(|(number, chunks)| {
        sum += chunks;
        (f64::from(*number), sum as f64 / all as f64)
    });
    thin(points.collect(), 1000)
}

/// Chunks that pairs of prefixes have in common.
struct Pairs {
    /// Two prefixes and their number of common chunks; all pairs of the prefixes that were looked
    /// at, those with nothing in common too.
    counts: Vec<(Place, Place, u64)>,
    places_left_out: usize,
}

impl Pairs {
    /// Of the `most` prefixes with the most chunks that were sent elsewhere too.
    fn of(entries: &[Entry], most: usize) -> Pairs {
        let mut places: Vec<(Place, u64)> = entries.iter().map(|entry| (entry.place, 0)).collect();
        places.sort_unstable();
        places.dedup();
        for chunk in by_chunk(entries).filter(|chunk| chunk.len() > 1) {
            for entry in chunk {
                let at = places
                    .binary_search_by_key(&entry.place, |(place, _)| *place)
                    .expect("all places are there");
                places[at].1 += 1;
            }
        }
        places.sort_unstable_by_key(|(place, chunks)| (std::cmp::Reverse(*chunks), *place));
        let places_left_out = places.len().saturating_sub(most);
        places.truncate(most);
        places.sort_unstable();

        let n = places.len();
        let mut matrix = vec![0u32; n * n];
        let mut here = Vec::new();
        for chunk in by_chunk(entries).filter(|chunk| chunk.len() > 1) {
            here.clear();
            here.extend(chunk.iter().filter_map(|entry| {
                places.binary_search_by_key(&entry.place, |(place, _)| *place).ok()
            }));
            for (i, a) in here.iter().enumerate() {
                for b in &here[i + 1..] {
                    matrix[a * n + b] += 1;
                }
            }
        }
        let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
        let counts =
            pairs.map(|(a, b)| (places[a].0, places[b].0, u64::from(matrix[a * n + b]))).collect();
        Pairs { counts, places_left_out }
    }
}

#[cfg(test)]
mod tests;
