//! The cache of a device: packets in FIFO queues, from which it decodes.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::Arc,
};

use super::{
    HeaderHasher,
    shim::{Format, Shim, ShimError, Spec},
};

/// A payload in transit.
#[derive(Clone, Debug)]
pub enum Body {
    /// The whole payload.
    Whole(Arc<[u8]>),
    /// The unmatched bytes.
    Literals(Vec<u8>),
}

impl Body {
    /// The bytes that are left.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Body::Whole(bytes) => bytes,
            Body::Literals(bytes) => bytes,
        }
    }
}

/// A packet in flight: its shim, and the rest of its payload.
#[derive(Clone, Debug)]
pub struct InFlight {
    /// The shim as it is sent; empty for a packet without one.
    pub shim: Vec<u8>,
    /// What is left of the payload.
    pub body: Body,
}

/// A cached packet.
#[derive(Debug)]
struct Held {
    payload: Arc<[u8]>,
    /// Regions that were not decoded when it passed: `from..to`, ascending and disjoint.
    gaps: Vec<(u32, u32)>,
    /// Distinguishes it from another of the same name.
    serial: u64,
}

#[derive(Debug, Default)]
struct Bucket {
    capacity: u64,
    used: u64,
    queue: VecDeque<Queued>,
}

/// A packet's place in a queue.
#[derive(Debug)]
struct Queued {
    path: u32,
    name: u64,
    serial: u64,
    size: u64,
}

/// What a device did with a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processed {
    /// It caches the packet now.
    pub cached: bool,
    /// Matches that it decoded.
    pub decoded: u32,
    /// Bytes that it decoded.
    pub decoded_bytes: u32,
    /// The payload is complete, but its checksum is wrong.
    pub damaged: bool,
}

/// What a device needs to know to process a packet.
#[derive(Clone, Copy, Debug)]
pub struct CacheTask {
    /// Whether its manifest of even and of odd version holds this packet; versions that it does not
    /// have do not.
    pub holds: [bool; 2],
    /// Name of the packet.
    pub name: u64,
    /// Header bytes.
    pub header_bytes: u32,
    /// The path, known from routing.
    pub path: u32,
    /// The FIFO queue that the path's packets are in.
    pub queue: u32,
    /// Payloads shorter than that are not cached.
    pub window: usize,
}

/// The cache of a device.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    buckets: BTreeMap<u32, Bucket>,
    held: HashMap<(u32, u64), Held>,
    serial: u64,
    used: u64,
    most: u64,
}

impl Cache {
    /// Sets the size of a queue, and evicts packets that no longer fit.
    pub(crate) fn resize(&mut self, queue: u32, capacity: u64) {
        let bucket = self.buckets.entry(queue).or_default();
        bucket.capacity = capacity;
        self.make_room(queue, 0);
        if capacity == 0 {
            self.buckets.remove(&queue);
        }
    }

    /// Queues and their sizes.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.buckets.iter().map(|(&queue, bucket)| (queue, bucket.capacity))
    }

    /// Bytes cached now, and their maximum so far.
    pub(crate) fn used(&self) -> (u64, u64) {
        (self.used, self.most)
    }

    /// Packets cached now.
    pub(crate) fn packets(&self) -> usize {
        self.held.len()
    }

    /// Decodes matches with packets it holds, caches the packet if it is assigned to, and clears
    /// finished parts of the shim.
    pub(crate) fn receive(
        &mut self,
        format: &Format,
        hash: &HeaderHasher,
        task: &CacheTask,
        flight: &mut InFlight,
    ) -> Result<Processed, ShimError> {
        let mut passed = Processed::default();
        if flight.shim.is_empty() {
            return Ok(passed);
        }
        let mut shim = Shim::take_head(format, task.path, &mut &flight.shim[..])?;
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
        if shim.cache.is_some_and(|version| task.holds[usize::from(version)])
            && total >= task.window
        {
            self.cache(&shim, task, total, flight);
            passed.cached = true;
            shim.cache = None;
        }
        if passed.cached || passed.decoded > 0 {
            flight.shim.clear();
            shim.write(format, &mut flight.shim);
        }
        Ok(passed)
    }

    fn decode(
        &mut self,
        shim: &mut Shim,
        total: usize,
        flight: &mut InFlight,
        passed: &mut Processed,
    ) {
        let sources: Vec<Option<&[u8]>> =
            shim.matches.iter().map(|spec| self.source(spec)).collect();
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
        flight.body =
            if shim.matches.is_empty() { Body::Whole(bytes.into()) } else { Body::Literals(bytes) };
    }

    /// The bytes of a match, if they are in the cache.
    fn source(&self, spec: &Spec) -> Option<&[u8]> {
        let held = self.held.get(&(spec.path, spec.name))?;
        let (from, to) = (spec.offset, spec.offset + spec.length);
        let bytes = held.payload.get(from as usize..to as usize)?;
        held.gaps.iter().all(|&(gap, end)| to <= gap || end <= from).then_some(bytes)
    }

    fn cache(&mut self, shim: &Shim, task: &CacheTask, total: usize, flight: &InFlight) {
        let (path, name) = (shim.path, task.name);
        let size = total as u64 + u64::from(task.header_bytes);
        if self.buckets.get(&task.queue).is_none_or(|bucket| size > bucket.capacity) {
            return;
        }
        let payload = match &flight.body {
            Body::Whole(bytes) => bytes.clone(),
            Body::Literals(literals) => with_gaps(literals, &shim.matches, total).into(),
        };
        self.make_room(task.queue, size);
        let gaps = shim.matches.iter().map(|spec| (spec.at, spec.end())).collect();
        self.serial += 1;
        self.held.insert((path, name), Held { payload, gaps, serial: self.serial });
        let bucket = self.buckets.get_mut(&task.queue).expect("it was there just now");
        bucket.queue.push_back(Queued { path, name, serial: self.serial, size });
        bucket.used += size;
        self.used += size;
        self.most = self.most.max(self.used);
    }

    fn make_room(&mut self, queue: u32, size: u64) {
        let Some(bucket) = self.buckets.get_mut(&queue) else { return };
        while bucket.used + size > bucket.capacity {
            let Some(Queued { path, name, serial, size }) = bucket.queue.pop_front() else { break };
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
