//! Objects as DOT would see them (EndRE section 9.1).

use crate::batch::{Direction, Packet};
use oncewire_kernels::random::SplitMix64;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::IpAddr;
use xxhash_rust::xxh3::Xxh3;

/// Nanoseconds without a packet of the flow that end an object (EndRE section 9.1: one second).
const OBJECT_GAP: i64 = 1_000_000_000;
/// Bytes that a chunk's name costs: a SHA-1, as in DOT.
pub(super) const CHUNK_NAME: u64 = 20;

/// Objects as DOT would see them.
pub(super) struct Objects {
    open: HashMap<u64, Object>,
    /// Flows by a time at which each had a packet; checked again when the object would end.
    active: BinaryHeap<Reverse<(i64, u64)>>,
    known: HashMap<u128, Known>,
    now: i64,
    volume: u64,
    max_open: usize,
    max_known: usize,
    left_out: u64,
}

/// An open object and its current chunk.
struct Object {
    hash: Box<Xxh3>,
    /// Hash of the last 64 bytes, which decides where chunks end.
    roll: u64,
    direction: Direction,
    hosts: (IpAddr, IpAddr),
    /// Bytes of the chunk.
    bytes: u64,
    /// Bytes of the chunk already saved by the caches at the hosts, and by the middlebox: the
    /// savings of each packet are shared out by bytes.
    saved: [f64; 2],
    last: i64,
}

/// Sizes of chunks in bytes. The content decides where they end: at one in [`CHUNK_MEAN`] positions
/// after the first [`CHUNK_LEAST`] bytes.
const CHUNK_LEAST: u64 = 2 << 10;
const CHUNK_MEAN: u64 = 4 << 10;
const CHUNK_MOST: u64 = 16 << 10;

/// A random number for each byte value (SplitMix64).
const GEAR: [u64; 256] = SplitMix64(0).table();

impl Object {
    /// Splits bytes at the end of the chunk. Returns the bytes of the chunk, the rest, and whether
    /// the chunk ends.
    fn take<'a>(&mut self, bytes: &'a [u8]) -> (&'a [u8], &'a [u8], bool) {
        for (i, &byte) in bytes.iter().enumerate() {
            self.roll = (self.roll << 1).wrapping_add(GEAR[usize::from(byte)]);
            self.bytes += 1;
            let here = self.bytes >= CHUNK_LEAST && (self.roll >> 32).is_multiple_of(CHUNK_MEAN);
            if here || self.bytes >= CHUNK_MOST {
                return (&bytes[..i + 1], &bytes[i + 1..], true);
            }
        }
        (bytes, &[], false)
    }
}

#[derive(Clone, Copy)]
struct Known {
    hosts: (IpAddr, IpAddr),
    /// Whether it passed between several pairs of hosts.
    several: bool,
    /// Payload volume when it last ended.
    at: u64,
}

/// Memory in bytes of an open object and of a known chunk, with map overhead.
const OPEN_BYTES: u64 = 800;
const KNOWN_BYTES: u64 = 120;

impl Objects {
    pub(super) fn new(memory: u64) -> Objects {
        Objects {
            open: HashMap::new(),
            active: BinaryHeap::new(),
            known: HashMap::new(),
            now: i64::MIN,
            volume: 0,
            max_open: (memory / 4 / OPEN_BYTES).max(1) as usize,
            max_known: (memory / 4 * 3 / KNOWN_BYTES).max(1) as usize,
            left_out: 0,
        }
    }

    pub(super) fn packet(
        &mut self,
        packet: &Packet,
        payload: &[u8],
        saved: [u32; 2],
        cache: u64,
        mut gain: impl FnMut(Direction, [u64; 2]),
    ) {
        let Some(flow) = &packet.flow else { return };
        self.now = self.now.max(packet.time);
        self.volume += payload.len() as u64;
        self.close_until(self.now.saturating_sub(OBJECT_GAP), cache, &mut gain);
        let Objects { open, active, known, now, volume, max_open, max_known, left_out } = self;
        let many = open.len();
        let object = match open.entry(packet.flow_hash) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                if many >= *max_open {
                    *left_out += 1;
                    return;
                }
                active.push(Reverse((*now, packet.flow_hash)));
                entry.insert(Object {
                    hash: Box::new(Xxh3::new()),
                    roll: 0,
                    direction: packet.direction,
                    hosts: flow.pair(),
                    bytes: 0,
                    saved: [0.0; 2],
                    last: *now,
                })
            }
        };
        object.last = *now;
        let shares = saved.map(|saved| f64::from(saved) / payload.len().max(1) as f64);
        let mut rest = payload;
        while !rest.is_empty() {
            let (taken, after, ends) = object.take(rest);
            object.hash.update(taken);
            for (sum, share) in object.saved.iter_mut().zip(shares) {
                *sum += share * taken.len() as f64;
            }
            rest = after;
            if ends && !end_chunk(known, *max_known, *volume, object, cache, &mut gain) {
                *left_out += 1;
            }
        }
    }

    /// Ends the objects whose last packet came at or before `time`.
    pub(super) fn close_until(
        &mut self,
        time: i64,
        cache: u64,
        gain: &mut impl FnMut(Direction, [u64; 2]),
    ) {
        while let Some(&Reverse((seen, flow))) = self.active.peek()
            && seen <= time
        {
            self.active.pop();
            let last = self.open.get(&flow).expect("active objects are open").last;
            if last > time {
                self.active.push(Reverse((last, flow)));
                continue;
            }
            let mut object = self.open.remove(&flow).expect("looked up above");
            if object.bytes > 0
                && !end_chunk(
                    &mut self.known,
                    self.max_known,
                    self.volume,
                    &mut object,
                    cache,
                    gain,
                )
            {
                self.left_out += 1;
            }
        }
    }

    /// Packets and objects for which there was no room.
    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    pub(super) fn memory(&self) -> u64 {
        self.known.len() as u64 * KNOWN_BYTES + self.open.len() as u64 * OPEN_BYTES
    }
}

/// Ends the chunk of an object: counts it if it is known, records it, and begins the next. `false`
/// if there was no room to record it.
fn end_chunk(
    known: &mut HashMap<u128, Known>,
    max_known: usize,
    volume: u64,
    object: &mut Object,
    cache: u64,
    gain: &mut impl FnMut(Direction, [u64; 2]),
) -> bool {
    let name = object.hash.digest128();
    let (bytes, saved) = (object.bytes, object.saved);
    (object.bytes, object.saved) = (0, [0.0; 2]);
    object.hash.reset();
    let rest = |saved: f64| (bytes as f64 - saved).max(0.0) as u64;
    let rest = saved.map(|saved| rest(saved).saturating_sub(CHUNK_NAME));
    let room = known.len() < max_known;
    match known.get_mut(&name) {
        Some(known) => {
            let elsewhere = known.several || known.hosts != object.hosts;
            let old = volume - known.at > cache;
            gain(
                object.direction,
                [if elsewhere { rest[0] } else { 0 }, if old { rest[1] } else { 0 }],
            );
            known.several = elsewhere;
            known.at = volume;
        }
        None if room => {
            known.insert(name, Known { hosts: object.hosts, several: false, at: volume });
        }
        None => return false,
    }
    true
}
