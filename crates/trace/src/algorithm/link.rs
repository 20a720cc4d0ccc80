//! Whole packets as `oncewire link` carries them, over a path that loses nothing.
//!
//! Three parts, each of which can be replaced alone: [`Joiner`] makes runs as the kernel does before
//! the link sees packets, [`Contents`] is the link's encoder with the acknowledgments that it would
//! get, and [`Datagrams`] is what they take beside the frames. `docs/LINK.md` has the layouts.

use super::{Run, Sizes, Tally};
use crate::batch::{Direction, FlowKey, Kind, Packet, View};
use crate::figures::temporal::{SavingsOverTime, Series};
use oncewire_codec::datagram::{Class, DatagramEncoder, FrozenContext, Limits, RunTokens};
use oncewire_codec::{ConfigError, DEFAULT_BLOCK, Encoder, Reach};
use std::collections::VecDeque;
use std::ops::Range;

/// Content is acknowledged this much later, in nanoseconds.
const ROUND_TRIP: i64 = 50_000_000;
/// Most ranges that wait for their acknowledgment.
const MOST_WAITING: usize = 1 << 16;
/// Segments of a flow join a run for this long after its first one, in nanoseconds: about as long as
/// a network card collects packets before it interrupts.
const JOIN: i64 = 100_000;
/// Runs that grow at once: Linux has eight in each of its lists (`MAX_GRO_SKBS`).
const MOST_RUNS: usize = 8;
/// Most segments of a run.
const MOST_SEGMENTS: usize = 128;
/// Most payload of a run in bytes: IP's limit without the longest headers of IPv6 and TCP.
const MOST_PAYLOAD: usize = 65_535 - 40 - 60;
/// A payload with fewer bytes is not logged.
const LEAST_LOGGED: usize = 64;
/// Bytes of a frame before its literals: flags and the longest offset.
const FRAME: usize = 9;

/// Number of the context that every link has.
const BUILT_IN: u8 = 0;

/// Bytes of a datagram around its records: IPv4 and UDP; the seal.
const AROUND: u64 = 20 + 8 + 24;
/// Bytes of a link layer, as far as a packet has that many: Ethernet.
const LINK_LAYER: u64 = 14;
/// Room for records in a datagram on a path of 1,500 bytes.
const ROOM: u64 = 1428;
/// Bytes of a record before headers that are sent whole: head, slot, control byte, length of the
/// headers.
const RECORD: u64 = 4;
/// Bytes of a record's head and of a header section that refers to an acknowledged header of its
/// flow: the mean of TCP segments, as measured in `docs/LINK.md`, section 4.5. UDP takes less.
const KNOWN: u64 = 1 + 12;
/// Bytes of the length of a record that is not the last of its datagram.
const LENGTH: u64 = 2;
/// Bytes of a segment section: number, count, size.
const SEGMENTS: u64 = 4;
/// Flows and directions whose headers are remembered. Of two that share a place, the newer one.
const FLOWS: usize = 4096;

const FIN_SYN_RST: u8 = 7;
const PSH: u8 = 8;

/// What datagrams of a direction take.
#[derive(Debug, Default)]
struct Datagrams {
    /// Time of the newest datagram's first record, and the room that is left in it. Packets that come
    /// with it share it, as those that a network card hands over together.
    newest: Option<(i64, u64)>,
    /// Hash of a flow, and when its first header was sent. Once that is acknowledged, others refer to
    /// it.
    flows: Vec<(u64, i64)>,
}

impl Datagrams {
    /// Bytes of the datagrams of a run whose frames have these lengths, with link layers.
    fn carry(&mut self, run: &Joined, frames: &[u64]) -> u64 {
        let link_layer = run.before.min(LINK_LAYER);
        let section = if run.segments > 1 { SEGMENTS } else { 0 };
        let beside =
            section + if self.is_known(run) { KNOWN } else { RECORD + (run.before - link_layer) };
        let mut sent = 0;
        for frame in frames {
            let record = beside + frame;
            let shared = match self.newest {
                // Only if it is all that is left of the run.
                Some((opened, left)) if frames.len() == 1 => {
                    let left = left.checked_sub(record + LENGTH);
                    left.filter(|_| run.opened.abs_diff(opened) < JOIN as u64)
                        .map(|left| (opened, left))
                }
                _ => None,
            };
            sent += match shared {
                Some(_) => record + LENGTH,
                None => link_layer + AROUND + record,
            };
            self.newest = shared.or(Some((run.opened, ROOM.saturating_sub(record))));
        }
        sent
    }

    /// Whether a header of the run's flow was acknowledged. Takes note of the flow.
    fn is_known(&mut self, run: &Joined) -> bool {
        self.flows.resize(FLOWS, (0, 0));
        let known = &mut self.flows[run.flow_hash as usize % FLOWS];
        if known.0 != run.flow_hash {
            *known = (run.flow_hash, run.opened);
            return false;
        }
        // A clock that was set back is not an acknowledgment.
        run.opened.saturating_sub(known.1) >= ROUND_TRIP
    }
}

/// Consecutive packets of a flow, or a packet.
#[derive(Debug, Default)]
struct Joined {
    flow: Option<FlowKey>,
    flow_hash: u64,
    direction: Direction,
    /// Time of the first packet.
    opened: i64,
    /// TCP's next sequence number.
    next: u32,
    /// Payload of the first segment, which none may exceed.
    segment: usize,
    segments: usize,
    /// Bytes of the first packet beside its payload.
    before: u64,
    /// Bytes of all packets.
    wire: u64,
    /// Payload that the capture lacks.
    missing: u64,
    payload: Vec<u8>,
    /// Nothing can follow.
    is_full: bool,
}

impl Joined {
    fn of(packet: &Packet, payload: &[u8]) -> Joined {
        let can_grow = match packet.kind {
            Kind::Tcp { flags, .. } => flags & (FIN_SYN_RST | PSH) == 0,
            _ => false,
        };
        Joined {
            flow: packet.flow,
            flow_hash: packet.flow_hash,
            direction: packet.direction,
            opened: packet.time,
            next: next_of(packet, payload.len()),
            segment: payload.len(),
            segments: 1,
            before: u64::from(packet.wire)
                .saturating_sub(payload.len() as u64 + u64::from(packet.missing)),
            wire: packet.wire.into(),
            missing: packet.missing.into(),
            payload: payload.to_vec(),
            is_full: !can_grow || payload.is_empty() || packet.missing > 0,
        }
    }

    /// Appends a packet, if it continues the run.
    fn join(&mut self, packet: &Packet, payload: &[u8]) -> bool {
        let Kind::Tcp { seq, flags } = packet.kind else { return false };
        let follows = !self.is_full
            && packet.flow == self.flow
            && seq == self.next
            && flags & FIN_SYN_RST == 0
            && packet.missing == 0
            && (1..=self.segment).contains(&payload.len())
            && self.payload.len() + payload.len() <= MOST_PAYLOAD;
        if follows {
            self.payload.extend_from_slice(payload);
            self.next = next_of(packet, payload.len());
            self.segments += 1;
            self.wire += u64::from(packet.wire);
            self.is_full =
                payload.len() < self.segment || flags & PSH != 0 || self.segments == MOST_SEGMENTS;
        }
        follows
    }
}

fn next_of(packet: &Packet, len: usize) -> u32 {
    match packet.kind {
        Kind::Tcp { seq, .. } => seq.wrapping_add(len as u32),
        _ => 0,
    }
}

/// Joins segments as the kernel of a router or a host does (GRO).
#[derive(Debug, Default)]
struct Joiner {
    /// In the order of their opening.
    open: VecDeque<Joined>,
}

impl Joiner {
    /// Passes on what is complete, in the order in which the link gets it.
    fn packet(&mut self, packet: &Packet, payload: &[u8], mut each: impl FnMut(Joined)) {
        // A clock that was set back closes runs, too.
        while self.open.front().is_some_and(|run| packet.time.abs_diff(run.opened) >= JOIN as u64) {
            self.open.pop_front().into_iter().for_each(&mut each);
        }
        if let Some(at) = self.open.iter().position(|run| run.flow == packet.flow) {
            let joined = self.open[at].join(packet, payload);
            if joined && !self.open[at].is_full {
                return;
            }
            self.open.remove(at).into_iter().for_each(&mut each);
            if joined {
                return;
            }
        }
        let run = Joined::of(packet, payload);
        if run.is_full {
            return each(run);
        }
        if self.open.len() == MOST_RUNS {
            self.open.pop_front().into_iter().for_each(&mut each);
        }
        self.open.push_back(run);
    }
}

/// The encoder of a direction.
struct Contents {
    encoder: DatagramEncoder,
    /// Content that the other end has, and when this one learns of it.
    waiting: VecDeque<(i64, Range<u64>)>,
    tokens: RunTokens,
    frame: Vec<u8>,
    /// Lengths of the frames of a run.
    frames: Vec<u64>,
}

impl Contents {
    fn new(cache: u64) -> Result<Contents, ConfigError> {
        let cache = cache.max(DEFAULT_BLOCK as u64);
        let mut encoder = Encoder::builder().cache(cache).build_datagrams()?;
        // Others are trained on what a link carries for long.
        encoder.set_context(BUILT_IN, Some(&FrozenContext::built_in()));
        encoder.use_context(Some(BUILT_IN));
        Ok(Contents {
            encoder,
            waiting: VecDeque::new(),
            tokens: RunTokens::default(),
            frame: Vec::new(),
            frames: Vec::new(),
        })
    }

    /// Lengths of the frames of a run.
    fn encode(&mut self, run: &Joined) -> &[u64] {
        let now = run.opened;
        // Of a clock that was set back, everything is late.
        let is_due = |&(due, _): &(i64, _)| !(1..=ROUND_TRIP).contains(&due.saturating_sub(now));
        while self.waiting.front().is_some_and(is_due) || self.waiting.len() >= MOST_WAITING {
            let Some((_, range)) = self.waiting.pop_front() else { break };
            self.encoder.acknowledge(range);
        }
        // Nothing is lost, so the policy `auto` admits content in flight.
        self.encoder
            .search(&run.payload, Class::Unknown, Reach::Sent, &mut self.tokens)
            .expect("a run is no longer than a block may be");
        let len = run.payload.len();
        // Datagrams that hold the packets of this path.
        let (segment, room) = match run.segments {
            1 => (0, usize::MAX),
            _ => (run.segment, run.segment + FRAME),
        };
        let limits = Limits { segment, room, earlier: true };
        let mut from = 0;
        self.frames.clear();
        while from < len {
            let to = self.encoder.fit(&self.tokens, from, &limits);
            debug_assert!(to > from, "a segment of literals fits");
            let to = to.max((from + run.segment).min(len));
            self.frame.clear();
            self.encoder.write(&self.tokens, &run.payload, from..to, &limits, &mut self.frame);
            self.frames.push(self.frame.len() as u64);
            from = to;
        }
        self.waiting.push_back((now.saturating_add(ROUND_TRIP), self.tokens.range()));
        &self.frames
    }

    fn memory(&self) -> u64 {
        let waiting = self.waiting.capacity() * size_of::<(i64, Range<u64>)>();
        (self.encoder.memory().total() + waiting + self.frame.capacity()) as u64
    }
}

/// Bytes of a direction.
#[derive(Clone, Copy, Debug, Default)]
struct Carried {
    wire: u64,
    sent: u64,
    /// What it cost more than it saved, and is not in the series yet.
    debt: u64,
}

/// The packet link: every TCP and UDP packet of a direction, with what encryption adds.
pub(crate) struct LinkRun {
    cache: Sizes,
    joiner: Joiner,
    contents: [Option<Box<Contents>>; Direction::ALL.len()],
    datagrams: [Datagrams; Direction::ALL.len()],
    carried: [Carried; Direction::ALL.len()],
    tally: Tally,
    series: Series,
    over_time: Option<SavingsOverTime>,
}

impl LinkRun {
    /// `memory` is for savings over time, in bytes.
    pub(crate) fn new(cache: Sizes, memory: u64) -> LinkRun {
        LinkRun {
            cache,
            joiner: Joiner::default(),
            contents: [const { None }; Direction::ALL.len()],
            datagrams: Default::default(),
            carried: Default::default(),
            tally: Tally::default(),
            series: Series::new(memory),
            over_time: None,
        }
    }

    fn packet(&mut self, packet: &Packet, payload: &[u8]) -> Result<(), ConfigError> {
        self.series.packet(packet.time, packet.direction, packet.wire.into());
        // What is neither TCP nor UDP may not be IP at all.
        if packet.flow.is_none() {
            return Ok(());
        }
        let mut runs = Vec::new();
        self.joiner.packet(packet, payload, |run| runs.push(run));
        runs.iter().try_for_each(|run| self.carry(run))
    }

    fn carry(&mut self, run: &Joined) -> Result<(), ConfigError> {
        let index = run.direction.index();
        let datagrams = &mut self.datagrams[index];
        let sent = if run.payload.len() >= LEAST_LOGGED {
            let contents = match &mut self.contents[index] {
                Some(contents) => contents,
                empty => empty.insert(Box::new(Contents::new(self.cache.of(run.direction))?)),
            };
            datagrams.carry(run, contents.encode(run))
        } else {
            datagrams.carry(run, &[run.payload.len() as u64])
        };
        let sent = sent + run.missing;
        let carried = &mut self.carried[index];
        carried.wire += run.wire;
        carried.sent += sent;
        let saved = run.wire.saturating_sub(sent);
        let net = saved.saturating_sub(carried.debt);
        carried.debt = (carried.debt + sent.saturating_sub(run.wire)).saturating_sub(saved);
        self.series.saved(run.opened, run.direction, net);
        self.tally.set(run.direction, carried.wire.saturating_sub(carried.sent));
        Ok(())
    }
}

impl Run for LinkRun {
    fn batch(&mut self, view: &View<'_>) -> Result<(), ConfigError> {
        let mut packets = view.batch.packets().iter();
        packets.try_for_each(|packet| self.packet(packet, view.batch.payload(packet)))
    }

    fn finish(&mut self) -> Result<(), ConfigError> {
        for run in std::mem::take(&mut self.joiner.open) {
            self.carry(&run)?;
        }
        self.over_time = Some(self.series.finish());
        Ok(())
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn over_time(&self) -> Option<SavingsOverTime> {
        self.over_time
    }

    fn memory(&self) -> u64 {
        let contents: u64 = self.contents.iter().flatten().map(|contents| contents.memory()).sum();
        let flows: usize = self.datagrams.iter().map(|datagrams| datagrams.flows.capacity()).sum();
        let flows = flows * size_of::<(u64, i64)>();
        contents + (flows + MOST_RUNS * (size_of::<Joined>() + MOST_PAYLOAD)) as u64
    }
}

#[cfg(test)]
mod tests;
