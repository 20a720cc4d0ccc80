//! A device inside the network: caches by range, decodes what it holds.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use super::{
    HeaderHash,
    shim::{Format, Shim, ShimError, Spec},
};

/// What is left of a payload on its way.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// All of it.
    Whole(Arc<[u8]>),
    /// What is not matched.
    Literals(Vec<u8>),
}

impl Body {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Body::Whole(bytes) => bytes,
            Body::Literals(bytes) => bytes,
        }
    }
}

/// A packet on its way: its shim, and the rest of its payload.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) shim: Vec<u8>,
    pub(super) body: Body,
}

/// What a device remembers of a packet.
#[derive(Debug)]
struct Held {
    payload: Arc<[u8]>,
    /// What was not decoded when it came by: `from..to`, ascending and disjoint.
    gaps: Vec<(u32, u32)>,
    /// Tells it from one of the same name.
    serial: u64,
}

#[derive(Debug, Default)]
struct Bucket {
    capacity: u64,
    used: u64,
    /// Name, serial and size.
    queue: VecDeque<(u64, u64, u64)>,
}

/// What happened to a packet at a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Passed {
    pub(super) cached: bool,
    pub(super) decoded: u32,
    /// Bytes that it decoded.
    pub(super) decoded_bytes: u32,
    /// The payload is whole now, and is not what was sent.
    pub(super) damaged: bool,
}

/// Why a device caches a packet, or does not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Duty {
    /// Whether its manifest of even and of odd version holds this packet; versions that it does not have do not.
    pub(super) holds: [bool; 2],
    /// Name of the packet.
    pub(super) name: u64,
    /// Bytes in front of the payload.
    pub(super) header_bytes: u32,
    /// The path that routing tells.
    pub(super) path: u32,
    /// Payloads shorter than that are not cached.
    pub(super) window: usize,
}

/// A device.
#[derive(Debug, Default)]
pub(super) struct Node {
    buckets: BTreeMap<u32, Bucket>,
    held: HashMap<(u32, u64), Held>,
    serial: u64,
    used: u64,
    most: u64,
}

impl Node {
    /// Gives the bucket of a path its size; evicts what no longer fits.
    pub(super) fn resize(&mut self, path: u32, capacity: u64) {
        let bucket = self.buckets.entry(path).or_default();
        bucket.capacity = capacity;
        self.make_room(path, 0);
        if capacity == 0 {
            self.buckets.remove(&path);
        }
    }

    /// Buckets: path and size.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.buckets.iter().map(|(&path, bucket)| (path, bucket.capacity))
    }

    /// Bytes cached now, and the most there have been.
    pub(super) fn used(&self) -> (u64, u64) {
        (self.used, self.most)
    }

    /// Packets cached now.
    pub(super) fn packets(&self) -> usize {
        self.held.len()
    }

    /// Decodes what it holds, caches the packet if that is its part, and clears what need not be said any more.
    pub(super) fn receive(
        &mut self,
        format: &Format,
        hash: &HeaderHash,
        duty: &Duty,
        flight: &mut Flight,
    ) -> Result<Passed, ShimError> {
        let mut passed = Passed::default();
        if flight.shim.is_empty() {
            return Ok(passed);
        }
        let mut shim = Shim::take_head(format, duty.path, &mut &flight.shim[..])?;
        let total = shim.decoded_length(flight.body.bytes().len())?;
        if !shim.matches.is_empty() {
            self.decode(&mut shim, total, flight, &mut passed);
            if shim.matches.is_empty() {
                passed.damaged = hash.check(flight.body.bytes()) != shim.check;
                if passed.damaged {
                    return Ok(passed);
                }
            }
        }
        if shim.cache.is_some_and(|version| duty.holds[usize::from(version)]) && total >= duty.window {
            self.cache(&shim, duty, total, flight);
            passed.cached = true;
            shim.cache = None;
        }
        if passed.cached || passed.decoded > 0 {
            flight.shim.clear();
            shim.write(format, &mut flight.shim);
        }
        Ok(passed)
    }

    fn decode(&mut self, shim: &mut Shim, total: usize, flight: &mut Flight, passed: &mut Passed) {
        let sources: Vec<Option<&[u8]>> = shim.matches.iter().map(|spec| self.source(spec)).collect();
        if sources.iter().all(Option::is_none) {
            return;
        }
        let mut literals = flight.body.bytes();
        let mut bytes = Vec::with_capacity(total);
        let (mut at, mut left) = (0, Vec::new());
        for (spec, source) in shim.matches.iter().zip(&sources) {
            let (before, rest) = literals.split_at((spec.at - at) as usize);
            bytes.extend_from_slice(before);
            literals = rest;
            at = spec.end();
            match source {
                Some(source) => {
                    bytes.extend_from_slice(source);
                    passed.decoded += 1;
                    passed.decoded_bytes += spec.length;
                }
                None => left.push(*spec),
            }
        }
        bytes.extend_from_slice(literals);
        shim.matches = left;
        flight.body = if shim.matches.is_empty() { Body::Whole(bytes.into()) } else { Body::Literals(bytes) };
    }

    /// The bytes that a match stands for, if they are here.
    fn source(&self, spec: &Spec) -> Option<&[u8]> {
        let held = self.held.get(&(spec.path, spec.name))?;
        let (from, to) = (spec.offset, spec.offset + spec.length);
        let bytes = held.payload.get(from as usize..to as usize)?;
        held.gaps.iter().all(|&(gap, end)| to <= gap || end <= from).then_some(bytes)
    }

    fn cache(&mut self, shim: &Shim, duty: &Duty, total: usize, flight: &Flight) {
        let (path, name) = (shim.path, duty.name);
        let size = total as u64 + u64::from(duty.header_bytes);
        if self.buckets.get(&path).is_none_or(|bucket| size > bucket.capacity) {
            return;
        }
        let payload = match &flight.body {
            Body::Whole(bytes) => bytes.clone(),
            Body::Literals(literals) => with_gaps(literals, &shim.matches, total).into(),
        };
        self.make_room(path, size);
        let gaps = shim.matches.iter().map(|spec| (spec.at, spec.end())).collect();
        self.serial += 1;
        self.held.insert((path, name), Held { payload, gaps, serial: self.serial });
        let bucket = self.buckets.get_mut(&path).expect("it was there just now");
        bucket.queue.push_back((name, self.serial, size));
        bucket.used += size;
        self.used += size;
        self.most = self.most.max(self.used);
    }

    fn make_room(&mut self, path: u32, size: u64) {
        let Some(bucket) = self.buckets.get_mut(&path) else { return };
        while bucket.used + size > bucket.capacity {
            let Some((name, serial, size)) = bucket.queue.pop_front() else { break };
            bucket.used -= size;
            self.used -= size;
            if self.held.get(&(path, name)).is_some_and(|held| held.serial == serial) {
                self.held.remove(&(path, name));
            }
        }
    }
}

/// A payload of `total` bytes with zeros where there are no literals.
fn with_gaps(literals: &[u8], matches: &[Spec], total: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(total);
    let mut literals = literals;
    for spec in matches {
        let (before, rest) = literals.split_at(spec.at as usize - bytes.len());
        bytes.extend_from_slice(before);
        bytes.resize(spec.end() as usize, 0);
        literals = rest;
    }
    bytes.extend_from_slice(literals);
    bytes
}
