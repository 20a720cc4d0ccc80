//! What applications see: connections of TCP that send again what was lost.

use crate::path::{OUTER, Path, SEGMENT, World};
use crate::tcp::{self, Flow};
use oncewire_codec::Domain;
use oncewire_session::link::{Implied, Inbound, Policy};
use std::error::Error;
use std::num::NonZeroU16;
use std::ops::Range;
use std::time::Duration;

/// Connections at a time. Each sends its part of the content.
const FLOWS: usize = 4;
/// How often each part is sent.
const COPIES: usize = 3;

#[derive(Clone, Copy)]
pub(crate) struct Outcome {
    /// Bits of content per second, until the last connection is done.
    pub(crate) goodput: f64,
    /// Bytes of both directions of the path for each byte of content.
    pub(crate) crossed: f64,
    /// Share of packets with content that were not delivered.
    pub(crate) inner_loss: f64,
    /// Share of those that were sent again.
    pub(crate) repeated: f64,
    pub(crate) timeouts: u64,
}

struct Hosts<'a> {
    parts: Vec<&'a [u8]>,
    flows: Vec<Flow>,
    /// Segments that were delivered.
    delivered: u64,
}

/// A packet without payload, or a run.
fn inbound<'a>(header: &'a [u8], payload: &'a [u8], source: u64) -> Inbound<'a> {
    Inbound {
        header,
        open_checksum: true,
        implied: Implied::LengthsAndChecksum,
        segment: NonZeroU16::new(SEGMENT as u16).filter(|_| !payload.is_empty()),
        payload,
        domain: Domain(source),
    }
}

/// A name of the flow that is not 0.
fn key(flow: u8) -> u64 {
    0x9e37_79b9_7f4a_7c15u64.wrapping_mul(u64::from(flow) + 1)
}

impl Hosts<'_> {
    /// Sends what the windows admit.
    fn send(&mut self, world: &mut World) -> Result<(), Box<dyn Error>> {
        for (nth, flow) in self.flows.iter_mut().enumerate() {
            while let Some(Range { start, end }) = flow.run(world.now) {
                let part = self.parts[nth];
                let at = start as usize % part.len();
                let payload = &part[at..at + (end - start) as usize];
                let header = tcp::header(nth as u8, 0, start, 0, &Vec::new());
                let sender = &mut world.ends[0].sender;
                sender.set_flow(key(nth as u8), false);
                sender.enqueue(inbound(&header, payload, 1))?;
            }
        }
        world.transmit(0);
        Ok(())
    }

    /// Data arrives at its receivers, which acknowledge it.
    fn receive(&mut self, world: &mut World) -> Result<(), Box<dyn Error>> {
        let end = &mut world.ends[1];
        for (delivery, packet) in end.delivered.packets_mut() {
            let (header, payload) = packet.split_at(delivery.header);
            let (nth, first, ..) = tcp::parse(header);
            let segments = delivery.segments.ok_or("data comes in runs")?;
            let start = first + u64::from(segments.first) * SEGMENT as u64;
            self.delivered += u64::from(segments.count);
            let data = start..start + payload.len() as u64;
            let part = self.parts[usize::from(nth)];
            let at = start as usize % part.len();
            if part[at..at + payload.len()] != *payload {
                return Err("a wrong packet".into());
            }
            let (next, sacks) = self.flows[usize::from(nth)].received(data);
            let header = tcp::header(nth, 1, 0, next, &sacks);
            end.sender.set_flow(key(nth) | 1 << 63, false);
            end.sender.enqueue(inbound(&header, &[], 2))?;
        }
        world.transmit(1);
        Ok(())
    }

    /// Acknowledgments arrive at the senders.
    fn acknowledge(&mut self, world: &mut World) {
        let (now, end) = (world.now, &mut world.ends[0]);
        for (delivery, packet) in end.delivered.packets_mut() {
            let (nth, _, next, sacks) = tcp::parse(&packet[..delivery.header]);
            end.sender.inner_acknowledged(key(nth), next as u32);
            self.flows[usize::from(nth)].acknowledged(next, &sacks, now);
        }
    }
}

/// Sends each part of the content several times.
pub(crate) fn play(
    content: &[u8],
    path: Path,
    policy: Option<Policy>,
) -> Result<Outcome, Box<dyn Error>> {
    let mut world = World::new(path, policy, tcp::layout, true)?;
    let begun = world.now;
    let parts: Vec<&[u8]> = content.chunks(content.len().div_ceil(FLOWS)).collect();
    let flows = parts
        .iter()
        .map(|part| Flow::new((part.len() * COPIES) as u64, part.len() as u64))
        .collect();
    let mut hosts = Hosts { parts, flows, delivered: 0 };
    while hosts.flows.iter().any(|flow| flow.finished.is_none()) {
        hosts.send(&mut world)?;
        let timeouts = hosts.flows.iter().filter_map(Flow::deadline);
        let next = world.next_event().into_iter().chain(timeouts).min();
        world.now = next.ok_or("nothing is under way")?.max(world.now);
        if world.now - begun > Duration::from_secs(10_000) {
            return Err("the connections have stalled".into());
        }
        world.arrive(1)?;
        hosts.receive(&mut world)?;
        world.arrive(0)?;
        hosts.acknowledge(&mut world);
        world.due(1);
        world.due(0);
    }
    let finished = hosts.flows.iter().filter_map(|flow| flow.finished).max().unwrap_or(begun);
    let total: usize = hosts.parts.iter().map(|part| part.len() * COPIES).sum();
    let sum = |of: fn(&Flow) -> u64| hosts.flows.iter().map(of).sum::<u64>();
    let sent = sum(|flow| flow.sent);
    let crossed: u64 = (0..2)
        .map(|at| {
            let stats = world.ends[at].sender.stats();
            stats.bytes + OUTER as u64 * stats.datagrams
        })
        .sum();
    Ok(Outcome {
        goodput: 8.0 * total as f64 / (finished - begun).as_secs_f64(),
        crossed: crossed as f64 / total as f64,
        inner_loss: 1.0 - hosts.delivered as f64 / sent as f64,
        repeated: sum(|flow| flow.repeated) as f64 / sent as f64,
        timeouts: sum(|flow| flow.timeouts),
    })
}
