//! The packet link over paths that lose, reorder and damage datagrams, by each policy.
//!
//! ```text
//! cargo run --release -p oncewire-session --example link-sweep -- [--tcp] FILE...
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
//! With `--tcp`, four connections of TCP at a time send a quarter of the files each, at most 6 MB,
//! three times, and what was lost again. The path has a queue of 100 ms. `plain` is a link without
//! content logs:
//!
//! - *goodput*: content per second of all connections, in Mbit/s;
//! - *to plain*: that to the plain link's on this path;
//! - *saved*: bytes of content that did not cross, in datagrams of both directions with all headers;
//! - *inner*: packets with content that were not delivered; *again*: those that were sent again;
//! - *timeouts*: of all connections.
//!
//! Losses depend on a seed only.

mod applications;
mod path;
mod tcp;

use oncewire_codec::Domain;
use oncewire_session::link::{Fields, Implied, Inbound, Policy};
use path::{CLEAN, OUTER, Path, SEGMENT, World, paths};
use std::error::Error;
use std::num::{NonZeroU8, NonZeroU16};
use std::time::Duration;

const RUN: usize = 10 * SEGMENT;
/// Most bytes that connections of TCP send, before they send them again.
const MOST_TCP: usize = 24_000_000;

#[derive(Clone, Copy, Default)]
struct Outcome {
    saved: f64,
    path_loss: f64,
    inner_loss: f64,
    ratio: f64,
}

/// Sends the contents twice, as packets that nobody sends again.
fn play(contents: &[Vec<u8>], path: Path, policy: Policy) -> Result<Outcome, Box<dyn Error>> {
    let mut world = World::new(path, Some(policy), |_| Fields::default(), false)?;
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
            settle(&mut world)?;
        }
    }
    for _ in 0..100 {
        world.now += Duration::from_millis(50);
        settle(&mut world)?;
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

/// What has arrived by now, and what it makes the ends send.
fn settle(world: &mut World) -> Result<(), Box<dyn Error>> {
    for to in [1, 0] {
        world.arrive(to)?;
        world.due(to);
    }
    Ok(())
}

fn after(times: u8) -> Policy {
    NonZeroU8::new(times).map_or(Policy::Immediate, Policy::AfterK)
}

fn packets(contents: &[Vec<u8>]) -> Result<(), Box<dyn Error>> {
    println!("| path | policy | saved | of lossless | path | inner | ratio |");
    println!("|---|---|---:|---:|---:|---:|---:|");
    let policies =
        [("auto", Policy::Auto), ("acked", Policy::Acked), ("immediate", Policy::Immediate)];
    let mut lossless = [0.0; 3];
    for path in paths() {
        for (at, (name, policy)) in policies.into_iter().enumerate() {
            let outcome = play(contents, path, policy)?;
            if path.name == CLEAN.name {
                lossless[at] = outcome.saved;
            }
            let Outcome { saved, path_loss, inner_loss, ratio } = outcome;
            let ratio = if path_loss > 0.0 { format!("{ratio:.2}") } else { "-".into() };
            println!(
                "| {} | {name} | {:.2} | {:.1} | {:.2} | {:.2} | {ratio} |",
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

fn applications(contents: &[Vec<u8>]) -> Result<(), Box<dyn Error>> {
    let mut content = contents.concat();
    content.truncate(MOST_TCP);
    println!("| path | policy | goodput | to plain | saved | inner | again | timeouts |");
    println!("|---|---|---:|---:|---:|---:|---:|---:|");
    let policies = [
        ("plain", None),
        ("auto", Some(Policy::Auto)),
        ("acked", Some(Policy::Acked)),
        ("tcp-acked", Some(Policy::TcpAcked)),
        ("immediate", Some(Policy::Immediate)),
        ("after-2", Some(after(2))),
    ];
    for path in paths() {
        let mut plain = None;
        for (name, policy) in policies {
            let outcome = applications::play(&content, path, policy)?;
            let plain = *plain.get_or_insert(outcome.goodput);
            println!(
                "| {} | {name} | {:.1} | {:.2} | {:.1} | {:.2} | {:.2} | {} |",
                path.name,
                outcome.goodput / 1e6,
                outcome.goodput / plain,
                100.0 - 100.0 * outcome.crossed,
                100.0 * outcome.inner_loss,
                100.0 * outcome.repeated,
                outcome.timeouts,
            );
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let (flags, files): (Vec<_>, Vec<_>) =
        std::env::args_os().skip(1).partition(|argument| argument == "--tcp");
    let contents: Result<Vec<Vec<u8>>, _> = files.into_iter().map(std::fs::read).collect();
    let contents = contents?;
    if contents.iter().all(Vec::is_empty) {
        return Err("pass files".into());
    }
    if flags.is_empty() { packets(&contents) } else { applications(&contents) }
}
