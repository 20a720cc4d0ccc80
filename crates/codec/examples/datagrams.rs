//! A file as frames in datagrams over a path that loses and reorders.
//!
//! ```text
//! cargo run --release -p oncewire-codec --example datagrams -- FILE [LOSS% [MTU [DELAY]]]
//! cargo run --release -p oncewire-codec --example datagrams -- --packets FILE
//! cargo run --release -p oncewire-codec --example datagrams -- --speed FILE
//! ```
//!
//! The file is cut into runs of up to 64 KiB, as the kernel hands them over, and dealt to datagrams of
//! at most MTU bytes (1,424). LOSS percent (5) of them are lost, and one in fifty comes up to 30
//! datagrams late: which ones depends on their numbers only. What the decoder stored is acknowledged
//! DELAY datagrams later (100), in ranges. What lacks content waits for 64 datagrams, then counts as
//! *missing*; in the lines with *answered*, the encoder hears of it, withdraws what is missing, and
//! sends the frame once more, whole. Nobody sends lost datagrams again.
//!
//! Each line is a policy: what runs may refer to, when they are indexed, and whether literals are coded
//! with the frozen context that is built in. Bytes are those of
//! frames. *Inner loss* is content that was not delivered; *beyond* is what of it did not get lost on
//! the path itself.
//!
//! `--packets` loses nothing, and prints what is saved beside packets that repeat as a whole and beside
//! gzip, as Table 2 of Santos and Wetherall. A context is trained after 2 MiB, and again. `--speed` prints
//! CPU time.

#[path = "datagrams/packets.rs"]
mod packets;

use oncewire_codec::datagram::{
    Class, DatagramDecoded, DatagramDecoder, DatagramEncoder, FrozenContext, Indexing, Limits,
    RunTokens,
};
use oncewire_codec::{Decoder, Encoder, Reach};
use std::collections::VecDeque;
use std::error::Error;
use std::ops::Range;

const RUN: usize = 64 << 10;
const SEGMENT: usize = 1400;
const CACHE: u64 = 256 << 20;
const REORDER: u64 = 4 << 20;
/// Datagrams for which a frame waits for what it lacks.
const PATIENCE: u64 = 64;

struct Policy {
    name: &'static str,
    reach: Reach,
    indexing: Indexing,
    /// Rejections are answered.
    answers: bool,
    /// Literals are coded with context 0.
    coded: bool,
}

const POLICIES: [Policy; 6] = [
    Policy {
        name: "immediate",
        reach: Reach::Sent,
        indexing: Indexing::Immediate,
        answers: false,
        coded: false,
    },
    Policy {
        name: "immediate, answered",
        reach: Reach::Sent,
        indexing: Indexing::Immediate,
        answers: true,
        coded: false,
    },
    Policy {
        name: "indexed late, answered",
        reach: Reach::Sent,
        indexing: Indexing::Acknowledged,
        answers: true,
        coded: false,
    },
    Policy {
        name: "acked, indexed at once",
        reach: Reach::Acknowledged,
        indexing: Indexing::Immediate,
        answers: false,
        coded: false,
    },
    Policy {
        name: "acked",
        reach: Reach::Acknowledged,
        indexing: Indexing::Acknowledged,
        answers: false,
        coded: false,
    },
    Policy {
        name: "acked, context 0",
        reach: Reach::Acknowledged,
        indexing: Indexing::Acknowledged,
        answers: false,
        coded: true,
    },
];

struct Path {
    loss: f64,
    mtu: usize,
    delay: u64,
}

#[derive(Default)]
struct Outcome {
    datagrams: u64,
    bytes: u64,
    lost: u64,
    /// Content of datagrams that were lost.
    lost_content: u64,
    missing: u64,
    delivered: u64,
}

/// A datagram on its way, or waiting at the decoder.
struct Datagram {
    /// When it arrives, or is given up.
    due: u64,
    counter: u64,
    frame: Vec<u8>,
    /// Where its content is in the file.
    place: Range<usize>,
    waits: bool,
}

/// A frame that was given up.
struct Rejection {
    /// When the encoder hears of it.
    due: u64,
    /// Its content in the log, and in the file.
    range: Range<u64>,
    place: Range<usize>,
    missing: Vec<Range<u64>>,
}

struct Link<'a> {
    content: &'a [u8],
    path: &'a Path,
    policy: &'a Policy,
    encoder: DatagramEncoder,
    decoder: DatagramDecoder,
    on_the_way: Vec<Datagram>,
    /// Datagrams sent so far, and time after the last one.
    now: u64,
    /// Ranges that the decoder stored, and when the encoder hears of it.
    stored: VecDeque<(u64, Range<u64>)>,
    rejected: VecDeque<Rejection>,
    out: Outcome,
}

impl Link<'_> {
    fn send(&mut self, frame: Vec<u8>, place: Range<usize>) {
        let counter = self.out.datagrams;
        self.out.datagrams += 1;
        self.out.bytes += frame.len() as u64;
        self.now += 1;
        let mut fate = fastrand::Rng::with_seed(counter.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (is_lost, is_late) = (fate.f64() * 100.0 < self.path.loss, fate.u8(0..50) == 0);
        if is_lost {
            self.out.lost += 1;
            self.out.lost_content += place.len() as u64;
        } else {
            let due = self.now + if is_late { fate.u64(1..=30) } else { 0 };
            self.on_the_way.push(Datagram { due, counter, frame, place, waits: false });
        }
        self.arrive();
        self.hear();
    }

    /// Decodes what has arrived by now.
    fn arrive(&mut self) {
        let Link { content, policy, path, decoder, on_the_way, stored, rejected, out, .. } = self;
        let now = self.now;
        on_the_way.retain_mut(|datagram| {
            if !datagram.waits && datagram.due > now {
                return true;
            }
            match decoder.decode(datagram.counter, &datagram.frame) {
                Ok(DatagramDecoded::Content { offset: Some(offset), stored: is_new, bytes }) => {
                    assert!(bytes == &content[datagram.place.clone()], "wrong content");
                    out.delivered += bytes.len() as u64;
                    if is_new {
                        stored.push_back((now + path.delay, offset..offset + bytes.len() as u64));
                    }
                    false
                }
                Ok(DatagramDecoded::Missing { .. }) if !datagram.waits => {
                    (datagram.waits, datagram.due) = (true, now + PATIENCE);
                    true
                }
                Ok(DatagramDecoded::Missing { .. }) if datagram.due > now => true,
                Ok(DatagramDecoded::Missing { offset, ranges }) => {
                    out.missing += 1;
                    if policy.answers {
                        let place = datagram.place.clone();
                        let range = offset..offset + place.len() as u64;
                        let (due, missing) = (now + path.delay, ranges.to_vec());
                        rejected.push_back(Rejection { due, range, place, missing });
                    }
                    false
                }
                other => panic!("{other:?}"),
            }
        });
    }

    /// What comes back to the encoder by now.
    fn hear(&mut self) {
        let now = self.now;
        while self.stored.front().is_some_and(|(due, _)| *due <= now)
            && let Some((_, mut range)) = self.stored.pop_front()
        {
            // Neighbors that are due are one range.
            while let Some((due, next)) = self.stored.front()
                && *due <= now
                && next.start == range.end
            {
                range.end = next.end;
                self.stored.pop_front();
            }
            self.encoder.acknowledge(range);
        }
        while self.rejected.front().is_some_and(|rejection| rejection.due <= now)
            && let Some(Rejection { range, place, missing, .. }) = self.rejected.pop_front()
        {
            missing.into_iter().for_each(|range| self.encoder.withdraw(range));
            // As many datagrams as it takes.
            for (range, place) in parts(range, place, self.path.mtu - 9) {
                let mut frame = Vec::new();
                if self.encoder.repair(range, &mut frame).is_ok() {
                    self.send(frame, place);
                }
            }
        }
    }
}

/// Divides a range of the log and its place in the file.
fn parts(
    range: Range<u64>,
    place: Range<usize>,
    most: usize,
) -> impl Iterator<Item = (Range<u64>, Range<usize>)> {
    place.clone().step_by(most).map(move |from| {
        let to = (from + most).min(place.end);
        let start = range.start + (from - place.start) as u64;
        (start..start + (to - from) as u64, from..to)
    })
}

fn transfer(content: &[u8], path: &Path, policy: &Policy) -> Result<Outcome, Box<dyn Error>> {
    let mut encoder = Encoder::builder().cache(CACHE).span(REORDER).build_datagrams()?;
    encoder.set_indexing(policy.indexing);
    let mut decoder = Decoder::builder().cache(CACHE).span(REORDER).build_datagrams()?;
    if policy.coded {
        let context = FrozenContext::built_in();
        encoder.set_context(0, Some(&context));
        encoder.use_context(Some(0));
        decoder.set_context(0, Some(&context));
    }
    let mut link = Link {
        content,
        path,
        policy,
        encoder,
        decoder,
        on_the_way: Vec::new(),
        now: 0,
        stored: VecDeque::new(),
        rejected: VecDeque::new(),
        out: Outcome::default(),
    };
    let limits = Limits { segment: SEGMENT, room: path.mtu, earlier: false };
    let mut tokens = RunTokens::default();
    for (number, run) in content.chunks(RUN).enumerate() {
        link.encoder.search(run, Class::Unknown, policy.reach, &mut tokens)?;
        let mut from = 0;
        while from < run.len() {
            let to = link.encoder.fit(&tokens, from, &limits);
            if to == from {
                return Err("the MTU is too small for a segment".into());
            }
            let mut frame = Vec::new();
            link.encoder.write(&tokens, run, from..to, &limits, &mut frame);
            let start = number * RUN;
            link.send(frame, start + from..start + to);
            from = to;
        }
    }
    // Time goes on until everything has arrived or is given up, and rejections are answered.
    while !link.on_the_way.is_empty() || !link.rejected.is_empty() {
        link.now += 1;
        link.arrive();
        link.hear();
    }
    Ok(link.out)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let file =
        args.next().ok_or("usage: datagrams [--packets | --speed] FILE [LOSS% [MTU [DELAY]]]")?;
    if let "--packets" | "--speed" = &*file {
        let content = std::fs::read(args.next().ok_or("a file, please")?)?;
        return if file == "--packets" {
            packets::table(&content)
        } else {
            packets::speed(&content)
        };
    }
    let mut number = |default: f64| args.next().map_or(Ok(default), |text| text.parse());
    let path =
        Path { loss: number(5.0)?, mtu: number(1424.0)? as usize, delay: number(100.0)? as u64 };
    let content = std::fs::read(file)?;
    println!(
        "{} bytes; {} % lost, MTU {}, acknowledged {} datagrams later",
        content.len(),
        path.loss,
        path.mtu,
        path.delay
    );
    println!(
        "{:<24} {:>9} {:>11} {:>7} {:>7} {:>8} {:>10} {:>8}",
        "policy", "datagrams", "bytes", "saved", "lost", "missing", "inner loss", "beyond"
    );
    for policy in &POLICIES {
        let out = transfer(&content, &path, policy)?;
        let share = |bytes: u64| 100.0 * bytes as f64 / content.len() as f64;
        let undelivered = content.len() as u64 - out.delivered;
        println!(
            "{:<24} {:>9} {:>11} {:>6.1}% {:>7} {:>8} {:>9.2}% {:>7.2}%",
            policy.name,
            out.datagrams,
            out.bytes,
            100.0 - share(out.bytes),
            out.lost,
            out.missing,
            share(undelivered),
            share(undelivered.saturating_sub(out.lost_content))
        );
    }
    Ok(())
}
