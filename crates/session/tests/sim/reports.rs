//! REPORTs: an end sends its counters unasked, at most once a second and only when they change.

use crate::world::agree;
use crate::{base, wire};
use oncewire_session::{Config, Event, FlowId, Hello, Read, ResetCode, SMALLEST_LOG, Session};
use std::time::{Duration, Instant};

/// Two ends of a session with one lane. What either sends arrives within the same millisecond.
struct Pair {
    /// The client and the server.
    ends: [Session; 2],
    now: Instant,
    /// REPORTs, and all bytes, that each has sent.
    reports: [u64; 2],
    bytes: [usize; 2],
}

impl Pair {
    fn new(keep_alive: Duration) -> Pair {
        let now = base();
        let config = |random| {
            Config {
                log: 4 * SMALLEST_LOG,
                random: [random, 2, 3, 4],
                keep_alive,
                dead_after: 3 * keep_alive,
                ..Config::default()
            }
            .build()
            .expect("parameters in range")
        };
        let mut client = Session::connect(config(1), None, now);
        client.attach(0, now);
        let mut hello = Vec::new();
        client.transmit(0, 1 << 20, now, &mut hello);
        let (hello, _) = Hello::read(&hello).expect("valid").expect("whole");
        let server = Session::accept_new(config(2), None, &hello, now).expect("a new session");
        let mut pair = Pair { ends: [client, server], now, reports: [0; 2], bytes: [0; 2] };
        pair.exchange();
        pair
    }

    /// Both ends send until neither has anything to send. Applications read what arrives.
    fn exchange(&mut self) {
        loop {
            let mut sent = false;
            for from in 0..2 {
                let mut out = Vec::new();
                self.ends[from].transmit(0, 1 << 20, self.now, &mut out);
                self.reports[from] += wire::of_kind(wire::REPORT, &out);
                self.bytes[from] += out.len();
                // An empty read would be a sign of life.
                if out.is_empty() {
                    continue;
                }
                sent = true;
                let to = &mut self.ends[1 - from];
                to.receive(0, &out, self.now);
                while let Some(event) = to.poll_event() {
                    match event {
                        Event::Opened { flow, .. } => to.accept(flow, self.now),
                        Event::Readable(flow) => {
                            while let Read::Data(chunk) = to.read(flow) {
                                to.consumed(flow, chunk.len(), self.now);
                            }
                        }
                        _ => {}
                    }
                }
            }
            if !sent {
                return;
            }
        }
    }

    /// Time passes, in milliseconds, with `busy` called in each.
    fn pass(&mut self, milliseconds: u64, mut busy: impl FnMut(&mut Pair)) {
        for _ in 0..milliseconds {
            self.now += Duration::from_millis(1);
            for end in &mut self.ends {
                if end.deadline().is_some_and(|at| at <= self.now) {
                    end.on_timeout(self.now);
                }
            }
            busy(self);
            self.exchange();
        }
    }

    /// Whether each end knows the state of the other.
    fn agree(&self) -> bool {
        let [client, server] = &self.ends;
        [(client, server), (server, client)].iter().all(|(to, from)| {
            to.peer_report().is_some_and(|(report, _)| agree(report, &from.counters()))
        })
    }

    fn open(&mut self) -> FlowId {
        let flow = self.ends[0].open(b"tcp:origin.example:80", b"", self.now).expect("a flow");
        self.exchange();
        flow
    }
}

const LONG: Duration = Duration::from_secs(1_000_000);

#[test]
fn a_busy_session_reports_once_a_second() {
    let mut pair = Pair::new(LONG);
    let flow = pair.open();
    let mut sent = 0;
    pair.pass(10_000, |pair| {
        sent += pair.ends[0].write(flow, b"a keystroke");
        pair.exchange();
        sent += pair.ends[1].write(flow, b"its echo");
    });
    assert_eq!(sent, 10_000 * 19);
    assert!(pair.reports.iter().all(|reports| (9..=10).contains(reports)), "{:?}", pair.reports);
}

#[test]
fn the_last_change_is_reported_and_then_nothing_is_sent() {
    let mut pair = Pair::new(LONG);
    assert!(pair.ends[0].peer_report().is_none());
    let flow = pair.open();
    let other = pair.open();
    for step in 0..4 {
        match step {
            0 => assert_eq!(pair.ends[0].write(flow, &[7; 40_000]), 40_000),
            1 => assert_eq!(pair.ends[1].write(flow, &[7; 40_000]), 40_000),
            2 => pair.ends.iter_mut().for_each(|end| end.finish(flow)),
            _ => pair.ends[0].reset(other, ResetCode::Reset),
        }
        pair.exchange();
        let (before, at) = (pair.reports, pair.now);
        assert!(!pair.agree(), "something has changed");
        // What follows a report, such as an acknowledgement, is in the next.
        pair.pass(3_000, |_| ());
        assert!(pair.agree(), "step {step}: {:?}", pair.ends[0].peer_report());
        let reports = [0, 1].map(|end| pair.reports[end] - before[end]);
        assert!(reports.iter().all(|reports| (1..=2).contains(reports)), "{reports:?}");
        let came = pair.ends[0].peer_report().expect("it has come").1;
        assert!(came > at && came <= pair.now);
        // No byte in an hour, however often its own state is looked at.
        let before = pair.bytes;
        pair.pass(3_600, |pair| {
            pair.now += Duration::from_millis(999);
            let looked = pair.ends[0].counters();
            assert_eq!(looked, pair.ends[0].counters());
        });
        assert_eq!(pair.bytes, before, "step {step}");
    }
    assert_eq!(pair.ends[0].flow_count(), 0);
}

#[test]
fn signs_of_life_are_no_reason_for_a_report() {
    let mut pair = Pair::new(Duration::from_secs(10));
    pair.pass(3_000, |_| ());
    assert!(pair.agree());
    let (reports, bytes) = (pair.reports, pair.bytes);
    pair.pass(3_600, |pair| pair.now += Duration::from_millis(999));
    assert_eq!(pair.reports, reports);
    assert!(pair.bytes > bytes, "they PING");
}

#[test]
fn a_report_waits_for_a_transport_and_is_repeated_on_the_next() {
    let mut pair = Pair::new(LONG);
    pair.pass(3_000, |_| ());
    let flow = pair.open();
    pair.pass(999, |_| ());
    // Due, but the transport is gone before it is sent, and then with it.
    for lost in [false, true] {
        assert_eq!(pair.ends[0].write(flow, b"more"), 4);
        pair.now += Duration::from_secs(2);
        pair.ends[0].on_timeout(pair.now);
        if lost {
            let mut out = Vec::new();
            pair.ends[0].transmit(0, 1 << 20, pair.now, &mut out);
            assert_eq!(wire::of_kind(wire::REPORT, &out), 1);
        }
        for end in &mut pair.ends {
            end.detach(0, pair.now);
        }
        // Without a transport, no deadline stays in the past.
        assert!(pair.ends[0].deadline().is_some_and(|at| at > pair.now));
        pair.ends[0].attach(0, pair.now);
        let mut hello = Vec::new();
        pair.ends[0].transmit(0, 1 << 20, pair.now, &mut hello);
        let (hello, _) = Hello::read(&hello).expect("valid").expect("whole");
        assert_eq!(pair.ends[1].accept_lane(&hello, pair.now), Ok(0));
        pair.exchange();
        pair.pass(3_000, |_| ());
        assert!(pair.agree());
    }
}
