//! The tunnel as it would be deployed: frames of our codec with entropy stage and checksums, in the
//! records and segments of its connection.

use super::carrier::{Carrier, FLOW};
use super::timed::{Open, Timed};
use super::{MAX_SERVICES, Run, Sizes, Tally};
use crate::batch::{Direction, FlowKey, Packet, View};
use crate::figures::temporal::{SavingsOverTime, Series};
use crate::tcp::{Event, Limits, Reassembler};
use oncewire_codec::{ConfigError, DEFAULT_BLOCK, Domain, Encoder, Stream, StreamCounts};
use std::collections::HashMap;

/// TCP's number.
const TCP: u8 = 6;

/// An encoder for each direction.
struct Encoders {
    cache: Sizes,
    inside: bool,
    encoders: [Option<Box<Encoder>>; Direction::ALL.len()],
}

impl Encoders {
    fn new(cache: Sizes, inside: bool) -> Encoders {
        Encoders { cache, inside, encoders: [const { None }; Direction::ALL.len()] }
    }

    fn of(&mut self, direction: Direction) -> Result<&mut Encoder, ConfigError> {
        Ok(match &mut self.encoders[direction.index()] {
            Some(encoder) => encoder,
            empty => {
                let cache = self.cache.of(direction).max(DEFAULT_BLOCK as u64);
                let encoder = Encoder::builder().cache(cache).inside(self.inside).build()?;
                empty.insert(Box::new(encoder))
            }
        })
    }

    fn memory(&self) -> u64 {
        let encoders: usize =
            self.encoders.iter().flatten().map(|encoder| encoder.memory().total()).sum();
        encoders as u64
    }
}

/// What a tunnel carried of a service, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    /// Content of its flows.
    pub(crate) content: u64,
    /// Frames.
    pub(crate) sent: u64,
    /// Content that was taken apart as deflate streams.
    pub(crate) opened: u64,
    /// Deflate streams that were found as bytes.
    pub(crate) passed: u64,
}

/// What a tunnel carried, by protocol and service.
type ByService = HashMap<(u8, u16), Carried>;

/// What a tunnel carried.
#[derive(Clone, Debug, Default)]
pub(crate) struct TunnelContent {
    pub(crate) services: ByService,
    /// Compressed streams.
    pub(crate) streams: StreamCounts,
}

/// What a TCP flow sends within 10 ms and before it gets an answer, at most 64 KiB, as a block, as `oncewire serve` and
/// `connect` would under some load. UDP is not carried.
pub(crate) struct TunnelRun {
    tcp: Reassembler,
    blocks: Blocks,
}

struct Blocks {
    encoders: Encoders,
    carrier: Carrier,
    /// Those that have begun and not ended; the reassembler bounds their number.
    flows: HashMap<FlowKey, Flow>,
    most_flows: usize,
    /// Blocks that are being filled, by flow hash.
    open: Timed<FlowKey>,
    spare: Vec<Vec<u8>>,
    services: ByService,
    tally: Tally,
    /// Bytes by which messages exceeded their content in each direction, and that no savings have made up for yet.
    grown: [u64; Direction::ALL.len()],
    /// Time of the last packet in nanoseconds.
    last: i64,
    /// What it saves over time, of the tunnel as it is deployed.
    series: Option<Series>,
    over_time: Option<SavingsOverTime>,
    failed: Option<ConfigError>,
}

struct Flow {
    stream: Stream,
    direction: Direction,
    service: (u8, u16),
}

impl TunnelRun {
    /// `inside`: whether it looks inside deflate streams. `memory` is for reassembly, in bytes, and a
    /// quarter of it for savings over time.
    pub(crate) fn new(cache: Sizes, width: i64, inside: bool, memory: u64) -> TunnelRun {
        TunnelRun {
            tcp: Reassembler::new(Limits::of_memory(memory)),
            blocks: Blocks {
                encoders: Encoders::new(cache, inside),
                carrier: Carrier::default(),
                flows: HashMap::new(),
                most_flows: 0,
                open: Timed::new(width),
                spare: Vec::new(),
                services: ByService::new(),
                tally: Tally::default(),
                grown: Default::default(),
                last: 0,
                series: inside.then(|| Series::new(memory / 4)),
                over_time: None,
                failed: None,
            },
        }
    }
}

impl Blocks {
    /// Counts what a message of `sent` bytes saves of its content or, if it takes more on the wire,
    /// costs.
    fn carried(&mut self, time: i64, direction: Direction, content: u64, sent: u64) {
        let sent = self.carrier.carries(time, direction, sent);
        let grown = &mut self.grown[direction.index()];
        *grown += sent.saturating_sub(content);
        self.net(time, direction, content.saturating_sub(sent));
    }

    /// Counts bytes saved, less what others grew by.
    fn net(&mut self, time: i64, direction: Direction, saved: u64) {
        let grown = &mut self.grown[direction.index()];
        let net = saved.saturating_sub(*grown);
        *grown = grown.saturating_sub(saved);
        self.saved(time, direction, net);
    }

    /// Counts bytes saved of packets at that time.
    fn saved(&mut self, time: i64, direction: Direction, bytes: u64) {
        self.tally.add_to(direction, bytes);
        if let Some(series) = self.series.as_mut().filter(|_| bytes > 0) {
            series.saved(time, direction, bytes);
        }
    }

    fn event(&mut self, flow: &FlowKey, packet: Option<&Packet>, event: Event<'_>) {
        match (event, packet) {
            (Event::Start { .. }, Some(packet)) => {
                let stream = Stream::new(Domain::COMMON);
                let service = (flow.protocol, packet.service);
                let direction = packet.direction;
                self.carried(packet.time, direction, 0, FLOW);
                self.flows.insert(*flow, Flow { stream, direction, service });
                self.most_flows = self.most_flows.max(self.flows.len());
            }
            (Event::Start { .. }, None) => {}
            (Event::Data(content), packet) => self.add(flow, packet, content),
            // The trace lacks what the tunnel would have seen: what follows does not continue a
            // deflate stream.
            (Event::Gap(_), _) => {
                self.close_flow(flow);
                if let Some(flow) = self.flows.get_mut(flow) {
                    flow.stream = Stream::new(Domain::COMMON);
                }
            }
            (Event::End(_), _) => {
                self.close_flow(flow);
                self.flows.remove(flow);
            }
        }
    }

    fn add(&mut self, flow: &FlowKey, packet: Option<&Packet>, content: &[u8]) {
        let key = flow.hash64();
        for content in content.chunks(DEFAULT_BLOCK) {
            if self.open.len(key) + content.len() > DEFAULT_BLOCK {
                self.close_flow(flow);
            }
            let spare = &mut self.spare;
            let new = || (spare.pop().unwrap_or_default(), *flow);
            // Without a packet, the trace has ended.
            let now = packet.map_or(self.last, |packet| packet.time);
            self.open.with(key, now, new, |block| block.bytes.extend_from_slice(content));
            while let Some(block) = self.open.too_much() {
                self.close(block);
            }
        }
    }

    /// One end of a connection sends: what the other has sent is not held back any longer, whatever
    /// the round trip was where the trace was captured.
    fn answered(&mut self, packet: &Packet) {
        if let Some(flow) = packet.flow.filter(|flow| flow.protocol == TCP && packet.len > 0)
            && let Some(block) = self.open.close(flow.reversed().hash64())
        {
            let direction = self.flows.get(&block.value).map(|flow| flow.direction);
            if let Some(direction) = direction {
                self.carrier.turns(direction);
            }
            self.close(block);
        }
    }

    fn close_flow(&mut self, flow: &FlowKey) {
        if let Some(block) = self.open.close(flow.hash64()) {
            self.close(block);
        }
    }

    fn close(&mut self, Open { opened, mut bytes, value: flow }: Open<FlowKey>) {
        // Flows begin before they have content, and end after their blocks.
        if let Some(flow) = self.flows.get_mut(&flow)
            && self.failed.is_none()
        {
            let (direction, mut key) = (flow.direction, flow.service);
            match encode(&mut self.encoders, flow, &bytes) {
                Ok(carried) => {
                    self.carried(opened, direction, carried.content, carried.sent);
                    if self.services.len() >= MAX_SERVICES && !self.services.contains_key(&key) {
                        key.1 = 0;
                    }
                    let sum = self.services.entry(key).or_default();
                    sum.content += carried.content;
                    sum.sent += carried.sent;
                    sum.opened += carried.opened;
                    sum.passed += carried.passed;
                }
                Err(error) => self.failed = Some(error),
            }
        }
        bytes.clear();
        if self.spare.len() < 256 {
            self.spare.push(bytes);
        }
    }
}

fn encode(encoders: &mut Encoders, flow: &mut Flow, block: &[u8]) -> Result<Carried, ConfigError> {
    let encoder = encoders.of(flow.direction)?;
    let before = encoder.stats().inside;
    let frame = encoder
        .encode_stream(&mut flow.stream, block, 0)
        .expect("blocks are no longer than a block may be");
    let sent = frame.parts().iter().map(|part| part.len() as u64).sum();
    let after = encoder.stats().inside;
    Ok(Carried {
        content: block.len() as u64,
        sent,
        opened: after.opened_bytes - before.opened_bytes,
        passed: after.passed_bytes - before.passed_bytes,
    })
}

impl Run for TunnelRun {
    fn batch(&mut self, view: &View<'_>) -> Result<(), ConfigError> {
        let TunnelRun { tcp, blocks } = self;
        for packet in view.batch.packets() {
            while let Some(block) = blocks.open.expired(packet.time) {
                blocks.close(block);
            }
            blocks.answered(packet);
            blocks.last = packet.time;
            if let Some(series) = &mut blocks.series {
                series.packet(packet.time, packet.direction, packet.wire.into());
            }
            let before = *tcp.stats();
            tcp.packet(packet, view.batch.payload(packet), &mut |flow, event| {
                blocks.event(flow, Some(packet), event);
            });
            // A tunnel ends both connections: what one of them repeats does not cross it.
            let again = tcp.stats().retransmitted + tcp.stats().overlapping;
            let again = again - before.retransmitted - before.overlapping;
            let again = blocks.carrier.replaces(packet, again);
            blocks.net(packet.time, packet.direction, again);
            if let Some(error) = blocks.failed.take() {
                return Err(error);
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ConfigError> {
        let TunnelRun { tcp, blocks } = self;
        tcp.finish(&mut |flow, event| blocks.event(flow, None, event));
        for direction in Direction::ALL {
            let grown = std::mem::take(&mut blocks.grown[direction.index()]);
            let saved = blocks.tally.of(direction);
            blocks.tally.set(direction, saved.saturating_sub(grown));
        }
        blocks.over_time = blocks.series.take().map(|mut series| series.finish());
        blocks.failed.take().map_or(Ok(()), Err)
    }

    fn tally(&self) -> &Tally {
        &self.blocks.tally
    }

    fn content(&self) -> Option<TunnelContent> {
        let mut streams = StreamCounts::default();
        for encoder in self.blocks.encoders.encoders.iter().flatten() {
            streams += encoder.stats().inside.streams;
        }
        Some(TunnelContent { services: self.blocks.services.clone(), streams })
    }

    fn over_time(&self) -> Option<SavingsOverTime> {
        self.blocks.over_time
    }

    fn memory(&self) -> u64 {
        let flows = self.blocks.most_flows * 2 * size_of::<(FlowKey, Flow)>();
        self.blocks.encoders.memory() + self.blocks.open.memory() + self.tcp.memory() + flows as u64
    }

    fn notes(&self) -> Vec<String> {
        self.blocks.open.notes("blocks of the tunnel")
    }
}
