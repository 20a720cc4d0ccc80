//! A file as packets of 1,400 bytes on a link that loses nothing: what they save, as in Table 2 of
//! Santos and Wetherall (section 4.3), and what coding them costs.

use cpu_time::ThreadTime;
use flate2::Compression;
use flate2::write::GzEncoder;
use oncewire_codec::datagram::{
    Class, DatagramDecoded, DatagramDecoder, DatagramEncoder, FrozenContext, Limits, MAX_PREFIX,
    MAX_TRAINING, RunTokens, Training,
};
use oncewire_codec::{Decoder, Encoder, Reach};
use std::collections::HashSet;
use std::error::Error;
use std::io::Write as _;

const CACHE: u64 = 256 << 20;
const PACKET: usize = 1400;
/// Bytes in place of a payload that was sent before: its fingerprint, of MD5 in the paper.
const FINGERPRINT: usize = 16;
/// Payloads below this are not looked up (section 3.4).
const LEAST: usize = 500;
/// A context is trained after this much content.
const TRAIN_AFTER: usize = MAX_TRAINING;

/// Which frozen contexts frames may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contexts {
    None,
    BuiltIn,
    /// The one built in, and later those of what was acknowledged.
    Trained,
}

impl Contexts {
    pub(crate) const ALL: [Contexts; 3] = [Contexts::None, Contexts::BuiltIn, Contexts::Trained];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Contexts::None => "no context",
            Contexts::BuiltIn => "context 0",
            Contexts::Trained => "trained contexts",
        }
    }
}

/// Both ends of a link without losses.
pub(crate) struct Ends {
    encoder: DatagramEncoder,
    decoder: DatagramDecoder,
    contexts: Contexts,
    /// Number of the newest context, and content since it was trained.
    newest: u8,
    untrained: usize,
}

impl Ends {
    pub(crate) fn new(contexts: Contexts) -> Result<Ends, Box<dyn Error>> {
        let mut ends = Ends {
            encoder: Encoder::builder().cache(CACHE).span(0).build_datagrams()?,
            decoder: Decoder::builder().cache(CACHE).span(0).build_datagrams()?,
            contexts,
            newest: 0,
            untrained: 0,
        };
        if contexts != Contexts::None {
            ends.install(0, &FrozenContext::built_in());
        }
        Ok(ends)
    }

    fn install(&mut self, number: u8, context: &FrozenContext) {
        self.encoder.set_context(number, Some(context));
        self.decoder.set_context(number, Some(context));
        self.encoder.use_context(Some(number));
    }

    /// After the content before `end` was acknowledged.
    fn train(&mut self, content: &[u8]) {
        if self.contexts == Contexts::Trained && self.untrained >= TRAIN_AFTER {
            let newest = &content[content.len().saturating_sub(MAX_TRAINING)..];
            let context = Training::new(newest, MAX_PREFIX).finish().context(newest);
            self.newest = if self.newest == 1 { 2 } else { 1 };
            self.install(self.newest, &context);
            // Rarely afterwards: it only follows what changes.
            self.untrained = 0;
        }
    }
}

/// What runs took.
struct Taken {
    bytes: usize,
    datagrams: usize,
    /// CPU time in ns per byte of content.
    encoding: f64,
    decoding: f64,
}

/// Sends `content` in runs of `run` bytes.
fn send(content: &[u8], run: usize, contexts: Contexts) -> Result<Taken, Box<dyn Error>> {
    let mut ends = Ends::new(contexts)?;
    let limits = Limits { segment: PACKET, room: PACKET + 24, earlier: false };
    let (mut tokens, mut frame, mut counter) = (RunTokens::default(), Vec::new(), 0);
    let mut taken = Taken { bytes: 0, datagrams: 0, encoding: 0.0, decoding: 0.0 };
    for (nth, run_content) in content.chunks(run).enumerate() {
        let mut start = ThreadTime::now();
        ends.encoder.search(run_content, Class::Unknown, Reach::Acknowledged, &mut tokens)?;
        let mut from = 0;
        while from < run_content.len() {
            let to = ends.encoder.fit(&tokens, from, &limits);
            frame.clear();
            ends.encoder.write(&tokens, run_content, from..to, &limits, &mut frame);
            taken.encoding += start.elapsed().as_secs_f64();
            start = ThreadTime::now();
            match ends.decoder.decode(counter, &frame)? {
                DatagramDecoded::Content { bytes, .. } => assert!(bytes == &run_content[from..to]),
                missing => return Err(format!("{missing:?}").into()),
            }
            taken.decoding += start.elapsed().as_secs_f64();
            start = ThreadTime::now();
            taken.bytes += frame.len();
            (from, counter) = (to, counter + 1);
        }
        ends.encoder.acknowledge(tokens.range());
        ends.untrained += run_content.len();
        ends.train(&content[..(nth * run + run_content.len()).min(content.len())]);
    }
    taken.datagrams = counter as usize;
    let per_byte = 1e9 / content.len().max(1) as f64;
    (taken.encoding, taken.decoding) = (taken.encoding * per_byte, taken.decoding * per_byte);
    Ok(taken)
}

fn gzip(packet: &[u8]) -> usize {
    let mut coder = GzEncoder::new(Vec::new(), Compression::fast());
    let written = coder.write_all(packet).and_then(|()| coder.finish());
    written.map_or(packet.len(), |bytes| bytes.len()).min(packet.len())
}

/// Prints what packets save.
pub(crate) fn table(content: &[u8]) -> Result<(), Box<dyn Error>> {
    let (mut seen, mut matched, mut zipped, mut both) = (HashSet::new(), 0, 0, 0);
    for packet in content.chunks(PACKET) {
        let short = gzip(packet);
        zipped += short;
        if packet.len() >= LEAST && !seen.insert(*blake3::hash(packet).as_bytes()) {
            matched += FINGERPRINT;
            both += FINGERPRINT;
        } else {
            matched += packet.len();
            both += short;
        }
    }
    println!("packets of {PACKET} bytes, nothing lost: saved");
    let print = |name: &str, bytes: usize| {
        println!(
            "  {name:<34} {:>6.2}%",
            100.0 - 100.0 * bytes as f64 / content.len().max(1) as f64
        );
    };
    print("same payload as before", matched);
    print("gzip -1 of each packet", zipped);
    print("both", both);
    for contexts in Contexts::ALL {
        print(&format!("ours, {}", contexts.name()), send(content, PACKET, contexts)?.bytes);
    }
    for contexts in Contexts::ALL {
        print(
            &format!("ours in runs, {}", contexts.name()),
            send(content, 46 * PACKET, contexts)?.bytes,
        );
    }
    Ok(())
}

/// Prints CPU time, the least of some rounds.
pub(crate) fn speed(content: &[u8]) -> Result<(), Box<dyn Error>> {
    println!("CPU time, ns per byte of content, the least of 5");
    println!(
        "{:>8} {:<18} {:>9} {:>9} {:>8} {:>8}",
        "run", "", "datagrams", "bytes", "encoding", "decoding"
    );
    for run in [PACKET, 46 * PACKET] {
        for contexts in [Contexts::None, Contexts::BuiltIn, Contexts::Trained] {
            let mut best = send(content, run, contexts)?;
            for _ in 1..5 {
                let next = send(content, run, contexts)?;
                best.encoding = best.encoding.min(next.encoding);
                best.decoding = best.decoding.min(next.decoding);
            }
            let Taken { bytes, datagrams, encoding, decoding } = best;
            println!(
                "{run:>8} {:<18} {datagrams:>9} {bytes:>9} {encoding:>8.2} {decoding:>8.2}",
                contexts.name()
            );
        }
    }
    Ok(())
}
