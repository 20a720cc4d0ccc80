//! A peer that breaks every rule: whatever it sends, nothing panics and memory is bounded.

use super::{layout, number, start};
use oncewire_codec::Sharing;
use oncewire_session::link::{
    Batch, ContextTerms, Delivered, Feedback, HEADER, Implied, Inbound, LogOffer, LogSettings,
    LogTerms, Policy, Receiver, Sender, TAG,
};
use std::num::NonZeroU16;
use std::time::Duration;

const LOG: u64 = 1 << 20;

/// A victim and the half that sends to it, whose datagrams are altered, cut, mixed and repeated.
// More than 100 lines: a trick of the hostile peer each.
fn play(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let settings = LogSettings { capacity: LOG, sharing: Sharing::All, key: seed };
    let mut now = start();
    let sender = || Sender::new(1400).with_layout(layout).with_log(settings, Policy::Immediate);
    let (mut attacker, mut victim) = (sender(), sender());
    let mut receiver = Receiver::default().with_layout(layout).with_logs(LogOffer::of(LOG));
    for sender in [&mut attacker, &mut victim] {
        sender.connected(LogOffer::of(LOG));
        sender.log_ready(1);
        while sender.message().is_some() {}
    }
    let (mut batch, mut delivered) = (Batch::default(), Delivered::with_room(0));
    let mut feedback = Feedback::default();
    let mut pool = vec![0; 20_000];
    rng.fill(&mut pool);
    let mut recorded: Vec<Vec<u8>> = Vec::new();
    let mut counter = 0;
    for _ in 0..400 {
        for sender in [&mut attacker, &mut victim] {
            let size = rng.usize(64..1300);
            let len = rng.usize(..20_000);
            let from = rng.usize(..=pool.len() - len);
            let packet = Inbound {
                header: &[1; 40],
                open_checksum: true,
                implied: Implied::LengthsAndChecksum,
                segment: NonZeroU16::new(size as u16).filter(|_| len <= 128 * size),
                payload: &pool[from..from + if len <= 128 * size { len } else { size }],
                domain: oncewire_codec::Domain(0),
            };
            sender.enqueue(packet).expect("it fits");
        }
        victim.transmit(now, &mut batch);
        attacker.transmit(now, &mut batch);
        recorded.extend(
            batch.datagrams_mut().map(|(_, bytes)| bytes[HEADER..bytes.len() - TAG].to_vec()),
        );
        let terms = LogTerms {
            id: rng.u64(..6),
            capacity: [LOG, LOG - 1, u64::MAX, 0, LOG / 2][rng.usize(..5)],
            reorder: [0, LOG / 16, LOG, u64::MAX][rng.usize(..4)],
            first: [0, counter, u64::MAX][rng.usize(..3)],
            seed,
        };
        if rng.usize(..20) == 0 {
            let _ = receiver.log(terms);
        }
        if rng.usize(..4) == 0 {
            // Contexts of impossible places, with codes that are none, and answers to none.
            let start = [rng.u64(..LOG), rng.u64(..), (1 << 62) - 1][rng.usize(..3)];
            let part = start..start.saturating_add(rng.u64(1..40_000));
            let (log, number) = (rng.u64(..4), rng.u8(..));
            let codes = vec![rng.u8(..); [0, 768, 1152, 1153][rng.usize(..4)]];
            let parts = vec![part; rng.usize(..300)];
            let checksum = rng.u64(..);
            receiver.context(&ContextTerms { log, number, checksum, codes, parts });
            receiver.context_drop(log, number);
            victim.context_ready(log, number, rng.bool());
        }
        for _ in 0..rng.usize(..60) {
            let mut plain = recorded[rng.usize(..recorded.len())].clone();
            match rng.usize(..6) {
                0 => {}
                1 => plain.truncate(rng.usize(..=plain.len())),
                2 => {
                    let other = &recorded[rng.usize(..recorded.len())];
                    plain.extend_from_slice(&other[rng.usize(..other.len().max(1))..]);
                }
                _ => {
                    for _ in 0..rng.usize(1..5) {
                        let at = rng.usize(..plain.len());
                        plain[at] =
                            if rng.bool() { rng.u8(..) } else { plain[at] ^ 1 << rng.u8(..8) };
                    }
                }
            }
            // Feedback of made up rejections and acknowledgments, too.
            if rng.usize(..4) == 0 {
                let low = (rng.u64(..victim.next_counter() + 2) as u32).to_le_bytes();
                let tail: Vec<u8> = (0..rng.usize(..20)).map(|_| rng.u8(..)).collect();
                let body = [&low[..], &[rng.u8(..3), rng.u8(..4)], &tail].concat();
                plain = [&[[0x90, 0x70][rng.usize(..2)]][..], &body].concat();
            }
            counter = match rng.usize(..20) {
                0 => counter + rng.u64(..100_000),
                1 => counter.saturating_sub(rng.u64(..10_000)),
                _ => counter + 1,
            };
            delivered.clear();
            let _ = receiver.receive(counter, &plain, victim.next_counter(), now, &mut delivered);
            assert!(delivered.len() < 32 << 20, "{} bytes from one datagram", delivered.len());
        }
        now += Duration::from_millis(rng.u64(..20));
        delivered.clear();
        receiver.expire(now, &mut delivered);
        receiver.feedback(now, &mut feedback);
        victim.feedback(&mut feedback, now);
        assert!(receiver.memory() < LOG as usize + (8 << 20), "{} bytes", receiver.memory());
        assert!(victim.memory() < LOG as usize + (24 << 20), "{} bytes", victim.memory());
    }
}

#[test]
fn a_hostile_peer_gets_errors() {
    for seed in 0..number("ONCEWIRE_SIM_SEEDS", 60) / 6 {
        let played = std::panic::catch_unwind(|| play(seed));
        if let Err(panic) = played {
            eprintln!("hostile peer {seed} breaks a guarantee");
            std::panic::resume_unwind(panic);
        }
    }
}
