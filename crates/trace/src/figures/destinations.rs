//! Figure 13: to how many places the same content is sent (thesis, section 6.4, Figure 6.3).

use super::sampled::Sampled;
use super::tally::{TOTAL, merge_equal, percent, share, thin};
use crate::batch::{Direction, Observer, View};
use crate::prefix::{PrefixId, Prefixes};
use crate::results::{Axis, Cell, Chart, ChartKind, Column, Figure, Series, Table, Unit};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Chunks of 64 bytes by the number of destination prefixes that they are sent to, and what pairs of these share.
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
    /// Groups destinations by the names of `prefixes`, or, if there are none, by /16 (IPv4) and /32 (IPv6).
    ///
    /// `memory` (bytes, without the table of prefixes) is for chunks, about 80 bytes for each destination of each; they are sampled when they
    /// are more than fit.
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

/// Bytes for each place of the square matrix of pairs: its count, and half a pair's names and share.
const PAIR_BYTES: u64 = 4 + (size_of::<(Place, Place, u64)>() + size_of::<(f64, Place, Place)>()) as u64 / 2;

/// Pairs in the table.
const TOP: usize = 20;

/// Hash of the first bytes of a possible chunk.
fn mark(chunk: &[u8]) -> u32 {
    let mark = u64::from_le_bytes(chunk[..MARK].try_into().expect("a mark is as long as a word"));
    // A multiplicative hash; the constants are those of SplitMix64.
    ((mark ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
}

/// The chunks of a payload: they begin at the local minima of a hash, the first of several, among the 63 places before and after. So they do
/// not overlap, and whether there is one depends on the content around it alone, not, as if they were cut one after the other, on all before.
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
                format!("{}/32", Ipv6Addr::from([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]), 0, 0, 0, 0, 0, 0]))
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
            IpAddr::V6(address) => Place::V6(address.octets()[..4].try_into().expect("four of sixteen octets")),
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
                // All places of a chunk are in the sample together: the upper half of the key is the chunk's alone.
                let low = (chunk ^ place_hash) as u32;
                if let Some(copies) = self.copies.at(chunk >> 32 << 32 | u64::from(low)) {
                    let count = copies.count.saturating_add(1);
                    *copies = Copies { chunk: chunk as u32, count, place, direction: packet.direction };
                }
            }
        }
    }

    fn finish(self: Box<Self>) -> Figure {
        let Destinations { prefixes, copies, paired, payload, cut, left_out } = *self;
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

        let mut groups: Vec<(&str, &[Entry])> =
            entries.chunk_by(|a, b| a.direction == b.direction).map(|of| (of[0].direction.name(), of)).collect();
        if groups.len() > 1 {
            groups.push((TOTAL, &entries));
        }
        let mut tables = tables();
        let mut charts = charts();
        let mut finding = String::new();
        let mut others = 0;
        for (name, entries) in &groups {
            let spread = Spread::of(entries);
            let [by_number, bytes, top_pairs] = &mut tables;
            for (i, (_, label)) in NUMBERS.iter().enumerate() {
                let row = |number: [u64; NUMBERS.len()]| share(number[i] as f64, number.iter().sum::<u64>() as f64);
                by_number.rows.push(vec![
                    (*name).into(),
                    (*label).into(),
                    Cell::from((spread.all[i] as f64 * scale) as u64),
                    row(spread.all).into(),
                    row(spread.repeated).into(),
                ]);
            }
            let redundant = spread.redundant as f64;
            bytes.rows.push(vec![
                (*name).into(),
                (((spread.chunks * CHUNK as u64) as f64) * scale).into(),
                (redundant * CHUNK as f64 * scale).into(),
                share(redundant, spread.chunks as f64).into(),
                share(spread.across as f64, redundant).into(),
                share(spread.shared as f64, redundant).into(),
            ]);
            for (chart, numbers) in [(0, &spread.numbers_all), (1, &spread.numbers_repeated)] {
                let label = ["all chunks", "repeated chunks"][chart];
                let points = cdf(numbers);
                if !points.is_empty() {
                    charts[0].series.push(Series::new(format!("{name}, {label}"), points));
                }
            }
            let pairs = Pairs::of(entries, paired);
            others = others.max(pairs.places_left_out);
            let mut shares: Vec<(f64, Place, Place)> =
                pairs.counts.iter().map(|(a, b, chunks)| (*chunks as f64 / redundant.max(1.0), *a, *b)).collect();
            // The greatest first; names break ties, so that figures repeat.
            shares.sort_unstable_by(|x, y| y.0.total_cmp(&x.0).then((x.1, x.2).cmp(&(y.1, y.2))));
            for (share, a, b) in shares.iter().take_while(|(share, ..)| *share > 0.0).take(TOP) {
                top_pairs.rows.push(vec![
                    (*name).into(),
                    a.name(&prefixes).into(),
                    b.name(&prefixes).into(),
                    (share * redundant * CHUNK as f64 * scale).into(),
                    (*share).into(),
                ]);
            }
            if redundant > 0.0 && !shares.is_empty() {
                let count = shares.len() as f64;
                // Pairs without anything in common are below the first point.
                let points: Vec<(f64, f64)> = shares
                    .iter()
                    .enumerate()
                    .rev()
                    .filter(|(_, (share, ..))| *share > 0.0)
                    .map(|(i, (share, ..))| (*share, (count - i as f64) / count))
                    .collect();
                let points = thin(merge_equal(points), 1000);
                if !points.is_empty() {
                    charts[1].series.push(Series::new(*name, points));
                }
            }
            finding = words(&spread, &shares);
        }

        let mut notes = Vec::new();
        if prefixes.is_empty() {
            notes.push(
                "No table of prefixes was given: destinations are grouped by /16 (IPv4) and /32 (IPv6), which is not how they are routed."
                    .into(),
            );
        }
        if let Some(share) = share(cut as f64, (payload - left_out) as f64) {
            notes.push(format!("Chunks cover {} of the payload; shares are of the bytes in chunks.", percent(share)));
        }
        if left_out > 0 {
            let share = left_out as f64 / payload as f64;
            notes
                .push(format!("{} of the payload goes to addresses in no prefix of the table, and is left out.", percent(share)));
        }
        notes.extend(sampled);
        if others > 0 {
            notes.push(format!(
                "Pairs are counted between the {paired} prefixes with most chunks sent elsewhere too; {others} others have none."
            ));
        }
        Figure {
            number: 13,
            id: "destinations",
            title: "Duplication across destinations",
            source: "thesis, section 6.4, Figure 6.3",
            definition: definition(),
            finding,
            tables: if groups.is_empty() { Vec::new() } else { tables.into() },
            charts: charts.into_iter().filter(|chart| !chart.series.is_empty()).collect(),
            notes,
            memory,
        }
    }
}

fn definition() -> String {
    format!(
        "A chunk is {CHUNK} bytes of a packet's payload. It begins where a hash of {MARK} bytes is less than at the 63 places before, and no more \
         than at the 63 after, among those of the packet where a chunk can begin: so chunks do not overlap, and equal content is cut into equal \
         chunks wherever it lies in packets, but for its first 63 and last 126 bytes; a run of one byte has one at most. A chunk is known by a 64-bit hash; directions have their own. The number of its \
         destinations is that of the prefixes that its copies were sent to in the whole trace, whatever the cache. Repeated chunks are those \
         with two copies or more. A chunk of n copies to d prefixes has {CHUNK} (n - 1) redundant bytes, {CHUNK} (d - 1) of them across \
         destinations: the first copy to each further prefix. Two prefixes share {CHUNK} bytes of each chunk that was sent to both, however \
         often, as in the redundancy profiles of the thesis, section 6.2; shares are of the redundant bytes, and since a chunk can be shared by \
         several pairs, they add up to any number."
    )
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

fn tables() -> [Table; 3] {
    let table = |id, caption: &str, columns: &[(&str, Unit)]| Table {
        id,
        caption: caption.into(),
        columns: columns.iter().map(|(name, unit)| Column::new(*name, *unit)).collect(),
        rows: Vec::new(),
    };
    [
        table(
            "destinations",
            "Chunks by number of destination prefixes",
            &[
                ("direction", Unit::Text),
                ("destinations", Unit::Text),
                ("chunks", Unit::Count),
                ("share of chunks", Unit::Share),
                ("share of repeated chunks", Unit::Share),
            ],
        ),
        table(
            "bytes",
            "Redundant bytes, and those across destinations",
            &[
                ("direction", Unit::Text),
                ("in chunks", Unit::Bytes),
                ("redundant", Unit::Bytes),
                ("share redundant", Unit::Share),
                ("of these across destinations", Unit::Share),
                ("of these in chunks with several destinations", Unit::Share),
            ],
        ),
        table(
            "pairs",
            "Pairs of prefixes that share most",
            &[
                ("direction", Unit::Text),
                ("prefix", Unit::Text),
                ("other prefix", Unit::Text),
                ("shared", Unit::Bytes),
                ("share of redundant bytes", Unit::Share),
            ],
        ),
    ]
}

fn charts() -> [Chart; 2] {
    let chart = |id, caption: &str, x, y: &str| Chart {
        id,
        caption: caption.into(),
        kind: ChartKind::Step,
        x,
        y: Axis::new(y, Unit::Share),
        right: None,
        series: Vec::new(),
    };
    [
        chart(
            "destinations",
            "Chunks sent to at most so many prefixes",
            Axis::log("destination prefixes", Unit::Count),
            "share of chunks",
        ),
        chart(
            "pairs",
            "Pairs of prefixes that share at most so much",
            Axis::log("share of redundant bytes that a pair shares", Unit::Share),
            "share of pairs",
        ),
    ]
}

/// Chunks by number of destinations.
#[derive(Debug, Default)]
struct Spread {
    all: [u64; NUMBERS.len()],
    repeated: [u64; NUMBERS.len()],
    /// Chunks by exact number, ascending.
    numbers_all: Vec<(u32, u64)>,
    numbers_repeated: Vec<(u32, u64)>,
    /// Copies of chunks, those beyond the first, the first to each further prefix, and those beyond the first of chunks with several prefixes.
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
    /// Two prefixes and their number of common chunks; all pairs of the prefixes that were looked at, those with nothing in common too.
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
                let at = places.binary_search_by_key(&entry.place, |(place, _)| *place).expect("all places are there");
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
            here.extend(chunk.iter().filter_map(|entry| places.binary_search_by_key(&entry.place, |(place, _)| *place).ok()));
            for (i, a) in here.iter().enumerate() {
                for b in &here[i + 1..] {
                    matrix[a * n + b] += 1;
                }
            }
        }
        let pairs = (0..n).flat_map(|a| (a + 1..n).map(move |b| (a, b)));
        let counts = pairs.map(|(a, b)| (places[a].0, places[b].0, u64::from(matrix[a * n + b]))).collect();
        Pairs { counts, places_left_out }
    }
}

fn words(spread: &Spread, pairs: &[(f64, Place, Place)]) -> String {
    let all: u64 = spread.all.iter().sum();
    let (Some(one), Some(across)) =
        (share(spread.all[0] as f64, all as f64), share(spread.across as f64, spread.redundant as f64))
    else {
        return String::new();
    };
    let mut words = format!(
        "{} of the chunks go to a single prefix. {} of the redundant bytes are first copies to a further one: {}.",
        percent(one),
        percent(across),
        if across >= 0.1 {
            "routing that puts such destinations on common links can save them"
        } else {
            "with so few, redundancy-aware routing gains little over shortest paths"
        }
    );
    let much = pairs.iter().filter(|(share, ..)| *share >= 0.05).count();
    if much > 0 {
        words += &format!(" {much} of {} pairs of prefixes share 5 % of the redundant bytes or more.", pairs.len());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::testing::{Made, noise, observe};
    use proptest::prelude::*;

    fn to(destination: &str, payload: &[u8]) -> Made {
        Made::udp("10.0.0.1:80", &format!("{destination}:1000")).payload(payload)
    }

    fn table<'a>(figure: &'a Figure, id: &str) -> &'a Table {
        figure.tables.iter().find(|table| table.id == id).unwrap()
    }

    fn number(cell: &Cell) -> f64 {
        match cell {
            Cell::Number(number) => *number,
            Cell::Count(count) => *count as f64,
            other => panic!("{other:?}"),
        }
    }

    /// Payload that is one chunk, by seed.
    fn chunk(seed: u64) -> Vec<u8> {
        let noise = noise(seed, 4096);
        let chunk = chunks(&noise).next().unwrap().to_vec();
        assert_eq!(chunks(&chunk).count(), 1);
        chunk
    }

    #[test]
    fn chunks_by_number_of_destinations() {
        // Chunk 1 to one place twice, 2 to A and B, 3 to A, A, B and C, 4 once; D is in no prefix.
        let [a, b, c, d] = ["10.1.0.1", "10.2.0.1", "10.3.0.1", "11.0.0.1"];
        let sent = [(1, a), (1, a), (2, a), (2, b), (3, a), (3, a), (3, b), (3, c), (4, a), (5, d)];
        let packets: Vec<Made> = sent.iter().map(|(seed, place)| to(place, &chunk(*seed))).collect();
        let prefixes = Prefixes::parse("10.1.0.0/16 A\n10.2.0.0/16 B\n10.3.0.0/16 C").unwrap();
        let figure = observe(Box::new(Destinations::new(1 << 20, prefixes)), &packets, 1 << 20, 3);
        let by_number = table(&figure, "destinations");
        let column = |column: usize| by_number.rows.iter().map(|row| number(&row[column])).collect::<Vec<_>>();
        assert_eq!(column(2)[..4], [2.0, 1.0, 1.0, 0.0]);
        assert_eq!(column(3)[..4], [0.5, 0.25, 0.25, 0.0]);
        assert_eq!(column(4)[..4], [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 0.0]);
        // 9 copies of 4 chunks: 5 redundant, of which B of 2, B and C of 3 are across.
        let bytes: Vec<f64> = table(&figure, "bytes").rows[0][1..].iter().map(number).collect();
        assert_eq!(bytes, [576.0, 320.0, 5.0 / 9.0, 3.0 / 5.0, 4.0 / 5.0]);
        let pairs = &table(&figure, "pairs").rows;
        assert_eq!(pairs[0][1..], ["A".into(), "B".into(), 128.0.into(), 0.4.into()]);
        assert_eq!(pairs[1][1..], ["A".into(), "C".into(), 64.0.into(), 0.2.into()]);
        assert_eq!(pairs[2][1..], ["B".into(), "C".into(), 64.0.into(), 0.2.into()]);
        assert_eq!(pairs.len(), 3);
        assert_eq!(figure.charts[1].series[0].points, [(0.2, 2.0 / 3.0), (0.4, 1.0)]);
        assert!(figure.notes.iter().any(|note| note.starts_with("10.0 % of the payload goes to addresses in no prefix")));
    }

    #[test]
    fn without_a_table_networks_are_named_by_address() {
        let packets = [to("10.1.0.1", &chunk(1)), to("10.2.9.9", &chunk(1)), to("[2001:db8:1::1]", &chunk(1))];
        let figure = observe(Box::new(Destinations::new(1 << 20, Prefixes::default())), &packets, 1 << 20, 3);
        let pairs = &table(&figure, "pairs").rows;
        assert_eq!(pairs[0][1..3], ["10.1.0.0/16".into(), "10.2.0.0/16".into()]);
        assert_eq!(pairs[1][1..3], ["10.1.0.0/16".into(), "2001:db8::/32".into()]);
        assert!(figure.notes[0].starts_with("No table of prefixes"));
    }

    proptest! {
        #[test]
        fn equal_content_is_cut_alike(before in 0usize..300, after in 0usize..300, seed in any::<u64>()) {
            let content = noise(seed, 2000);
            let mut packet = noise(seed ^ 1, before);
            packet.extend(&content);
            packet.extend(noise(seed ^ 2, after));
            let within: Vec<_> = chunks(&packet).collect();
            for chunk in chunks(&content) {
                let at = chunk.as_ptr() as usize - content.as_ptr() as usize;
                let inner = (63..2000 - 126).contains(&at) && at + CHUNK + 63 <= 2000;
                prop_assert!(!inner || within.contains(&chunk), "at {}", at);
            }
        }

        #[test]
        fn chunks_begin_at_local_minima(len in 0usize..600, seed in any::<u64>(), few in any::<bool>()) {
            let mut payload = noise(seed, len);
            if few {
                // Many equal hashes.
                payload.iter_mut().for_each(|byte| *byte /= 250);
            }
            let hashes: Vec<u32> = payload.windows(CHUNK).map(mark).collect();
            let naive = (0..hashes.len()).filter(|i| {
                (0..hashes.len()).all(|j| match j.cmp(i) {
                    std::cmp::Ordering::Less => i - j >= CHUNK || hashes[j] > hashes[*i],
                    _ => j - i >= CHUNK || hashes[j] >= hashes[*i],
                })
            });
            let naive: Vec<_> = naive.map(|i| &payload[i..i + CHUNK]).collect();
            prop_assert_eq!(chunks(&payload).collect::<Vec<_>>(), naive);
        }

        #[test]
        fn any_payload_is_cut(payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(chunks(&payload).count() * CHUNK <= payload.len());
        }
    }

    #[test]
    fn about_half_is_covered() {
        let noise = noise(7, 1_000_000);
        let covered = chunks(&noise).count() * CHUNK;
        assert!((480_000..530_000).contains(&covered), "{covered}");
    }

    #[test]
    fn chunks_are_sampled_within_the_memory() {
        // 3,000 chunks, a third of them to two places.
        let mut packets = Vec::new();
        for seed in 0..3000 {
            let chunk = chunk(seed);
            packets.push(to("10.1.0.1", &chunk));
            if seed % 3 == 0 {
                packets.push(to("10.2.0.1", &chunk));
            }
        }
        let budget = 60_000;
        let figure = observe(Box::new(Destinations::new(budget, Prefixes::default())), &packets, 1 << 20, 500);
        assert!(figure.memory <= budget, "{}", figure.memory);
        assert!(figure.notes.iter().any(|note| note.contains("sample of 1 in")), "{:?}", figure.notes);
        let rows = &table(&figure, "destinations").rows;
        assert!((number(&rows[0][3]) - 2.0 / 3.0).abs() < 0.09, "{rows:?}");
        assert_eq!(number(&table(&figure, "bytes").rows[0][4]), 1.0);
        let all = number(&table(&figure, "bytes").rows[0][1]);
        assert!((all / 256_000.0 - 1.0).abs() < 0.2, "{all}");
        assert!(observe(Box::new(Destinations::new(0, None)), &packets, 1 << 20, 500).memory < 4000);
        assert!(observe(Box::new(Destinations::new(0, None)), &[], 1 << 20, 500).tables.is_empty());
    }
}
