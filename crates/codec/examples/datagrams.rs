//! A file as frames in datagrams over a path that loses and reorders.
//!
//! ```text
//! cargo run --release -p oncewire-codec --example datagrams -- FILE [LOSS% [MTU [DELAY]]]
//! ```
//!
//! The file is cut into runs of up to 64 KiB, as the kernel hands them over, and dealt to datagrams of
//! at most MTU bytes (1,424). LOSS percent (5) of them are lost, and one in fifty comes up to 30
//! datagrams late, the same ones in each line. What the decoder stored is acknowledged DELAY datagrams
//! later (100), in ranges. Each line is a policy: what runs may refer to, and when they are indexed.
//! Bytes are those of frames; a datagram that was lost is one, and *missing* are those that arrived and
//! could not be decoded, because what they refer to was lost. There is nobody who sends either again.

use oncewire_codec::datagram::{Class, DatagramDecoded, Indexing, Limits, RunTokens};
use oncewire_codec::{Decoder, Encoder, Reach};
use std::collections::VecDeque;
use std::error::Error;

const RUN: usize = 64 << 10;
const SEGMENT: usize = 1400;
const CACHE: u64 = 256 << 20;
const REORDER: u64 = 4 << 20;
const POLICIES: [(&str, Reach, Indexing); 4] = [
    ("immediate", Reach::Sent, Indexing::Immediate),
    ("immediate, indexed late", Reach::Sent, Indexing::Acknowledged),
    ("acked, indexed at once", Reach::Acknowledged, Indexing::Immediate),
    ("acked", Reach::Acknowledged, Indexing::Acknowledged),
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
    missing: u64,
    delivered: u64,
    holes: usize,
}

/// A datagram on its way: its place in the order of arrival, counter, frame and content.
type OnItsWay = (u64, u64, Vec<u8>, std::ops::Range<usize>);

fn send(
    content: &[u8],
    path: &Path,
    (reach, indexing): (Reach, Indexing),
) -> Result<Outcome, Box<dyn Error>> {
    let mut encoder = Encoder::builder().cache(CACHE).span(REORDER).build_datagrams()?;
    let mut decoder = Decoder::builder().cache(CACHE).span(REORDER).build_datagrams()?;
    encoder.set_indexing(indexing);
    let limits = Limits { segment: SEGMENT, room: path.mtu, earlier: false };
    let (mut out, mut tokens) = (Outcome::default(), RunTokens::default());
    let mut on_the_way: Vec<OnItsWay> = Vec::new();
    let mut stored: VecDeque<(u64, std::ops::Range<u64>)> = VecDeque::new();
    for (number, run) in content.chunks(RUN).enumerate() {
        encoder.search(run, Class::Unknown, reach, &mut tokens)?;
        let mut from = 0;
        while from < run.len() {
            let to = encoder.fit(&tokens, from, &limits);
            if to == from {
                return Err("the MTU is too small for a segment".into());
            }
            let mut frame = Vec::new();
            encoder.write(&tokens, run, from..to, &limits, &mut frame);
            let counter = out.datagrams;
            out.datagrams += 1;
            out.bytes += frame.len() as u64;
            // The same place on the path has the same fate, whatever is in the datagram.
            let mut fate = fastrand::Rng::with_seed(counter.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let (is_lost, is_late) = (fate.f64() * 100.0 < path.loss, fate.u8(0..50) == 0);
            let late = if is_late { fate.u64(1..=30) } else { 0 };
            if is_lost {
                out.lost += 1;
            } else {
                let start = number * RUN;
                on_the_way.push((counter + late, counter, frame, start + from..start + to));
            }
            from = to;
            on_the_way.retain(|(due, counter, frame, place)| {
                if *due > out.datagrams {
                    return true;
                }
                match decoder.decode(*counter, frame) {
                    Ok(DatagramDecoded::Content {
                        offset: Some(offset),
                        stored: is_stored,
                        bytes,
                    }) => {
                        assert!(bytes == &content[place.clone()], "wrong content");
                        out.delivered += bytes.len() as u64;
                        if is_stored {
                            let range = offset..offset + bytes.len() as u64;
                            stored.push_back((out.datagrams + path.delay, range));
                        }
                    }
                    Ok(DatagramDecoded::Missing { .. }) => out.missing += 1,
                    other => panic!("{other:?}"),
                }
                false
            });
            while stored.front().is_some_and(|(due, _)| *due <= out.datagrams)
                && let Some((_, mut range)) = stored.pop_front()
            {
                // Neighbors that are due are one range.
                while let Some((due, next)) = stored.front()
                    && *due <= out.datagrams
                    && next.start == range.end
                {
                    range.end = next.end;
                    stored.pop_front();
                }
                encoder.acknowledge(range);
            }
        }
    }
    out.holes = decoder.held().len().saturating_sub(1);
    Ok(out)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let file = args.next().ok_or("usage: datagrams FILE [LOSS% [MTU [DELAY]]]")?;
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
        "{:<24} {:>9} {:>11} {:>7} {:>7} {:>8} {:>10} {:>6}",
        "policy", "datagrams", "bytes", "saved", "lost", "missing", "inner loss", "holes"
    );
    for (name, reach, indexing) in POLICIES {
        let out = send(&content, &path, (reach, indexing))?;
        println!(
            "{name:<24} {:>9} {:>11} {:>6.1}% {:>7} {:>8} {:>9.2}% {:>6}",
            out.datagrams,
            out.bytes,
            100.0 - 100.0 * out.bytes as f64 / content.len() as f64,
            out.lost,
            out.missing,
            100.0 - 100.0 * out.delivered as f64 / content.len() as f64,
            out.holes
        );
    }
    Ok(())
}
