//! Bytes as a sequence of operations on two ends that keep to the protocol: what was read must be
//! what was written.

use super::{BUDGET, Input, base, config};
use oncewire_session::{Event, FlowId, Hello, Read, ResetCode, Session, Settings, WriteJob};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Most operations per input.
const MOST: usize = 200;

struct Pair {
    ends: [Option<Session>; 2],
    configs: [Settings; 2],
    /// By lane and sending end; `None` if the lane has no transport.
    wires: Vec<Option<[VecDeque<u8>; 2]>>,
    /// What an end wrote on a flow, and how much of it was read.
    content: BTreeMap<(FlowId, usize), (Vec<u8>, usize)>,
    flows: Vec<FlowId>,
    /// A frame of each end that is being written.
    writing: [Option<WriteJob>; 2],
    now: Instant,
}

/// The byte at a position of a flow: content repeats, and differs between flows.
fn byte(flow: FlowId, at: usize) -> u8 {
    (at as u64 * 31 % 251 + flow.0 + (at as u64 / 700) % 3) as u8
}

impl Pair {
    fn detach(&mut self, lane: usize) {
        if self.wires[lane].take().is_some() {
            for session in self.ends.iter_mut().flatten() {
                session.detach(lane, self.now);
            }
        }
    }

    fn attach(&mut self, lane: usize) {
        self.detach(lane);
        let Some(client) = &mut self.ends[0] else { return };
        if client.ended().is_some()
            || lane >= client.lanes()
            || (lane > 0 && !client.is_established())
        {
            return;
        }
        client.attach(lane, self.now);
        let mut out = Vec::new();
        client.transmit(lane, 1 << 16, self.now, &mut out);
        let Ok(Some((hello, used))) = Hello::read(&out) else { panic!("a valid HELLO") };
        assert_eq!(used, out.len(), "more than a HELLO before the answer");
        let known = match &mut self.ends[1] {
            Some(server) => server.accept_lane(&hello, self.now).is_ok(),
            None => {
                self.ends[1] =
                    Session::accept_new(self.configs[1].clone(), None, &hello, self.now).ok();
                self.ends[1].is_some()
            }
        };
        assert!(
            known || self.ends.iter().flatten().any(|end| end.ended().is_some()),
            "a valid HELLO is refused"
        );
        if known {
            self.wires[lane] = Some(Default::default());
        }
    }

    /// Moves up to `len` bytes from one end to the other.
    fn carry(&mut self, lane: usize, end: usize, len: usize) {
        let Some(wires) = &mut self.wires[lane] else { return };
        if let Some(session) = &mut self.ends[end]
            && wires[end].len() < len
        {
            let mut out = Vec::new();
            session.transmit(lane, len, self.now, &mut out);
            wires[end].extend(out);
        }
        let chunk: Vec<u8> = wires[end].drain(..len.min(wires[end].len())).collect();
        if let Some(session) = &mut self.ends[1 - end] {
            session.receive(lane, &chunk, self.now);
        }
        self.events();
    }

    /// Finds a block whose frame is written later.
    fn find(&mut self, lane: usize, end: usize) {
        let Some(wires) = &mut self.wires[lane] else { return };
        let Some(session) = &mut self.ends[end] else { return };
        let mut out = Vec::new();
        let job = session.fill(lane, 1 << 16, self.now, &mut out);
        if let Some(mut job) = job {
            job.find();
            if session.found(job, self.now) {
                assert!(self.writing[end].is_none(), "two would write");
                self.writing[end] = session.next_write(self.now);
            }
        }
        session.sent(lane, 0, self.now, &mut out);
        wires[end].extend(out);
        self.events();
    }

    /// Writes a frame.
    fn write(&mut self, end: usize) {
        let Some(mut job) = self.writing[end].take() else { return };
        job.run();
        if let Some(session) = &mut self.ends[end] {
            self.writing[end] = session.written(job, self.now);
        }
        self.events();
    }

    fn events(&mut self) {
        for end in 0..2 {
            while let Some(event) = self.ends[end].as_mut().and_then(Session::poll_event) {
                match event {
                    Event::Opened { flow: id, .. } => {
                        self.flows.push(id);
                        if let Some(session) = &mut self.ends[end] {
                            session.accept(id, self.now);
                        }
                    }
                    Event::Drop(lane) => self.detach(lane),
                    Event::Ended(why) => assert!(
                        matches!(
                            why,
                            oncewire_session::Ended::GraceOver(_) | oncewire_session::Ended::Closed
                        ),
                        "ended: {why}"
                    ),
                    _ => {}
                }
            }
        }
    }

    fn read(&mut self, id: FlowId, end: usize, all: bool) {
        let Some(session) = &mut self.ends[end] else { return };
        while let Read::Data(bytes) = session.read(id) {
            let (written, read) = self.content.entry((id, 1 - end)).or_default();
            assert!(written.get(*read..*read + bytes.len()) == Some(&bytes[..]), "wrong bytes");
            *read += bytes.len();
            session.consumed(id, bytes.len(), self.now);
            if !all {
                break;
            }
        }
    }
}

/// Plays the operations.
pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    let lanes = 1 + usize::from(input.u8() % 3);
    let configs = [config(1, lanes), config(2, lanes)];
    let now = base();
    let mut pair = Pair {
        ends: [Some(Session::connect(configs[0].clone(), None, now)), None],
        configs,
        wires: vec![None; lanes],
        content: BTreeMap::new(),
        flows: Vec::new(),
        writing: [None, None],
        now,
    };
    pair.attach(0);
    for _ in 0..MOST {
        if input.is_empty() {
            break;
        }
        let operation = input.u8();
        let (end, lane) = (usize::from(operation >> 4 & 1), usize::from(operation >> 5) % lanes);
        let pick = usize::from(operation >> 5);
        let id =
            (!pair.flows.is_empty()).then(|| pair.flows[pair.flows.len().saturating_sub(1 + pick)]);
        match (operation & 15, id) {
            (0, _) => pair.attach(lane),
            (1, _) => pair.detach(lane),
            (2, _) => {
                let domain = [&b""[..], b"a", b"b"][pair.flows.len() % 3];
                if let Some(Ok(id)) =
                    pair.ends[end].as_mut().map(|session| session.open(b"target", domain, now))
                {
                    pair.flows.push(id);
                }
            }
            (3..=5, Some(id)) => {
                let len = input.u16();
                let (written, _) = pair.content.entry((id, end)).or_default();
                let bytes: Vec<u8> =
                    (written.len()..written.len() + len).map(|at| byte(id, at)).collect();
                if let Some(session) = &mut pair.ends[end] {
                    let taken = session.write(id, &bytes);
                    written.extend_from_slice(&bytes[..taken]);
                }
            }
            (6, Some(id)) => pair.read(id, end, true),
            (7, Some(id)) => pair.read(id, end, false),
            (8, Some(id)) => {
                if let Some(session) = &mut pair.ends[end] {
                    session.finish(id);
                }
            }
            (9, Some(id)) => {
                if let Some(session) = &mut pair.ends[end] {
                    session.reset(id, ResetCode::Reset);
                }
            }
            (10, _) => {
                pair.now += Duration::from_millis(input.u16() as u64);
                for session in pair.ends.iter_mut().flatten() {
                    session.on_timeout(pair.now);
                }
                pair.events();
            }
            (11, _) => {
                if let Some(session) = &mut pair.ends[end] {
                    session.set_log_limit(1 << 20, pair.now).expect("a size in range");
                }
            }
            (12, _) => pair.find(lane, end),
            (13, _) => pair.write(end),
            _ => {
                let len = 1 + input.u16();
                pair.carry(lane, end, len);
            }
        }
    }
    for (end, config) in pair.configs.iter().enumerate() {
        if let Some(session) = pair.ends[end].take() {
            drop(session.into_logs());
        }
        assert_eq!((config.delivery.available(), config.sending.available()), (BUDGET, BUDGET));
    }
}

/// Inputs to start from.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let steps: [&[u8]; 12] = [
        &[15, 0xff, 0x10, 31, 0xff, 0x10],
        &[2, 3, 0xff, 0x7f, 15, 0xff, 0xff, 15, 0xff, 0xff],
        &[18, 19, 0xff, 3, 31, 0xff, 0xff, 31, 0xff, 0xff],
        &[22, 6, 15, 0xff, 0xff, 31, 0xff, 0xff],
        &[1, 0, 15, 0xff, 0xff, 31, 0xff, 0xff],
        &[32, 33, 32, 47, 0xff, 0xff, 63, 0xff, 0xff],
        &[8, 24, 15, 0xff, 0xff, 31, 0xff, 0xff, 22, 6],
        &[11, 27, 15, 0xff, 1, 31, 0xff, 1],
        &[10, 0xff, 0x20, 15, 0xff, 0xff, 31, 0xff, 0xff],
        &[9, 15, 0xff, 0xff],
        &[3, 0xff, 0x7f, 12, 12, 13, 15, 0xff, 0xff, 13, 15, 0xff, 0xff],
        &[3, 0xff, 0x7f, 12, 1, 0, 15, 0xff, 0xff, 31, 0xff, 0xff, 13, 15, 0xff, 0xff],
    ];
    let mut seeds = Vec::new();
    for first in 0..12usize {
        let mut seed = vec![first as u8 % 3];
        for turn in 0..12 {
            seed.extend_from_slice(
                steps[if turn < 2 { turn } else { (first + turn * (1 + first / 3)) % steps.len() }],
            );
        }
        seeds.push(seed);
    }
    seeds
}
