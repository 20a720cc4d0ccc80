//! Messages of payload-match, good and bad, and the exchange of two ends.

use crate::hand::{noise, text};
use crate::manifest::{self, hex, unhex, variant};
use oncewire_codec::ChecksumSeed;
use oncewire_family::payload::{
    Compressor, Decompressor, IpPayload, KeyedBlake3, Message, Name, PayloadPolicy, Received,
    RejectReason, Token,
};
use std::fmt::Write;

const MANIFEST: &str = "payload.txt";

/// A message on one line.
fn outcome(bytes: &[u8]) -> String {
    let token = |token: Token<'_>| {
        format!(
            "name {} checksum {:016x} header {}",
            hex(&token.name.0),
            token.checksum,
            hex(token.header)
        )
    };
    match Message::parse(bytes) {
        Ok(Message::Plain(packet)) => format!("plain {}", hex(packet)),
        Ok(Message::Whole(packet)) => format!("whole {}", hex(packet)),
        Ok(Message::Token(named)) => format!("token {}", token(named)),
        Ok(Message::Reset { epoch }) => format!("reset {epoch}"),
        Ok(Message::Reject { reason: RejectReason::Unknown, token: named }) => {
            format!("reject unknown {}", token(named))
        }
        Ok(Message::Reject { reason: RejectReason::Collided, token: named }) => {
            format!("reject collided {}", token(named))
        }
        Ok(Message::ResetDone { epoch }) => format!("reset-done {epoch}"),
        Ok(Message::ResetRequest { incarnation }) => format!("reset-request {incarnation}"),
        Err(error) => format!("error {}", variant(&error)),
    }
}

fn written(message: Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    bytes
}

fn messages() -> Vec<(&'static str, Vec<u8>)> {
    let token = Token {
        name: Name(std::array::from_fn(|i| 0xa0 + i as u8)),
        checksum: 0x0123_4567_89ab_cdef,
        header: b"head",
    };
    let good = |message| written(message);
    let raw = |parts: &[&[u8]]| parts.concat();
    let number = 0x0102_0304_0506_0708u64;
    vec![
        ("A packet as it is.", good(Message::Plain(b"a packet"))),
        ("A packet of no byte.", good(Message::Plain(b""))),
        ("A packet in answer to a rejection.", good(Message::Whole(b"a packet"))),
        ("A token.", good(Message::Token(token))),
        (
            "A token of a packet that is all payload.",
            good(Message::Token(Token { header: b"", ..token })),
        ),
        ("A reset.", good(Message::Reset { epoch: number })),
        (
            "A rejection: nothing of that name.",
            good(Message::Reject { reason: RejectReason::Unknown, token }),
        ),
        (
            "A rejection: something else of that name.",
            good(Message::Reject { reason: RejectReason::Collided, token }),
        ),
        ("A reset is done, of the largest epoch.", good(Message::ResetDone { epoch: u64::MAX })),
        ("A reset is wanted.", good(Message::ResetRequest { incarnation: 0 })),
        ("Nothing has come.", Vec::new()),
        ("There is no codepoint 7.", raw(&[&[7], &[0; 8]])),
        ("There is no codepoint 255.", raw(&[&[255], &[0; 24]])),
        ("A token of 23 bytes.", raw(&[&[2], &[5; 23]])),
        ("A token of nothing.", vec![2]),
        ("A reset of seven bytes.", raw(&[&[3], &[5; 7]])),
        ("A reset of nine bytes.", raw(&[&[3], &[5; 9]])),
        ("A rejection without a reason.", vec![4]),
        ("There is no reason 2.", raw(&[&[4, 2], &[5; 24]])),
        ("A rejection of a token of 23 bytes.", raw(&[&[4, 0], &[5; 23]])),
        ("A reset done of nine bytes.", raw(&[&[5], &[5; 9]])),
        ("A reset request of nothing.", vec![6]),
    ]
}

/// An IPv4 and UDP packet with this identification.
fn packet(identification: u16, payload: &[u8]) -> Vec<u8> {
    let len = (28 + payload.len()) as u16;
    let [id, total, udp] = [identification, len, len - 20].map(u16::to_be_bytes);
    let ip = [&[0x45, 0][..], &total, &id, &[0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]]
        .concat();
    [&ip[..], &[0x30, 0x39, 0, 53], &udp, &[0, 0], payload].concat()
}

/// What crosses a link: `packet` is sent, `forward` and `back` are messages (including `lost`
/// ones), `delivered` is received.
fn exchange() -> Vec<(&'static str, Vec<u8>)> {
    let policy = PayloadPolicy {
        capacity: 1000,
        min_payload: 24,
        checksum: ChecksumSeed { session: 0x0123_4567_89ab_cdef, epoch: 0 },
        ..PayloadPolicy::default()
    };
    let naming = || KeyedBlake3::new(std::array::from_fn(|i| i as u8));
    let mut compressor = Compressor::new(policy.clone(), naming(), IpPayload, 1 << 40).unwrap();
    let mut decompressor = Decompressor::new(policy, naming(), IpPayload, 7).unwrap();
    let mut said = Vec::new();
    let (x, y, short) = (text(121, 40), noise(122, 60), text(123, 23));
    let packets = [
        (false, packet(1, &x)),
        (false, packet(2, &x)),
        (false, packet(3, &short)),
        (false, packet(4, &short)),
        (true, packet(5, &y)),
        (false, packet(6, &y)),
        (false, packet(7, &y)),
    ];
    for (lost, packet) in packets {
        said.push(("packet", packet.clone()));
        let message = written(compressor.compress(&packet).message());
        let mut forward: Vec<Vec<u8>> = compressor.reset_due().map(written).into_iter().collect();
        if lost {
            said.push(("lost", message));
        } else {
            forward.push(message);
        }
        while !forward.is_empty() {
            let bytes = forward.remove(0);
            said.push(("forward", bytes.clone()));
            match decompressor.receive(Message::parse(&bytes).unwrap()).unwrap() {
                Received::Packet(packet) => said.push(("delivered", packet.to_vec())),
                Received::Reply(reply) => {
                    let back = written(reply);
                    forward.extend(
                        compressor.receive(Message::parse(&back).unwrap()).unwrap().map(written),
                    );
                    said.push(("back", back));
                }
            }
        }
    }
    said
}

pub(crate) fn bless() {
    let mut text = String::new();
    for (story, bytes) in messages() {
        writeln!(text, "message {}\nstory {story}\noutcome {}\n", hex(&bytes), outcome(&bytes))
            .unwrap();
    }
    writeln!(
        text,
        "story Name key 00 01 02 to 1f, session 0x0123456789abcdef, at least 24 bytes of payload, at most 1,000 held."
    )
    .unwrap();
    for (what, bytes) in exchange() {
        writeln!(text, "{what} {}", hex(&bytes)).unwrap();
    }
    manifest::write(MANIFEST, text.as_bytes());
}

#[test]
fn payload_messages_are_as_the_manifest_says() {
    crate::bless();
    let records = manifest::lines(MANIFEST);
    let (last, messages) = records.split_last().unwrap();
    assert_eq!(messages.len(), self::messages().len());
    let mut errors = 0;
    for (record, (story, made)) in messages.iter().zip(self::messages()) {
        let [(_, bytes), (_, told), (_, expected)] = &record[..] else { panic!("{record:?}") };
        let bytes = unhex(bytes);
        assert_eq!((told.as_str(), &bytes), (story, &made));
        assert_eq!(outcome(&bytes), *expected, "{told}");
        match Message::parse(&bytes) {
            Ok(message) => assert_eq!(written(message), bytes, "{told}"),
            Err(_) => errors += 1,
        }
    }
    assert!(errors >= 10 && messages.len() - errors >= 10);
    // The exchange depends on the names and checksums.
    let said: Vec<(&str, Vec<u8>)> =
        last[1..].iter().map(|(what, bytes)| (what.as_str(), unhex(bytes))).collect();
    assert!(said == exchange(), "the ends say something else");
    let count = |what: &str| said.iter().filter(|(found, _)| *found == what).count();
    let forward = |codepoint| {
        said.iter().filter(|(what, bytes)| *what == "forward" && bytes[0] == codepoint).count()
    };
    assert_eq!((count("packet"), count("delivered"), count("back")), (7, 6, 2));
    assert_eq!((forward(0), forward(1), forward(2), forward(3)), (3, 1, 3, 1));
}
