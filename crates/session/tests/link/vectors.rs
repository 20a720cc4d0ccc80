//! Recorded datagrams and messages, in files: whatever changes, both receivers must still process
//! them as they did. `ONCEWIRE_BLESS=1` records them again, after a deliberate change of the format.
//!
//! A file has one event a line, with numbers in decimal and bytes in hexadecimal:
//!
//! | line | |
//! |---|---|
//! | `offer C S` | log capacity and reorder window of HELLO |
//! | `message BYTES ANSWER` | a message arrives; `-` without an answer, `!` if it breaks a rule |
//! | `datagram NOW COUNTER SENT VALID BYTES` | microseconds; own counters so far; `ok` or `!` |
//! | `expire NOW` | time for frames that have waited |
//! | `deliver COUNT HASH` | segments and packets since the line before; [`hash`] |
//! | `send BYTES` | a datagram of this end, with acknowledgments and rejections |

use super::replay::{Event, Recording, replay};
use super::second_hostile::{Victim, altered};
use super::{End, Faults, NONE, Settings, World, start};
use oncewire_codec::{Domain, Sharing};
use oncewire_second::link::Delivery;
use oncewire_session::link::{LogSettings, Policy};
use std::fmt::Write;
use std::path::PathBuf;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Of deliveries in any order: XXH3-64 of all of them, sorted by their fields, each as form, open
/// checksum (1 byte each), number, size and end of its segment (0xff.. without one), header and payload
/// with their lengths; numbers of 8 bytes.
pub(super) fn hash(delivered: &[Delivery]) -> u64 {
    let mut sorted: Vec<_> = delivered.iter().collect();
    sorted.sort_unstable();
    let mut bytes = Vec::new();
    for delivery in sorted {
        bytes.extend([delivery.header.form, delivery.is_open.into()]);
        let (number, size, is_last) = delivery.segment.unwrap_or((u64::MAX, u64::MAX, false));
        for value in [number, size, is_last.into()] {
            bytes.extend(value.to_le_bytes());
        }
        for part in [&delivery.header.bytes, &delivery.payload] {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend_from_slice(part);
        }
    }
    xxh3_64(&bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(digit).collect()
}

fn write(recording: &Recording) -> String {
    let mut text = format!("offer {} {}\n", recording.offer.0, recording.offer.1);
    for event in &recording.events {
        let line = match event {
            Event::Control { message, answer } => {
                let answer = match answer {
                    Ok(Some(answer)) => hex(answer),
                    Ok(None) => "-".into(),
                    Err(()) => "!".into(),
                };
                format!("message {} {answer}", hex(message))
            }
            Event::Datagram { now, counter, plain, sent, is_valid } => {
                let valid = if *is_valid { "ok" } else { "!" };
                format!("datagram {now} {counter} {sent} {valid} {}", hex(plain))
            }
            Event::Expire { now } => format!("expire {now}"),
            Event::Deliver(delivered) => {
                format!("deliver {} {:016x}", delivered.len(), hash(delivered))
            }
            Event::DeliverHash(count, hash) => format!("deliver {count} {hash:016x}"),
            Event::Send { plain } => format!("send {}", hex(plain)),
        };
        writeln!(text, "{line}").expect("a string");
    }
    text
}

fn read(text: &str) -> Recording {
    let mut recording = Recording::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        recording.events.push(match words[0] {
            "offer" => {
                recording.offer = (number(1), number(2));
                continue;
            }
            "message" => {
                let answer = match words[2] {
                    "!" => Err(()),
                    "-" => Ok(None),
                    answer => Ok(Some(from_hex(answer))),
                };
                Event::Control { message: from_hex(words[1]), answer }
            }
            "datagram" => Event::Datagram {
                now: number(1),
                counter: number(2),
                sent: number(3),
                is_valid: words[4] == "ok",
                plain: from_hex(words.get(5).unwrap_or(&"")),
            },
            "expire" => Event::Expire { now: number(1) },
            "deliver" => {
                let hash = u64::from_str_radix(words[2], 16).expect("hexadecimal");
                Event::DeliverHash(number(1) as usize, hash)
            }
            "send" => Event::Send { plain: from_hex(words[1]) },
            other => panic!("{other}"),
        });
    }
    recording
}

const PACKETS: Settings = Settings { log: 0, policy: Policy::Acked, sharing: Sharing::All };
const LOG: Settings = Settings { log: 1 << 20, policy: Policy::Immediate, sharing: Sharing::None };

/// Packets, runs and pieces without a log.
fn packets() -> Recording {
    let faults = Faults { loss: 100, reordering: 6, ..NONE };
    let mut world = World { largest: 300, faults, ..World::new(8) };
    world.recordings = Some(Vec::new());
    world.ends = [End::new(300, PACKETS), End::new(300, PACKETS)];
    world.connect();
    for _ in 0..60 {
        world.send(0, false);
        world.transmit(0);
        let most = world.rng.usize(..4);
        world.arrive(1, most);
        world.now += Duration::from_millis(2);
        world.transmit(1);
        world.arrive(0, usize::MAX);
    }
    world.finish_recordings();
    world.recordings.and_then(|mut all| all.pop()).expect("that of end 1")
}

/// References, frames that wait and are rejected, a trained context, another log.
fn log() -> Recording {
    let faults = Faults { loss: 30, reordering: 4, ..NONE };
    let mut world = World { largest: 500, faults, ..World::new(9) };
    world.recordings = Some(Vec::new());
    world.ends = [End::new(500, LOG), End::new(500, LOG)];
    let settings = LogSettings { capacity: LOG.log, sharing: LOG.sharing, key: 7 };
    let sender = oncewire_session::link::Sender::new(500).with_layout(super::layout);
    world.ends[0].sender = sender.with_log(settings, LOG.policy).train_after(8_000);
    world.connect();
    world.settle();
    world.words = true;
    for round in 0..90 {
        let header = world.header();
        let payload = world.content(700);
        world.send_run(0, &header, 350, &payload, Domain(1));
        world.transmit(0);
        let most = world.rng.usize(..5);
        world.arrive(1, most);
        world.now += Duration::from_millis(1);
        if round % 8 == 0 {
            world.answer();
        }
    }
    world.settle();
    world.finish_recordings();
    world.recordings.and_then(|mut all| all.pop()).expect("that of end 1")
}

/// By hand: what no sender does, or hardly ever.
fn corners() -> Recording {
    let run = |frame: &[u8]| {
        // A packet with the header `aa bb` whole, and a frame; not the last record.
        let body = [&[0, 4, 2, 0xaa, 0xbb], frame].concat();
        let len = body.len();
        let len = match len {
            0..128 => vec![len as u8],
            _ => vec![len as u8 | 0x80, (len >> 7) as u8],
        };
        [&[0x40], &len[..], &body].concat()
    };
    // Content of this length at an offset that is stated whole.
    let whole = |offset: u64, len: usize| {
        run(&[&[0x30], &offset.to_le_bytes()[..], &vec![offset as u8; len]].concat())
    };
    let short = |offset: u16, len: usize| {
        run(&[&[0x10], &offset.to_le_bytes()[..], &vec![offset as u8; len]].concat())
    };
    let plains = [
        // Two frames of one datagram, the second one below the first: at 500, not at 66,036.
        [short(1000, 300), short(500, 200)].concat(),
        whole(66_000, 100),
        // Part of it is held.
        whole(1200, 200),
        // Content that ends below the highest by the reorder window, and by one byte less.
        whole(200_000, 1000),
        whole(201_000 - 65_536 - 300, 300),
        whole(201_000 - 65_536 - 299, 300),
        // Nothing is there to be stored.
        whole(300_000, 0),
        // Content of two generations, at their border, and beyond the last offset.
        whole((1 << 20) - 100, 200),
        whole((1 << 20) - 200, 200),
        whole((1 << 62) - 100, 200),
        // A header that is kept, and one that is made from it in the same datagram; then the next.
        vec![0x20, 7, 1, 0x24, 3, 1, 2, 3, 9, 0x20, 3, 1, 0, 8],
        vec![0x20, 3, 1, 0, 8],
        // No records, padding, and padding that is not zeros.
        vec![],
        vec![0x00, 2, 0, 0, 0x10],
        vec![0x10, 0, 1],
        // A single piece.
        vec![0xb0, 0x80, 0x30, 0, 4, 1, 0xaa, 5],
    ];
    let log = "0310018080408080040011000000000000000";
    let mut recording = Recording::of(LOG.log);
    let message = from_hex(&format!("{log}0"));
    recording.events.push(Event::Control { message, answer: Ok(None) });
    for (counter, plain) in (0..).zip(plains) {
        let now = 2_000_000 * (counter + 1);
        recording.events.push(Event::Datagram { now, counter, plain, sent: 0, is_valid: true });
    }
    recording
}

fn settings(name: &str) -> Settings {
    if name == "packets" { PACKETS } else { LOG }
}

/// What the first receiver makes of what arrives.
fn first(name: &str, recording: &Recording) -> Recording {
    let (epoch, mut victim) = (start(), Victim::new(settings(name)));
    for event in &recording.events {
        match event {
            Event::Control { message, .. } => victim.message(message),
            Event::Datagram { now, counter, plain, sent, .. } => {
                victim.now = victim.now.max(*now);
                victim.datagram(epoch, *counter, plain.clone(), Some(*sent));
                victim.transmit(epoch);
            }
            _ => {}
        }
    }
    victim.recording
}

#[test]
fn vectors_are_processed_as_they_were() {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/link/vectors");
    let bless = std::env::var_os("ONCEWIRE_BLESS").is_some();
    for name in ["packets", "log", "hostile", "corners"] {
        let path = directory.join(name).with_extension("txt");
        if bless {
            let recording = match name {
                "packets" => packets(),
                "log" => log(),
                "corners" => corners(),
                _ => altered(&mut fastrand::Rng::with_seed(3), LOG, log()),
            };
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(&path, write(&first(name, &recording))).unwrap();
        }
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let recording = read(&text);
        let compared = replay(&recording);
        assert!(compared.datagrams > 14 && compared.delivered > 8, "{name}: {compared:?}");
        if matches!(name, "log" | "hostile") {
            assert!(compared.waited > 0 && compared.rejections > 0, "{name}: {compared:?}");
        }
        let breaks_rules = matches!(name, "hostile" | "corners");
        assert_eq!(compared.dropped > 0, breaks_rules, "{name}: {compared:?}");
        // When feedback leaves is its sender's choice.
        let again = first(name, &recording);
        let lines = |text: &str| -> Vec<String> {
            text.lines().filter(|line| !line.starts_with("send ")).map(String::from).collect()
        };
        assert!(lines(&write(&again)) == lines(&text), "the first receiver differs: {name}");
        replay(&again);
    }
}
