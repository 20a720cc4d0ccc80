//! The answer to a flow goes with the first block of what the origin answers.

use oncewire_session::{Config, Event, FlowId, Hello, SMALLEST_LOG, Session};
use std::time::{Duration, Instant};

/// Two established ends, and a flow for which the server got `request` bytes.
fn flow_with(request: usize) -> (Session, Session, FlowId, Instant) {
    #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
    let now = Instant::now();
    let config =
        |random| Config { log: 4 * SMALLEST_LOG, random: [random; 4], ..Config::default() };
    let mut client = Session::connect(config(1).build().unwrap(), None, now);
    client.attach(0, now);
    let hello = sent(&mut client, now);
    let (hello, _) = Hello::read(&hello).unwrap().unwrap();
    let mut server = Session::accept_new(config(2).build().unwrap(), None, &hello, now).unwrap();
    client.receive(0, &sent(&mut server, now), now);
    let flow = client.open(b"tcp:origin:80", b"somebody", now).unwrap();
    assert_eq!(client.write(flow, &vec![7; request]), request);
    server.receive(0, &sent(&mut client, now), now);
    // What else is to be sent.
    client.receive(0, &sent(&mut server, now), now);
    while client.poll_event().is_some() || server.poll_event().is_some() {}
    (client, server, flow, now)
}

fn sent(session: &mut Session, now: Instant) -> Vec<u8> {
    let mut out = Vec::new();
    while {
        let before = out.len();
        session.transmit(0, 1 << 20, now, &mut out);
        out.len() > before
    } {}
    out
}

fn wants_to_send(session: &mut Session) -> bool {
    std::iter::from_fn(|| session.poll_event()).any(|event| event == Event::Transmit(0))
}

fn accepts(session: &mut Session, flow: FlowId) -> bool {
    std::iter::from_fn(|| session.poll_event()).any(|event| event == Event::Accepted(flow))
}

#[test]
fn the_answer_to_a_flow_waits_for_the_answer_to_its_request() {
    let (mut client, mut server, flow, now) = flow_with(100);
    server.accept(flow, now);
    assert!(!wants_to_send(&mut server));
    assert_eq!(server.write(flow, b"content"), 7);
    assert!(wants_to_send(&mut server));
    client.receive(0, &sent(&mut server, now), now);
    assert!(accepts(&mut client, flow));
}

#[test]
fn the_answer_to_a_flow_does_not_wait_long() {
    let (mut client, mut server, flow, now) = flow_with(100);
    server.accept(flow, now);
    assert!(!wants_to_send(&mut server));
    let due = server.deadline().unwrap();
    assert!(due > now && due <= now + Duration::from_millis(5));
    server.on_timeout(due);
    assert!(wants_to_send(&mut server));
    client.receive(0, &sent(&mut server, due), due);
    assert!(accepts(&mut client, flow));
    // Nothing is left to wait for.
    assert!(server.deadline().unwrap() > due + Duration::from_millis(5));
}

#[test]
fn an_application_that_waits_for_the_answer_or_for_credit_gets_it_at_once() {
    for request in [0, 12_000] {
        let (mut client, mut server, flow, now) = flow_with(request);
        server.accept(flow, now);
        assert!(wants_to_send(&mut server), "{request}");
        client.receive(0, &sent(&mut server, now), now);
        assert!(accepts(&mut client, flow), "{request}");
    }
}
