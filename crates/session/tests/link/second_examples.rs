//! The examples of LINK.md, for the second receiver.

use super::{End, HEADER, Settings, TAG, start};
use oncewire_codec::Sharing;
use oncewire_second::link::{
    Answer, Delivery, Receiver, Record, Rejected, Restored, Verdict, message, places, records,
};
use oncewire_session::link::{LogTerms, Policy};
use std::time::Duration;

/// A receiver of real packets.
fn receiver() -> Receiver {
    Receiver::new(1 << 30, 1 << 20, places)
}

fn bytes(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

const FIRST_SECTION: &str = "01 26 34
    45 00 00 00 00 07 40 00 40 06 00 00 0a 01 00 01 0a 02 00 01
    0f a0 00 50 00 00 03 e8 00 00 07 d0 80 10 10 00 14 0b 00 00
    01 01 08 0a 00 00 00 64 00 00 00 32";

/// Section 4.5: two segments of a flow, the second one as differences.
#[test]
fn header_sections_of_the_document() {
    let mut second = receiver();
    let first = [&[0x30], &bytes(FIRST_SECTION)[..], b"payload"].concat();
    assert_eq!(second.datagram(0, 5, &first, 0), Verdict::Processed);
    let next = [&[0x30], &bytes("01 68 31 d0 16 02 06 00")[..], b"more"].concat();
    assert_eq!(second.datagram(0, 6, &next, 0), Verdict::Processed);
    // A run of two segments, made from reference 1, of the slot that was not kept.
    let run = [&[0x33], &bytes("01 01 00 81 03")[..], b"abcd"].concat();
    assert_eq!(second.datagram(0, 7, &run, 0), Verdict::Processed);
    assert_eq!((&second.dropped[..], &second.acknowledged[..]), (&[][..], &[5, 6, 7][..]));

    let whole: Vec<Vec<u8>> = second.delivered.iter().map(|d| d.whole().unwrap()).collect();
    assert_eq!(whole.len(), 4);
    for (packet, (id, sequence, payload)) in whole.iter().zip([
        (7u16, 1000u32, &b"payload"[..]),
        (8, 2448, b"more"),
        (8, 2448, b"abc"),
        (9, 2451, b"d"),
    ]) {
        assert_eq!(&packet[52..], payload);
        assert_eq!(packet[2..4], (packet.len() as u16).to_be_bytes());
        assert_eq!(packet[4..6], id.to_be_bytes());
        assert_eq!(packet[24..28], sequence.to_be_bytes());
        assert_eq!(packet[44..48], if id == 7 { 100u32 } else { 103 }.to_be_bytes());
        // RFC 1071: over a header with its checksum, the sum is 0xffff.
        let pseudo = [&packet[12..20], &[0, 6, 0, packet.len() as u8 - 20], &packet[20..]].concat();
        for summed in [&packet[..20], &pseudo] {
            let sum: u32 = summed
                .chunks(2)
                .map(|two| u32::from(two[0]) << 8 | u32::from(*two.get(1).unwrap_or(&0)))
                .sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        }
    }

    // A reference of the same datagram, and one that nobody has stated.
    assert_eq!(second.datagram(0, 4, &next, 0), Verdict::Processed);
    let unknown = [&[0x50], &bytes("02 00 00")[..], b"frame"].concat();
    assert_eq!(second.datagram(0, 8, &unknown, 0), Verdict::Processed);
    assert_eq!(second.acknowledged, [5, 6, 7]);
    let [Rejected { counter: 8, records_before: 0, reason: 2, ranges, .. }] = &second.rejected[..]
    else {
        panic!("{:?}", second.rejected)
    };
    assert_eq!(ranges, &[]);
}

/// A record of kind 2 to the end, without a known header.
fn run(frame: &[u8]) -> Vec<u8> {
    [&[0x50, 0, 4, 2, 0xaa, 0xbb], frame].concat()
}

fn payloads(second: &mut Receiver) -> Vec<Vec<u8>> {
    let header = Restored { form: 0, bytes: vec![0xaa, 0xbb] };
    second
        .delivered
        .drain(..)
        .map(|Delivery { header: own, payload, .. }| {
            assert_eq!(own, header);
            payload
        })
        .collect()
}

/// Section 8: the two frames, which need a log of 1 GiB, session 17, epoch 3.
#[test]
fn frames_of_the_document() {
    let mut second = receiver();
    let log = bytes("03 12 03 80 80 80 80 04 80 80 40 00 11 00 00 00 00 00 00 00");
    let log = [&[3, log.len() as u8 - 2], &log[2..]].concat();
    let (kind, body) = message(&mut &log[..]).unwrap().unwrap();
    let ready = Answer::LogReady { number: 3 };
    assert_eq!(second.control(kind, body), Ok(Some(ready)));
    assert_eq!(ready.bytes(), [4, 1, 3]);

    // The second frame comes first, and waits.
    let content: Vec<u8> = (0..100).collect();
    let frames = [[&[0x10, 0, 0], &content[..]].concat(), bytes(REPEAT), bytes(CODED)];
    assert_eq!(second.datagram(0, 1, &run(&frames[1]), 0), Verdict::Processed);
    assert_eq!((second.waited, second.acknowledged.len()), (1, 0));
    second.datagram(1, 0, &run(&frames[0]), 0);
    second.datagram(2, 2, &run(&frames[2]), 0);
    assert_eq!((&second.dropped[..], &second.rejected[..]), (&[][..], &[][..]));
    assert_eq!(second.acknowledged, [1, 0, 2]);
    let repeat = [&content[10..90], b"!"].concat();
    assert_eq!(payloads(&mut second), [content, repeat, b"abc".to_vec()]);

    let document = include_str!("../../../../docs/LINK.md");
    for example in [REPEAT, CODED] {
        assert!(document.contains(example), "LINK.md does not show {example}");
    }
}

/// The first receiver: a frame that refers to a later record of its own datagram waits for that only,
/// and the datagram is acknowledged.
#[test]
fn a_frame_waits_for_a_later_record_of_its_datagram() {
    let settings = Settings { log: 1 << 20, policy: Policy::Acked, sharing: Sharing::All };
    let mut end = End::new(1400, settings);
    let terms = LogTerms { id: 3, capacity: 1 << 20, reorder: 1 << 16, first: 0, seed: 17 };
    end.receiver.log(terms).expect("as offered").expect("it is new");
    let content: Vec<u8> = (0..100).collect();
    let mut early = run(&bytes(REPEAT));
    // With a length, as it is not the last record.
    early.splice(..1, [0x40, early.len() as u8 - 1]);
    let plain = [early, run(&[&[0x10, 0, 0], &content[..]].concat())].concat();
    let now = start();
    end.receiver.receive(0, &plain, 0, now, &mut end.delivered).unwrap();
    assert_eq!(end.delivered.packets_mut().count(), 2);

    end.receiver.feedback(now, &mut end.feedback);
    assert!(end.sender.feedback(&mut end.feedback, now));
    assert!(end.sender.transmit(now + Duration::from_secs(2), &mut end.batch));
    let (_, datagram) = end.batch.datagrams_mut().next().expect("an acknowledgment");
    let plain = &datagram[HEADER..datagram.len() - TAG];
    let acknowledged = records(plain, u64::MAX).unwrap().into_iter().find_map(|it| match it {
        Record::Acknowledgment(acknowledgment) => Some(acknowledgment.counters(1)),
        _ => None,
    });
    assert_eq!(acknowledged, Some(Ok(vec![(0, 0)])));
}

const REPEAT: &str = "14 64 00 04 00 a0 01 5a 21 51 04 c6 ea 6a 1a 15 d0";
const CODED: &str = "51 4c 00 00 03 00 00 61 62 63 54 25 fb 8e a7 43 36 8f";
