//! Paths, and the two ends of a link over them.

use oncewire_codec::Sharing;
use oncewire_session::link::control::Control;
use oncewire_session::link::{
    Batch, Delivered, Feedback, Fields, HEADER, LogOffer, LogSettings, Policy, Receiver, Sender,
    TAG,
};
use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::time::{Duration, Instant};

pub(crate) const LOG: u64 = 256 << 20;
pub(crate) const SEGMENT: usize = 1364;
const LARGEST: usize = 1452;
/// UDP and IP.
pub(crate) const OUTER: usize = 28;
const BYTES_PER_SECOND: f64 = 20e6 / 8.0;
pub(crate) const ONE_WAY: Duration = Duration::from_millis(25);
/// What the router before the path holds at most: a datagram that would wait longer is dropped.
const QUEUE: Duration = Duration::from_millis(100);

#[derive(Clone, Copy)]
pub(crate) struct Path {
    pub(crate) name: &'static str,
    /// Share of datagrams lost, and mean number that are lost together.
    loss: f64,
    burst: f64,
    /// Share that comes up to 10 ms late.
    late: f64,
    /// Probability that a bit is altered.
    bit_errors: f64,
}

pub(crate) const CLEAN: Path =
    Path { name: "clean", loss: 0.0, burst: 1.0, late: 0.0, bit_errors: 0.0 };

pub(crate) fn paths() -> Vec<Path> {
    let mut paths = vec![CLEAN];
    for (name, loss) in
        [("0.1 %", 0.001), ("0.5 %", 0.005), ("1 %", 0.01), ("2 %", 0.02), ("5 %", 0.05)]
    {
        paths.push(Path { name, loss, ..CLEAN });
    }
    paths.push(Path { name: "1 % in bursts of 8", loss: 0.01, burst: 8.0, ..CLEAN });
    paths.push(Path { name: "5 % reordered", late: 0.05, ..CLEAN });
    paths.push(Path { name: "1 %, 5 % reordered", loss: 0.01, late: 0.05, ..CLEAN });
    paths.push(Path { name: "bit errors, 1e-6", bit_errors: 1e-6, ..CLEAN });
    paths
}

/// One direction: which datagrams get lost, and when the others arrive.
pub(crate) struct Way {
    rng: fastrand::Rng,
    path: Path,
    in_burst: bool,
    /// When the newest datagram came. A burst ends when the path is idle.
    last: Instant,
    /// When the path has taken all that waits for it.
    free_at: Instant,
    pub(crate) arrivals: BTreeMap<(Instant, u64), (u64, Vec<u8>)>,
    pub(crate) sent: u64,
    pub(crate) lost: u64,
}

impl Way {
    fn new(path: Path, seed: u64, now: Instant) -> Way {
        let (rng, arrivals) = (fastrand::Rng::with_seed(seed), BTreeMap::new());
        Way { rng, path, in_burst: false, last: now, free_at: now, arrivals, sent: 0, lost: 0 }
    }

    /// Time that a datagram takes.
    fn time_of(len: usize) -> Duration {
        Duration::from_secs_f64((len + OUTER) as f64 / BYTES_PER_SECOND)
    }

    /// Sends a datagram through the router's queue. Returns whether it arrives.
    fn enqueue(&mut self, counter: u64, plain: &[u8], len: usize, now: Instant) -> bool {
        let free_at = self.free_at.max(now);
        if free_at - now > QUEUE {
            self.sent += 1;
            self.lost += 1;
            return false;
        }
        self.free_at = free_at + Way::time_of(len);
        self.send(counter, plain, len, self.free_at)
    }

    /// Sends a datagram that has left the queue. Returns whether it arrives.
    fn send(&mut self, counter: u64, plain: &[u8], len: usize, now: Instant) -> bool {
        self.sent += 1;
        let Path { loss, burst, late, bit_errors, .. } = self.path;
        // Two states (Gilbert): bursts end with probability 1 / burst, and begin so that the share of
        // lost datagrams is right.
        let end = 1.0 / burst;
        let is_idle = now - self.last > burst.ceil() as u32 * Way::time_of(LARGEST);
        self.last = now;
        self.in_burst = if self.in_burst && !is_idle {
            self.rng.f64() >= end
        } else {
            self.rng.f64() < end * loss / (1.0 - loss)
        };
        let intact = (1.0 - bit_errors).powf(8.0 * (len + OUTER) as f64);
        if self.in_burst || self.rng.f64() >= intact {
            self.lost += 1;
            return false;
        }
        let delay = if self.rng.f64() < late { self.rng.u64(0..10_000) } else { 0 };
        let at = now + ONE_WAY + Duration::from_micros(delay);
        self.arrivals.insert((at, self.sent), (counter, plain.to_vec()));
        true
    }
}

pub(crate) struct End {
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    feedback: Feedback,
    batch: Batch,
    pub(crate) delivered: Delivered,
}

/// A link without a log if there is no policy.
fn end(policy: Option<Policy>, layout: fn(&[u8]) -> Fields) -> End {
    let log = if policy.is_some() { LOG } else { 0 };
    let settings = LogSettings { capacity: log, sharing: Sharing::None, key: 1 };
    let mut receiver = Receiver::default().with_logs(LogOffer::of(log)).with_layout(layout);
    receiver.set_rtt(2 * ONE_WAY);
    End {
        sender: Sender::new(LARGEST)
            .with_log(settings, policy.unwrap_or_default())
            .with_layout(layout),
        receiver,
        feedback: Feedback::default(),
        batch: Batch::default(),
        delivered: Delivered::with_room(0),
    }
}

pub(crate) struct World {
    pub(crate) ends: [End; 2],
    pub(crate) ways: [Way; 2],
    pub(crate) now: Instant,
    /// Counters of lost datagrams of the first way.
    pub(crate) lost: HashSet<u64>,
    /// Whether datagrams wait in a queue before the path. Otherwise time passes as the path takes
    /// them.
    is_queued: bool,
}

impl World {
    /// Two ends that are connected.
    #[expect(clippy::disallowed_methods, reason = "simulated time needs a time to start from")]
    pub(crate) fn new(
        path: Path,
        policy: Option<Policy>,
        layout: fn(&[u8]) -> Fields,
        is_queued: bool,
    ) -> Result<World, Box<dyn Error>> {
        let now = Instant::now();
        let mut world = World {
            ends: [end(policy, layout), end(policy, layout)],
            ways: [Way::new(path, 1, now), Way::new(path, 2, now)],
            now,
            lost: HashSet::new(),
            is_queued,
        };
        // Control messages are reliable.
        for at in 0..2 {
            world.ends[at].sender.connected(LogOffer::of(if policy.is_some() { LOG } else { 0 }));
            while let Some(Control::Log(terms)) = world.ends[at].sender.message() {
                world.ends[1 - at].receiver.log(terms)?;
                world.ends[at].sender.log_ready(terms.id);
            }
        }
        Ok(world)
    }

    /// Sends the batch of an end.
    pub(crate) fn transmit(&mut self, from: usize) {
        let end = &mut self.ends[from];
        if !end.sender.transmit(self.now, &mut end.batch) {
            return;
        }
        for (counter, datagram) in end.batch.datagrams_mut() {
            let plain = &datagram[HEADER..datagram.len() - TAG];
            let arrives = if self.is_queued {
                self.ways[from].enqueue(counter, plain, datagram.len(), self.now)
            } else {
                if from == 0 {
                    self.now += Way::time_of(datagram.len());
                }
                self.ways[from].send(counter, plain, datagram.len(), self.now)
            };
            if from == 0 && !arrives {
                self.lost.insert(counter);
            }
        }
    }

    /// What has arrived at an end by now; [`End::delivered`] has its packets.
    pub(crate) fn arrive(&mut self, to: usize) -> Result<(), Box<dyn Error>> {
        let (end, way) = (&mut self.ends[to], &mut self.ways[1 - to]);
        end.delivered.clear();
        while let Some(entry) = way.arrivals.first_entry()
            && entry.key().0 <= self.now
        {
            let (counter, plain) = entry.remove();
            let next = end.sender.next_counter();
            if end.receiver.admits(counter) {
                end.receiver.receive(counter, &plain, next, self.now, &mut end.delivered)?;
            }
        }
        end.receiver.expire(self.now, &mut end.delivered);
        end.receiver.feedback(self.now, &mut end.feedback);
        end.sender.feedback(&mut end.feedback, self.now);
        Ok(())
    }

    /// Sends what an end owes without packets.
    pub(crate) fn due(&mut self, from: usize) {
        if self.ends[from].sender.deadline().is_some_and(|due| due <= self.now) {
            self.transmit(from);
        }
    }

    /// When something happens next.
    pub(crate) fn next_event(&self) -> Option<Instant> {
        let arrivals = self.ways.iter().filter_map(|way| way.arrivals.keys().next().map(|at| at.0));
        let senders = self.ends.iter().filter_map(|end| end.sender.deadline());
        let receivers = self.ends.iter().filter_map(|end| end.receiver.deadline());
        arrivals.chain(senders).chain(receivers).min()
    }
}
