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
        random: [high, low, 5],
        agent: "example".into(),
        ..Config::default()
    }
}

/// All that an end has to send now.
fn say(session: &mut Session, now: Instant) -> Vec<u8> {
    let mut bytes = Vec::new();
    session.transmit(0, 1 << 20, now, &mut bytes);
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

/// The block of the document: lines of bytes, each with the end that says it in front and perhaps a remark behind.
fn documented() -> Vec<(char, Vec<u8>)> {
    let (_, block) = DOC.split_once("```hex exchange\n").expect("the block");
    let (block, _) = block.split_once("```").expect("its end");
    let mut said: Vec<(char, Vec<u8>)> = Vec::new();
    for line in block.lines().map(|line| line.split(';').next().unwrap_or_default()) {
        let mut words = line.split_whitespace().peekable();
        let Some(first) = words.peek() else { continue };
        if let Some(end) = first.chars().next().filter(|end| matches!(end, '>' | '<')) {
            said.push((end, Vec::new()));
            words.next();
        }
        let bytes = words.map(|word| u8::from_str_radix(word, 16).expect("a byte"));
        said.last_mut().expect("an end that speaks").1.extend(bytes);
    }
    said
}

#[test]
fn the_worked_example_is_what_is_said() {
    let said = exchange();
    let mut shown = String::new();
    for (end, bytes) in &said {
        write!(shown, "\n{end}").unwrap();
        for (at, byte) in bytes.iter().enumerate() {
            write!(shown, "{}{byte:02x}", if at > 0 && at % 32 == 0 { "\n  " } else { " " }).unwrap();
        }
    }
    assert!(said == documented(), "the block in docs/PROTOCOL.md differs from what is said:{shown}");
}
