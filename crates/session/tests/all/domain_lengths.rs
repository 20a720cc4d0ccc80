//! The sizes of one isolation domain's messages do not depend on how many bytes flows of another
//! have carried in between.

use oncewire_codec::{DEFAULT_BLOCK, EncoderBuilder, FrameView, Scan, Sharing, varint};
use oncewire_session::{Config, Event, FlowId, Hello, Read, Session};
use std::time::{Duration, Instant};

/// A client that sends and a server that receives, over some lanes.
struct Pair {
    now: Instant,
    ends: [Session; 2],
    lanes: usize,
    received: Vec<u8>,
}

impl Pair {
    fn new(sharing: Sharing, lanes: usize, contexts: usize) -> Pair {
        #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
        let now = Instant::now();
        let config = |end: u64| Config {
            log: 16 << 20,
            lanes,
            contexts,
            encoder: EncoderBuilder::default().sharing(sharing),
            random: [21, end, 3, 4],
            ..Config::default()
        };
        let mut client = Session::connect(config(0).build().unwrap(), None, now);
        client.attach(0, now);
        let hello = |client: &mut Session, lane| {
            let mut wire = Vec::new();
            client.transmit(lane, 1 << 16, now, &mut wire);
            Hello::read(&wire).unwrap().unwrap().0
        };
        let first = hello(&mut client, 0);
        let server = Session::accept_new(config(1).build().unwrap(), None, &first, now).unwrap();
        let mut pair = Pair { now, ends: [client, server], lanes: 1, received: Vec::new() };
        pair.settle();
        assert_eq!(pair.ends[0].lanes(), lanes);
        for lane in 1..lanes {
            pair.ends[0].attach(lane, now);
            let first = hello(&mut pair.ends[0], lane);
            assert_eq!(pair.ends[1].accept_lane(&first, now), Ok(lane));
        }
        pair.lanes = lanes;
        pair.settle();
        pair
    }

    /// Carries everything; returns the lengths of the DATA messages that the client sent.
    fn settle(&mut self) -> Vec<usize> {
        let mut sent = Vec::new();
        loop {
            self.now += Duration::from_millis(25);
            let now = self.now;
            let mut is_quiet = true;
            self.ends.iter_mut().for_each(|end| end.on_timeout(now));
            for lane in 0..self.lanes {
                for end in [0, 1] {
                    let mut wire = Vec::new();
                    self.ends[end].transmit(lane, 1 << 20, now, &mut wire);
                    is_quiet &= wire.is_empty();
                    if end == 0 {
                        sent.extend(data(&wire));
                    }
                    self.ends[1 - end].receive(lane, &wire, now);
                }
            }
            let [client, server] = &mut self.ends;
            while client.poll_event().is_some() {}
            while let Some(event) = server.poll_event() {
                match event {
                    Event::Opened { flow, .. } => server.accept(flow, now),
                    Event::Readable(flow) => {
                        while let Read::Data(bytes) = server.read(flow) {
                            server.consumed(flow, bytes.len(), now);
                            self.received.extend(bytes);
                        }
                    }
                    _ => {}
                }
            }
            if is_quiet {
                return sent;
            }
        }
    }

    fn open(&mut self, domain: &str) -> FlowId {
        let flow = self.ends[0].open(b"tcp:origin:80", domain.as_bytes(), self.now).unwrap();
        self.settle();
        flow
    }

    /// The lengths of the messages that carry `content` on a flow.
    fn send(&mut self, flow: FlowId, content: &[u8]) -> Vec<usize> {
        self.received.clear();
        let (mut written, mut sent) = (0, Vec::new());
        while written < content.len() {
            let end = (written + 200_000).min(content.len());
            written += self.ends[0].write(flow, &content[written..end]);
            sent.extend(self.settle());
        }
        assert!(self.received == content);
        sent
    }
}

/// The lengths of the DATA messages among those of a lane: `docs/PROTOCOL.md`, section 4.
fn data(mut wire: &[u8]) -> Vec<usize> {
    fn number(rest: &mut &[u8]) -> usize {
        varint::take(rest).unwrap() as usize
    }
    fn text(rest: &mut &[u8]) {
        let len = number(rest);
        *rest = &rest[len..];
    }
    let mut lengths = Vec::new();
    while let Some((&kind, rest)) = wire.split_first() {
        let mut rest = rest;
        let numbers = match kind {
            0x01 | 0x02 | 0x03 | 0x04 | 0x08 | 0x41 | 0x42 | 0x43 | 0x44 => 1,
            0x05 | 0x06 => 2,
            0x07 => {
                rest = &rest[8..];
                3
            }
            _ => 0,
        };
        (0..numbers).for_each(|_| _ = number(&mut rest));
        match kind {
            0x01 => {
                let Ok(Scan::Frame(view)) = FrameView::scan(rest, DEFAULT_BLOCK) else {
                    panic!("no whole frame");
                };
                rest = &rest[view.len()..];
                lengths.push(wire.len() - rest.len());
            }
            0x02 => (0..3).for_each(|_| text(&mut rest)),
            0x40 | 0x44..=0x46 => text(&mut rest),
            0x03..=0x09 | 0x41..=0x43 => {}
            _ => panic!("no message begins with {kind:#04x}"),
        }
        wire = rest;
    }
    lengths
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| random.u8(..)).take(len).collect()
}

/// Words that repeat, with changes here and there.
fn version(seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(31);
    let mut words: Vec<String> =
        (0..9_000).map(|_| format!("{:x}", random.u32(..30_000))).collect();
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..100 {
        let at = random.usize(..words.len());
        words[at] = format!("{:x}", random.u64(..));
    }
    words.join(" ").into_bytes()
}

/// What an attacker sees of its own messages, between which a victim sends one of `len` bytes.
fn view(sharing: Sharing, lanes: usize, contexts: usize, len: usize) -> Vec<Vec<usize>> {
    let mut pair = Pair::new(sharing, lanes, contexts);
    let mut flows = ["victim", "attacker", "attacker", "attacker"].map(|name| pair.open(name));
    flows.rotate_left(1);
    let victim = flows[3];
    pair.send(victim, b"so that there are two domains");
    let (page, words) = (noise(1, 6_000), version(0));
    let mut seen = Vec::new();
    for (turn, flow) in [0, 1, 2, 0, 1, 2, 0].into_iter().enumerate() {
        let request = [&words[..900], &(turn as u32).to_le_bytes(), &words[1000..1200]].concat();
        for content in [&page, &request, &version(turn as u64)] {
            seen.push(pair.send(flows[flow], content));
            pair.send(victim, &noise(turn as u64, len));
        }
    }
    seen
}

const LENGTHS: [usize; 12] =
    [1, 127, 128, 3_000, 7_321, 9_500, 10_384, 16_383, 16_384, 65_536, 100_000, 300_000];

fn assert_blind(sharing: Sharing, lanes: usize, contexts: usize) {
    let first = view(sharing, lanes, contexts, LENGTHS[0]);
    assert!(
        first[3][0] < 60 && first[4][0] < 100 && first[5].iter().sum::<usize>() < 5_000,
        "{first:?}"
    );
    for len in &LENGTHS[1..] {
        let seen = view(sharing, lanes, contexts, *len);
        assert_eq!(seen, first, "{len} bytes, {sharing:?}, {lanes} lanes, {contexts} contexts");
    }
}

#[test]
fn messages_are_as_long_however_long_those_of_others_are() {
    assert_blind(Sharing::None, 1, 4);
    assert_blind(Sharing::Chunks, 1, 4);
}

#[test]
fn with_several_lanes_too_where_offsets_are_stated() {
    assert_blind(Sharing::None, 3, 4);
    assert_blind(Sharing::Chunks, 2, 4);
}

/// Contexts that domains take in turn begin anew each time, whoever comes.
#[test]
fn with_one_context_for_all_too() {
    assert_blind(Sharing::None, 1, 1);
    assert_blind(Sharing::None, 2, 1);
}
