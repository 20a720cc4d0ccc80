//! Compares the worked examples of `docs/PROTOCOL.md` with what two sessions send each other.

use oncewire_codec::sampler::SampleByte;
use oncewire_codec::{EncoderBuilder, Entropy};
use oncewire_session::{Budget, Config, Event, FlowId, Hello, Owner, Read, SMALLEST_LOG, Session};
use std::fmt::Write;
use std::time::{Duration, Instant};

const DOC: &str = include_str!("../../../../docs/PROTOCOL.md");
const REQUEST: &[u8] = b"GET /once HTTP/1.1\r\nHost: origin.example\r\n\r\n";

fn config([high, low]: [u64; 2]) -> Config {
    Config {
        log: SMALLEST_LOG,
        early: Budget::new(SMALLEST_LOG),
        delivery: Budget::new(SMALLEST_LOG),
        max_flows: 16,
        // Raw literals and plain descriptors, so that the bytes do not depend on the version of a
        // compressor, and a sampler that finds the repeat.
        encoder: EncoderBuilder::default().entropy(Entropy::None).sampler(SampleByte::default()),
        random: [high, low, 5, 6],
        agent: "example".into(),
        ..Config::default()
    }
}

/// Everything that an end has to send on lane 0 now.
fn send(session: &mut Session, now: Instant) -> Vec<u8> {
    send_on(session, 0, now)
}

fn send_on(session: &mut Session, lane: usize, now: Instant) -> Vec<u8> {
    let mut bytes = Vec::new();
    session.transmit(lane, 1 << 20, now, &mut bytes);
    bytes
}

fn events(session: &mut Session) -> Vec<Event> {
    let events = std::iter::from_fn(|| session.poll_event());
    events.filter(|event| !matches!(event, Event::Transmit(_) | Event::Memory)).collect()
}

fn read(session: &mut Session, flow: FlowId, now: Instant) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Read::Data(chunk) = session.read(flow) {
        session.consumed(flow, chunk.len(), now);
        bytes.extend_from_slice(&chunk);
    }
    bytes
}

/// The transcript: senders and their bytes.
fn exchange() -> Vec<(char, Vec<u8>)> {
    #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
    let now = Instant::now();
    let later = now + Duration::from_millis(20);
    let mut transcript = Vec::new();
    let mut client = Session::connect(config([1, 2]).build().unwrap(), None, now);
    client.attach(0, now);
    transcript.push(('>', send(&mut client, now)));

    let (hello, _) = Hello::read(&transcript[0].1).unwrap().unwrap();
    let mut server =
        Session::accept_new(config([3, 4]).build().unwrap(), None, &hello, now).unwrap();
    transcript.push(('<', send(&mut server, now)));
    client.receive(0, &transcript[1].1, now);
    assert_eq!(events(&mut client), [Event::Established]);
    assert_eq!(events(&mut server), [Event::Established]);

    let flow = client.open(b"tcp:origin.example:80", b"", now).unwrap();
    assert_eq!(client.write(flow, REQUEST), REQUEST.len());
    transcript.push(('>', send(&mut client, now)));
    server.receive(0, &transcript[2].1, now);
    let opened =
        Event::Opened { flow, target: b"tcp:origin.example:80".to_vec(), owner: Owner::default() };
    assert_eq!(events(&mut server), [opened, Event::Readable(flow)]);
    assert_eq!(read(&mut server, flow, now), REQUEST);

    server.accept(flow, now);
    assert_eq!(server.write(flow, b"once\n"), 5);
    server.finish(flow);
    transcript.push(('<', send(&mut server, now)));
    client.receive(0, &transcript[3].1, now);
    assert_eq!(events(&mut client), [Event::Accepted(flow), Event::Readable(flow)]);
    assert_eq!(read(&mut client, flow, now), b"once\n");

    // The same content again, and nothing else.
    assert_eq!(client.write(flow, REQUEST), REQUEST.len());
    client.finish(flow);
    transcript.push(('>', send(&mut client, now)));
    server.receive(0, &transcript[4].1, now);
    assert_eq!(read(&mut server, flow, now), REQUEST);
    server.on_timeout(later);
    transcript.push(('<', send(&mut server, later)));
    client.receive(0, &transcript[5].1, later);
    assert!(client.is_idle() && server.is_idle());

    client.close();
    transcript.push(('>', send(&mut client, later)));
    server.receive(0, &transcript[6].1, later);
    assert!(server.ended().is_some());
    transcript
}

/// Gives both ends a transport for lane 1.
fn attach_second(
    client: &mut Session,
    server: &mut Session,
    note: &mut impl FnMut(&str, Vec<u8>) -> Vec<u8>,
    now: Instant,
) {
    client.attach(1, now);
    let bytes = note(">1", send_on(client, 1, now));
    let (hello, _) = Hello::read(&bytes).unwrap().unwrap();
    assert_eq!(server.accept_lane(&hello, now), Ok(1));
    let bytes = note("<1", send_on(server, 1, now));
    client.receive(1, &bytes, now);
}

/// The transcript of two ends with two lanes, one of which loses its transport: the sender, its
/// lane, and the bytes.
fn lanes() -> Transcript {
    #[expect(clippy::disallowed_methods, reason = "a test needs a time to start from")]
    let now = Instant::now();
    let two = |random| Config { lanes: 2, ..config(random) }.build().unwrap();
    let mut transcript = Transcript::new();
    let mut note = |who: &str, bytes: Vec<u8>| {
        transcript.push((who.to_string(), bytes.clone()));
        bytes
    };
    let mut client = Session::connect(two([1, 2]), None, now);
    client.attach(0, now);
    let bytes = note(">0", send_on(&mut client, 0, now));
    let (hello, _) = Hello::read(&bytes).unwrap().unwrap();
    let mut server = Session::accept_new(two([3, 4]), None, &hello, now).unwrap();
    let bytes = note("<0", send_on(&mut server, 0, now));
    client.receive(0, &bytes, now);
    assert_eq!((client.lanes(), server.lanes()), (2, 2));
    // The second lane.
    attach_second(&mut client, &mut server, &mut note, now);

    // The same request on both lanes. The second refers to the first and overtakes it.
    let flows = [0, 1].map(|_| client.open(b"tcp:origin.example:80", b"", now).unwrap());
    flows.iter().for_each(|&flow| assert_eq!(client.write(flow, REQUEST), REQUEST.len()));
    let first = note(">0", send_on(&mut client, 0, now));
    let second = note(">1", send_on(&mut client, 1, now));
    server.receive(1, &second, now);
    assert_eq!((read(&mut server, flows[1], now), server.counters().lane_waits), (Vec::new(), 1));
    server.receive(0, &first, now);
    flows.iter().for_each(|&flow| assert_eq!(read(&mut server, flow, now), REQUEST));
    let bytes = note("<0", send_on(&mut server, 0, now));
    client.receive(0, &bytes, now);

    // The transport of lane 1 is cut; bytes that either end sends on it are lost.
    server.accept(flows[1], now);
    note("<1", send_on(&mut server, 1, now));
    assert_eq!(client.write(flows[1], REQUEST), REQUEST.len());
    note(">1", send_on(&mut client, 1, now));
    client.detach(1, now);
    server.detach(1, now);
    attach_second(&mut client, &mut server, &mut note, now);
    let bytes = note(">1", send_on(&mut client, 1, now));
    server.receive(1, &bytes, now);
    assert_eq!(read(&mut server, flows[1], now), REQUEST);
    assert_eq!((client.counters().resumes, server.counters().resumes), (1, 1));
    assert!(client.ended().is_none() && server.ended().is_none());
    transcript
}

/// Senders and bytes.
type Transcript = Vec<(String, Vec<u8>)>;

/// A block of the document: lines of bytes. A line may start with the sender and end with a
/// comment.
fn documented(name: &str) -> Transcript {
    let (_, block) = DOC.split_once(&format!("```hex {name}\n")).expect("the block");
    let (block, _) = block.split_once("```").expect("its end");
    let mut transcript = Transcript::new();
    for line in block.lines().map(|line| line.split(';').next().unwrap_or_default()) {
        let mut words = line.split_whitespace().peekable();
        let Some(first) = words.peek() else { continue };
        if first.starts_with(['>', '<']) {
            transcript.push((first.to_string(), Vec::new()));
            words.next();
        }
        let bytes = words.map(|word| u8::from_str_radix(word, 16).expect("a byte"));
        transcript.last_mut().expect("a sender").1.extend(bytes);
    }
    transcript
}

/// Compares what was sent with a block of the document.
fn compare(transcript: &Transcript, name: &str) {
    let mut shown = String::new();
    for (end, bytes) in transcript {
        write!(shown, "\n{end}").unwrap();
        for (at, byte) in bytes.iter().enumerate() {
            write!(shown, "{}{byte:02x}", if at > 0 && at % 32 == 0 { "\n  " } else { " " })
                .unwrap();
        }
    }
    assert!(
        *transcript == documented(name),
        "the block {name} in docs/PROTOCOL.md differs from what was sent:{shown}"
    );
}

#[test]
fn the_worked_example_matches_the_sessions() {
    let transcript = exchange().into_iter().map(|(end, bytes)| (end.to_string(), bytes)).collect();
    compare(&transcript, "exchange");
}

#[test]
fn the_example_of_two_lanes_matches_the_sessions() {
    compare(&lanes(), "lanes");
}
