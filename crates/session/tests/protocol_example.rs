//! The worked example of `docs/PROTOCOL.md` is what two sessions say to each other.
#![allow(missing_docs)]

use oncewire_codec::{EncoderBuilder, Entropy, SamplerKind};
use oncewire_session::{Budget, Config, Event, FlowId, Hello, Read, SMALLEST_LOG, Session};
use std::fmt::Write;
use std::time::{Duration, Instant};

const DOC: &str = include_str!("../../../docs/PROTOCOL.md");
const REQUEST: &[u8] = b"GET /once HTTP/1.1\r\nHost: origin.example\r\n\r\n";

fn config([high, low]: [u64; 2]) -> Config {
    Config {
        log: SMALLEST_LOG,
        early: Budget::new(SMALLEST_LOG),
        delivery: Budget::new(SMALLEST_LOG),
        max_flows: 16,
        // Stored literals and plain descriptors: bytes that no version of a compressor changes. And a sampler that finds the repeat.
        encoder: EncoderBuilder::default().entropy(Entropy::None).sampler(SamplerKind::sample_byte()),
        random: [high, low, 5, 6],
        agent: "example".into(),
        ..Config::default()
    }
}

/// All that an end has to send now on its first lane.
fn say(session: &mut Session, now: Instant) -> Vec<u8> {
    say_on(session, 0, now)
}

fn say_on(session: &mut Session, lane: usize, now: Instant) -> Vec<u8> {
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

/// What was said: who, and the bytes.
fn exchange() -> Vec<(char, Vec<u8>)> {
    #[expect(clippy::disallowed_methods, reason = "a test needs some time to begin with")]
    let now = Instant::now();
    let later = now + Duration::from_millis(20);
    let mut said = Vec::new();
    let mut connecting = Session::connect(config([1, 2]), None, now);
    connecting.attach(0, now);
    said.push(('>', say(&mut connecting, now)));

    let (hello, _) = Hello::read(&said[0].1).unwrap().unwrap();
    let mut answering = Session::accept_new(config([3, 4]), None, &hello, now).unwrap();
    said.push(('<', say(&mut answering, now)));
    connecting.receive(0, &said[1].1, now);
    assert_eq!(events(&mut connecting), [Event::Established]);
    assert_eq!(events(&mut answering), [Event::Established]);

    let flow = connecting.open(b"tcp:origin.example:80", now).unwrap();
    assert_eq!(connecting.write(flow, REQUEST), REQUEST.len());
    said.push(('>', say(&mut connecting, now)));
    answering.receive(0, &said[2].1, now);
    let opened = Event::Opened(flow, b"tcp:origin.example:80".to_vec());
    assert_eq!(events(&mut answering), [opened, Event::Readable(flow)]);
    assert_eq!(read(&mut answering, flow, now), REQUEST);

    answering.accept(flow, now);
    assert_eq!(answering.write(flow, b"once\n"), 5);
    answering.finish(flow);
    said.push(('<', say(&mut answering, now)));
    connecting.receive(0, &said[3].1, now);
    assert_eq!(events(&mut connecting), [Event::Accepted(flow), Event::Readable(flow)]);
    assert_eq!(read(&mut connecting, flow, now), b"once\n");

    // The same again, and no more.
    assert_eq!(connecting.write(flow, REQUEST), REQUEST.len());
    connecting.finish(flow);
    said.push(('>', say(&mut connecting, now)));
    answering.receive(0, &said[4].1, now);
    assert_eq!(read(&mut answering, flow, now), REQUEST);
    answering.on_timeout(later);
    said.push(('<', say(&mut answering, later)));
    connecting.receive(0, &said[5].1, later);
    assert!(connecting.is_idle() && answering.is_idle());

    connecting.close();
    said.push(('>', say(&mut connecting, later)));
    answering.receive(0, &said[6].1, later);
    assert!(answering.ended().is_some());
    said
}

/// What is said over two lanes, one of which loses its transport: who on which lane, and the bytes.
fn lanes() -> Said {
    #[expect(clippy::disallowed_methods, reason = "a test needs some time to begin with")]
    let now = Instant::now();
    let two = |random| Config { lanes: 2, ..config(random) };
    let mut said = Said::new();
    let mut note = |who: &str, bytes: Vec<u8>| {
        said.push((who.to_string(), bytes.clone()));
        bytes
    };
    let mut connecting = Session::connect(two([1, 2]), None, now);
    connecting.attach(0, now);
    let bytes = note(">0", say_on(&mut connecting, 0, now));
    let (hello, _) = Hello::read(&bytes).unwrap().unwrap();
    let mut answering = Session::accept_new(two([3, 4]), None, &hello, now).unwrap();
    let bytes = note("<0", say_on(&mut answering, 0, now));
    connecting.receive(0, &bytes, now);
    assert_eq!((connecting.lanes(), answering.lanes()), (2, 2));
    // The second lane.
    connecting.attach(1, now);
    let bytes = note(">1", say_on(&mut connecting, 1, now));
    let (hello, _) = Hello::read(&bytes).unwrap().unwrap();
    assert_eq!(answering.accept_lane(&hello, now), Ok(1));
    let bytes = note("<1", say_on(&mut answering, 1, now));
    connecting.receive(1, &bytes, now);

    // The same request on both. The second refers to the first, and overtakes it.
    let flows = [0, 1].map(|_| connecting.open(b"tcp:origin.example:80", now).unwrap());
    flows.iter().for_each(|&flow| assert_eq!(connecting.write(flow, REQUEST), REQUEST.len()));
    let first = note(">0", say_on(&mut connecting, 0, now));
    let second = note(">1", say_on(&mut connecting, 1, now));
    answering.receive(1, &second, now);
    assert_eq!((read(&mut answering, flows[1], now), answering.counters().lane_waits), (Vec::new(), 1));
    answering.receive(0, &first, now);
    flows.iter().for_each(|&flow| assert_eq!(read(&mut answering, flow, now), REQUEST));
    let bytes = note("<0", say_on(&mut answering, 0, now));
    connecting.receive(0, &bytes, now);

    // The transport of lane 1 is cut: what either end says on it is lost.
    answering.accept(flows[1], now);
    note("<1", say_on(&mut answering, 1, now));
    assert_eq!(connecting.write(flows[1], REQUEST), REQUEST.len());
    note(">1", say_on(&mut connecting, 1, now));
    connecting.detach(1, now);
    answering.detach(1, now);
    connecting.attach(1, now);
    let bytes = note(">1", say_on(&mut connecting, 1, now));
    let (hello, _) = Hello::read(&bytes).unwrap().unwrap();
    assert_eq!(answering.accept_lane(&hello, now), Ok(1));
    let bytes = note("<1", say_on(&mut answering, 1, now));
    connecting.receive(1, &bytes, now);
    let bytes = note(">1", say_on(&mut connecting, 1, now));
    answering.receive(1, &bytes, now);
    assert_eq!(read(&mut answering, flows[1], now), REQUEST);
    assert_eq!((connecting.counters().resumes, answering.counters().resumes), (1, 1));
    assert!(connecting.ended().is_none() && answering.ended().is_none());
    said
}

/// Who says it, and the bytes.
type Said = Vec<(String, Vec<u8>)>;

/// A block of the document: lines of bytes, each with the end that says it in front and perhaps a remark behind.
fn documented(name: &str) -> Said {
    let (_, block) = DOC.split_once(&format!("```hex {name}\n")).expect("the block");
    let (block, _) = block.split_once("```").expect("its end");
    let mut said = Said::new();
    for line in block.lines().map(|line| line.split(';').next().unwrap_or_default()) {
        let mut words = line.split_whitespace().peekable();
        let Some(first) = words.peek() else { continue };
        if first.starts_with(['>', '<']) {
            said.push((first.to_string(), Vec::new()));
            words.next();
        }
        let bytes = words.map(|word| u8::from_str_radix(word, 16).expect("a byte"));
        said.last_mut().expect("an end that speaks").1.extend(bytes);
    }
    said
}

/// Compares what is said with a block of the document.
fn compare(said: &Said, name: &str) {
    let mut shown = String::new();
    for (end, bytes) in said {
        write!(shown, "\n{end}").unwrap();
        for (at, byte) in bytes.iter().enumerate() {
            write!(shown, "{}{byte:02x}", if at > 0 && at % 32 == 0 { "\n  " } else { " " }).unwrap();
        }
    }
    assert!(*said == documented(name), "the block {name} in docs/PROTOCOL.md differs from what is said:{shown}");
}

#[test]
fn the_worked_example_is_what_is_said() {
    let said = exchange().into_iter().map(|(end, bytes)| (end.to_string(), bytes)).collect();
    compare(&said, "exchange");
}

#[test]
fn the_example_of_two_lanes_is_what_is_said() {
    compare(&lanes(), "lanes");
}
