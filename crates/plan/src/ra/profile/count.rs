//! Counting content as packets come.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
};

use super::{Content, Counted, Member};
use crate::{
    Error, Instance, NodeId, Seconds,
    error::ProfileError,
    measure::{self, Buffers, Looked, Older, Store},
    packet::Packet,
    ra::Prefix,
};

/// How content is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counting {
    /// Each byte once, with all egresses that had it within the interval.
    #[default]
    Sets,
    /// The thesis's heuristic (lines "We focus mainly on modeling redundancy shared by pairs"):
    /// a match counts for the pair of its packet's egress and that of the newest packet with the
    /// same bytes. Where the pairs of an egress exceed its unique bytes, they are scaled down.
    Pairs,
}

/// Parameters of a count.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// T: time in which content counts as equal.
    pub interval: Seconds,
    /// How content is counted.
    pub counting: Counting,
    /// How matches are found. The number of matches per packet is not limited, and `older` and
    /// `warm_up` follow from the rest.
    pub matches: measure::Settings,
    /// Content in bytes that each ingress searches for matches. If more enters in an interval, the
    /// oldest is forgotten.
    pub store: f64,
    /// Whether sources are told apart, by IPv4 /24 or IPv6 /48. Not with [`Counting::Pairs`].
    pub prefixes: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            interval: Seconds(60.0),
            counting: Counting::Sets,
            matches: measure::Settings::default(),
            store: 256e6,
            prefixes: false,
        }
    }
}

/// Counts content, interval by interval. Intervals begin at multiples of their length after the
/// time 0 of packets; nothing matches across their bounds.
pub struct Counter<'a> {
    instance: &'a Instance,
    settings: Settings,
    /// Nanoseconds.
    length: u64,
    /// Number of the interval at hand.
    number: u64,
    last: u64,
    ingresses: Vec<Option<Box<Ingress>>>,
    prefixes: Sources,
    buffers: Buffers,
    /// Packets of this interval.
    packets: u64,
}

/// Most source networks that are told apart; others count as unknown.
const MOST_PREFIXES: usize = 1 << 16;
/// Most sets of members in an interval of an ingress. Further matches count as new content.
const MOST_SETS: usize = 1 << 20;
/// Most sources of one piece of content that are told apart.
const MOST_SOURCES: usize = 16;
/// Longest interval in seconds, a year.
const MOST_SECONDS: f64 = 3.2e7;

/// An egress, and the number of a source network plus 1, or 0.
type Key = (NodeId, u32);
/// Members and their copies.
type Members = Box<[(Key, u32)]>;

/// Source networks.
#[derive(Default)]
struct Sources {
    numbers: HashMap<Prefix, u32>,
    prefixes: Vec<Prefix>,
}

impl Sources {
    fn number(&mut self, source: IpAddr) -> u32 {
        let source = source.to_canonical();
        let prefix = Prefix::new(source, if source.is_ipv4() { 24 } else { 48 });
        if let Some(&number) = self.numbers.get(&prefix) {
            return number;
        }
        if self.prefixes.len() == MOST_PREFIXES {
            return 0;
        }
        self.prefixes.push(prefix);
        let number = self.prefixes.len() as u32;
        self.numbers.insert(prefix, number);
        number
    }

    fn prefix(&self, number: u32) -> Option<Prefix> {
        self.prefixes.get((number as usize).wrapping_sub(1)).copied()
    }
}

/// An ingress in an interval.
struct Ingress {
    store: Store,
    /// Content in the store by offset: length and set.
    segments: BTreeMap<u64, (u64, u32)>,
    sets: Vec<Members>,
    numbers: HashMap<Members, u32>,
    /// The set that a set becomes with one more copy.
    steps: HashMap<(u32, Key), u32>,
    /// Bytes per set of content that has left the store, and of what never is in it: headers.
    bytes: Vec<u64>,
    pairs: PairCounts,
}

/// What the thesis counts.
#[derive(Default)]
struct PairCounts {
    /// Bytes that enter for each member.
    demand: BTreeMap<Key, u64>,
    /// Bytes that repeat traffic of the same member.
    own: BTreeMap<Key, u64>,
    /// Bytes shared by two members, the smaller first.
    shared: BTreeMap<(Key, Key), u64>,
}

impl<'a> Counter<'a> {
    /// Counts packets of an instance's paths, of which only ingress and egress matter.
    ///
    /// # Errors
    /// Settings out of range.
    pub fn new(instance: &'a Instance, mut settings: Settings) -> Result<Self, Error> {
        if !(1e-3..=MOST_SECONDS).contains(&settings.interval.0) {
            return Err(ProfileError::Range {
                what: "the interval in seconds".into(),
                value: settings.interval.0,
                range: format!("from 0.001 to {MOST_SECONDS}"),
            }
            .into());
        }
        settings.matches.matches = usize::MAX;
        settings.matches.older = match settings.counting {
            Counting::Sets => Older::First,
            Counting::Pairs => Older::Last,
        };
        settings.matches.check()?;
        Store::new(settings.store, &settings.matches)?;
        Ok(Self {
            instance,
            length: (settings.interval.0 * 1e9) as u64,
            number: 0,
            last: 0,
            ingresses: (0..instance.store_count()).map(|_| None).collect(),
            prefixes: Sources::default(),
            buffers: Buffers::default(),
            packets: 0,
            settings,
        })
    }

    /// Counts a packet. If it is the first of a later interval, returns what the interval before it
    /// had, with its number. Packets come in order of time; one that is late counts at the time of
    /// the last.
    ///
    /// # Errors
    /// No memory for a store; a packet of a path that does not exist, or larger than IP allows.
    pub fn push(&mut self, packet: &Packet) -> Result<Option<(u64, Counted)>, Error> {
        let Some(path) = self.instance.paths.get(packet.path as usize) else {
            let (path, paths) = (packet.path as usize, self.instance.paths.len());
            return Err(ProfileError::UnknownPath { path, paths }.into());
        };
        measure::check_payload(packet)?;
        self.last = self.last.max(packet.time);
        let number = self.last / self.length;
        let mut finished = None;
        if number != self.number {
            finished = self.finish();
            self.number = number;
        }
        let told_apart = self.settings.prefixes && self.settings.counting == Counting::Sets;
        let source = if told_apart { self.prefixes.number(packet.header.source) } else { 0 };
        let key = (path.egress, source);
        let ingress = match &mut self.ingresses
            [self.instance.ingresses[path.ingress as usize].store as usize]
        {
            Some(ingress) => ingress,
            none => none.insert(Box::new(Ingress::new(self.settings.store, &self.settings)?)),
        };
        self.packets += 1;
        match self.settings.counting {
            Counting::Sets => ingress.count(packet, key, &self.settings, &mut self.buffers),
            Counting::Pairs => {
                let egress = |path: u32| self.instance.paths[path as usize].egress;
                ingress.count_pairs(packet, key, egress, &self.settings, &mut self.buffers);
            }
        }
        Ok(finished)
    }

    /// What the interval at hand has so far, with its number; none if it has no packets. The next
    /// packet begins anew.
    pub fn finish(&mut self) -> Option<(u64, Counted)> {
        if self.packets == 0 {
            return None;
        }
        self.packets = 0;
        let mut ingresses = Vec::new();
        for (slices, ingress) in self.instance.stores().zip(&mut self.ingresses) {
            let Some(ingress) = ingress.take() else { continue };
            let node = self.instance.ingresses[slices.start].node;
            let content = match self.settings.counting {
                Counting::Sets => ingress.content(&self.prefixes),
                Counting::Pairs => ingress.pairs.content(&self.prefixes),
            };
            if !content.is_empty() {
                ingresses.push((node, content));
            }
        }
        Some((self.number, Counted { interval: self.settings.interval, ingresses }))
    }
}

impl Ingress {
    fn new(store: f64, settings: &Settings) -> Result<Self, Error> {
        Ok(Self {
            store: Store::new(store, &settings.matches)?,
            segments: BTreeMap::new(),
            sets: Vec::new(),
            numbers: HashMap::new(),
            steps: HashMap::new(),
            bytes: Vec::new(),
            pairs: PairCounts::default(),
        })
    }

    fn count(&mut self, packet: &Packet, key: Key, settings: &Settings, buffers: &mut Buffers) {
        let single = self.set_of([(key, 1)].into());
        self.bytes[single as usize] += u64::from(packet.header_bytes);
        if packet.payload.is_empty() {
            return;
        }
        let Looked { pieces, offset, floor, .. } =
            self.store.push(packet, &settings.matches, buffers);
        while let Some(entry) = self.segments.first_entry()
            && *entry.key() < floor
        {
            let (len, set) = entry.remove();
            self.bytes[set as usize] += len;
        }
        let mut fresh = 0;
        for piece in &pieces {
            self.insert(offset, fresh, piece.at, single);
            fresh = piece.at + piece.len;
            self.repeat(piece.source, piece.source + piece.len as u64, key, single);
        }
        self.insert(offset, fresh, packet.payload.len(), single);
    }

    /// New content of a packet that is stored at `offset`.
    fn insert(&mut self, offset: u64, from: usize, to: usize, set: u32) {
        if from < to {
            self.segments.insert(offset + from as u64, ((to - from) as u64, set));
        }
    }

    /// One more copy of stored content.
    fn repeat(&mut self, from: u64, to: u64, key: Key, single: u32) {
        self.split(from);
        self.split(to);
        let mut covered = 0;
        let there: Vec<(u64, u64, u32)> =
            self.segments.range(from..to).map(|(&at, &(len, set))| (at, len, set)).collect();
        for (at, len, set) in there {
            match self.step(set, key) {
                Some(next) => {
                    self.segments.insert(at, (len, next));
                    covered += len;
                }
                // Too many sets: it counts as new content.
                None => continue,
            }
        }
        // Bytes that matched by chance what stands in the place of a repeat, too.
        self.bytes[single as usize] += to - from - covered;
    }

    /// Makes a segment begin at `at`, if one has it inside.
    fn split(&mut self, at: u64) {
        if let Some((&begin, &(len, set))) = self.segments.range(..at).next_back()
            && begin + len > at
        {
            self.segments.insert(begin, (at - begin, set));
            self.segments.insert(at, (begin + len - at, set));
        }
    }

    fn step(&mut self, set: u32, key: Key) -> Option<u32> {
        if let Some(&next) = self.steps.get(&(set, key)) {
            return Some(next);
        }
        if self.sets.len() >= MOST_SETS {
            return None;
        }
        let mut members = self.sets[set as usize].to_vec();
        let known = |members: &[((NodeId, u32), u32)], key| {
            members.binary_search_by_key(&key, |member| member.0)
        };
        let mut wanted = key;
        if known(&members, key).is_err() && members.len() >= MOST_SOURCES {
            wanted.1 = 0;
        }
        match known(&members, wanted) {
            Ok(at) => members[at].1 = members[at].1.saturating_add(1),
            Err(at) => members.insert(at, (wanted, 1)),
        }
        let next = self.set_of(members.into());
        self.steps.insert((set, key), next);
        Some(next)
    }

    fn set_of(&mut self, members: Members) -> u32 {
        if let Some(&number) = self.numbers.get(&members) {
            return number;
        }
        let number = self.sets.len() as u32;
        self.sets.push(members.clone());
        self.bytes.push(0);
        self.numbers.insert(members, number);
        number
    }

    /// All content of the interval.
    fn content(mut self, sources: &Sources) -> Vec<Content> {
        for (len, set) in self.segments.values() {
            self.bytes[*set as usize] += len;
        }
        // Sets that differ in copies only become one, with the mean.
        let mut sums: BTreeMap<Box<[Key]>, (f64, Vec<f64>)> = BTreeMap::new();
        for (members, &bytes) in self.sets.iter().zip(&self.bytes).filter(|(_, bytes)| **bytes > 0)
        {
            let keys: Box<[Key]> = members.iter().map(|member| member.0).collect();
            let sum = sums.entry(keys).or_insert_with(|| (0.0, vec![0.0; members.len()]));
            sum.0 += bytes as f64;
            for (sum, member) in sum.1.iter_mut().zip(members) {
                *sum += bytes as f64 * f64::from(member.1);
            }
        }
        sums.into_iter()
            .map(|(keys, (bytes, copies))| {
                content_of(
                    bytes,
                    keys.iter().zip(copies).map(|(key, sum)| (*key, sum / bytes)),
                    sources,
                )
            })
            .collect()
    }

    fn count_pairs(
        &mut self,
        packet: &Packet,
        key: Key,
        egress: impl Fn(u32) -> NodeId,
        settings: &Settings,
        buffers: &mut Buffers,
    ) {
        let wire = u64::from(packet.header_bytes) + packet.payload.len() as u64;
        *self.pairs.demand.entry(key).or_default() += wire;
        if packet.payload.is_empty() {
            return;
        }
        for piece in self.store.push(packet, &settings.matches, buffers).pieces {
            let other = (egress(piece.path), 0);
            if other == key {
                *self.pairs.own.entry(key).or_default() += piece.len as u64;
            } else {
                let pair = (key.min(other), key.max(other));
                *self.pairs.shared.entry(pair).or_default() += piece.len as u64;
            }
        }
    }
}

impl PairCounts {
    /// Content with the counted pairs, scaled down where they exceed a member's unique bytes.
    fn content(&self, sources: &Sources) -> Vec<Content> {
        let mut sums: BTreeMap<Key, f64> = BTreeMap::new();
        for (&(a, b), &bytes) in &self.shared {
            *sums.entry(a).or_default() += bytes as f64;
            *sums.entry(b).or_default() += bytes as f64;
        }
        let demand = |key: &Key| self.demand.get(key).copied().unwrap_or(0) as f64;
        let unique =
            |key: &Key| (demand(key) - self.own.get(key).copied().unwrap_or(0) as f64).max(0.0);
        let factor = |key: &Key| match sums.get(key) {
            Some(&sum) if sum > unique(key) => unique(key) / sum,
            _ => 1.0,
        };
        let pairs: Vec<(Key, Key, f64)> = self
            .shared
            .iter()
            .map(|(&(a, b), &bytes)| (a, b, bytes as f64 * factor(&a).min(factor(&b))))
            .filter(|pair| pair.2 > 0.0)
            .collect();
        let mut of_pairs: BTreeMap<Key, f64> = BTreeMap::new();
        for &(a, b, bytes) in &pairs {
            *of_pairs.entry(a).or_default() += bytes;
            *of_pairs.entry(b).or_default() += bytes;
        }
        let mut content = Vec::new();
        // Copies of pairs, so that the demand stays what it is if all of it is shared.
        let mut copies: BTreeMap<Key, f64> = BTreeMap::new();
        for key in self.demand.keys() {
            let shared = of_pairs.get(key).copied().unwrap_or(0.0);
            let single = unique(key) - shared;
            if single > 0.5 {
                let copies = (demand(key) - shared) / single;
                content.push(content_of(single, [(*key, copies)].into_iter(), sources));
            } else if shared > 0.0 {
                copies.insert(*key, demand(key) / shared);
            } else {
                content.push(content_of(demand(key), [(*key, 1.0)].into_iter(), sources));
            }
        }
        for (a, b, bytes) in pairs {
            let of = |key: &Key| copies.get(key).copied().unwrap_or(1.0);
            content.push(content_of(bytes, [(a, of(&a)), (b, of(&b))].into_iter(), sources));
        }
        content
    }
}

fn content_of(bytes: f64, members: impl Iterator<Item = (Key, f64)>, sources: &Sources) -> Content {
    let member = |((egress, source), copies): (Key, f64)| Member {
        egress,
        prefix: sources.prefix(source),
        copies,
    };
    let mut members: Box<[Member]> = members.map(member).collect();
    members.sort_by_key(|member| (member.egress, member.prefix));
    Content { bytes, members }
}
