//! An IP path between two network namespaces with delay, rate, loss and a queue, in user space.
//!
//! Two tun devices, one in each namespace; a packet that leaves one arrives at the other after the emulator has let it queue,
//! serialised it at the rate, and held it for the delay. Works where the kernel has no netem. Linux, as root; [`Path::unavailable`]
//! says what is missing.
//!
//! The kernel hands over runs of TCP or UDP segments (GSO). A run is cut into what takes a millisecond at the rate, and between
//! segments where one is lost or the queue is full; the segment is what is counted, lost and queued, headers included.
//!
//! What one TCP flow reached without a rate or delay, sender, receiver and emulator sharing two cores (release build, 2 GB by
//! `oncewire-path-probe`; the worse of two runs):
//!
//! | MTU | runs of segments | each packet alone |
//! |---|---|---|
//! | 1,500 | 11 Gbit/s | 3.0 Gbit/s |
//! | 9,000 | 11 Gbit/s | 6.5 Gbit/s |
//! | 65,000 | 13 Gbit/s | 8.8 Gbit/s |
//!
//! At 1 Gbit/s and 200 ms of round trip, MTU 1,500, the emulator takes 15 % of one core with runs, 57 % without.

use crate::gso::{self, Run};
use crate::servers::{Rng, tool};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tun_rs::{DeviceBuilder, InterruptEvent, SyncDevice};

/// Most bytes that one direction holds, whatever its parameters: 512 MiB.
pub const MAX_HELD_BYTES: usize = 512 << 20;
/// Most packets that one direction holds.
const MAX_HELD_PACKETS: usize = 1 << 20;
/// Longest run of segments that moves as one, in time at the rate.
const RUN_TIME: Duration = Duration::from_millis(1);
/// How late a packet may be so that others go with it, where the delay is at least ten times this.
const SLACK: Duration = Duration::from_micros(100);

/// Why there is no path.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// The machine cannot do it: not root, no `ip` program, no tun device.
    #[error("no path can be emulated here: {0}")]
    Unavailable(String),
    /// A parameter is out of its range.
    #[error("{name} is {value}; it must be {must}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// What it was.
        value: String,
        /// What it must be.
        must: &'static str,
    },
    /// A command failed.
    #[error("`{command}` failed: {said}")]
    Command {
        /// The command.
        command: String,
        /// What it wrote to standard error, or why it did not start.
        said: String,
    },
    /// The system refused.
    #[error("{doing}: {source}")]
    System {
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the namespace A to B.
    AToB,
    /// From B to A.
    BToA,
}

/// Losses that come in bursts (Gilbert and Elliott): in the good state the configured loss applies, in the bad state `loss`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bursts {
    /// Probability, per packet, to go from good to bad, 0..=1.
    pub enter: f64,
    /// Probability, per packet, to go from bad to good, 0..=1. A burst lasts `1 / leave` packets on average.
    pub leave: f64,
    /// Probability to lose a packet in the bad state, 0..=1.
    pub loss: f64,
}

/// One direction of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectionConfig {
    /// One-way delay, besides queueing and serialisation. At most 60 s.
    pub delay: Duration,
    /// Bits per second of IP packets; nothing is unlimited. At least 1,000.
    pub rate_bps: Option<u64>,
    /// Probability to lose a packet, 0..=1, independent of other packets.
    pub loss: f64,
    /// Losses in bursts, besides.
    pub bursts: Option<Bursts>,
    /// Probability that a packet is held back, 0..=1, so that later ones overtake it. Use with `reorder_by`.
    pub reorder: f64,
    /// How long a packet is held back. At most 60 s.
    pub reorder_by: Duration,
    /// Bytes that may wait for serialisation; more are dropped at the tail. Nothing is one round trip at the rate, and at least
    /// 64 KiB. Without a rate nothing waits.
    pub queue_bytes: Option<usize>,
}

impl Default for DirectionConfig {
    fn default() -> DirectionConfig {
        DirectionConfig {
            delay: Duration::ZERO,
            rate_bps: None,
            loss: 0.0,
            bursts: None,
            reorder: 0.0,
            reorder_by: Duration::from_millis(5),
            queue_bytes: None,
        }
    }
}

impl DirectionConfig {
    fn check(&self) -> Result<(), PathError> {
        let probability = |name, p: f64| match (0.0..=1.0).contains(&p) {
            true => Ok(()),
            false => Err(PathError::Parameter { name, value: p.to_string(), must: "a probability, 0 to 1" }),
        };
        probability("loss", self.loss)?;
        probability("reorder", self.reorder)?;
        if let Some(bursts) = self.bursts {
            probability("bursts.enter", bursts.enter)?;
            probability("bursts.leave", bursts.leave)?;
            probability("bursts.loss", bursts.loss)?;
        }
        for (name, time) in [("delay", self.delay), ("reorder_by", self.reorder_by)] {
            if time > Duration::from_secs(60) {
                return Err(PathError::Parameter { name, value: format!("{time:?}"), must: "at most 60 s" });
            }
        }
        match self.rate_bps {
            Some(rate) if rate < 1000 => {
                Err(PathError::Parameter { name: "rate_bps", value: rate.to_string(), must: "at least 1000" })
            }
            _ => Ok(()),
        }
    }
}

/// What a path is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct PathConfig {
    /// From A to B.
    pub a_to_b: DirectionConfig,
    /// From B to A.
    pub b_to_a: DirectionConfig,
    /// Seed of losses and reordering. The same packets in the same order meet the same fate.
    pub seed: u64,
    /// Largest IP packet in bytes, 1,280..=65,535.
    pub mtu: u16,
    /// Whether the kernel hands over runs of segments. Costs far less CPU; without it each packet moves alone.
    pub offload: bool,
    /// Largest TCP socket buffer in both namespaces, in bytes; nothing leaves Linux's (4 to 6 MB, too small for 200 ms at
    /// 1 Gbit/s: two of the path's bandwidth times its round trip are wanted).
    pub tcp_buffer_max: Option<u64>,
}

impl Default for PathConfig {
    fn default() -> PathConfig {
        PathConfig {
            a_to_b: DirectionConfig::default(),
            b_to_a: DirectionConfig::default(),
            seed: 1,
            mtu: 1500,
            offload: true,
            tcp_buffer_max: None,
        }
    }
}

impl PathConfig {
    /// The same one-way delay and rate both ways, no loss, MTU 1500, and TCP buffers that fill the path.
    pub fn symmetric(delay: Duration, rate_bps: Option<u64>) -> PathConfig {
        let direction = DirectionConfig { delay, rate_bps, ..DirectionConfig::default() };
        let bdp = bytes_in(rate_bps.unwrap_or(10_000_000_000), delay * 2).min(256 << 20);
        PathConfig {
            a_to_b: direction.clone(),
            b_to_a: direction,
            tcp_buffer_max: Some((bdp * 3).max(8 << 20)),
            ..PathConfig::default()
        }
    }

    /// The given loss both ways.
    pub fn loss(mut self, probability: f64) -> PathConfig {
        self.a_to_b.loss = probability;
        self.b_to_a.loss = probability;
        self
    }

    /// The given queue both ways, in bytes.
    pub fn queue(mut self, bytes: usize) -> PathConfig {
        self.a_to_b.queue_bytes = Some(bytes);
        self.b_to_a.queue_bytes = Some(bytes);
        self
    }
}

/// What happened in one direction. Packets are what the wire would carry, runs cut up; bytes are whole IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectionStats {
    /// Packets that entered: delivered, dropped and under way.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets that used the wire, lost afterwards or not: what passed the queue.
    pub wire_packets: u64,
    /// Their bytes.
    pub wire_bytes: u64,
    /// Packets that arrived.
    pub delivered_packets: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Packets lost at random or in a burst.
    pub dropped_loss: u64,
    /// Packets that found the queue full.
    pub dropped_queue: u64,
    /// Packets dropped because the path was cut.
    pub dropped_cut: u64,
    /// Packets held back.
    pub reordered: u64,
}

/// Both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathStats {
    /// From A to B.
    pub a_to_b: DirectionStats,
    /// From B to A.
    pub b_to_a: DirectionStats,
}

fn bytes_in(rate_bps: u64, time: Duration) -> u64 {
    (u128::from(rate_bps) * time.as_nanos() / 8_000_000_000) as u64
}

fn time_for(bytes: usize, rate_bps: u64) -> Duration {
    Duration::from_nanos((bytes as u128 * 8_000_000_000 / u128::from(rate_bps.max(1))) as u64)
}

/// A packet, or a run of them, under way.
struct Held {
    due: Instant,
    buffer: Vec<u8>,
    packets: u64,
    bytes: u64,
}

struct Wire {
    config: DirectionConfig,
    round_trip: Duration,
    rng: Rng,
    bad: bool,
    cut: bool,
    stopping: bool,
    /// When the last accepted packet has been serialised.
    free_at: Instant,
    held: VecDeque<Held>,
    held_bytes: usize,
    stats: DirectionStats,
}

impl Wire {
    fn queue_bytes(&self, rate: u64) -> usize {
        self.config.queue_bytes.unwrap_or_else(|| (bytes_in(rate, self.round_trip) as usize).clamp(64 << 10, MAX_HELD_BYTES))
    }

    fn lost(&mut self) -> bool {
        let Some(bursts) = self.config.bursts else { return self.rng.chance(self.config.loss) };
        self.bad = if self.bad { !self.rng.chance(bursts.leave) } else { self.rng.chance(bursts.enter) };
        self.rng.chance(if self.bad { bursts.loss } else { self.config.loss })
    }

    /// Takes a buffer that left the sender at `now`.
    fn accept(&mut self, buffer: &[u8], now: Instant) {
        let run = Run::of(buffer);
        let count = run.segments();
        let all = run.wire_bytes(0, count);
        self.stats.sent_packets += count as u64;
        self.stats.sent_bytes += all as u64;
        if self.cut {
            self.stats.dropped_cut += count as u64;
            return;
        }
        // Segments of the run that is being gathered.
        let mut from = 0;
        for at in 0..count {
            let bytes = run.wire_bytes(at, at + 1);
            let full = match self.config.rate_bps {
                // What waits is what has been accepted and not been serialised.
                Some(rate) => {
                    bytes_in(rate, self.free_at.saturating_duration_since(now)) as usize + bytes > self.queue_bytes(rate)
                }
                None => false,
            } || self.held_bytes + all > MAX_HELD_BYTES
                || self.held.len() >= MAX_HELD_PACKETS;
            if full {
                self.hold(buffer, &run, from, at);
                self.stats.dropped_queue += 1;
                from = at + 1;
                continue;
            }
            self.stats.wire_packets += 1;
            self.stats.wire_bytes += bytes as u64;
            let start = self.free_at.max(now);
            self.free_at = match self.config.rate_bps {
                Some(rate) => start + time_for(bytes, rate),
                None => start.max(now),
            };
            if self.lost() {
                self.hold_until(buffer, &run, from, at, start);
                self.stats.dropped_loss += 1;
                from = at + 1;
            } else if self.rng.chance(self.config.reorder) {
                self.hold_until(buffer, &run, from, at, start);
                let late = self.free_at + self.config.reorder_by;
                self.hold_until(buffer, &run, at, at + 1, late);
                self.stats.reordered += 1;
                from = at + 1;
            } else if let Some(rate) = self.config.rate_bps
                && time_for(run.wire_bytes(from, at + 1), rate) >= RUN_TIME
            {
                self.hold(buffer, &run, from, at + 1);
                from = at + 1;
            }
        }
        self.hold(buffer, &run, from, count);
    }

    fn hold(&mut self, buffer: &[u8], run: &Run, from: usize, to: usize) {
        self.hold_until(buffer, run, from, to, self.free_at);
    }

    /// Keeps segments `from..to`, whose last bit leaves at `sent`, until they have travelled.
    fn hold_until(&mut self, buffer: &[u8], run: &Run, from: usize, to: usize, sent: Instant) {
        if from >= to {
            return;
        }
        let cut = run.cut(buffer, from, to);
        let due = sent + self.config.delay;
        self.held_bytes += cut.len();
        let held = Held { due, buffer: cut, packets: (to - from) as u64, bytes: run.wire_bytes(from, to) as u64 };
        // Almost always the last.
        let mut at = self.held.len();
        while at > 0 && self.held[at - 1].due > due {
            at -= 1;
        }
        self.held.insert(at, held);
    }
}

struct Lane {
    wire: Mutex<Wire>,
    arrived: Condvar,
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads what leaves one end.
fn read(device: &SyncDevice, event: &InterruptEvent, lane: &Lane, offload: bool) {
    let offset = if offload { 0 } else { gso::HEADER };
    let mut buffer = vec![0u8; gso::HEADER + 65_536];
    loop {
        let received = device.recv(&mut buffer[offset..]);
        match received {
            Ok(n) => {
                let mut wire = lane.lock();
                if wire.stopping {
                    return;
                }
                let head = wire.held.front().map(|held| held.due);
                wire.accept(&buffer[..offset + n], Instant::now());
                // The writer sleeps until the head is due, or without end.
                let wake = wire.held.front().map(|held| held.due) != head;
                drop(wire);
                if wake {
                    lane.arrived.notify_one();
                }
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                if device.wait_readable_intr(event).is_err() && lane.lock().stopping {
                    return;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // The device is gone with its namespace, or not up yet.
            Err(_) => {
                if lane.lock().stopping {
                    return;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// Writes what is due into the other end.
fn write(device: &SyncDevice, lane: &Lane, offload: bool) {
    let offset = if offload { 0 } else { gso::HEADER };
    let mut due = Vec::new();
    let mut wire = lane.lock();
    loop {
        if wire.stopping {
            return;
        }
        let now = Instant::now();
        while wire.held.front().is_some_and(|held| held.due <= now) {
            if let Some(held) = wire.held.pop_front() {
                wire.held_bytes -= held.buffer.len();
                due.push(held);
            }
        }
        if !due.is_empty() {
            if wire.cut {
                wire.stats.dropped_cut += due.drain(..).map(|held| held.packets).sum::<u64>();
                continue;
            }
            drop(wire);
            for held in &due {
                // Refused where the namespace's device is down: the packet is lost, as on a real path.
                let _ = device.send(&held.buffer[offset..]);
            }
            wire = lane.lock();
            for held in due.drain(..) {
                wire.stats.delivered_packets += held.packets;
                wire.stats.delivered_bytes += held.bytes;
            }
            continue;
        }
        let slack = if wire.config.delay >= SLACK * 10 { SLACK } else { Duration::ZERO };
        wire = match wire.held.front().map(|held| held.due) {
            Some(due) => {
                let wait = due.saturating_duration_since(now) + slack;
                lane.arrived.wait_timeout(wire, wait).unwrap_or_else(PoisonError::into_inner).0
            }
            None => lane.arrived.wait(wire).unwrap_or_else(PoisonError::into_inner),
        };
    }
}

/// Namespaces that exist now and were made here, for signals.
static OPEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static NEXT: AtomicU32 = AtomicU32::new(0);

fn open_names() -> MutexGuard<'static, BTreeSet<String>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(args: &[&str]) -> Result<(), PathError> {
    let failed = |said: String| PathError::Command { command: format!("ip {}", args.join(" ")), said };
    let output = Command::new("ip").args(args).output().map_err(|e| failed(e.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// Deletes the namespaces of all open paths of this process: for a program that catches signals itself and is about to end.
pub fn clean_up() {
    for name in std::mem::take(&mut *open_names()) {
        let _ = run(&["netns", "delete", &name]);
    }
}

/// Deletes namespaces whose process was killed before it could: their names say which that was.
fn clean_up_after_the_dead() {
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return };
    for name in entries.flatten().filter_map(|e| e.file_name().into_string().ok()) {
        let Some(pid) =
            name.strip_prefix("owp").and_then(|rest| rest.split_once('n')).and_then(|(pid, _)| pid.parse::<u32>().ok())
        else {
            continue;
        };
        if !std::path::Path::new(&format!("/proc/{pid}")).exists() {
            let _ = run(&["netns", "delete", &name]);
        }
    }
}

/// One end: a namespace with a tun device.
struct End {
    namespace: String,
    device: Arc<SyncDevice>,
}

impl End {
    fn open(namespace: &str, config: &PathConfig, v4: Ipv4Addr, v6: Ipv6Addr) -> Result<End, PathError> {
        let system = |doing| move |source| PathError::System { doing, source };
        open_names().insert(namespace.to_owned());
        run(&["netns", "add", namespace])?;
        let offload = config.offload;
        let device = DeviceBuilder::new()
            .name(namespace)
            .with(|builder| {
                builder.offload(offload);
            })
            // Up only when it has its addresses: nothing of this namespace may leak into it.
            .enable(false)
            .build_sync()
            .map_err(system("making a tun device"))?;
        device.set_nonblocking(true).map_err(system("making a tun device non-blocking"))?;
        // The open descriptor keeps its hold on the device.
        run(&["link", "set", "dev", namespace, "netns", namespace])?;
        let mtu = config.mtu.to_string();
        run(&["-n", namespace, "link", "set", "dev", "lo", "up"])?;
        // A burst of the sender waits for the reader here; loss is the emulator's to decide.
        run(&["-n", namespace, "link", "set", "dev", namespace, "mtu", &mtu, "txqueuelen", "10000"])?;
        run(&["-n", namespace, "address", "add", &format!("{v4}/24"), "dev", namespace])?;
        // A kernel without IPv6 has a path of IPv4.
        let _ = run(&["-n", namespace, "address", "add", &format!("{v6}/64"), "dev", namespace, "nodad"]);
        if let Some(max) = config.tcp_buffer_max {
            sysctl(namespace, "net.ipv4.tcp_rmem", &format!("4096 131072 {max}"))?;
            sysctl(namespace, "net.ipv4.tcp_wmem", &format!("4096 65536 {max}"))?;
        }
        run(&["-n", namespace, "link", "set", "dev", namespace, "up"])?;
        Ok(End { namespace: namespace.to_owned(), device: Arc::new(device) })
    }
}

fn sysctl(namespace: &str, name: &str, value: &str) -> Result<(), PathError> {
    // A write through /proc needs no sysctl program.
    let file = format!("/proc/sys/{}", name.replace('.', "/"));
    run(&["netns", "exec", namespace, "sh", "-c", "printf %s \"$1\" > \"$2\"", "sh", value, &file])
}

/// Deletes its namespace when the opening of a path fails half-way, or when the path ends.
struct Namespace(String);

impl Drop for Namespace {
    fn drop(&mut self) {
        if open_names().remove(&self.0) {
            let _ = run(&["netns", "delete", &self.0]);
        }
    }
}

/// A path. Ends when dropped: its threads stop and its namespaces are deleted (processes still in them keep a namespace without a
/// path until they end).
pub struct Path {
    lanes: [Arc<Lane>; 2],
    event: Arc<InterruptEvent>,
    threads: Vec<JoinHandle<()>>,
    namespaces: [Namespace; 2],
}

const A4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const B4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const A6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2);

impl Path {
    /// Why no path can be opened here, if so: not root, no `ip` program, or no tun device.
    pub fn unavailable() -> Option<String> {
        if !rustix::process::geteuid().is_root() {
            return Some("network namespaces need root".to_owned());
        }
        if tool("ip").is_none() {
            return Some("the ip program (iproute2) is not installed".to_owned());
        }
        if !std::path::Path::new("/dev/net/tun").exists() {
            return Some("there is no /dev/net/tun".to_owned());
        }
        None
    }

    /// Opens a path. The first one of a process also makes SIGINT, SIGTERM and SIGHUP delete the namespaces before they end the
    /// process with status 130, unless the process handles signals itself: then it calls [`clean_up`].
    ///
    /// # Errors
    /// [`PathError::Unavailable`] where tests should skip; otherwise what failed.
    pub fn open(config: PathConfig) -> Result<Path, PathError> {
        config.a_to_b.check()?;
        config.b_to_a.check()?;
        if config.mtu < 1280 {
            return Err(PathError::Parameter { name: "mtu", value: config.mtu.to_string(), must: "1280 to 65535" });
        }
        if let Some(reason) = Path::unavailable() {
            return Err(PathError::Unavailable(reason));
        }
        static SIGNALS: Once = Once::new();
        SIGNALS.call_once(|| {
            clean_up_after_the_dead();
            let _ = ctrlc::try_set_handler(|| {
                clean_up();
                std::process::exit(130);
            });
        });
        // Also the names of the devices, which may have 15 bytes.
        let (pid, n) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed) % 1000);
        let namespaces = ["a", "b"].map(|end| Namespace(format!("owp{pid}n{n}{end}")));
        let a = End::open(&namespaces[0].0, &config, A4, A6)?;
        let b = End::open(&namespaces[1].0, &config, B4, B6)?;
        let event =
            Arc::new(InterruptEvent::new().map_err(|source| PathError::System { doing: "making an event descriptor", source })?);
        let round_trip = config.a_to_b.delay + config.b_to_a.delay;
        let lane = |direction: DirectionConfig, seed| {
            let wire = Wire {
                config: direction,
                round_trip,
                rng: Rng::new(seed),
                bad: false,
                cut: false,
                stopping: false,
                free_at: Instant::now(),
                held: VecDeque::new(),
                held_bytes: 0,
                stats: DirectionStats::default(),
            };
            Arc::new(Lane { wire: Mutex::new(wire), arrived: Condvar::new() })
        };
        // Not the same numbers both ways.
        let lanes = [lane(config.a_to_b, config.seed), lane(config.b_to_a, !config.seed)];
        let mut path = Path { lanes, event, threads: Vec::new(), namespaces };
        for (lane, from, to) in [(0, &a, &b), (1, &b, &a)] {
            let (lane, offload) = (path.lanes[lane].clone(), config.offload);
            let (reader, writer, event) = (from.device.clone(), to.device.clone(), path.event.clone());
            let for_writer = lane.clone();
            path.spawn(&from.namespace, move || read(&reader, &event, &lane, offload))?;
            path.spawn(&to.namespace, move || write(&writer, &for_writer, offload))?;
        }
        Ok(path)
    }

    fn spawn(&mut self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<(), PathError> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body);
        self.threads.push(thread.map_err(|source| PathError::System { doing: "starting a thread", source })?);
        Ok(())
    }

    /// Name of the namespace A, for `ip netns exec`.
    pub fn ns_a(&self) -> &str {
        &self.namespaces[0].0
    }

    /// Name of the namespace B.
    pub fn ns_b(&self) -> &str {
        &self.namespaces[1].0
    }

    /// IPv4 address of A.
    pub fn addr_a(&self) -> IpAddr {
        A4.into()
    }

    /// IPv4 address of B.
    pub fn addr_b(&self) -> IpAddr {
        B4.into()
    }

    /// IPv6 address of A; absent from a kernel without IPv6.
    pub fn addr6_a(&self) -> IpAddr {
        A6.into()
    }

    /// IPv6 address of B; absent from a kernel without IPv6.
    pub fn addr6_b(&self) -> IpAddr {
        B6.into()
    }

    /// A command that runs `program` in A. `ip` becomes the program: the child's id is the program's.
    pub fn command_in_a(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        command_in(self.ns_a(), program.as_ref())
    }

    /// A command that runs `program` in B.
    pub fn command_in_b(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        command_in(self.ns_b(), program.as_ref())
    }

    /// Sets TCP's congestion control of the path in both namespaces, for connections opened from now on; otherwise it is the
    /// machine's default, which figures must name.
    ///
    /// # Errors
    /// [`PathError::Command`] when the kernel does not know it.
    pub fn set_congestion_control(&self, name: &str) -> Result<(), PathError> {
        for (ns, addr) in [(self.ns_a(), A4), (self.ns_b(), B4)] {
            // By the route: as a default of a namespace, the kernel takes only what the whole machine allows to all users.
            run(&[
                "-n",
                ns,
                "route",
                "replace",
                "10.77.0.0/24",
                "dev",
                ns,
                "scope",
                "link",
                "src",
                &addr.to_string(),
                "congctl",
                name,
            ])?;
            let _ = run(&[
                "-n",
                ns,
                "-6",
                "route",
                "replace",
                "fd77::/64",
                "dev",
                ns,
                "proto",
                "kernel",
                "metric",
                "256",
                "congctl",
                name,
            ]);
        }
        Ok(())
    }

    /// Sets a kernel parameter of both namespaces: `sysctl("net.ipv4.tcp_slow_start_after_idle", "0")`.
    ///
    /// # Errors
    /// [`PathError::Command`] when the kernel does not know it or refuses the value.
    pub fn sysctl(&self, name: &str, value: &str) -> Result<(), PathError> {
        sysctl(self.ns_a(), name, value)?;
        sysctl(self.ns_b(), name, value)
    }

    /// Changes both directions' random loss, from the next packet on.
    ///
    /// # Errors
    /// [`PathError::Parameter`] when it is not a probability.
    pub fn set_loss(&self, probability: f64) -> Result<(), PathError> {
        self.change(Direction::AToB, |config| config.loss = probability)?;
        self.change(Direction::BToA, |config| config.loss = probability)
    }

    /// Changes one direction, from the next packet on. Packets under way keep their times.
    ///
    /// # Errors
    /// [`PathError::Parameter`] when a parameter is out of its range; nothing changes then.
    pub fn change(&self, direction: Direction, change: impl FnOnce(&mut DirectionConfig)) -> Result<(), PathError> {
        let other = self.lane(match direction {
            Direction::AToB => Direction::BToA,
            Direction::BToA => Direction::AToB,
        });
        let other_delay = other.lock().config.delay;
        let mut wire = self.lane(direction).lock();
        let mut config = wire.config.clone();
        change(&mut config);
        config.check()?;
        wire.round_trip = config.delay + other_delay;
        wire.config = config;
        let round_trip = wire.round_trip;
        drop(wire);
        other.lock().round_trip = round_trip;
        Ok(())
    }

    /// While true, everything is dropped both ways, also what is under way.
    pub fn set_cut(&self, cut: bool) {
        for direction in [Direction::AToB, Direction::BToA] {
            self.set_cut_one_way(direction, cut);
        }
    }

    /// As [`Path::set_cut`], one way only.
    pub fn set_cut_one_way(&self, direction: Direction, cut: bool) {
        let mut wire = self.lane(direction).lock();
        wire.cut = cut;
        if cut {
            wire.stats.dropped_cut += wire.held.iter().map(|held| held.packets).sum::<u64>();
            wire.held.clear();
            wire.held_bytes = 0;
        }
    }

    /// What happened so far.
    pub fn stats(&self) -> PathStats {
        PathStats { a_to_b: self.lanes[0].lock().stats, b_to_a: self.lanes[1].lock().stats }
    }

    fn lane(&self, direction: Direction) -> &Lane {
        match direction {
            Direction::AToB => &self.lanes[0],
            Direction::BToA => &self.lanes[1],
        }
    }
}

fn command_in(namespace: &str, program: &std::ffi::OsStr) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace]).arg(program);
    command
}

impl Drop for Path {
    fn drop(&mut self) {
        for lane in &self.lanes {
            lane.lock().stopping = true;
            lane.arrived.notify_all();
        }
        let _ = self.event.trigger();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(config: DirectionConfig) -> Wire {
        Wire {
            config,
            round_trip: Duration::from_millis(100),
            rng: Rng::new(1),
            bad: false,
            cut: false,
            stopping: false,
            free_at: Instant::now(),
            held: VecDeque::new(),
            held_bytes: 0,
            stats: DirectionStats::default(),
        }
    }

    fn packet(len: usize) -> Vec<u8> {
        vec![0; gso::HEADER + len]
    }

    #[test]
    fn a_packet_leaves_when_the_one_before_has_been_serialised() {
        let delay = Duration::from_millis(50);
        let mut wire = wire(DirectionConfig { delay, rate_bps: Some(8_000_000), ..DirectionConfig::default() });
        let now = wire.free_at;
        wire.accept(&packet(1000), now);
        wire.accept(&packet(500), now);
        let due: Vec<Duration> = wire.held.iter().map(|held| held.due - now).collect();
        assert_eq!(due, [delay + Duration::from_millis(1), delay + Duration::from_micros(1500)]);
    }

    #[test]
    fn a_full_queue_drops_at_the_tail() {
        let config = DirectionConfig { rate_bps: Some(8_000_000), queue_bytes: Some(10_000), ..DirectionConfig::default() };
        let mut wire = wire(config);
        let now = wire.free_at;
        for _ in 0..15 {
            wire.accept(&packet(1000), now);
        }
        assert_eq!((wire.stats.wire_packets, wire.stats.dropped_queue), (10, 5));
        wire.accept(&packet(1000), now + Duration::from_millis(1));
        assert_eq!(wire.stats.wire_packets, 11);
    }

    #[test]
    fn bursts_lose_what_their_chain_says() {
        let bursts = Bursts { enter: 0.01, leave: 0.1, loss: 1.0 };
        let mut wire = wire(DirectionConfig { bursts: Some(bursts), ..DirectionConfig::default() });
        let now = wire.free_at;
        for _ in 0..100_000 {
            wire.accept(&packet(1), now);
        }
        // 0.01 / (0.01 + 0.1) of the time in the bad state.
        assert!((7_500..10_800).contains(&wire.stats.dropped_loss), "{:?}", wire.stats);
    }

    #[test]
    fn a_packet_held_back_is_overtaken() {
        let mut wire = wire(DirectionConfig { reorder: 0.5, ..DirectionConfig::default() });
        let now = wire.free_at;
        for len in 1..100 {
            wire.accept(&packet(len), now + Duration::from_micros(len as u64));
        }
        let order: Vec<u64> = wire.held.iter().map(|held| held.bytes).collect();
        assert!(!order.is_sorted());
        assert!(wire.held.iter().map(|held| held.due).is_sorted());
        assert_eq!(order.len(), 99);
        assert!((30..70).contains(&wire.stats.reordered));
    }

    #[test]
    fn parameters_are_checked() {
        let config = PathConfig::default().loss(1.5);
        assert!(matches!(Path::open(config), Err(PathError::Parameter { name: "loss", .. })));
        let config = PathConfig { mtu: 100, ..PathConfig::default() };
        assert!(matches!(Path::open(config), Err(PathError::Parameter { name: "mtu", .. })));
    }
}
