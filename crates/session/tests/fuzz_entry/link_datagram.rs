//! Plaintext datagrams and control messages of a hostile peer that holds the keys of a link.

use super::{Input, base};
use oncewire_session::link::control::{Control, MAX_MESSAGE};
use oncewire_session::link::{
    Acknowledgment, Batch, Delivered, Feedback, Inbound, MAX_PACKET, PacketRecord, Receiver,
    Record, Records, Segments, Sender,
};
use std::num::NonZeroU16;
use std::time::Duration;

/// Feeds the input to both halves of an end. Nothing panics, memory stays in proportion to the input,
/// and every record that is read is written as the same bytes but for the form of its length.
pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    let (mut sender, mut receiver) = (Sender::new(1452), Receiver::default());
    let (mut batch, mut feedback) = (Batch::default(), Feedback::default());
    let mut delivered = Delivered::with_room(10);
    let mut now = base();
    for _ in 0..600 {
        sender
            .enqueue(Inbound {
                header: &[1; 20],
                open_checksum: false,
                segment: None,
                payload: &[2; 1000],
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
        assert!(bytes <= 10 * plain.len(), "{bytes} bytes from {}", plain.len());
        receiver.feedback(now, &mut feedback);
        sender.feedback(&mut feedback, now);
        now += Duration::from_millis(step);
        sender.transmit(now, &mut batch);
        let stats = sender.stats();
        assert!(stats.delivered + stats.lost <= stats.datagrams);
    }
}

fn check_records(plain: &[u8], next: u64) {
    let read: Vec<Record<'_>> = Records::new(plain, next).map_while(Result::ok).collect();
    for record in read {
        let mut wire = Vec::new();
        match &record {
            Record::Padding => continue,
            Record::Packet(packet) => packet.write(false, &mut wire),
            Record::Acknowledgment(acknowledgment) => acknowledgment.write(&mut wire),
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
            let packet = PacketRecord {
                header: &[0x45; 20],
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
    seeds
}
