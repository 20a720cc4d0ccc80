//! Plaintext datagrams and control messages of a hostile peer that holds the keys of a link.

use super::{Input, base};
use oncewire_codec::{Domain, Sharing};
use oncewire_session::link::control::{Control, MAX_MESSAGE};
use oncewire_session::link::{
    Acknowledgment, Batch, Delivered, Feedback, Fields, HEADER, Implied, Inbound, LEAST_LOG,
    LogOffer, LogSettings, MAX_PACKET, PacketRecord, Policy, Receiver, Record, Records, Segments,
    Sender, TAG,
};
use std::num::NonZeroU16;
use std::time::Duration;

/// An end that refers to all that it sent, and its log is current.
fn sender() -> Sender {
    let settings = LogSettings { capacity: LEAST_LOG, sharing: Sharing::All, key: 1 };
    let mut sender = Sender::new(1452).with_layout(layout).with_log(settings, Policy::Immediate);
    sender.connected(LogOffer::of(LEAST_LOG));
    sender
}

/// Both halves of an end. The receiver has the log that the same end's sender has announced.
fn halves() -> (Sender, Receiver) {
    let mut sender = sender();
    let mut receiver = Receiver::default().with_layout(layout).with_logs(LogOffer::of(LEAST_LOG));
    while let Some(Control::Log(terms)) = sender.message() {
        receiver.log(terms).expect("as offered");
        sender.log_ready(terms.id);
    }
    (sender, receiver)
}

/// Feeds the input to both halves of an end. Nothing panics, memory stays in proportion to the input,
/// and every record that is read is written as the same bytes but for the form of its length.
pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    let (mut sender, mut receiver) = halves();
    let (mut batch, mut feedback) = (Batch::default(), Feedback::default());
    let mut delivered = Delivered::with_room(10);
    let mut now = base();
    for at in 0..600u16 {
        // Every other one repeats the one before, and depends on it.
        let mut payload = [2; 1000];
        payload[..2].copy_from_slice(&(at / 2).to_le_bytes());
        sender
            .enqueue(Inbound {
                header: &[1; 20],
                open_checksum: false,
                implied: Implied::Nothing,
                segment: None,
                payload: &payload,
                domain: Domain(1),
            })
            .expect("a small packet");
    }
    sender.transmit(now, &mut batch);
    while !input.is_empty() {
        let (step, len) = (u64::from(input.u8()), input.u16() % 1500);
        let counter = receiver
            .window()
            .restore((receiver.window().next() + step) as u32 ^ (step as u32) << 24);
        let plain = input.bytes(len);
        check_records(plain, sender.next_counter());
        let _ = Control::read(&plain[..plain.len().min(MAX_MESSAGE)]);
        delivered.clear();
        if receiver.admits(counter) {
            let _ = receiver.receive(counter, plain, sender.next_counter(), now, &mut delivered);
        }
        let mut bytes = 0;
        for (delivery, packet) in delivered.packets_mut() {
            assert!(delivery.header + 10 <= packet.len() && packet.len() <= MAX_PACKET + 10);
            bytes += packet.len();
        }
        // Frames that waited come on top. The last piece of a packet delivers what earlier ones brought.
        let most = (plain.len() / 4 + 1) * MAX_PACKET + (256 << 10) * 10;
        assert!(bytes <= most, "{bytes} bytes from {}", plain.len());
        assert!(receiver.memory() < 4 << 20 && sender.memory() < 32 << 20);
        receiver.feedback(now, &mut feedback);
        sender.feedback(&mut feedback, now);
        now += Duration::from_millis(step);
        delivered.clear();
        receiver.expire(now, &mut delivered);
        sender.transmit(now, &mut batch);
        let stats = sender.stats();
        assert!(stats.delivered + stats.lost <= stats.datagrams);
    }
}

/// Fields of an invented header. Which ones depends on its first byte, so that a peer may name fields
/// that are not there.
fn layout(header: &[u8]) -> Fields {
    let has = |bit: u8, at: u8| header.first().filter(|first| **first >> bit & 1 != 0).map(|_| at);
    Fields {
        addresses: (1, 3),
        ports: (3, 4),
        sequence: has(0, 4),
        acknowledgment: has(1, 8),
        window: has(2, 12),
        flags: has(3, 14),
        identification: has(4, 15),
        timestamps: has(5, 17),
        checksum: has(6, 25),
    }
}

fn check_records(plain: &[u8], next: u64) {
    let read: Vec<Record<'_>> = Records::new(plain, next).map_while(Result::ok).collect();
    for record in read {
        let mut wire = Vec::new();
        match &record {
            Record::Padding | Record::Piece { .. } | Record::Node(_) => continue,
            Record::Packet(packet) => packet.write(false, &mut wire),
            Record::Run(packet) => packet.write_run(false, &mut wire),
            Record::Acknowledgment(acknowledgment) => acknowledgment.write(&mut wire),
            Record::Rejection(rejection) => rejection.write(&mut wire),
        }
        let again: Vec<_> = Records::new(&wire, next).collect();
        assert_eq!(again, [Ok(record)]);
    }
}

/// Inputs to start from.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for at in 0..12u8 {
        let mut seed = Vec::new();
        for turn in 0..4u8 {
            let mut plain = Vec::new();
            let payload = vec![at; 10 + usize::from(at) * 3];
            let size = NonZeroU16::new(1 + u16::from(at)).expect("at least 1");
            let count = payload.len().div_ceil(usize::from(size.get())) as u8;
            let segments = Segments { first: turn, count, size, ends: true };
            // The first keeps a header, the others refer to it, with fields and a patch.
            let mut section = vec![1, 0x26, 20];
            section.extend([0x45; 20]);
            if turn > 0 {
                section = vec![1, 0x68, 0x81, turn, 1, 3, 2, at, turn];
            }
            let packet = PacketRecord {
                section: &section,
                header: &[],
                implied: Implied::LengthsAndChecksum,
                open_checksum: true,
                segments: (at % 2 == 0).then_some(segments),
                payload: &payload,
            };
            let start = u64::from(at) * 10;
            Acknowledgment {
                delay: Duration::from_micros(6400),
                ranges: vec![start + 5..start + 9, start..start + u64::from(turn) + 1],
            }
            .write(&mut plain);
            packet.write(turn % 2 == 0, &mut plain);
            seed.extend([1 + turn % 3, plain.len() as u8, (plain.len() >> 8) as u8]);
            seed.extend(plain);
        }
        seeds.push(seed);
    }
    // Content, the same again, and a rejection of that.
    let (mut sender, _) = halves();
    let mut batch = Batch::default();
    let payload: Vec<u8> = (0..800u32).map(|at| ((at * at) >> 5) as u8).collect();
    let mut seed = Vec::new();
    for _ in 0..2 {
        let packet = Inbound {
            header: &[0x45; 20],
            open_checksum: true,
            implied: Implied::LengthsAndChecksum,
            segment: NonZeroU16::new(300),
            payload: &payload,
            domain: Domain(1),
        };
        sender.enqueue(packet).expect("a small run");
        sender.transmit(base(), &mut batch);
        for (_, datagram) in batch.datagrams_mut() {
            let plain = &datagram[HEADER..datagram.len() - TAG];
            seed.extend([0, plain.len() as u8, (plain.len() >> 8) as u8]);
            seed.extend(plain);
        }
    }
    seed.extend([0, 9, 0, 0x90, 1, 0, 0, 0, 0, 0, 100, 50]);
    seeds.push(seed);
    // A packet in three pieces, in consecutive datagrams.
    let mut seed = Vec::new();
    let parts = [[0x30, 0, 4, 2, 1], [2, 3, 4, 5, 6], [7, 8, 9, 10, 11]];
    for (number, bytes) in parts.iter().enumerate() {
        let last = if number == 2 { 0x80 } else { 0 };
        seed.extend([0, 7, 0, 0xb0, number as u8 | last]);
        seed.extend(bytes);
    }
    seeds.push(seed);
    seeds
}
