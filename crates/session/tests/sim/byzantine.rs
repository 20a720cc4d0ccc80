//! A hostile peer: well-formed messages with wild values, and valid frames, against an end that
//! keeps to the protocol.

use crate::dice::Dice;
use crate::wire;
use oncewire_codec::{ChecksumSeed, Decoder, Encoder, varint};
use oncewire_session::{
    Answer, Budget, Config, EARLY_CREDIT, Event, Hello, Read, ResetCode, Session, SessionId,
};
use std::time::{Duration, Instant};

/// The smallest log, so that its limits are reached.
const LOG: u64 = 1 << 20;

struct Peer {
    dice: Dice,
    encoder: Encoder,
    /// The highest id of a flow that may exist.
    flows: u64,
    /// Counted messages of the other end, by lane: those received, and those acknowledged.
    received: [u64; 8],
    acknowledged: [u64; 8],
    lane: usize,
    /// One value in this many is wild.
    wildness: usize,
    sent: u64,
}

impl Peer {
    fn wild(&mut self) -> u64 {
        let bits = self.dice.below(63);
        match self.dice.below(6) {
            0 => self.dice.next() >> 1,
            1 => (1 << 62) - self.dice.next() % 3,
            2 => LOG / 4 + self.dice.next() % 5,
            _ => self.dice.next() % (1 << bits),
        }
    }

    fn flow(&mut self) -> u64 {
        match self.dice.below(10) {
            0 if self.dice.one_in(self.wildness) => self.wild(),
            0..=3 => self.dice.next() % 8,
            _ => self.flows.saturating_sub(self.dice.next() % 16 * 2),
        }
    }

    fn encoder(log: u64, number: u64, explicit: bool) -> Encoder {
        Encoder::builder()
            .cache(LOG)
            .span(LOG / 4)
            .contexts(32)
            .explicit_offsets(explicit)
            .checksum_seed(ChecksumSeed { session: log, epoch: number })
            .build()
            .expect("the protocol's parameters")
    }

    /// One message, or most of one.
    fn message(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        let put = |out: &mut Vec<u8>, value: u64| varint::put(out, value);
        match if self.sent == 0 { 12 } else { self.dice.below(24) } {
            0..=7 => {
                out.push(1);
                put(out, self.flow());
                let len = if self.dice.one_in(self.wildness) {
                    self.dice.size(65_536)
                } else {
                    self.dice.size(100)
                };
                let block =
                    if self.dice.one_in(2) { vec![b'x'; len] } else { self.dice.bytes(len) };
                let contexts = if self.dice.one_in(2) { 8 } else { 32 };
                if let Ok(frame) = self.encoder.encode_frame(&block, self.dice.below(contexts)) {
                    frame.append_to(out);
                }
            }
            8..=11 => {
                out.push(2);
                self.flows += 2;
                put(out, if self.dice.one_in(self.wildness) { self.wild() } else { self.flows });
                let len = self.dice.size(1030);
                put(out, len as u64);
                out.extend_from_slice(&vec![b't'; len]);
                let len = self.dice.size(66);
                put(out, len as u64);
                out.extend_from_slice(&vec![b'd'; len]);
            }
            12 if self.sent == 0 || self.dice.one_in(8) => {
                out.push(7);
                let (log, number) = (self.dice.next() | 1, self.dice.next() % 3);
                out.extend_from_slice(&log.to_le_bytes());
                put(out, number);
                put(out, if self.dice.one_in(self.wildness) { self.wild() } else { 0 });
                put(out, if self.dice.one_in(self.wildness) { self.wild() } else { LOG });
                self.encoder = Peer::encoder(log, number, self.dice.one_in(2));
            }
            13 if self.dice.one_in(8) => {
                out.push(8);
                put(out, self.wild());
            }
            14 => {
                out.push(0x41);
                let unacknowledged = self.received[self.lane] - self.acknowledged[self.lane];
                self.acknowledged[self.lane] += self.dice.next() % (unacknowledged + 1);
                put(
                    out,
                    if self.dice.one_in(self.wildness) {
                        self.wild()
                    } else {
                        self.acknowledged[self.lane]
                    },
                );
            }
            15 => {
                out.push([0x42, 0x43][self.dice.below(2)]);
                put(out, self.wild());
            }
            16 if self.dice.one_in(self.wildness) => out.push(9),
            17 | 18 => {
                out.push([5, 6][self.dice.below(2)]);
                put(out, self.flow());
                put(out, self.wild());
            }
            19..=21 => {
                out.push([3, 4][self.dice.below(2)]);
                put(out, self.flow());
            }
            22 => {
                out.push(wire::REPORT);
                let len = self.dice.size(600);
                let len = if self.dice.one_in(self.wildness) { len } else { len / 8 * 8 };
                put(out, len as u64);
                let body: Vec<u8> = (0..len).map(|_| self.dice.below(128) as u8).collect();
                out.extend_from_slice(&body);
            }
            _ => {
                if self.dice.one_in(10 * self.wildness) {
                    out.push(0x44);
                    put(out, self.dice.next() % 6);
                    put(out, 3);
                    out.extend_from_slice(b"\x1bno");
                }
            }
        }
        self.sent += 1;
        if self.dice.one_in(20 * self.wildness) && out.len() > start {
            let at = start + self.dice.below(out.len() - start);
            match self.dice.below(3) {
                0 => out.truncate(at),
                1 => out[at] ^= 1 << self.dice.below(8),
                _ => out.push(self.dice.next() as u8),
            }
        }
    }
}

/// Most memory of an end, in bytes: two logs, a table for one, input and queues. Generous for small
/// parts.
fn bound(config: &Config, delivery: u64, sending: u64) -> u64 {
    let inputs = config.lanes as u64 * 2 * (config.log / 4 + (4 << 20));
    let items = config.lanes as u64 * 16_384 * 64;
    let context = config.encoder.context_memory() + Decoder::builder().context_memory();
    2 * config.log
        + (config.lanes * (config.contexts - 1) * context) as u64
        + config.log / 4
        + delivery
        + sending
        + config.max_flows * 4096
        + inputs
        + items
        + (8 << 20)
}

/// Plays a hostile peer for a while. Nothing panics, grows without bound or loops.
// More than 100 lines: a trick of the hostile peer each.
pub(crate) fn run(seed: u64, base: Instant) {
    let mut dice = Dice::new(seed ^ 0xb7_0000);
    let (delivery, sending) = (2 << 20, 1 << 20);
    let config = Config {
        log: LOG,
        lanes: 1 + dice.below(3),
        delivery: Budget::new(delivery),
        sending: Budget::new(sending),
        max_flows: 60,
        random: [dice.next(), dice.next(), dice.next(), 6],
        ..Config::default()
    };
    let most = bound(&config, delivery, sending);
    let budgets = (config.delivery.clone(), config.sending.clone());
    let mut now = base;
    let connects = dice.one_in(2);
    let wild = dice.one_in(10);
    let mut peer = Peer {
        encoder: Peer::encoder(1, 0, false),
        flows: u64::from(connects),
        received: [0; 8],
        acknowledged: [0; 8],
        lane: 0,
        wildness: [3, 30, 1000, 100_000][dice.below(4)],
        sent: 0,
        dice: dice.clone(),
    };
    let answer = if connects { Answer::Welcome } else { Answer::New };
    let mut hello = Hello {
        oldest: 2,
        newest: 2 + dice.next() % 3,
        lanes: 1 + dice.next() % 4,
        send_log: LOG,
        receive_log: LOG,
        early_credit: EARLY_CREDIT,
        max_flows: 1 + dice.next() % 100,
        contexts: 1 + dice.next() % 4,
        agent: "peer".into(),
        ..Hello::new(SessionId([7; 16]), answer)
    };
    if wild {
        hello.lanes = peer.wild();
        hello.early_credit = peer.wild();
        hello.max_flows = peer.wild();
        hello.contexts = peer.wild();
        hello.send_log = peer.wild();
        hello.receive_log = peer.wild();
    }
    let mut session = if connects {
        let mut session = Session::connect(config.clone().build().unwrap(), None, now);
        session.attach(0, now);
        hello.session = session.id();
        let mut wire = Vec::new();
        hello.write(&mut wire);
        session.receive(0, &wire, now);
        session
    } else {
        match Session::accept_new(config.clone().build().unwrap(), None, &hello, now) {
            Ok(session) => session,
            Err(_) => return,
        }
    };
    let mut out = Vec::new();
    for _ in 0..1 + dice.below(60) {
        let mut wire = Vec::new();
        let lanes = session.lanes().max(1);
        peer.lane = if dice.one_in(8) { dice.below(lanes) } else { 0 };
        let lane = peer.lane;
        for _ in 0..1 + dice.below(120) {
            peer.message(&mut wire);
        }
        let mut rest = &wire[..];
        while !rest.is_empty() {
            let (chunk, more) = rest.split_at(1 + dice.below(rest.len()));
            rest = more;
            session.receive(lane, chunk, now);
        }
        let mut events = 0;
        while let Some(event) = session.poll_event() {
            events += 1;
            assert!(events < 1_000_000, "events without end");
            match event {
                Event::Opened { flow: id, .. } => match dice.below(4) {
                    0 => session.reset(id, ResetCode::Refused),
                    1 => {
                        session.accept(id, now);
                        session.write(id, &[1; 3000]);
                        session.finish(id);
                    }
                    _ => session.accept(id, now),
                },
                Event::Readable(id) if dice.one_in(2) => {
                    while let Read::Data(bytes) = session.read(id) {
                        session.consumed(id, bytes.len(), now);
                    }
                }
                Event::Drop(lane) => {
                    session.detach(lane, now);
                    // What it has not acknowledged may have been lost with the transport.
                    peer.received[lane] = peer.acknowledged[lane];
                    let received =
                        if dice.one_in(peer.wildness) { peer.wild() } else { peer.received[lane] };
                    let answer = if connects { Answer::Welcome } else { Answer::Resume };
                    let hello = Hello { lane: lane as u64, received, answer, ..hello.clone() };
                    if connects {
                        session.attach(lane, now);
                        let mut wire = Vec::new();
                        hello.write(&mut wire);
                        session.receive(lane, &wire, now);
                    } else {
                        let _ = session.accept_lane(&hello, now);
                    }
                }
                _ => {}
            }
        }
        if dice.one_in(4) {
            let _ = session.open(b"target", b"", now).map(|id| session.write(id, &[2; 50_000]));
        }
        // The peer may not read for a long time.
        if dice.one_in(2) {
            for lane in 0..session.lanes() {
                for _ in 0..1000 {
                    out.clear();
                    session.transmit(lane, 1 + dice.below(60_000), now, &mut out);
                    if out.is_empty() {
                        break;
                    }
                    peer.received[lane] += wire::counted(&out);
                }
            }
        }
        now += Duration::from_millis(dice.next() % 3000);
        for _ in 0..4 {
            if session.deadline().is_some_and(|deadline| deadline <= now) {
                session.on_timeout(now);
            }
        }
        assert!(
            session.deadline().is_none_or(|deadline| deadline > now),
            "a deadline stays in the past"
        );
        let memory = session.memory();
        assert!(memory <= most, "{memory} bytes, at most {most} expected");
    }
    drop(session.into_logs());
    assert_eq!(
        (budgets.0.available(), budgets.1.available()),
        (delivery, sending),
        "budgets after the session"
    );
}
