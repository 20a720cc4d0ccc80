//! The packet link over paths that lose, reorder and damage datagrams, by each policy.
//!
//! ```text
//! cargo run --release -p oncewire-session --example link-sweep -- FILE...
//! ```
//!
//! A sweep that Santos and Wetherall leave undone (section 6). The files cross a simulated path of
//! 20 Mbit/s and a round trip of 50 ms, in runs of up to 10 segments of 1,364 bytes, twice, one after
//! the other. Feedback takes the same path back and is lost as often. Nobody sends lost packets again,
//! so every loss shows. A line is a path and a policy:
//!
//! - *saved*: bytes of packets that did not cross, in datagrams with all headers;
//! - *of lossless*: that share to the same policy's on a path without losses;
//! - *path*: datagrams lost; *inner*: packets that were not delivered;
//! - *ratio*: packets that were not delivered to those that were in lost datagrams. 1 is the best.
//!
//! Losses depend on a seed only.

use oncewire_codec::{Domain, Sharing};
use oncewire_session::link::control::Control;
use oncewire_session::link::{
    Batch, Delivered, Feedback, HEADER, Implied, Inbound, LogOffer, LogSettings, Policy, Receiver,
    Sender, TAG,
};
use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

const LOG: u64 = 256 << 20;
const SEGMENT: usize = 1364;
const RUN: usize = 10 * SEGMENT;
const LARGEST: usize = 1452;
/// UDP and IP.
const OUTER: usize = 28;
const BYTES_PER_SECOND: f64 = 20e6 / 8.0;
const ONE_WAY: Duration = Duration::from_millis(25);

#[derive(Clone, Copy)]
struct Path {
    name: &'static str,
    /// Share of datagrams lost, and mean number that are lost together.
    loss: f64,
    burst: f64,
    /// Share that comes up to 10 ms late.
    late: f64,
    /// Probability that a bit is altered.
    bit_errors: f64,
}

const CLEAN: Path = Path { name: "clean", loss: 0.0, burst: 1.0, late: 0.0, bit_errors: 0.0 };

fn paths() -> Vec<Path> {
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
struct Way {
    rng: fastrand::Rng,
    path: Path,
    in_burst: bool,
    arrivals: BTreeMap<(Instant, u64), (u64, Vec<u8>)>,
    sent: u64,
    lost: u64,
}

impl Way {
    fn new(path: Path, seed: u64) -> Way {
        let rng = fastrand::Rng::with_seed(seed);
        Way { rng, path, in_burst: false, arrivals: BTreeMap::new(), sent: 0, lost: 0 }
    }

    fn send(&mut self, counter: u64, plain: &[u8], len: usize, now: Instant) -> bool {
        self.sent += 1;
        let Path { loss, burst, late, bit_errors, .. } = self.path;
        // Two states (Gilbert): bursts end with probability 1 / burst, and begin so that the share of
        // lost datagrams is right.
        let end = 1.0 / burst;
        self.in_burst = if self.in_burst {
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

struct End {
    sender: Sender,
    receiver: Receiver,
    feedback: Feedback,
    batch: Batch,
    delivered: Delivered,
}

fn end(policy: Policy) -> End {
    let settings = LogSettings { capacity: LOG, sharing: Sharing::None, key: 1 };
    let mut receiver = Receiver::default().with_logs(LogOffer::of(LOG));
    receiver.set_rtt(2 * ONE_WAY);
    End {
        sender: Sender::new(LARGEST).with_log(settings, policy),
        receiver,
        feedback: Feedback::default(),
        batch: Batch::default(),
        delivered: Delivered::with_room(0),
    }
}

struct World {
    ends: [End; 2],
    ways: [Way; 2],
    now: Instant,
    /// Counters of lost datagrams of the first way.
    lost: HashSet<u64>,
}

#[derive(Clone, Copy, Default)]
struct Outcome {
    saved: f64,
    path_loss: f64,
    inner_loss: f64,
    ratio: f64,
}

impl World {
    /// Sends the batch of an end; time passes as the path takes its bytes.
    fn transmit(&mut self, from: usize) {
        let end = &mut self.ends[from];
        if !end.sender.transmit(self.now, &mut end.batch) {
            return;
        }
        for (counter, datagram) in end.batch.datagrams_mut() {
            let plain = &datagram[HEADER..datagram.len() - TAG];
            if from == 0 {
                let seconds = (datagram.len() + OUTER) as f64 / BYTES_PER_SECOND;
                self.now += Duration::from_secs_f64(seconds);
            }
            let arrives = self.ways[from].send(counter, plain, datagram.len(), self.now);
            if from == 0 && !arrives {
                self.lost.insert(counter);
            }
        }
    }

    /// What has arrived by now, and what it makes the ends send.
    fn arrive(&mut self) -> Result<(), Box<dyn Error>> {
        for to in [1, 0] {
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
            if end.sender.deadline().is_some_and(|due| due <= self.now) {
                self.transmit(to);
            }
        }
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "simulated time needs a time to start from")]
fn play(contents: &[Vec<u8>], path: Path, policy: Policy) -> Result<Outcome, Box<dyn Error>> {
    let mut world = World {
        ends: [end(policy), end(policy)],
        ways: [Way::new(path, 1), Way::new(path, 2)],
        now: Instant::now(),
        lost: HashSet::new(),
    };
    // Control messages are reliable.
    for at in 0..2 {
        world.ends[at].sender.connected(LogOffer::of(LOG));
        while let Some(Control::Log(terms)) = world.ends[at].sender.message() {
            world.ends[1 - at].receiver.log(terms)?;
            world.ends[at].sender.log_ready(terms.id);
        }
    }
    let (mut packets, mut in_lost) = (0u64, 0u64);
    let mut sequence = 0u32;
    for content in contents.iter().chain(contents) {
        for run in content.chunks(RUN) {
            let mut header = [5; 52];
            header[24..28].copy_from_slice(&sequence.to_be_bytes());
            sequence = sequence.wrapping_add(run.len() as u32);
            let before = world.ends[0].sender.next_counter();
            let packet = Inbound {
                header: &header,
                open_checksum: true,
                implied: Implied::LengthsAndChecksum,
                segment: NonZeroU16::new(SEGMENT as u16),
                payload: run,
                domain: Domain(1),
            };
            world.ends[0].sender.enqueue(packet)?;
            world.transmit(0);
            let segments = run.len().div_ceil(SEGMENT) as u64;
            packets += segments;
            // Segments of a run are spread evenly over its datagrams, nearly.
            let after = world.ends[0].sender.next_counter();
            let lost =
                (before..after).filter(|counter| world.lost.contains(counter)).count() as u64;
            in_lost += segments * lost / (after - before).max(1);
            world.arrive()?;
        }
    }
    for _ in 0..100 {
        world.now += Duration::from_millis(50);
        world.arrive()?;
    }
    let stats = world.ends[0].sender.stats();
    let bytes = stats.bytes + OUTER as u64 * stats.datagrams;
    let missing = packets - world.ends[1].receiver.stats().packets.min(packets);
    let way = &world.ways[0];
    Ok(Outcome {
        saved: 1.0 - bytes as f64 / stats.inner_bytes as f64,
        path_loss: way.lost as f64 / way.sent as f64,
        inner_loss: missing as f64 / packets as f64,
        ratio: missing as f64 / in_lost as f64,
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let contents: Result<Vec<Vec<u8>>, _> =
        std::env::args_os().skip(1).map(std::fs::read).collect();
    let contents = contents?;
    if contents.is_empty() {
        return Err("pass files".into());
    }
    println!("| path | policy | saved | of lossless | path | inner | ratio |");
    println!("|---|---|---:|---:|---:|---:|---:|");
    let policies =
        [("auto", Policy::Auto), ("acked", Policy::Acked), ("immediate", Policy::Immediate)];
    let mut lossless = [0.0; 3];
    for path in paths() {
        for (at, (name, policy)) in policies.into_iter().enumerate() {
            let outcome = play(&contents, path, policy)?;
            if path.name == CLEAN.name {
                lossless[at] = outcome.saved;
            }
            let Outcome { saved, path_loss, inner_loss, ratio } = outcome;
            let ratio = if path_loss > 0.0 { format!("{ratio:.2}") } else { "-".into() };
            println!(
                "| {} | {name} | {:.2} % | {:.1} % | {:.2} % | {:.2} % | {ratio} |",
                path.name,
                100.0 * saved,
                100.0 * saved / lossless[at],
                100.0 * path_loss,
                100.0 * inner_loss,
            );
        }
    }
    Ok(())
}
