//! Models what scan-resistant cache policies would find, beside the first-in-first-out ring that
//! Oncewire uses: `cargo run --release -p oncewire-research-scan -- [OPTIONS] FILE...`.
//!
//! A flow larger than the cache evicts everything from a first-in-first-out ring. When it is sent
//! again, each part has just been evicted before it is needed. This program estimates what other
//! policies would find. It cuts content into chunks of about 1 KiB and counts a chunk as found if
//! the policy still holds it. The codec finds repeats of 32 bytes and more, so it finds more in
//! similar content, and the same in content that repeats unchanged.
//!
//! Every FILE is a flow, or a capture with many flows (pcap, pcapng). `--cache BYTES` sets the
//! cache (default 64 MiB). `--then` begins a new sequence of files, each of which is measured
//! separately. Without files, only the arranged workloads run. The output is Markdown.

use oncewire_packet::{CaptureReader, Dissector, Limits};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::error::Error;
use std::fs;

/// A piece of a flow.
#[derive(Clone, Copy)]
struct Chunk {
    flow: u32,
    name: u64,
    len: u32,
}

type Workload = Vec<Chunk>;

fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

// ---- Policies. ----

/// Reports for each chunk whether it is found, then records it.
trait Policy {
    fn find(&mut self, chunk: Chunk) -> bool;
}

/// A ring of bytes, and the last position of each chunk.
struct Ring {
    capacity: u64,
    end: u64,
    places: HashMap<u64, u64>,
}

impl Ring {
    fn new(capacity: u64) -> Ring {
        Ring { capacity, end: 0, places: HashMap::new() }
    }

    fn holds(&self, chunk: Chunk) -> bool {
        self.places.get(&chunk.name).is_some_and(|&at| self.end - at <= self.capacity)
    }

    fn write(&mut self, chunk: Chunk) {
        self.places.insert(chunk.name, self.end);
        self.end += u64::from(chunk.len);
    }
}

/// How many bytes each flow has sent.
#[derive(Default)]
struct Flows(HashMap<u32, u64>);

impl Flows {
    fn count(&mut self, chunk: Chunk) -> u64 {
        let sent = self.0.entry(chunk.flow).or_default();
        *sent += u64::from(chunk.len);
        *sent
    }
}

/// The policy of the log: everything enters, the oldest leaves.
struct All(Ring);

impl Policy for All {
    fn find(&mut self, chunk: Chunk) -> bool {
        let found = self.0.holds(chunk);
        self.0.write(chunk);
        found
    }
}

/// Cache policy `new`: only content that was not found enters.
struct New(Ring);

impl Policy for New {
    fn find(&mut self, chunk: Chunk) -> bool {
        let found = self.0.holds(chunk);
        if !found {
            self.0.write(chunk);
        }
        found
    }
}

/// Content that a flow sends beyond `limit` bytes does not enter, except for one part in `keep`.
/// Parts are chosen by content, so repeated content makes the same choice.
struct Limited {
    ring: Ring,
    flows: Flows,
    limit: u64,
    keep: Option<u64>,
    /// Whether the current part is kept. Parts are about 64 KiB, delimited by content.
    keeping: HashMap<u32, bool>,
}

impl Limited {
    fn new(capacity: u64, limit: u64, keep: Option<u64>) -> Limited {
        Limited {
            ring: Ring::new(capacity),
            flows: Flows::default(),
            limit,
            keep,
            keeping: HashMap::new(),
        }
    }
}

impl Policy for Limited {
    fn find(&mut self, chunk: Chunk) -> bool {
        let found = self.ring.holds(chunk);
        let keeping = self.keeping.entry(chunk.flow).or_default();
        if mix(chunk.name).is_multiple_of(64) {
            *keeping = self.keep.is_some_and(|keep| mix(chunk.name ^ 1).is_multiple_of(keep));
        }
        let keeping = *keeping;
        if self.flows.count(chunk) <= self.limit || keeping {
            self.ring.write(chunk);
        }
        found
    }
}

/// As [`Limited`] with the whole cache as the limit, but flows that recently found much nearby keep
/// entering: such a flow is not a scan, however long it is. Both ends could decide this, since
/// frames contain distances.
struct Near {
    ring: Ring,
    flows: Flows,
    /// For each flow: recent bytes found nearby, and all recent bytes.
    lately: HashMap<u32, (u64, u64)>,
}

impl Policy for Near {
    fn find(&mut self, chunk: Chunk) -> bool {
        let found = self.ring.holds(chunk);
        let close = found
            && self
                .ring
                .places
                .get(&chunk.name)
                .is_some_and(|&at| self.ring.end - at < self.ring.capacity / 2);
        let (near, all) = self.lately.entry(chunk.flow).or_default();
        *near += if close { u64::from(chunk.len) } else { 0 };
        *all += u64::from(chunk.len);
        if *all > self.ring.capacity / 16 {
            (*near, *all) = (*near / 2, *all / 2);
        }
        let worth = *near * 8 > *all;
        if self.flows.count(chunk) <= self.ring.capacity || worth {
            self.ring.write(chunk);
        }
        found
    }
}

/// Content that a flow sends beyond a quarter of the cache enters a second ring, which has a
/// quarter of the cache.
struct TwoRings {
    main: Ring,
    scans: Ring,
    flows: Flows,
}

impl Policy for TwoRings {
    fn find(&mut self, chunk: Chunk) -> bool {
        let found = self.main.holds(chunk) || self.scans.holds(chunk);
        if self.flows.count(chunk) <= self.scans.capacity {
            self.main.write(chunk)
        } else {
            self.scans.write(chunk)
        }
        found
    }
}

/// S3-FIFO (Yang et al., SOSP 2023) over chunks: a small queue that most content only passes
/// through, a main queue for content seen twice, and the names of content evicted from the small
/// queue.
struct S3Fifo {
    small: VecDeque<Chunk>,
    main: VecDeque<Chunk>,
    ghosts: VecDeque<Chunk>,
    /// Use count of each chunk held, at most 3.
    held: HashMap<u64, u8>,
    remembered: HashSet<u64>,
    bytes: [u64; 3],
    capacity: u64,
}

impl S3Fifo {
    fn new(capacity: u64) -> S3Fifo {
        S3Fifo {
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: VecDeque::new(),
            held: HashMap::new(),
            remembered: HashSet::new(),
            bytes: [0; 3],
            capacity,
        }
    }

    fn make_room(&mut self) {
        while self.bytes[0] + self.bytes[1] > self.capacity {
            if self.bytes[0] > self.capacity / 10 || self.main.is_empty() {
                let Some(chunk) = self.small.pop_front() else { return };
                self.bytes[0] -= u64::from(chunk.len);
                if self.held.get(&chunk.name).is_some_and(|&uses| uses > 0) {
                    self.held.insert(chunk.name, 0);
                    self.main.push_back(chunk);
                    self.bytes[1] += u64::from(chunk.len);
                } else {
                    self.held.remove(&chunk.name);
                    self.remembered.insert(chunk.name);
                    self.ghosts.push_back(chunk);
                    self.bytes[2] += u64::from(chunk.len);
                    while self.bytes[2] > self.capacity {
                        let Some(gone) = self.ghosts.pop_front() else { break };
                        self.bytes[2] -= u64::from(gone.len);
                        self.remembered.remove(&gone.name);
                    }
                }
            } else if let Some(chunk) = self.main.pop_front() {
                match self.held.entry(chunk.name) {
                    Entry::Occupied(mut uses) if *uses.get() > 0 => {
                        *uses.get_mut() -= 1;
                        self.main.push_back(chunk);
                    }
                    entry => {
                        if let Entry::Occupied(entry) = entry {
                            entry.remove();
                        }
                        self.bytes[1] -= u64::from(chunk.len);
                    }
                }
            }
        }
    }
}

impl Policy for S3Fifo {
    fn find(&mut self, chunk: Chunk) -> bool {
        if let Some(uses) = self.held.get_mut(&chunk.name) {
            *uses = (*uses + 1).min(3);
            return true;
        }
        self.held.insert(chunk.name, 0);
        let queue = usize::from(self.remembered.contains(&chunk.name));
        [&mut self.small, &mut self.main][queue].push_back(chunk);
        self.bytes[queue] += u64::from(chunk.len);
        self.make_room();
        false
    }
}

/// The upper bound for every policy: knows the future and evicts what is needed last (Belady).
fn best(capacity: u64, chunks: &[Chunk]) -> u64 {
    let mut next = vec![u64::MAX; chunks.len()];
    let mut later = HashMap::new();
    for (i, chunk) in chunks.iter().enumerate().rev() {
        next[i] = later.insert(chunk.name, i as u64).unwrap_or(u64::MAX);
    }
    // Ordered by next use, furthest first.
    let (mut held, mut order, mut bytes, mut found) = (HashMap::new(), BTreeSet::new(), 0, 0);
    for (chunk, &next) in chunks.iter().zip(&next) {
        if let Some(use_now) = held.remove(&chunk.name) {
            order.remove(&(use_now, chunk.name, chunk.len));
            bytes -= u64::from(chunk.len);
            found += u64::from(chunk.len);
        }
        if next == u64::MAX {
            continue;
        }
        held.insert(chunk.name, next);
        order.insert((next, chunk.name, chunk.len));
        bytes += u64::from(chunk.len);
        while bytes > capacity {
            let Some((_, name, len)) = order.pop_last() else { break };
            held.remove(&name);
            bytes -= u64::from(len);
        }
    }
    found
}

// ---- Workloads. ----

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

const LEN: u64 = 1024;

/// Appends `bytes` bytes of the file `file`, starting at `from`, as part of `flow`. Chunk `i` has
/// changed if `changed` returns true for it.
fn send(
    out: &mut Workload,
    flow: u32,
    file: u64,
    range: std::ops::Range<u64>,
    changed: impl Fn(u64) -> u64,
) {
    for i in range.start / LEN..range.end / LEN {
        out.push(Chunk { flow, name: mix(mix(file) ^ i ^ changed(i) << 48), len: LEN as u32 });
    }
}

fn unchanged(_: u64) -> u64 {
    0
}

/// Requests for files of 10 KB to 2 MB, `bytes` in total, popular files often. Each request has its
/// own connection, or a connection carries `each` requests.
struct Office {
    random: Random,
    files: Vec<u64>,
    flow: u32,
    requests: u64,
    per_flow: u64,
}

impl Office {
    fn new(bytes: u64, per_flow: u64) -> Office {
        let mut random = Random(7);
        let (mut files, mut sum) = (Vec::new(), 0);
        while sum < bytes {
            let len = (10_000.0 * 200f64.powf(random.below(1000) as f64 / 1000.0)) as u64;
            files.push(len);
            sum += len;
        }
        Office { random, files, flow: 1_000_000, requests: 0, per_flow }
    }

    fn run(&mut self, out: &mut Workload, bytes: u64) {
        let mut sum = 0;
        while sum < bytes {
            // Popularity falls with the square of a uniform number, roughly like Zipf's law.
            let die = self.random.below(1 << 20) as f64 / (1 << 20) as f64;
            let file = (die * die * die * self.files.len() as f64) as usize;
            self.requests += 1;
            self.flow += u32::from(self.requests.is_multiple_of(self.per_flow));
            send(out, self.flow, 1_000_000 + file as u64, 0..self.files[file], unchanged);
            sum += self.files[file];
        }
    }
}

fn arranged(cache: u64) -> Vec<(String, Workload)> {
    let of = |factor: f64| (cache as f64 * factor) as u64;
    let mut all: Vec<(String, Workload)> = Vec::new();
    let mut add = |name: &str, fill: &dyn Fn(&mut Workload)| {
        let mut out = Workload::new();
        fill(&mut out);
        all.push((name.into(), out));
    };
    for factor in [0.8, 1.1, 1.6, 4.0] {
        add(&format!("one file of {factor} caches, three times"), &|out| {
            (0..3).for_each(|flow| send(out, flow, 1, 0..of(factor), unchanged));
        });
    }
    add(
        "an image of 2 caches, 3 % changed each night, 1 cache of office traffic by day, 4 nights",
        &|out| {
            let mut office = Office::new(of(0.5), 1);
            for night in 0..4 {
                let changed =
                    move |i: u64| if mix(i ^ night << 32).is_multiple_of(33) { night } else { 0 };
                send(out, night as u32, 2, 0..of(2.0), changed);
                office.run(out, of(1.0));
            }
        },
    );
    add(
        "office traffic over files of 0.7 caches, and every 3 caches a new file of 2 caches",
        &|out| {
            let mut office = Office::new(of(0.7), 1);
            for scan in 0..5 {
                office.run(out, of(3.0));
                send(out, scan, 100 + u64::from(scan), 0..of(2.0), unchanged);
            }
        },
    );
    add("the same office traffic without large files", &|out| {
        Office::new(of(0.7), 1).run(out, of(15.0))
    });
    add("the same, all on one connection", &|out| {
        Office::new(of(0.7), u64::MAX).run(out, of(15.0))
    });
    add("the same, 500 requests on a connection", &|out| {
        Office::new(of(0.7), 500).run(out, of(15.0))
    });
    add(
        "5 new files of 1.6 caches, each cut off at the end and its last 0.6 caches sent again",
        &|out| {
            for file in 0..5 {
                send(out, 2 * file, u64::from(file), 0..of(1.6), unchanged);
                send(out, 2 * file + 1, u64::from(file), of(1.0)..of(1.6), unchanged);
            }
        },
    );
    add("2 clients fetch a file of 4 caches, one 0.3 caches behind the other", &|out| {
        let step = of(0.01);
        for at in 0..430 {
            if at < 400 {
                send(out, 1, 1, at * step..(at + 1) * step, unchanged);
            }
            if at >= 30 {
                send(out, 2, 1, (at - 30) * step..(at - 29) * step, unchanged);
            }
        }
    });
    add(
        "one connection replicates: 12 caches of new pages, each written again within 0.2 caches",
        &|out| {
            for step in 0..60 {
                let (from, to) = (of(0.2 * f64::from(step)), of(0.2 * f64::from(step + 1)));
                send(out, 1, 1, from..to, unchanged);
                send(out, 1, 1, from..to, unchanged);
            }
        },
    );
    all
}

/// Chunks of 256 bytes to 4 KiB, delimited by content.
fn cut(content: &[u8], flow: u32, out: &mut Workload) {
    let mut start = 0;
    while start < content.len() {
        let rest = &content[start..];
        let mut hash = 0u64;
        let end = rest.iter().take(4096).enumerate().position(|(i, &byte)| {
            hash = (hash << 1).wrapping_add(mix(u64::from(byte) + 1));
            i >= 255 && hash >> 54 == 0
        });
        let len = end.map_or(rest.len().min(4096), |at| at + 1);
        let name = xxhash_rust::xxh3::xxh3_64(&rest[..len]);
        out.push(Chunk { flow, name, len: len as u32 });
        start += len;
    }
}

/// Adds a file as one flow, or a capture as its flows. Data of each connection is added in parts of
/// 64 KiB.
fn read(path: &str, first_flow: u32, out: &mut Workload) -> Result<(), Box<dyn Error>> {
    let content = fs::read(path)?;
    let Ok(mut reader) = CaptureReader::new(&content[..]) else {
        cut(&content, first_flow, out);
        return Ok(());
    };
    let mut dissector = Dissector::new(Limits::default());
    let (mut flows, mut open): (HashMap<String, u32>, HashMap<u32, Vec<u8>>) =
        (HashMap::new(), HashMap::new());
    while let Some(record) = reader.next() {
        let Ok(record) = record else { break };
        let Ok(packet) = dissector.dissect(&record) else { continue };
        let next = first_flow + flows.len() as u32;
        let key =
            format!("{} {} {:?}", packet.source, packet.destination, packet.transport.ports());
        let flow = *flows.entry(key).or_insert(next);
        let block = open.entry(flow).or_default();
        block.extend_from_slice(packet.payload);
        if block.len() >= 65_536 {
            cut(block, flow, out);
            block.clear();
        }
    }
    let mut rest: Vec<_> = open.into_iter().collect();
    rest.sort();
    rest.iter().for_each(|(flow, block)| cut(block, *flow, out));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut cache, mut sequences) = (64u64 << 20, vec![Vec::new()]);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match &arg[..] {
            "--cache" => cache = args.next().ok_or("--cache BYTES")?.parse()?,
            "--then" => sequences.push(Vec::new()),
            _ => sequences.last_mut().ok_or("no sequence")?.push(arg),
        }
    }
    sequences.retain(|files| !files.is_empty());
    let mut workloads = if sequences.is_empty() { arranged(cache) } else { Vec::new() };
    for files in sequences {
        let mut out = Workload::new();
        let mut names = Vec::new();
        for (i, path) in files.iter().enumerate() {
            read(path, i as u32 * 1_000_000, &mut out)?;
            names.push(path.rsplit('/').next().unwrap_or(path).to_owned());
        }
        workloads.push((names.join(", "), out));
    }
    println!(
        "Cache of {:.1} MiB. Share of all bytes that is found.\n",
        cache as f64 / (1 << 20) as f64
    );
    println!(
        "| content | caches | all (today) | new | whole | near | half | quarter | sample | two rings | S3-FIFO | best |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (name, chunks) in workloads {
        let bytes: u64 = chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
        let mut policies: Vec<Box<dyn Policy>> = vec![
            Box::new(All(Ring::new(cache))),
            Box::new(New(Ring::new(cache))),
            Box::new(Limited::new(cache, cache, None)),
            Box::new(Near {
                ring: Ring::new(cache),
                flows: Flows::default(),
                lately: HashMap::new(),
            }),
            Box::new(Limited::new(cache, cache / 2, None)),
            Box::new(Limited::new(cache, cache / 4, None)),
            Box::new(Limited::new(cache, cache / 4, Some(4))),
            Box::new(TwoRings {
                main: Ring::new(cache / 4 * 3),
                scans: Ring::new(cache / 4),
                flows: Flows::default(),
            }),
            Box::new(S3Fifo::new(cache)),
        ];
        let share = |found: u64| format!("{:.1} %", 100.0 * found as f64 / bytes.max(1) as f64);
        let mut cells = Vec::new();
        for policy in &mut policies {
            cells.push(share(
                chunks
                    .iter()
                    .filter(|chunk| policy.find(**chunk))
                    .map(|chunk| u64::from(chunk.len))
                    .sum(),
            ));
        }
        cells.push(share(best(cache, &chunks)));
        println!("| {name} | {:.1} | {} |", bytes as f64 / cache as f64, cells.join(" | "));
    }
    Ok(())
}
