//! A hostile peer: well-formed messages of wild values, valid frames among them, against one end that keeps the rules.

use crate::rng::Rng;
use crate::wire;
use oncewire_codec::{ChecksumSeed, Encoder, varint};
use oncewire_session::{Answer, Budget, Config, EARLY_CREDIT, Event, Hello, LogState, Read, ResetCode, Session, SessionId};
use std::time::{Duration, Instant};

/// Smallest log, so that its limits are met.
const LOG: u64 = 1 << 20;

struct Peer {
    rng: Rng,
    encoder: Encoder,
    /// Flows that exist, or might.
    flows: u64,
    /// Counted messages of the other end, by lane: those that came, and those that it was told of.
    heard: [u64; 8],
    told: [u64; 8],
    lane: usize,
    /// One value in so many is wild.
    tame: usize,
    ours: u64,
}

impl Peer {
    fn wild(&mut self) -> u64 {
        let bits = self.rng.below(63);
        match self.rng.below(6) {
            0 => self.rng.next() >> 1,
            1 => (1 << 62) - self.rng.next() % 3,
            2 => LOG / 4 + self.rng.next() % 5,
            _ => self.rng.next() % (1 << bits),
        }
    }

    fn flow(&mut self) -> u64 {
        match self.rng.below(10) {
            0 if self.rng.one_in(self.tame) => self.wild(),
            0..=3 => self.rng.next() % 8,
            _ => self.flows.saturating_sub(self.rng.next() % 16 * 2),
        }
    }

    fn encoder(log: u64, number: u64, explicit: bool) -> Encoder {
        Encoder::builder()
            .cache(LOG)
            .span(LOG / 4)
            .contexts(8)
            .explicit_offsets(explicit)
            .checksum_seed(ChecksumSeed { session: log, epoch: number })
            .build()
            .expect("parameters of the protocol")
    }

    /// One message, or most of one.
    fn message(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        let put = |out: &mut Vec<u8>, value: u64| varint::put(out, value);
        match if self.ours == 0 { 12 } else { self.rng.below(24) } {
            0..=7 => {
                out.push(1);
                put(out, self.flow());
                let len = if self.rng.one_in(self.tame) { self.rng.size(65_536) } else { self.rng.size(100) };
                let block = if self.rng.one_in(2) { vec![b'x'; len] } else { self.rng.bytes(len) };
                if let Ok(frame) = self.encoder.encode_frame(&block, self.rng.below(8)) {
                    frame.append_to(out);
                }
            }
            8..=11 => {
                out.push(2);
                self.flows += 2;
                put(out, if self.rng.one_in(self.tame) { self.wild() } else { self.flows });
                let len = self.rng.size(1030);
                put(out, len as u64);
                out.extend_from_slice(&vec![b't'; len]);
            }
            12 if self.ours == 0 || self.rng.one_in(8) => {
                out.push(7);
                let (log, number) = (self.rng.next() | 1, self.rng.next() % 3);
                out.extend_from_slice(&log.to_le_bytes());
                put(out, number);
                put(out, if self.rng.one_in(self.tame) { self.wild() } else { 0 });
                put(out, if self.rng.one_in(self.tame) { self.wild() } else { LOG });
                self.encoder = Peer::encoder(log, number, self.rng.one_in(2));
            }
            13 if self.rng.one_in(8) => {
                out.push(8);
                put(out, self.wild());
            }
            14 => {
                out.push(0x41);
                let (told, heard) = (self.told[self.lane], self.heard[self.lane]);
                self.told[self.lane] = told + self.rng.next() % (heard - told + 1);
                put(out, if self.rng.one_in(self.tame) { self.wild() } else { self.told[self.lane] });
            }
            15 => {
                out.push([0x42, 0x43][self.rng.below(2)]);
                put(out, self.wild());
            }
            16 => out.push(if self.rng.one_in(self.tame) { 9 } else { 0x45 }),
            17 | 18 => {
                out.push([5, 6][self.rng.below(2)]);
                put(out, self.flow());
                put(out, self.wild());
            }
            19..=21 => {
                out.push([3, 4][self.rng.below(2)]);
                put(out, self.flow());
            }
            22 => {
                out.push(0x46);
                let len = self.rng.size(300);
                put(out, len as u64);
                let body: Vec<u8> = (0..len).map(|_| self.rng.below(128) as u8).collect();
                out.extend_from_slice(&body);
            }
            _ => {
                if self.rng.one_in(10 * self.tame) {
                    out.push(0x44);
                    put(out, self.rng.next() % 6);
                    put(out, 3);
                    out.extend_from_slice(b"\x1bno");
                }
            }
        }
        self.ours += 1;
        if self.rng.one_in(20 * self.tame) && out.len() > start {
            let at = start + self.rng.below(out.len() - start);
            match self.rng.below(3) {
                0 => out.truncate(at),
                1 => out[at] ^= 1 << self.rng.below(8),
                _ => out.push(self.rng.next() as u8),
            }
        }
    }
}

/// What an end may take: two logs, a table for one, input and queues. Generous where memory is small.
fn bound(config: &Config, delivery: u64, sending: u64) -> u64 {
    let inputs = config.lanes as u64 * 2 * (config.log / 4 + (4 << 20));
    let items = config.lanes as u64 * 16_384 * 64;
    2 * config.log + config.log / 4 + delivery + sending + config.max_flows * 4096 + inputs + items + (8 << 20)
}

/// A peer that says anything, for a while. Nothing panics, grows or goes on for ever.
pub(crate) fn run(seed: u64, base: Instant) {
    let mut rng = Rng::new(seed ^ 0xb7_0000);
    let (delivery, sending) = (2 << 20, 1 << 20);
    let config = Config {
        log: LOG,
        lanes: 1 + rng.below(3),
        delivery: Budget::new(delivery),
        sending: Budget::new(sending),
        max_flows: 60,
        random: [rng.next(), rng.next(), rng.next(), 6],
        ..Config::default()
    };
    let most = bound(&config, delivery, sending);
    let (left, lent) = (config.delivery.clone(), config.sending.clone());
    let mut now = base;
    let connects = rng.one_in(2);
    let wild = rng.one_in(10);
    let mut peer = Peer {
        encoder: Peer::encoder(1, 0, false),
        flows: u64::from(connects),
        heard: [0; 8],
        told: [0; 8],
        lane: 0,
        tame: [3, 30, 1000, 100_000][rng.below(4)],
        ours: 0,
        rng: rng.clone(),
    };
    let mut hello = Hello {
        oldest: 1,
        newest: 1 + rng.next() % 3,
        session: SessionId([7; 16]),
        answer: if connects { Answer::Welcome } else { Answer::New },
        lane: 0,
        lanes: 1 + rng.next() % 4,
        send_log: LOG,
        receive_log: LOG,
        early_credit: EARLY_CREDIT,
        max_flows: 1 + rng.next() % 100,
        received: 0,
        log: LogState::default(),
        agent: "peer".into(),
        reason: String::new(),
    };
    if wild {
        hello.lanes = peer.wild();
        hello.early_credit = peer.wild();
        hello.max_flows = peer.wild();
        hello.send_log = peer.wild();
        hello.receive_log = peer.wild();
    }
    let mut session = if connects {
        let mut session = Session::connect(config.clone(), None, now);
        session.attach(0, now);
        hello.session = session.id();
        let mut wire = Vec::new();
        hello.write(&mut wire);
        session.receive(0, &wire, now);
        session
    } else {
        match Session::accept_new(config.clone(), None, &hello, now) {
            Ok(session) => session,
            Err(_) => return,
        }
    };
    let mut out = Vec::new();
    for _ in 0..1 + rng.below(60) {
        let mut wire = Vec::new();
        let lanes = session.lanes().max(1);
        peer.lane = if rng.one_in(8) { rng.below(lanes) } else { 0 };
        let lane = peer.lane;
        for _ in 0..1 + rng.below(120) {
            peer.message(&mut wire);
        }
        let mut rest = &wire[..];
        while !rest.is_empty() {
            let (chunk, more) = rest.split_at(1 + rng.below(rest.len()));
            rest = more;
            session.receive(lane, chunk, now);
        }
        let mut events = 0;
        while let Some(event) = session.poll_event() {
            events += 1;
            assert!(events < 1_000_000, "events without end");
            match event {
                Event::Opened(id, _) => match rng.below(4) {
                    0 => session.reset(id, ResetCode::Refused),
                    1 => {
                        session.accept(id, now);
                        session.write(id, &[1; 3000]);
                        session.finish(id);
                    }
                    _ => session.accept(id, now),
                },
                Event::Readable(id) if rng.one_in(2) => {
                    while let Read::Data(bytes) = session.read(id) {
                        session.consumed(id, bytes.len(), now);
                    }
                }
                Event::Drop(lane) => {
                    session.detach(lane, now);
                    // What it was told of stays; the rest may have been lost with the transport.
                    let told = peer.told[lane];
                    peer.heard[lane] = told;
                    let received = if rng.one_in(peer.tame) { peer.wild() } else { told };
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
        if rng.one_in(4) {
            let _ = session.open(b"target", now).map(|id| session.write(id, &[2; 50_000]));
        }
        // The peer may read nothing for a long time.
        if rng.one_in(2) {
            for lane in 0..session.lanes() {
                for _ in 0..1000 {
                    out.clear();
                    session.transmit(lane, 1 + rng.below(60_000), now, &mut out);
                    if out.is_empty() {
                        break;
                    }
                    peer.heard[lane] += wire::counted(&out);
                }
            }
        }
        now += Duration::from_millis(rng.next() % 3000);
        for _ in 0..4 {
            if session.deadline().is_some_and(|deadline| deadline <= now) {
                session.on_timeout(now);
            }
        }
        assert!(session.deadline().is_none_or(|deadline| deadline > now), "a deadline stays in the past");
        let memory = session.memory();
        assert!(memory <= most, "{memory} bytes, where {most} are the most");
    }
    drop(session.into_logs());
    assert_eq!((left.left(), lent.left()), (delivery, sending), "budgets are not whole after the session");
}
