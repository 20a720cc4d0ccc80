//! The bytes of a part: `docs/NETWORK.md`, "Parts of plans". What seldom changes from plan to plan
//! comes before what often does, and like fields lie together, so that differences are small.

use std::collections::HashMap;

use oncewire_codec::varint;

use super::{MAX_PART, NodePart, OwnPath, PartError, Passing};
use crate::manifest::{MAX_HOPS, MAX_NUMBER, Range, SPACE};
use crate::{NodeId, PathId};

/// What parts begin with; the digit is the version of the format.
const MAGIC: &[u8; 4] = b"OWP1";

impl NodePart {
    /// The part as bytes: the same for the same part. [`NodePart::read`] refuses those of one whose paths
    /// are in another order.
    pub fn write(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        varint::put(&mut out, self.version);
        out.extend_from_slice(&self.digest.to_le_bytes());
        varint::put(&mut out, self.node.0.into());
        self.write_passing(&mut out);
        self.write_own(&mut out);
        out
    }

    fn write_passing(&self, out: &mut Vec<u8>) {
        let mut put = |value: u64| varint::put(out, value);
        let groups: Vec<&[Passing]> = self
            .passing
            .chunk_by(|a, b| (a.from, a.before, a.has_device) == (b.from, b.before, b.has_device))
            .collect();
        put(groups.len() as u64);
        for group in &groups {
            put(group[0].from.0.into());
            put(u64::from(group[0].before.0) * 2 + u64::from(group[0].has_device));
            put(group.len() as u64);
        }
        for group in &groups {
            let mut next = 0;
            for one in *group {
                put(u64::from(one.id.0).wrapping_sub(next));
                next = u64::from(one.id.0) + 1;
            }
        }
        let with_device = || self.passing.iter().filter(|one| one.has_device);
        self.passing.iter().for_each(|one| put(one.after.map_or(0, |node| 1 + u64::from(node.0))));
        // A length of 0 is no range.
        with_device()
            .for_each(|one| put(one.range.map_or(0, |(from, to, _)| to.wrapping_sub(from))));
        let ranges = || with_device().filter_map(|one| one.range);
        ranges().for_each(|range| put(range.0));
        ranges().for_each(|range| put(range.2));
    }

    fn write_own(&self, out: &mut Vec<u8>) {
        let mut put = |value: u64| varint::put(out, value);
        let mut tree: Vec<(u32, (NodeId, bool))> = Vec::new();
        let mut places: HashMap<(u32, (NodeId, bool)), u32> = HashMap::new();
        let mut leaves = Vec::with_capacity(self.own.len());
        for own in &self.own {
            let mut place = 0;
            for &node in &own.way {
                place = *places.entry((place, node)).or_insert_with(|| {
                    tree.push((place, node));
                    tree.len() as u32
                });
            }
            leaves.push(place);
        }
        put(tree.len() as u64);
        tree.iter().for_each(|&(parent, _)| put(parent.into()));
        for (_, (node, has_device)) in tree {
            put(u64::from(node.0) * 2 + u64::from(has_device));
        }
        put(self.own.len() as u64);
        let mut next = 0;
        for own in &self.own {
            put(u64::from(own.id.0).wrapping_sub(next));
            next = u64::from(own.id.0) + 1;
        }
        leaves.iter().for_each(|&leaf| put(leaf.into()));
        self.own.iter().for_each(|own| put(own.ranges.len() as u64));
        let ranges = || self.own.iter().flat_map(|own| &own.ranges);
        ranges().for_each(|range| put(range.hop.into()));
        ranges().for_each(|range| put(range.to.wrapping_sub(range.from)));
        ranges().for_each(|range| put(range.bytes));
    }

    /// A part from bytes.
    ///
    /// # Errors
    /// [`PartError`] for what [`NodePart::write`] would not write.
    pub fn read(bytes: &[u8]) -> Result<NodePart, PartError> {
        if bytes.len() > MAX_PART {
            return Err(PartError::Malformed("it is too long"));
        }
        let rest = bytes.strip_prefix(MAGIC);
        let mut reader = Reader(rest.ok_or(PartError::Malformed("it does not begin as one"))?);
        let version = reader.below(MAX_NUMBER + 1)?;
        let digest = reader.0.split_first_chunk::<8>().ok_or(ENDS)?;
        let (digest, rest) = (u64::from_le_bytes(*digest.0), digest.1);
        reader.0 = rest;
        let node = reader.node()?;
        let (passing, own) = (reader.passing()?, reader.own()?);
        if !reader.0.is_empty() {
            return Err(PartError::Malformed("something comes after its end"));
        }
        let part = NodePart { version, digest, node, passing, own };
        part.check()?;
        // One form of each part.
        if part.write() != bytes {
            return Err(PartError::Malformed("its order is another"));
        }
        Ok(part)
    }
}

/// Most paths that begin at a node: one to each other.
const MAX_OWN: usize = 65_536;
const ENDS: PartError = PartError::Malformed("it ends too early");
const RANGE: PartError = PartError::Malformed("a number that is out of range");

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn below(&mut self, most: u64) -> Result<u64, PartError> {
        let value = varint::take(&mut self.0).map_err(|_| ENDS)?;
        if value < most { Ok(value) } else { Err(RANGE) }
    }

    fn node(&mut self) -> Result<NodeId, PartError> {
        Ok(NodeId(self.below(1 << 31)? as u32))
    }

    /// A count of things of which each takes a byte or more.
    fn count(&mut self) -> Result<usize, PartError> {
        let count = self.below(MAX_PART as u64)? as usize;
        if count > self.0.len() { Err(ENDS) } else { Ok(count) }
    }

    /// Numbers of paths, ascending.
    fn ids(&mut self, count: usize) -> Result<Vec<PathId>, PartError> {
        let mut next = 0;
        let mut id = || {
            let id = next + self.below(1 << 32)?;
            next = id + 1;
            Ok(PathId(u32::try_from(id).map_err(|_| RANGE)?))
        };
        (0..count).map(|_| id()).collect()
    }

    fn flagged(&mut self) -> Result<(NodeId, bool), PartError> {
        let value = self.below(1 << 32)?;
        Ok((NodeId((value / 2) as u32), value % 2 == 1))
    }

    fn passing(&mut self) -> Result<Vec<Passing>, PartError> {
        let count = self.count()?;
        let (mut groups, mut all) = (Vec::with_capacity(count), 0usize);
        for _ in 0..count {
            let (from, (before, has_device)) = (self.node()?, self.flagged()?);
            let count = self.count()?;
            all = all.saturating_add(count);
            groups.push((from, before, has_device, count));
        }
        if all > self.0.len() {
            return Err(ENDS);
        }
        let mut passing = Vec::with_capacity(all);
        for (from, before, has_device, count) in groups {
            let of = |id| Passing { id, from, before, after: None, has_device, range: None };
            passing.extend(self.ids(count)?.into_iter().map(of));
        }
        for one in &mut passing {
            let after = self.below(1 << 31)?;
            one.after = after.checked_sub(1).map(|node| NodeId(node as u32));
        }
        for one in passing.iter_mut().filter(|one| one.has_device) {
            let length = self.below(SPACE + 1)?;
            one.range = (length > 0).then_some((0, length, 0));
        }
        let ranges = |passing: &mut Vec<Passing>, set: &mut dyn FnMut(&mut (u64, u64, u64))| {
            passing.iter_mut().filter_map(|one| one.range.as_mut()).for_each(set);
        };
        let mut wrong = None;
        ranges(&mut passing, &mut |range| match self.below(SPACE) {
            Ok(from) => *range = (from, from + range.1, 0),
            Err(error) => wrong = Some(error),
        });
        ranges(&mut passing, &mut |range| match self.below(MAX_NUMBER + 1) {
            Ok(bytes) => range.2 = bytes,
            Err(error) => wrong = Some(error),
        });
        wrong.map_or(Ok(passing), Err)
    }

    fn own(&mut self) -> Result<Vec<OwnPath>, PartError> {
        let places = self.count()?;
        let parents = (0..places as u64).map(|place| self.below(place + 1));
        let parents = parents.collect::<Result<Vec<u64>, PartError>>()?;
        let nodes = (0..places).map(|_| self.flagged()).collect::<Result<Vec<_>, PartError>>()?;
        let way = |leaf: u64| {
            let (mut way, mut place) = (Vec::new(), leaf as usize);
            while let Some(at) = place.checked_sub(1) {
                if way.len() == MAX_HOPS {
                    return Err(PartError::Malformed("a way with too many nodes"));
                }
                way.push(nodes[at]);
                place = parents[at] as usize;
            }
            way.reverse();
            Ok(way)
        };
        let count = self.count()?;
        if count > MAX_OWN {
            return Err(PartError::Malformed("more paths than a node can have"));
        }
        let mut own = Vec::with_capacity(count);
        for id in self.ids(count)? {
            own.push(OwnPath { id, way: Vec::new(), ranges: Vec::new() });
        }
        for one in &mut own {
            one.way = way(self.below(places as u64 + 1)?)?;
        }
        let none = Range { hop: 0, from: 0, to: 0, bytes: 0 };
        let counts = (0..count).map(|_| self.below(MAX_HOPS as u64 + 1));
        let counts = counts.collect::<Result<Vec<u64>, PartError>>()?;
        if counts.iter().sum::<u64>() > self.0.len() as u64 {
            return Err(ENDS);
        }
        for (one, count) in own.iter_mut().zip(counts) {
            one.ranges = vec![none; count as usize];
        }
        for range in own.iter_mut().flat_map(|one| &mut one.ranges) {
            range.hop = self.below(MAX_HOPS as u64)? as u32;
        }
        for one in &mut own {
            let mut at = 0;
            for range in &mut one.ranges {
                let length = self.below(SPACE + 1)?;
                (range.from, range.to) = (at, at + length);
                at += length;
            }
        }
        for range in own.iter_mut().flat_map(|one| &mut one.ranges) {
            range.bytes = self.below(MAX_NUMBER + 1)?;
        }
        Ok(own)
    }
}
