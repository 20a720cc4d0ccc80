//! Volumes and redundancy profiles as ingresses count them.
//!
//! Each ingress has one store of its last packets, and finds what repeats in them with the published max-match (thesis, sections 2.2 and 3.4), as if it
//! could encode every match. So match(p, q) is what there is to be decoded, wherever it is cached.

use std::{
    collections::{BTreeMap, HashMap, VecDeque, hash_map::Entry},
    fmt::Write as _,
    net::IpAddr,
};

use oncewire_codec::{
    Geometry, Kernels, Log, SamplerKind,
    matcher::{Density, Match as Found, Matcher, PublishedMaxMatch},
    table::{BucketShape, BucketTable},
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::{
    Error, Instance, Match, Measured, Profile,
    emulate::{Header, Packet},
};

/// How ingresses count.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Which of several packets with the same content a match is with.
    pub older: Older,
    /// Bytes under a fingerprint: the shortest match. 12 to 64.
    pub window: usize,
    /// Sampling period in bytes, 4 to 1,024.
    pub period: usize,
    /// How markers are chosen.
    pub sampler: SamplerKind,
    /// Most fingerprints of a packet; all if none.
    pub fingerprints: Option<usize>,
    /// Most matches of a packet: the longest are counted (thesis, section 3.5: three).
    pub matches: usize,
    /// Shape of the fingerprint table.
    pub table: BucketShape,
    /// Epochs at the beginning that fill the stores and are not counted.
    pub warm_up: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            older: Older::First,
            window: oncewire_codec::DEFAULT_WINDOW,
            period: oncewire_codec::DEFAULT_PERIOD,
            sampler: SamplerKind::Maxp,
            fingerprints: None,
            matches: 3,
            // Four slots for each fingerprint, of which it may lie in eight: no insertion in thousands fails.
            table: BucketShape { slots: 4, hashes: 2, factor: 1.0 },
            warm_up: 1.0,
        }
    }
}

/// Which of several packets with the same content a match is with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Older {
    /// The first that the store holds: what matched is null in the packet that repeated it, and no later match is with that (thesis, section 3.4).
    #[default]
    First,
    /// The last, as without SmartRE.
    Last,
}

/// Volumes and profile, per epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// Bytes of each path.
    pub volumes: Vec<f64>,
    /// Matches.
    pub profile: Measured,
}

/// What a [`Profiler`] saw, from its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Packets that repeat a stored one of their flow whole: they are sent plain, and match nothing (thesis, section 3.4).
    pub retransmissions: u64,
    /// Matches, of all packets but retransmissions.
    pub matches: u64,
    /// Their bytes.
    pub match_bytes: u64,
    /// Fingerprints that found no room in a table.
    pub dropped: u64,
}

/// Counts volumes and matches of packets.
pub struct Profiler<'a> {
    instance: &'a Instance,
    settings: Settings,
    stores: Vec<Option<Store>>,
    volumes: Vec<u64>,
    pairs: HashMap<(u32, u32), (u64, u64)>,
    /// Nanoseconds before which nothing is counted.
    begin: u64,
    last: u64,
    seen: Seen,
    found: Vec<Found>,
    block: Vec<u8>,
}

/// An ingress's packets.
struct Store {
    log: Log,
    matcher: PublishedMaxMatch<BucketTable>,
    /// Packets in the log, in order of offset.
    packets: VecDeque<Stored>,
    /// How many of them have a hash.
    hashes: HashMap<u64, u32>,
}

struct Stored {
    offset: u64,
    len: u32,
    path: u32,
    /// Hash of flow and payload.
    hash: u64,
}

/// A part of a packet that is in the store.
struct Piece {
    at: usize,
    len: usize,
    path: u32,
}

impl<'a> Profiler<'a> {
    /// Counts packets of `instance`'s paths. A store takes memory as it fills, up to its ingress's and about as much
    /// again for fingerprints at the default period.
    ///
    /// # Errors
    /// Settings out of range; a store too small for a packet, or larger than memory can be.
    pub fn new(instance: &'a Instance, settings: Settings) -> Result<Self, Error> {
        let wrong = |what: String| Err(Error::Profile(what));
        if !(12..=64).contains(&settings.window) || !(4..=1024).contains(&settings.period) {
            return wrong(format!(
                "a window of {} bytes and a sampling period of {}; they are 12 to 64 and 4 to 1,024",
                settings.window, settings.period
            ));
        }
        if !(settings.warm_up >= 0.0 && settings.warm_up * instance.epoch < MAX_SECONDS) {
            return wrong(format!("{} epochs to warm up", settings.warm_up));
        }
        for ingress in &instance.ingresses {
            if !(ingress.memory >= MIN_STORE && ingress.memory <= Geometry::MAX_CAPACITY as f64) {
                return wrong(format!(
                    "an ingress's store of {} bytes; it holds at least the largest packet, {MIN_STORE} bytes, and at most {}",
                    ingress.memory,
                    Geometry::MAX_CAPACITY
                ));
            }
        }
        Ok(Self {
            instance,
            stores: instance.ingresses.iter().map(|_| None).collect(),
            volumes: vec![0; instance.paths.len()],
            pairs: HashMap::new(),
            begin: (settings.warm_up * instance.epoch * NANOS) as u64,
            last: 0,
            seen: Seen::default(),
            found: Vec::new(),
            block: Vec::new(),
            settings,
        })
    }

    /// Counts a packet. Packets come in order of time; one that is late counts at the time of the last.
    ///
    /// # Errors
    /// No memory for a store; a packet of a path that does not exist, or larger than IP allows.
    pub fn push(&mut self, packet: &Packet) -> Result<(), Error> {
        let Some(path) = self.instance.paths.get(packet.path as usize) else {
            return Err(Error::Profile(format!("a packet of path {}, but there are {}", packet.path, self.instance.paths.len())));
        };
        if packet.payload.len() as f64 > MIN_STORE {
            return Err(Error::Profile(format!("a packet with {} bytes of payload", packet.payload.len())));
        }
        self.last = self.last.max(packet.time);
        let counts = self.last >= self.begin;
        let wire = u64::from(packet.header_bytes) + packet.payload.len() as u64;
        self.seen.packets += 1;
        self.seen.bytes += wire;
        if counts {
            self.volumes[packet.path as usize] += wire;
        }
        if packet.payload.is_empty() {
            return Ok(());
        }
        let store = match &mut self.stores[path.ingress as usize] {
            Some(store) => store,
            none => none.insert(Store::new(self.instance.ingresses[path.ingress as usize].memory, &self.settings)?),
        };
        let hash = hash(packet);
        let mut pieces = store.find(packet, &self.settings, &mut self.found);
        if store.hashes.contains_key(&hash) {
            self.seen.retransmissions += 1;
            pieces.clear();
        }
        for piece in &pieces {
            self.seen.matches += 1;
            self.seen.match_bytes += piece.len as u64;
            if counts {
                let pair = self.pairs.entry((packet.path, piece.path)).or_default();
                *pair = (pair.0 + 1, pair.1 + piece.len as u64);
            }
        }
        store.keep(packet, hash, &pieces, &self.settings, &mut self.block);
        Ok(())
    }

    /// What was seen, warm-up included.
    pub fn seen(&self) -> Seen {
        Seen { dropped: self.stores.iter().flatten().map(|store| store.matcher.table().dropped()).sum(), ..self.seen }
    }

    /// The mean over the epochs from the warm-up's end to the last packet.
    ///
    /// # Errors
    /// Nothing came after the warm-up.
    pub fn measurement(&self) -> Result<Measurement, Error> {
        self.measurement_until(self.last)
    }

    /// The mean over the epochs from the warm-up's end to `end`, in nanoseconds: where it is known when the traffic ended.
    ///
    /// # Errors
    /// `end` does not lie after the warm-up.
    pub fn measurement_until(&self, end: u64) -> Result<Measurement, Error> {
        let epochs = end.saturating_sub(self.begin) as f64 / NANOS / self.instance.epoch;
        if epochs <= 0.0 {
            return Err(Error::Profile(format!(
                "the packets end before stores are warm: {} s, and a store takes {} s to fill",
                end as f64 / NANOS,
                self.begin as f64 / NANOS
            )));
        }
        let mut pairs: Vec<(u32, u32, Match)> = self
            .pairs
            .iter()
            .map(|(&(p, q), &(count, bytes))| (p, q, Match { count: count as f64 / epochs, length: bytes as f64 / count as f64 }))
            .collect();
        pairs.sort_unstable_by_key(|pair| (pair.0, pair.1));
        Ok(Measurement {
            volumes: self.volumes.iter().map(|&bytes| bytes as f64 / epochs).collect(),
            profile: Measured { pairs },
        })
    }
}

const NANOS: f64 = 1e9;
/// The largest payload that IP carries.
const MIN_STORE: f64 = 65_535.0;
/// A year.
const MAX_SECONDS: f64 = 3.2e7;

impl Store {
    fn new(memory: f64, settings: &Settings) -> Result<Self, Error> {
        let error = |error: oncewire_codec::ConfigError| Error::Profile(format!("an ingress's store of {memory} bytes: {error}"));
        let geometry = Geometry::new(memory as u64, 0).map_err(error)?;
        let entries = (memory / settings.sampler.expected_rate(settings.period)).ceil() as u64;
        let table = BucketTable::new(geometry, entries, settings.table).map_err(error)?;
        let matcher =
            PublishedMaxMatch::new(settings.sampler.boxed(), table, Kernels::detect(), settings.window, 0, settings.fingerprints);
        Ok(Self { log: Log::new(geometry).map_err(error)?, matcher, packets: VecDeque::new(), hashes: HashMap::new() })
    }

    /// What of a packet the store holds: disjoint pieces, each of one stored packet, in the order of their places.
    fn find(&mut self, packet: &Packet, settings: &Settings, found: &mut Vec<Found>) -> Vec<Piece> {
        let payload = &packet.payload;
        let offset = self.log.geometry().place(self.log.end(), payload.len());
        let floor = self.log.geometry().floor(offset, payload.len());
        while let Some(oldest) = self.packets.front()
            && oldest.offset < floor
        {
            if let Entry::Occupied(mut held) = self.hashes.entry(oldest.hash) {
                *held.get_mut() -= 1;
                if *held.get() == 0 {
                    held.remove();
                }
            }
            self.packets.pop_front();
        }
        found.clear();
        self.matcher.look(&self.log, payload, offset, Density::Period(settings.period), found);
        let mut pieces = Vec::new();
        for found in found.iter() {
            // Equal bytes may go on from one stored packet to the next; a match is with one.
            let (from, to) = (found.source, found.source + u64::from(found.len));
            let first = self.packets.partition_point(|stored| stored.offset + u64::from(stored.len) <= from);
            for stored in self.packets.range(first..).take_while(|stored| stored.offset < to) {
                let (start, end) = (from.max(stored.offset), to.min(stored.offset + u64::from(stored.len)));
                let len = (end - start) as usize;
                if len < settings.window {
                    continue;
                }
                pieces.push(Piece { at: found.at as usize + (start - from) as usize, len, path: stored.path });
            }
        }
        if pieces.len() > settings.matches {
            pieces.sort_by_key(|piece| std::cmp::Reverse(piece.len));
            pieces.truncate(settings.matches);
            pieces.sort_by_key(|piece| piece.at);
        }
        pieces
    }

    /// Stores a packet of which `pieces` matched.
    fn keep(&mut self, packet: &Packet, hash: u64, pieces: &[Piece], settings: &Settings, block: &mut Vec<u8>) {
        let density = Density::Period(settings.period);
        let offset = self.log.geometry().place(self.log.end(), packet.payload.len());
        self.packets.push_back(Stored { offset, len: packet.payload.len() as u32, path: packet.path, hash });
        *self.hashes.entry(hash).or_default() += 1;
        if settings.older == Older::Last || pieces.is_empty() {
            self.log.write(offset, &packet.payload);
            self.matcher.note(&packet.payload, offset, density);
            return;
        }
        block.clear();
        block.extend_from_slice(&packet.payload);
        let mut fresh = 0;
        for piece in pieces {
            // Null bytes would be equal to null bytes of the packet that a match grows in; these are equal to none of it but by chance.
            let nothing = block[piece.at..piece.at + piece.len].iter_mut();
            nothing.zip(0u64..).for_each(|(byte, at)| *byte = !*byte ^ (at.wrapping_mul(0x9e37_79b9) >> 16 & 0x7f) as u8);
            self.note(&packet.payload, fresh, piece.at, offset, density);
            fresh = piece.at + piece.len;
        }
        self.note(&packet.payload, fresh, packet.payload.len(), offset, density);
        self.log.write(offset, block);
    }

    fn note(&mut self, payload: &[u8], from: usize, to: usize, offset: u64, density: Density) {
        if from < to {
            self.matcher.note(&payload[from..to], offset + from as u64, density);
        }
    }
}

/// Of flow and payload. Two packets with the same are taken for the same: 64 bits are enough for what is only counted.
fn hash(packet: &Packet) -> u64 {
    let Header { source, destination, source_port, destination_port, protocol, .. } = packet.header;
    let mut flow = [0; 37];
    let octets = |address: IpAddr| match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    flow[..16].copy_from_slice(&octets(source));
    flow[16..32].copy_from_slice(&octets(destination));
    flow[32..34].copy_from_slice(&source_port.to_be_bytes());
    flow[34..36].copy_from_slice(&destination_port.to_be_bytes());
    flow[36] = protocol;
    xxh3_64_with_seed(&packet.payload, xxh3_64(&flow))
}

/// First line of a measurement's text form.
const TITLE: &str = "# oncewire measurement 1: volumes are `from to bytes`, matches `from to from2 to2 matches bytes`, per epoch";

impl Measurement {
    /// The instance with these volumes and this profile. A path on which nothing came keeps a byte: paths may not go.
    ///
    /// # Errors
    /// Not as many volumes as paths; a profile out of range.
    pub fn apply(&self, instance: &Instance) -> Result<Instance, Error> {
        let volumes: Vec<f64> = self.volumes.iter().map(|volume| volume.max(1.0)).collect();
        instance.clone().with_volumes(&volumes)?.with_profile(Profile::Measured(self.profile.clone()))
    }

    /// Whether the matches of each path are no more bytes than the path has: more would save more than there is. What a [`Profiler`] measures never is.
    ///
    /// # Errors
    /// The first path whose matches are more.
    pub fn check(&self, instance: &Instance) -> Result<(), Error> {
        for of_path in self.profile.pairs.chunk_by(|a, b| a.0 == b.0) {
            let path = of_path[0].0 as usize;
            let matched: f64 = of_path.iter().map(|pair| pair.2.bytes()).sum();
            let volume = self.volumes.get(path).copied().unwrap_or(0.0);
            // Written as sums, both may be rounded.
            let within = matched <= volume * (1.0 + 1e-6);
            if !within {
                let id = |node: u32| shorten(&instance.network.nodes[node as usize].id);
                let path = instance
                    .paths
                    .get(path)
                    .ok_or_else(|| Error::Profile(format!("path {path} has matches, but there are {}", instance.paths.len())))?;
                return Err(Error::Profile(format!(
                    "{matched} bytes of the path from {} to {} are matches, but its volume is {volume} bytes",
                    id(instance.ingresses[path.ingress as usize].node),
                    id(path.egress)
                )));
            }
        }
        Ok(())
    }

    /// The instance with its own volumes and this profile: each path has as many matches per byte as were measured.
    ///
    /// # Errors
    /// As [`Measurement::check`]; a profile out of range.
    pub fn fit(&self, instance: &Instance) -> Result<Instance, Error> {
        self.check(instance)?;
        let mut pairs = self.profile.pairs.clone();
        for (p, _, found) in &mut pairs {
            // A path with matches has a volume, or they would be more.
            found.count *= instance.paths[*p as usize].volume / self.volumes[*p as usize];
        }
        pairs.retain(|pair| pair.2.count > 0.0);
        instance.clone().with_profile(Profile::Measured(Measured { pairs }))
    }

    /// The same per epoch of an instance scaled by `factor`; the inverse of the factor leads back from a scaled one.
    pub fn scaled(mut self, factor: f64) -> Self {
        self.volumes.iter_mut().for_each(|volume| *volume *= factor);
        self.profile.pairs.iter_mut().for_each(|pair| pair.2.count *= factor);
        self
    }

    /// Text form; `docs/PLANNERS.md`, "Measured profiles". Paths and pairs without traffic or matches are left out.
    pub fn to_text(&self, instance: &Instance) -> String {
        let mut text = format!("{TITLE}\n");
        let name = |path: u32| {
            let path = &instance.paths[path as usize];
            let id = |node: u32| escape(&instance.network.nodes[node as usize].id);
            format!("{}\t{}", id(instance.ingresses[path.ingress as usize].node), id(path.egress))
        };
        for (path, volume) in self.volumes.iter().enumerate().filter(|(_, volume)| **volume > 0.0) {
            let _ = writeln!(text, "{}\t{volume}", name(path as u32));
        }
        for (p, q, found) in self.profile.pairs.iter().filter(|pair| pair.2.count > 0.0) {
            let _ = writeln!(text, "{}\t{}\t{}\t{}", name(*p), name(*q), found.count, found.bytes());
        }
        text
    }

    /// Reads the text form. Paths that the text does not name have no volume.
    ///
    /// # Errors
    /// The first line that cannot be used: nodes or paths that the instance has not, what comes twice, numbers out of range.
    pub fn parse(text: &str, instance: &Instance) -> Result<Self, Error> {
        let nodes: HashMap<&str, u32> = instance.network.nodes.iter().zip(0..).map(|(node, at)| (node.id.as_str(), at)).collect();
        let from = |path: &crate::Path| instance.ingresses[path.ingress as usize].node;
        let paths: HashMap<(u32, u32), u32> =
            instance.paths.iter().zip(0..).map(|(path, at)| ((from(path), path.egress), at)).collect();
        let reader = Reader { nodes, paths };
        let mut volumes = vec![0.0; instance.paths.len()];
        let mut pairs: BTreeMap<(u32, u32), Match> = BTreeMap::new();
        for (line, number) in text.lines().zip(1..) {
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let fail = |what: String| Error::Profile(format!("line {number}: {what}"));
            let fields: Vec<&str> = line.splitn(MAX_FIELDS, '\t').collect();
            match fields[..] {
                [from, to, volume] => {
                    let path = reader.path(from, to).map_err(fail)?;
                    let volume = amount(volume).map_err(fail)?;
                    if volumes[path as usize] > 0.0 {
                        return Err(fail(format!("a second volume from {} to {}", shorten(from), shorten(to))));
                    }
                    volumes[path as usize] = volume;
                }
                [from, to, from2, to2, count, bytes] => {
                    let (p, q) = (reader.path(from, to).map_err(fail)?, reader.path(from2, to2).map_err(fail)?);
                    if instance.paths[p as usize].ingress != instance.paths[q as usize].ingress {
                        return Err(fail("the two paths have different ingresses".into()));
                    }
                    let (count, bytes) = (amount(count).map_err(fail)?, amount(bytes).map_err(fail)?);
                    let length = bytes / count;
                    if !(length > 0.0 && length <= instance.mss * (1.0 + 1e-9)) {
                        return Err(fail(format!(
                            "{count} matches with {bytes} bytes: each has more than none and at most the largest packet's, {}",
                            instance.mss
                        )));
                    }
                    // Written as a sum, a mean of the largest packet may come back larger by rounding.
                    if pairs.insert((p, q), Match { count, length: length.min(instance.mss) }).is_some() {
                        return Err(fail("the matches of these two paths come a second time".into()));
                    }
                }
                _ => {
                    return Err(fail(
                        "3 fields (from, to, bytes) or 6 (from, to, from, to, matches, bytes) with tabs between them are needed"
                            .into(),
                    ));
                }
            }
        }
        Ok(Self { volumes, profile: Measured { pairs: pairs.into_iter().map(|((p, q), found)| (p, q, found)).collect() } })
    }
}

/// One more than a line has: more are one too many.
const MAX_FIELDS: usize = 7;

struct Reader<'a> {
    nodes: HashMap<&'a str, u32>,
    paths: HashMap<(u32, u32), u32>,
}

impl Reader<'_> {
    fn path(&self, from: &str, to: &str) -> Result<u32, String> {
        let node = |name: &str| {
            let plain = unescape(name);
            self.nodes.get(plain.as_str()).copied().ok_or_else(|| format!("no node is called {}", shorten(name)))
        };
        let ends = (node(from)?, node(to)?);
        self.paths.get(&ends).copied().ok_or_else(|| format!("there is no path from {} to {}", shorten(from), shorten(to)))
    }
}

/// A number above 0.
fn amount(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err(format!("{} is not a number above 0", shorten(text))),
    }
}

/// For messages.
fn shorten(text: &str) -> String {
    text.chars().take(64).filter(|c| !c.is_control()).collect()
}

/// A node's id without what has a meaning in the text form: control characters, `%`, and `#`, as `%` and two hexadecimal digits.
fn escape(id: &str) -> String {
    id.chars().fold(String::new(), |mut text, c| {
        if c.is_ascii_control() || matches!(c, '%' | '#') {
            let _ = write!(text, "%{:02x}", c as u32);
        } else {
            text.push(c);
        }
        text
    })
}

fn unescape(text: &str) -> String {
    let mut parts = text.split('%');
    let mut id = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if byte.is_ascii() => {
                id.push(byte as char);
                id.push_str(&part[2..]);
            }
            _ => {
                id.push('%');
                id.push_str(part);
            }
        }
    }
    id
}

#[cfg(test)]
mod tests;
