//! What a session leaves behind when the peer closes it.
#![allow(clippy::disallowed_methods)]

use oncewire_session::{
    Config, Ended, Event, FlowId, Hello, Read, ResetCode, SMALLEST_LOG, Session, Settings,
};
use std::time::{Duration, Instant};

/// A session whose application reads only when the test does.
struct End {
    session: Session,
    wire: Vec<u8>,
    opened: Vec<FlowId>,
    ended: Option<Ended>,
}

impl End {
    fn new(session: Session) -> End {
        End { session, wire: Vec::new(), opened: Vec::new(), ended: None }
    }

    fn settle(&mut self, now: Instant) {
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Transmit(lane) => {
                    let mut before = usize::MAX;
                    while self.wire.len() != before {
                        before = self.wire.len();
                        self.session.transmit(lane, 1 << 16, now, &mut self.wire);
                    }
                }
                Event::Opened { flow, .. } => {
                    self.session.accept(flow, now);
                    self.opened.push(flow);
                }
                Event::Drop(lane) => {
                    self.session.transmit(lane, 1 << 16, now, &mut self.wire);
                    self.session.detach(lane, now);
                }
                Event::Ended(why) => self.ended = Some(why),
                _ => {}
            }
        }
    }
}

fn settings(random: u64) -> Settings {
    let config = Config { log: SMALLEST_LOG, random: [random, 2, 3, 4], ..Config::default() };
    config.build().unwrap()
}

/// A client and a server that have agreed.
fn pair(now: Instant) -> (End, End) {
    let mut client = End::new(Session::connect(settings(1), None, now));
    client.session.attach(0, now);
    client.settle(now);
    let (hello, len) = Hello::read(&client.wire).unwrap().unwrap();
    client.wire.drain(..len);
    let mut server = End::new(Session::accept_new(settings(2), None, &hello, now).unwrap());
    server.settle(now);
    exchange(&mut client, &mut server, now);
    assert!(client.session.is_established() && server.session.is_established());
    (client, server)
}

/// Passes bytes until neither end has any.
fn exchange(client: &mut End, server: &mut End, now: Instant) {
    loop {
        let (up, down) = (std::mem::take(&mut client.wire), std::mem::take(&mut server.wire));
        if up.is_empty() && down.is_empty() {
            return;
        }
        server.session.receive(0, &up, now);
        client.session.receive(0, &down, now);
        client.settle(now);
        server.settle(now);
    }
}

/// Lets timers of both ends fire, such as that of a delayed acknowledgment.
fn pass_time(client: &mut End, server: &mut End, now: &mut Instant) {
    *now += Duration::from_millis(100);
    for end in [&mut *client, &mut *server] {
        end.session.on_timeout(*now);
        end.settle(*now);
    }
    exchange(client, server, *now);
}

#[test]
fn a_flow_that_arrived_whole_outlives_the_session() {
    let mut now = Instant::now();
    let (mut client, mut server) = pair(now);
    let whole = client.session.open(b"tcp:whole:80", b"", now).unwrap();
    let half = client.session.open(b"tcp:half:80", b"", now).unwrap();
    let reset = client.session.open(b"tcp:reset:80", b"", now).unwrap();
    for flow in [whole, reset] {
        client.session.finish(flow);
    }
    client.settle(now);
    exchange(&mut client, &mut server, now);
    for &flow in &server.opened.clone() {
        assert_eq!(server.session.write(flow, b"answer"), 6);
        if flow != half {
            server.session.finish(flow);
        }
    }
    server.settle(now);
    assert!(!server.session.is_acknowledged(), "the answers are not even sent");
    exchange(&mut client, &mut server, now);
    pass_time(&mut client, &mut server, &mut now);
    assert!(server.session.is_acknowledged());
    assert!(client.session.take_undelivered().is_empty(), "the session is not over");
    client.session.reset(reset, ResetCode::Reset);
    client.session.go_away();
    assert!(!client.session.has_gone_away(), "the server does not know");

    server.session.close();
    server.settle(now);
    exchange(&mut client, &mut server, now);
    assert_eq!(client.ended, Some(Ended::Closed));
    let left: Vec<_> = client.session.take_undelivered();
    let left: Vec<_> = left
        .into_iter()
        .map(|(flow, chunks)| (flow, chunks.into_iter().flatten().collect::<Vec<u8>>()))
        .collect();
    assert_eq!(left, [(whole, b"answer".to_vec())]);
    assert_eq!(client.session.read(whole), Read::Gone);
    assert!(client.session.take_undelivered().is_empty(), "it is returned once");
}

/// Otherwise a peer could leave bytes behind with each of any number of sessions: an end that does
/// not go away keeps nothing when the peer closes, nor what it closes itself.
#[test]
fn nothing_outlives_a_session_otherwise() {
    for closed_here in [false, true] {
        let mut now = Instant::now();
        let (mut client, mut server) = pair(now);
        let flow = client.session.open(b"tcp:origin:80", b"", now).unwrap();
        client.session.finish(flow);
        client.settle(now);
        exchange(&mut client, &mut server, now);
        server.session.write(server.opened[0], b"answer");
        server.session.finish(server.opened[0]);
        server.settle(now);
        exchange(&mut client, &mut server, now);
        pass_time(&mut client, &mut server, &mut now);
        if closed_here {
            client.session.close();
            client.settle(now);
        } else {
            server.session.close();
            server.settle(now);
            exchange(&mut client, &mut server, now);
        }
        assert_eq!(client.ended, Some(Ended::Closed));
        assert!(client.session.take_undelivered().is_empty(), "closed here: {closed_here}");
    }
}

/// What waits for that is the successor of this end: its peer must expect it.
#[test]
fn an_end_has_gone_away_once_the_peer_knows() {
    let mut now = Instant::now();
    let (mut client, mut server) = pair(now);
    client.session.open(b"tcp:origin:80", b"", now).unwrap();
    client.settle(now);
    exchange(&mut client, &mut server, now);
    pass_time(&mut client, &mut server, &mut now);
    assert!(client.session.is_acknowledged() && !client.session.has_gone_away());
    client.session.go_away();
    client.settle(now);
    assert!(!client.session.has_gone_away(), "it is not even sent");
    exchange(&mut client, &mut server, now);
    pass_time(&mut client, &mut server, &mut now);
    assert!(client.session.has_gone_away());
}
