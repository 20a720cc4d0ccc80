//! The size of content logs within a session: limits that fall and rise, and the events that tell
//! the owner of many sessions.

use oncewire_session::{Config, Event, FlowId, Hello, Read, SMALLEST_LOG, Session};
use oncewire_testkit::content::incompressible;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;

/// Two ends with one flow, and a clock.
struct Pair {
    client: Session,
    server: Session,
    flow: FlowId,
    now: Instant,
    /// How many [`Event::Memory`] the server raised.
    memory_events: usize,
    /// Limits that the client was told of, with those before.
    limited: Vec<(u64, u64)>,
}

impl Pair {
    fn new(client_log: u64, server_log: u64) -> Pair {
        #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
        let now = Instant::now();
        let config = |log, random| {
            Config { log, random: [random, 2, 3, 4], ..Config::default() }.build().unwrap()
        };
        let mut client = Session::connect(config(client_log, 1), None, now);
        client.attach(0, now);
        let mut hello = Vec::new();
        client.transmit(0, 1 << 20, now, &mut hello);
        let (hello, _) = Hello::read(&hello).unwrap().unwrap();
        let server = Session::accept_new(config(server_log, 2), None, &hello, now).unwrap();
        let mut pair =
            Pair { client, server, flow: FlowId(0), now, memory_events: 0, limited: Vec::new() };
        pair.exchange();
        pair.flow = pair.client.open(b"tcp:origin.example:80", b"", now).unwrap();
        pair
    }

    fn exchange(&mut self) {
        loop {
            let (mut up, mut down) = (Vec::new(), Vec::new());
            self.client.transmit(0, MIB as usize, self.now, &mut up);
            self.server.receive(0, &up, self.now);
            self.server.transmit(0, MIB as usize, self.now, &mut down);
            self.client.receive(0, &down, self.now);
            while let Some(event) = self.server.poll_event() {
                self.memory_events += usize::from(event == Event::Memory);
            }
            while let Some(event) = self.client.poll_event() {
                if let Event::Limited { from, to } = event {
                    self.limited.push((from, to));
                }
            }
            if up.is_empty() && down.is_empty() {
                return;
            }
        }
    }

    /// Carries bytes that never repeat from the client to the server, or back.
    fn carry(&mut self, bytes: u64, seed: u64, back: bool) {
        let content = incompressible(seed, bytes as usize);
        let (mut written, mut got) = (0, Vec::new());
        while got.len() < content.len() {
            let (from, to) = if back {
                (&mut self.server, &mut self.client)
            } else {
                (&mut self.client, &mut self.server)
            };
            written += from.write(self.flow, &content[written..]);
            while let Read::Data(chunk) = to.read(self.flow) {
                to.consumed(self.flow, chunk.len(), self.now);
                got.extend_from_slice(&chunk);
            }
            self.exchange();
            // Acknowledgements are delayed.
            self.now += Duration::from_millis(25);
            self.client.on_timeout(self.now);
            self.server.on_timeout(self.now);
            self.server.accept(self.flow, self.now);
            self.exchange();
        }
        assert!(got == content);
    }

    /// Sizes of the logs: client to server, server to client.
    fn logs(&self) -> (u64, u64) {
        (self.client.counters().log_capacity, self.server.counters().log_capacity)
    }
}

#[test]
fn a_full_log_grows_when_the_limit_rises() {
    let mut pair = Pair::new(64 * MIB, SMALLEST_LOG);
    pair.carry(3 * MIB, 1, false);
    pair.carry(3 * MIB, 2, true);
    assert_eq!(pair.logs(), (MIB, MIB), "the server's limit");
    assert_eq!(
        pair.server.wanted_log(),
        64 * MIB,
        "a log as large as the client's limit would help"
    );
    let small = pair.server.promised_memory();

    pair.server.set_log_limit(8 * MIB, pair.now).unwrap();
    assert!(pair.server.promised_memory() >= small + 2 * 7 * MIB, "the larger size counts at once");
    pair.exchange();
    pair.carry(MIB, 3, false);
    pair.carry(MIB, 4, true);
    assert_eq!(pair.logs(), (8 * MIB, 8 * MIB));

    // The larger log holds more than the smaller one did, so this repeat is found.
    pair.carry(5 * MIB, 5, false);
    let before = pair.server.counters().wire_received_bytes;
    pair.carry(5 * MIB, 5, false);
    assert!(
        pair.server.counters().wire_received_bytes - before < MIB / 10,
        "the repeat crosses as references"
    );
}

#[test]
fn a_log_that_is_not_full_or_could_hardly_grow_keeps_its_content() {
    let mut pair = Pair::new(64 * MIB, 4 * MIB);
    pair.carry(2 * MIB, 1, false);
    assert_eq!(pair.server.wanted_log(), 0, "nothing was evicted yet");
    pair.server.set_log_limit(16 * MIB, pair.now).unwrap();
    pair.exchange();
    pair.carry(MIB, 2, false);
    assert_eq!(pair.logs().0, 4 * MIB);
    assert_eq!(pair.client.counters().epochs, 1, "nothing was lost");

    let mut pair = Pair::new(64 * MIB, 4 * MIB);
    pair.carry(6 * MIB, 1, false);
    pair.server.set_log_limit(7 * MIB, pair.now).unwrap();
    pair.exchange();
    pair.carry(MIB, 2, false);
    assert_eq!(pair.logs().0, 4 * MIB, "less than twice the size is not worth an empty log");
    // The client's own limit is 4 MiB, so its log does not grow beyond.
    let mut pair = Pair::new(4 * MIB, 2 * MIB);
    pair.carry(6 * MIB, 1, false);
    pair.server.set_log_limit(64 * MIB, pair.now).unwrap();
    assert!(
        pair.server.promised_memory() < 8 * MIB + (8 << 20),
        "{}",
        pair.server.promised_memory()
    );
    pair.exchange();
    pair.carry(2 * MIB, 2, false);
    assert_eq!(pair.logs().0, 4 * MIB);
}

#[test]
fn limits_fall_and_rise_and_raise_events() {
    let mut pair = Pair::new(32 * MIB, 32 * MIB);
    assert_eq!(pair.memory_events, 0, "nothing was carried");
    pair.carry(3 * MIB, 1, false);
    pair.carry(3 * MIB, 2, true);
    assert_eq!(pair.logs(), (32 * MIB, 32 * MIB));
    let events = pair.memory_events;
    assert!((1..=8).contains(&events), "{events} events for two logs that began");
    pair.carry(3 * MIB, 3, true);
    assert_eq!(pair.memory_events, events, "nothing has changed");
    for log in [2 * MIB, 16 * MIB, SMALLEST_LOG, 4 * MIB] {
        pair.server.set_log_limit(log, pair.now).unwrap();
        pair.exchange();
        // Fills both logs, whatever their size is now.
        pair.carry(20 * MIB, log, false);
        pair.carry(20 * MIB, log + 1, true);
        assert_eq!(pair.logs(), (log, log));
        assert!(pair.server.promised_memory() < 2 * log + log / 2 + (8 << 20));
    }
    assert!(pair.memory_events > events);
    // Whoever has to begin a smaller log is told why.
    assert_eq!(pair.limited, [(32 * MIB, 2 * MIB), (16 * MIB, SMALLEST_LOG)]);
    assert_eq!(pair.client.peer_log_limit(), Some(4 * MIB));
}

/// The client ignores a smaller limit, stays alive, and sends `bytes` bytes per second. Returns
/// when the server has dropped its log.
fn ignore_the_limit(bytes: u64) -> Pair {
    let mut pair = Pair::new(32 * MIB, 32 * MIB);
    pair.carry(3 * MIB, 1, false);
    assert!(pair.server.promised_memory() > 32 * MIB);
    pair.server.set_log_limit(SMALLEST_LOG, pair.now).unwrap();
    for second in 0..300 {
        // Nothing that the server sends arrives.
        let content = incompressible(100 + second, bytes as usize);
        let mut written = 0;
        while written < content.len() {
            written += pair.client.write(pair.flow, &content[written..]);
            let mut up = Vec::new();
            pair.client.transmit(0, MIB as usize, pair.now, &mut up);
            pair.server.receive(0, &up, pair.now);
            if up.is_empty() {
                break;
            }
            while let Read::Data(chunk) = pair.server.read(pair.flow) {
                pair.server.consumed(pair.flow, chunk.len(), pair.now);
            }
        }
        pair.now += Duration::from_secs(1);
        let mut alive = Vec::new();
        pair.client.probe(pair.now);
        pair.client.transmit(0, 1, pair.now, &mut alive);
        pair.server.receive(0, &alive, pair.now);
        pair.server.on_timeout(pair.now);
        if pair.server.promised_memory() < MIB {
            return pair;
        }
    }
    panic!("{} bytes are still held", pair.server.promised_memory());
}

#[test]
fn a_peer_that_ignores_the_limit_loses_its_log() {
    // Whether it sends nothing, or as much as its window allows.
    for bytes in [0, 100_000] {
        let mut pair = ignore_the_limit(bytes);
        let events: Vec<_> = std::iter::from_fn(|| pair.server.poll_event()).collect();
        assert!(events.contains(&Event::Drop(0)), "the transport is given up: {events:?}");
        assert!(pair.server.ended().is_none());
    }
}

#[test]
fn logs_are_given_up_when_nothing_is_in_flight_and_begin_again() {
    let mut pair = Pair::new(8 * MIB, 8 * MIB);
    assert_eq!(pair.server.promised_memory(), 0);
    pair.carry(2 * MIB, 1, false);
    pair.carry(2 * MIB, 2, true);
    assert!(pair.server.promised_memory() > 16 * MIB);
    let events = pair.memory_events;

    assert!(pair.server.release_logs(pair.now));
    assert!(pair.server.is_releasing() && pair.server.promised_memory() > 8 * MIB);
    pair.exchange();
    assert!(!pair.server.is_releasing());
    assert_eq!((pair.server.promised_memory(), pair.server.largest_log()), (0, 0));
    assert!(pair.server.memory() < MIB, "{}", pair.server.memory());
    assert!(pair.memory_events > events);
    // The client gave up what nobody has any more, and keeps what it received.
    assert_eq!(pair.client.counters().log_end, 0);
    assert!(pair.client.promised_memory() > 8 * MIB);
    assert!(pair.limited.is_empty() && pair.client.peer_log_limit() == Some(8 * MIB));

    // Without a failure and on the same transports, in logs that know nothing of the content before.
    let wire = pair.server.counters().wire_received_bytes;
    pair.carry(2 * MIB, 1, false);
    pair.carry(2 * MIB, 2, true);
    assert!(pair.server.counters().wire_received_bytes - wire > 2 * MIB);
    let wire = pair.server.counters().wire_received_bytes;
    pair.carry(2 * MIB, 1, false);
    assert!(pair.server.counters().wire_received_bytes - wire < MIB / 10);
    for end in [&pair.client, &pair.server] {
        let counters = end.counters();
        assert_eq!((counters.failures, counters.transports, counters.epochs), (0, 1, 2));
    }
}

#[test]
fn logs_in_use_are_kept_and_what_crosses_the_request_arrives() {
    let mut pair = Pair::new(8 * MIB, 8 * MIB);
    pair.carry(2 * MIB, 1, false);
    // What the client sends now crosses the server's request.
    pair.client.write(pair.flow, b"sent meanwhile");
    let mut up = Vec::new();
    pair.client.transmit(0, MIB as usize, pair.now, &mut up);
    assert!(!pair.client.can_release_logs(), "something is in flight");
    assert!(!pair.client.release_logs(pair.now));
    assert!(pair.server.release_logs(pair.now));
    pair.server.receive(0, &up, pair.now);
    pair.exchange();
    let Read::Data(chunk) = pair.server.read(pair.flow) else { panic!("nothing arrived") };
    assert_eq!(chunk, b"sent meanwhile");
    pair.now += Duration::from_secs(1);
    pair.server.on_timeout(pair.now);
    pair.exchange();
    assert!(!pair.server.is_releasing());
    assert_eq!((pair.server.promised_memory(), pair.server.counters().failures), (0, 0));
}
