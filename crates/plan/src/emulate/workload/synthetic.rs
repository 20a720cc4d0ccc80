//! Synthetic packets whose redundancy is that of an instance's profile.

mod partners;
mod settings;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
    sync::Arc,
};

use oncewire_kernels::random::Xoshiro;
use partners::Partners;
pub use settings::{Arrivals, Lengths, Retransmissions, Settings, Sizes};
use settings::{bimodal, check, longest};

use super::headers::{self, Flow};
use crate::{
    Error, Instance, Match, Measured, Profile, Seconds,
    emulate::{Header, Packet},
};

/// Packets made so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Packets.
    pub packets: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Retransmissions.
    pub retransmissions: u64,
    /// Regions that repeat: (p, q) to their number and bytes.
    pub matches: BTreeMap<(u32, u32), (u64, u64)>,
    /// Regions that the profile asks for but that did not fit: too many for the packets, or nothing
    /// long enough was sent on the other path within the epoch.
    pub missed: u64,
}

/// An iterator of packets in order of time. `docs/PLANNERS.md`, "Workloads", defines what they are.
pub struct Synthetic<'a> {
    instance: &'a Instance,
    settings: Settings,
    random: Xoshiro,
    /// When the next packet of a path comes.
    next: BinaryHeap<Reverse<(u64, u32)>>,
    paths: Vec<State>,
    /// What entered [`State::sent`], oldest first.
    held: VecDeque<(u64, u32)>,
    partners: Partners,
    /// Step of the drift that `partners` and volumes are of.
    step: u64,
    drift: Vec<f64>,
    counters: Vec<u16>,
    end: u64,
    made: Made,
}

/// A path's part of the generator.
struct State {
    flows: Vec<Flow>,
    /// Packets of the last epoch that have a payload, oldest first.
    sent: VecDeque<Sent>,
    /// Matches per byte.
    rate: f64,
    /// Matches that are due.
    due: f64,
    /// How many must be due for the next packet to get some.
    burst: f64,
    /// The next region: path it repeats, length; drawn before it is known which packet it fits, so
    /// that none is preferred for its length.
    region: Option<(u32, u32)>,
    /// Packets that `region` did not fit or found nothing in.
    refused: u32,
}

impl State {
    /// Forgets packets from before `time`.
    fn forget(&mut self, time: u64) {
        while self.sent.front().is_some_and(|sent| sent.packet.time < time) {
            self.sent.pop_front();
        }
    }
}

struct Sent {
    packet: Packet,
    /// Start and length of what repeats nothing.
    fresh: Box<[(u16, u16)]>,
}

const NANOS: f64 = 1e9;
/// Packets tried for one with a long enough region.
const TRIES: usize = 32;
/// Packets after which a region that does not fit is dropped.
const PATIENCE: u32 = 64;
/// Steps in which a drift moves through its time.
const DRIFT_STEPS: f64 = 64.0;
impl<'a> Synthetic<'a> {
    /// Packets of `instance`. They take memory for about the payload of an epoch: scale the
    /// instance ([`Instance::scaled`]).
    ///
    /// # Errors
    /// Settings out of range; a mean match length that no packet holds.
    pub fn new(instance: &'a Instance, settings: Settings) -> Result<Self, Error> {
        check(instance, &settings)?;
        let mut random = Xoshiro::new(settings.seed, 0);
        let partners = Partners::new(instance);
        let paths = (0..instance.paths.len())
            .map(|path| State {
                flows: Vec::new(),
                sent: VecDeque::new(),
                rate: partners.count(instance, path) / instance.paths[path].volume,
                due: random.unit(),
                burst: 1.0,
                region: None,
                refused: 0,
            })
            .collect();
        let counters = if instance.paths.is_empty() {
            0
        } else {
            instance.network.nodes.len() * settings.headers.hosts as usize
        };
        let mut this = Self {
            instance,
            random,
            next: BinaryHeap::new(),
            paths,
            held: VecDeque::new(),
            partners,
            step: 0,
            drift: Vec::new(),
            counters: Vec::new(),
            end: (settings.epochs * instance.epoch.0 * NANOS) as u64,
            made: Made::default(),
            settings,
        };
        this.counters = (0..counters).map(|_| this.random.next_u64() as u16).collect();
        this.drift_to(0);
        for path in 0..this.paths.len() {
            let first = match this.settings.arrivals {
                Arrivals::Poisson => this.random.exponential(),
                Arrivals::Paced => this.random.unit(),
            };
            this.plan(path, 0, first * this.instance.packet.0);
        }
        Ok(this)
    }

    /// Packets made so far.
    pub fn made(&self) -> &Made {
        &self.made
    }

    /// The true instance at `time`, for a planner with perfect knowledge.
    ///
    /// # Errors
    /// A profile that crowds raise above the volume.
    pub fn instance_at(&self, time: Seconds) -> Result<Instance, Error> {
        let (instance, dynamics) = (self.instance, &self.settings.dynamics);
        let time = self.quantized(time.0);
        let now = |path: usize| {
            let node = instance.ingresses[instance.paths[path].ingress as usize].node;
            let ((volume, matches), (drift, weight)) = (
                dynamics.crowd(node, time.0),
                dynamics.drift(self.settings.seed, path as u32, time.1),
            );
            (volume * drift, matches, weight)
        };
        let now: Vec<(f64, f64, f64)> = (0..instance.paths.len()).map(now).collect();
        let volumes: Vec<f64> = instance
            .paths
            .iter()
            .zip(&now)
            .map(|(path, now)| (path.volume * now.0).max(f64::MIN_POSITIVE))
            .collect();
        let changed = instance.clone().with_volumes(&volumes)?;
        if let (Profile::Synthetic(profile), None) = (&instance.profile, dynamics.drift) {
            let mut profile = profile.clone();
            for ingress in &instance.ingresses {
                let gamma = profile.gamma_of(ingress.node) * dynamics.crowd(ingress.node, time.0).1;
                profile.ingresses.insert(ingress.node, gamma);
            }
            return changed.with_profile(Profile::Synthetic(profile));
        }
        let mut pairs = Vec::new();
        for p in 0..instance.paths.len() {
            let all: Vec<(u32, Match)> = instance
                .paths_of(instance.paths[p].ingress as usize)
                .map(|q| (q as u32, instance.matches(p, q)))
                .filter(|(_, found)| found.count > 0.0)
                .collect();
            let before: f64 = all.iter().map(|(_, found)| found.count).sum();
            let after: f64 = all.iter().map(|&(q, found)| found.count * now[q as usize].2).sum();
            for (q, found) in all {
                let count = found.count * now[q as usize].2 * before / after * now[p].0 * now[p].1;
                pairs.push((p as u32, q, Match { count, ..found }));
            }
        }
        let copies = match &instance.profile {
            Profile::Measured(profile) => profile.copies,
            Profile::Synthetic(_) => 0.0,
        };
        changed.with_profile(Profile::Measured(Measured { pairs, copies }))
    }

    /// Seconds between steps of the drift.
    fn quantum(&self) -> Option<f64> {
        self.settings.dynamics.drift.map(|drift| drift.time.0 / DRIFT_STEPS)
    }

    /// `time`, and the beginning of its step of the drift.
    fn quantized(&self, time: f64) -> (f64, f64) {
        (time, self.quantum().map_or(time, |quantum| (time / quantum).floor() * quantum))
    }

    fn drift_to(&mut self, step: u64) {
        self.step = step;
        let Some(quantum) = self.quantum() else { return };
        let (mut volumes, mut weights) = (Vec::new(), Vec::new());
        for path in 0..self.paths.len() as u32 {
            let (volume, weight) =
                self.settings.dynamics.drift(self.settings.seed, path, step as f64 * quantum);
            volumes.push(volume);
            weights.push(weight);
        }
        self.drift = volumes;
        self.partners.weigh(self.instance, &weights);
    }

    /// Notes when the next packet of `path` comes: when so many bytes more have come at the path's
    /// rate, which may change meanwhile.
    fn plan(&mut self, path: usize, after: u64, bytes: f64) {
        let dynamics = &self.settings.dynamics;
        let about = &self.instance.paths[path];
        let node = self.instance.ingresses[about.ingress as usize].node;
        let end = self.end as f64 / NANOS;
        let (mut now, mut bytes) = (after as f64 / NANOS, bytes);
        while now < end {
            let drift = match self.quantum() {
                Some(quantum) if (now / quantum) as u64 == self.step => self.drift[path],
                _ => dynamics.drift(self.settings.seed, path as u32, self.quantized(now).1).0,
            };
            let rate = about.volume / self.instance.epoch.0 * dynamics.crowd(node, now).0 * drift;
            let edges = dynamics.crowds.iter().flat_map(|crowd| [crowd.from.0, crowd.until.0]);
            // Beyond rounding: the next step must not be this one.
            let steps = self
                .quantum()
                .map(|quantum| ((now / quantum).floor() + 1.0) * quantum + quantum * 1e-9);
            let change =
                edges.chain(steps).filter(|&edge| edge > now).fold(f64::INFINITY, f64::min);
            if rate * (change - now) >= bytes && rate > 0.0 {
                let time = ((now + bytes / rate) * NANOS) as u64;
                if time < self.end {
                    self.next.push(Reverse((time, path as u32)));
                }
                return;
            }
            bytes -= if rate > 0.0 { rate * (change - now) } else { 0.0 };
            now = change;
        }
    }

    /// Forgets packets that are older than an epoch.
    fn expire(&mut self, now: u64) {
        let horizon = (self.instance.epoch.0 * NANOS) as u64;
        while let Some(&(time, path)) = self.held.front()
            && time + horizon < now
        {
            self.held.pop_front();
            self.paths[path as usize].forget(time + 1);
        }
    }

    /// Forgets packets of a path that its ingress's store has evicted, if the store lasts for less
    /// than an epoch.
    fn forget(&mut self, now: u64, path: usize) {
        let ingress = &self.instance.ingresses[self.instance.paths[path].ingress as usize];
        let lasts = self.instance.epoch.0 * NANOS * (ingress.memory / ingress.volume).min(1.0);
        self.paths[path].forget(now.saturating_sub(lasts as u64));
    }

    /// A retransmission of an earlier packet of the path.
    fn again(&mut self, now: u64, path: usize) -> Option<Packet> {
        let settings = self.settings.retransmissions;
        if settings.share == 0.0 || !self.random.chance(settings.share) {
            return None;
        }
        let sent = &self.paths[path].sent;
        let oldest = now.saturating_sub((settings.within.0 * NANOS) as u64);
        let from = sent.partition_point(|sent| sent.packet.time < oldest);
        if from == sent.len() {
            return None;
        }
        let mut packet = sent[from + self.random.below(sent.len() - from)].packet.clone();
        packet.time = now;
        if settings.renumbered && packet.header.identification.is_some() {
            // Its flow may have ended; the host counts on.
            let headers = self.settings.headers;
            let host = headers::host(&packet.header, headers.hosts);
            packet.header.identification =
                Some(headers.identification.number(&mut self.counters[host], &mut self.random));
        }
        self.made.retransmissions += 1;
        Some(packet)
    }

    fn packet(&mut self, now: u64, path: usize) -> Packet {
        let headers = self.settings.headers;
        let about = &self.instance.paths[path];
        let node = self.instance.ingresses[about.ingress as usize].node;
        let slot = self.random.below(headers.flows as usize);
        let over = self.random.chance(1.0 / headers.flow_packets);
        let flows = &mut self.paths[path].flows;
        let slot = if slot < flows.len() {
            if over {
                flows[slot] = Flow::new(&headers, node, about, &mut self.random);
            }
            slot
        } else {
            flows.push(Flow::new(&headers, node, about, &mut self.random));
            flows.len() - 1
        };
        let header_bytes = flows[slot].header_bytes();
        let wire = match self.settings.sizes {
            Sizes::Bimodal { small } if bimodal(self.instance, small) => {
                let large = self.random.chance(
                    (self.instance.packet.0 - f64::from(small))
                        / (self.instance.mss.0 - f64::from(small)),
                );
                if large { self.instance.mss.0 as usize } else { small as usize }
            }
            _ => self.random.round(self.instance.packet.0),
        };
        let mut payload = vec![0; wire.saturating_sub(header_bytes as usize)];
        self.random.fill(&mut payload);
        let fresh = self.repeat(path, wire, &mut payload, now);
        let header: Header = self.paths[path].flows[slot].next(
            &payload,
            headers.identification,
            &mut self.counters,
            &mut self.random,
        );
        let packet =
            Packet { time: now, path: path as u32, header, header_bytes, payload: payload.into() };
        if !packet.payload.is_empty() {
            self.paths[path].sent.push_back(Sent { packet: packet.clone(), fresh });
            self.held.push_back((now, path as u32));
        }
        packet
    }

    /// Writes regions of earlier packets into a payload. Returns what is left between them.
    fn repeat(
        &mut self,
        path: usize,
        wire: usize,
        payload: &mut [u8],
        now: u64,
    ) -> Box<[(u16, u16)]> {
        let node = self.instance.ingresses[self.instance.paths[path].ingress as usize].node;
        let raised = self.settings.dynamics.crowd(node, now as f64 / NANOS).1;
        let most = f64::from(self.settings.matches);
        let state = &mut self.paths[path];
        state.due += wire as f64 * state.rate * raised;
        // Regions that never fit must not pile up.
        let limit = 2.0 * most + 2.0 * wire as f64 * state.rate * raised;
        if state.due > limit {
            let given_up = (state.due - limit).ceil();
            state.due -= given_up;
            self.made.missed += given_up as u64;
        }
        let mut regions: Vec<(Arc<[u8]>, usize, usize)> = Vec::new();
        let mut left = payload.len();
        // In bursts, so that other packets stay whole for later ones to repeat.
        let burst = state.due >= state.burst;
        while burst && self.paths[path].due >= 1.0 && regions.len() < self.settings.matches as usize
        {
            let Some((other, len)) = self.paths[path].region.or_else(|| self.draw(path)) else {
                break;
            };
            let source = if len as usize <= left { self.find(now, other, len) } else { None };
            let state = &mut self.paths[path];
            let Some((from, at)) = source else {
                state.refused += 1;
                state.region = Some((other, len));
                if state.refused > PATIENCE {
                    (state.region, state.refused) = (None, 0);
                    state.due -= 1.0;
                    self.made.missed += 1;
                }
                break;
            };
            (state.region, state.refused) = (None, 0);
            state.due -= 1.0;
            left -= len as usize;
            regions.push((from, at, len as usize));
            let made = self.made.matches.entry((path as u32, other)).or_default();
            *made = (made.0 + 1, made.1 + u64::from(len));
        }
        if !regions.is_empty() {
            self.paths[path].burst = 1.0 + self.random.unit() * (most - 1.0);
        }
        let mut cuts: Vec<usize> = regions.iter().map(|_| self.random.below(left + 1)).collect();
        cuts.sort_unstable();
        let (mut fresh, mut end, mut done) = (Vec::new(), 0, 0);
        for ((from, at, len), cut) in regions.into_iter().zip(cuts) {
            let start = cut + done;
            payload[start..start + len].copy_from_slice(&from[at..at + len]);
            fresh.push((end as u16, (start - end) as u16));
            (end, done) = (start + len, done + len);
        }
        fresh.push((end as u16, (payload.len() - end) as u16));
        if self.settings.chains {
            fresh = vec![(0, payload.len() as u16)];
        }
        fresh.retain(|run| run.1 > 0);
        fresh.into()
    }

    /// Draws which path a region repeats, and how long it is.
    fn draw(&mut self, path: usize) -> Option<(u32, u32)> {
        let (other, mean) = self.partners.draw(self.instance, path, &mut self.random)?;
        let half = match self.settings.lengths {
            Lengths::Fixed => 0.0,
            Lengths::Uniform => (mean / 2.0).min(longest(self.instance, &self.settings) - mean),
        };
        let length = mean - half + self.random.unit() * 2.0 * half;
        Some((other, (self.random.round(length) as u32).max(1)))
    }

    /// A region of `len` bytes in a random packet of `other`.
    fn find(&mut self, now: u64, other: u32, len: u32) -> Option<(Arc<[u8]>, usize)> {
        self.forget(now, other as usize);
        let sent = &self.paths[other as usize].sent;
        if sent.is_empty() {
            return None;
        }
        for _ in 0..TRIES {
            let sent = &sent[self.random.below(sent.len())];
            let starts = |run: &(u16, u16)| (u32::from(run.1) + 1).saturating_sub(len) as usize;
            let all: usize = sent.fresh.iter().map(starts).sum();
            if all == 0 {
                continue;
            }
            let mut chosen = self.random.below(all);
            for run in &sent.fresh {
                if chosen < starts(run) {
                    return Some((sent.packet.payload.clone(), usize::from(run.0) + chosen));
                }
                chosen -= starts(run);
            }
        }
        None
    }
}

impl Iterator for Synthetic<'_> {
    type Item = Packet;

    fn next(&mut self) -> Option<Packet> {
        let Reverse((now, path)) = self.next.pop()?;
        let path = path as usize;
        if let Some(quantum) = self.quantum() {
            let step = (now as f64 / NANOS / quantum) as u64;
            if step != self.step {
                self.drift_to(step);
            }
        }
        self.expire(now);
        let packet = match self.again(now, path) {
            Some(packet) => {
                let state = &mut self.paths[path];
                state.due +=
                    f64::from(packet.header_bytes + packet.payload.len() as u32) * state.rate;
                packet
            }
            None => self.packet(now, path),
        };
        let wire = u64::from(packet.header_bytes) + packet.payload.len() as u64;
        self.made.packets += 1;
        self.made.bytes += wire;
        let wait = match self.settings.arrivals {
            Arrivals::Poisson => self.random.exponential() * self.instance.packet.0,
            Arrivals::Paced => wire as f64,
        };
        self.plan(path, now, wait);
        Some(packet)
    }
}
