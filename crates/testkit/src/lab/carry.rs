//! Packets enter at ingresses, and what leaves is compared with them.

use super::LabError;
use super::access::Access;
use super::hops::{Hops, Receiver};
use super::network::{Network, RunningNetwork, device};
use super::traffic::{Entering, Traffic, is_for};
use pnet_datalink::{DataLinkReceiver, DataLinkSender};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Packets that may be on their way at once: less than any queue on it holds.
const WINDOW: usize = 64;
/// The same of one pair of nodes, where some may be lost for a while.
const PAIR: usize = 8;
/// Time between packets then.
const PACE: Duration = Duration::from_micros(200);
/// How long packets enter after a node was killed.
const AFTERWARDS: Duration = Duration::from_secs(5);

/// What is lost is known by its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Nothing may be lost.
    Complete,
    /// Cables lose datagrams.
    Lossy,
}

impl Manner {
    fn patience(self) -> Duration {
        Duration::from_secs(if self == Manner::Complete { 60 } else { 2 })
    }
}

/// What was carried.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    /// Packets that entered.
    pub sent: u64,
    /// Packets that left as they had entered.
    pub delivered: u64,
    /// Packets that did not leave.
    pub lost: u64,
    /// How long they took.
    pub time: Duration,
    /// Bytes of datagrams on all links.
    pub link_bytes: u64,
    /// CPU time of all nodes, or ends of links.
    pub cpu: Duration,
    /// Sums of the counters of all nodes.
    pub counted: Vec<(String, u64)>,
}

/// What a killed node cost.
#[derive(Clone, Debug, Default)]
pub struct Death {
    /// Packets that entered, but for those from and to the killed node after its end.
    pub sent: u64,
    /// Of these, packets that did not leave, and entered before the node was killed.
    pub lost_before: u64,
    /// And after it.
    pub lost_after: u64,
    /// Of these, packets that entered a second after it or later.
    pub lost_late: u64,
    /// Pairs of nodes that they were between.
    pub pairs: usize,
    /// When the last of them entered, after the node was killed.
    pub last: Duration,
}

/// A packet on its way.
struct Flight {
    pair: (usize, usize),
    at: Instant,
}

#[derive(Default)]
struct State {
    open: HashMap<Arc<[u8]>, Vec<Flight>>,
    outstanding: usize,
    of_pairs: HashMap<(usize, usize), usize>,
    delivered: u64,
    /// Left, but did not enter, or at another node.
    wrong: u64,
    /// What is lost, and when it entered.
    lost: Vec<Flight>,
    /// The packets of these, which may still leave.
    given_up: HashSet<Arc<[u8]>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    ended: AtomicBool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes what leaves at a device, until the end; `left` says at which node, if it is for one.
    fn receive(&self, receiver: &mut dyn DataLinkReceiver, left: impl Fn(&[u8]) -> Option<usize>) {
        while !self.ended.load(Relaxed) {
            match receiver.next() {
                Ok(packet) => {
                    if let Some(node) = left(packet) {
                        self.arrived(node, packet);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::TimedOut => {}
                // The device is gone with its node.
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn arrived(&self, node: usize, packet: &[u8]) {
        let mut state = self.state();
        let State { open, outstanding, of_pairs, delivered, wrong, given_up, .. } = &mut *state;
        let flight = open.get_mut(packet).and_then(|flights| {
            let at = flights.iter().position(|flight| flight.pair.1 == node)?;
            Some(flights.remove(at))
        });
        match flight {
            Some(Flight { pair, .. }) => {
                *delivered += 1;
                *outstanding -= 1;
                *of_pairs.entry(pair).or_insert(1) -= 1;
            }
            None if given_up.contains(packet) => {}
            None => *wrong += 1,
        }
        if open.get(packet).is_some_and(Vec::is_empty) {
            open.remove(packet);
        }
        self.changed.notify_all();
    }
}

impl State {
    fn enter(&mut self, packet: &Entering) {
        let pair = (packet.from, packet.to);
        let flight = Flight { pair, at: Instant::now() };
        self.open.entry(packet.bytes.clone()).or_default().push(flight);
        self.outstanding += 1;
        *self.of_pairs.entry(pair).or_default() += 1;
    }

    /// What is on its way for longer than this is lost.
    fn expire(&mut self, patience: Duration) {
        let State { open, outstanding, of_pairs, lost, given_up, .. } = self;
        open.retain(|packet, flights| {
            for flight in flights.extract_if(.., |flight| flight.at.elapsed() > patience) {
                *outstanding -= 1;
                *of_pairs.entry(flight.pair).or_insert(1) -= 1;
                lost.push(flight);
                given_up.insert(packet.clone());
            }
            !flights.is_empty()
        });
    }
}

/// Where packets enter.
enum Entrances {
    /// The access devices of all nodes.
    Nodes(Vec<Box<dyn DataLinkSender>>),
    /// The first link of each way.
    Hops(Arc<Hops>),
}

/// The access sides of all nodes.
pub(super) struct Carrier {
    entrances: Entrances,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Carrier {
    pub(super) fn open(network: &Network) -> Result<Carrier, LabError> {
        let shared = Arc::new(Shared::default());
        let (mut senders, mut threads) = (Vec::new(), Vec::new());
        for node in 0..network.nodes.len() {
            let Access { sender, mut receiver } = Access::open(&device(node))?;
            senders.push(sender);
            let shared = shared.clone();
            threads.push(std::thread::spawn(move || {
                shared.receive(&mut *receiver, |packet| is_for(node, packet).then_some(node));
            }));
        }
        Ok(Carrier { entrances: Entrances::Nodes(senders), shared, threads })
    }

    /// Of links hop by hop, whose ends have these receivers.
    pub(super) fn of_hops(hops: &Arc<Hops>, receivers: Vec<Receiver>) -> Carrier {
        let shared = Arc::new(Shared::default());
        let thread = |(end, mut receiver): Receiver| {
            let (shared, hops) = (shared.clone(), hops.clone());
            std::thread::spawn(move || {
                shared.receive(&mut *receiver, |packet| hops.take(end, packet));
            })
        };
        let threads = receivers.into_iter().map(thread).collect();
        Carrier { entrances: Entrances::Hops(hops.clone()), shared, threads }
    }

    fn send(&mut self, packet: &Entering) -> Result<(), LabError> {
        let senders = match &mut self.entrances {
            Entrances::Nodes(senders) => senders,
            Entrances::Hops(hops) => return hops.enter(packet),
        };
        let sent = senders[packet.from].send_to(&packet.bytes, None);
        sent.unwrap_or(Ok(())).map_err(LabError::system("sending into an access device"))
    }

    /// All packets once, in their order, at the times of the capture scaled to `time` in all; later if
    /// nodes take longer.
    pub(super) fn carry(
        &mut self,
        traffic: &Traffic,
        time: Duration,
        manner: Manner,
    ) -> Result<Carried, LabError> {
        let patience = manner.patience();
        let begun = Instant::now();
        let times = || traffic.packets.iter().map(|packet| packet.time);
        let (first, last) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
        let length = (last.saturating_sub(first)).max(1) as f64;
        for packet in &traffic.packets {
            let at = time.mul_f64((packet.time.saturating_sub(first)) as f64 / length);
            std::thread::sleep(at.saturating_sub(begun.elapsed()));
            self.wait_for(WINDOW - 1, patience);
            self.shared.state().enter(packet);
            self.send(packet)?;
        }
        self.wait_for(0, patience);
        let state = self.shared.state();
        if state.wrong > 0 {
            return Err(LabError::Wrong(state.wrong));
        }
        Ok(Carried {
            sent: traffic.packets.len() as u64,
            delivered: state.delivered,
            lost: state.lost.len() as u64,
            time: begun.elapsed(),
            ..Carried::default()
        })
    }

    /// Waits until at most so many packets are on their way.
    fn wait_for(&self, most: usize, patience: Duration) {
        let mut state = self.shared.state();
        while state.outstanding > most {
            let waited = self.shared.changed.wait_timeout(state, Duration::from_millis(50));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.expire(patience);
        }
    }

    /// The packets again and again, while a node is killed.
    pub(super) fn survive(
        &mut self,
        traffic: &Traffic,
        mut running: RunningNetwork,
        victim: usize,
        after: Duration,
    ) -> Result<Death, LabError> {
        let patience = Manner::Lossy.patience();
        let begun = Instant::now();
        let (mut killed, mut sent) = (None::<Instant>, 0);
        for packet in traffic.packets.iter().cycle() {
            if killed.is_some_and(|killed| killed.elapsed() > AFTERWARDS) {
                break;
            }
            if killed.is_none() && begun.elapsed() > after {
                running.kill(victim);
                killed = Some(Instant::now());
            }
            let pair = (packet.from, packet.to);
            if killed.is_some() && (pair.0 == victim || pair.1 == victim) {
                continue;
            }
            std::thread::sleep(PACE);
            let mut state = self.shared.state();
            if state.of_pairs.get(&pair).is_some_and(|&open| open >= PAIR) {
                state.expire(patience);
                continue;
            }
            state.enter(packet);
            drop(state);
            sent += 1;
            self.send(packet)?;
        }
        self.wait_for(0, patience);
        let state = self.shared.state();
        if state.wrong > 0 {
            return Err(LabError::Wrong(state.wrong));
        }
        let mut death = Death { sent, ..Death::default() };
        let mut pairs = std::collections::BTreeSet::new();
        let killed = killed.unwrap_or(begun);
        // Those that were on their way to or from the node have no way.
        for flight in state.lost.iter().filter(|one| one.pair.0 != victim && one.pair.1 != victim) {
            match flight.at.checked_duration_since(killed) {
                Some(time) => {
                    death.lost_after += 1;
                    death.lost_late += u64::from(time >= Duration::from_secs(1));
                    death.last = death.last.max(time);
                }
                None => death.lost_before += 1,
            }
            pairs.insert(flight.pair);
        }
        death.pairs = pairs.len();
        Ok(death)
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.shared.ended.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
