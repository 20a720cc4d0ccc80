//! The two ends over a channel that loses, reorders and duplicates, and ends that restart: all from
//! a seed.

use super::*;
use proptest::prelude::*;
use proptest::test_runner::Config;
use std::collections::{HashMap, VecDeque};

#[derive(Clone)]
struct Rng(fastrand::Rng);

impl Rng {
    fn new(seed: u64) -> Rng {
        Rng(fastrand::Rng::with_seed(seed))
    }

    /// A number below `limit`, or 0.
    fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit.max(1))
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Only so many names.
#[derive(Clone, Copy, Debug)]
struct WeakNaming(u64);

impl Naming for WeakNaming {
    fn name(&self, payload: &[u8]) -> Name {
        let strong = KeyedBlake3::new([3; 32]).name(payload);
        if self.0 == 0 {
            return strong;
        }
        let mut weak = [0; 16];
        weak[0] = (u128::from_le_bytes(strong.0) % u128::from(self.0)) as u8;
        Name(weak)
    }
}

/// Packets here have 8 bytes of header: their number.
#[derive(Clone, Copy, Debug)]
struct Numbered;

const HEADER: usize = 8;

impl Classifier for Numbered {
    fn classify(&self, packet: &[u8]) -> Option<usize> {
        (packet.len() >= HEADER).then_some(HEADER)
    }
}

type Ends = (Compressor<WeakNaming, Numbered>, Decompressor<WeakNaming, Numbered>);

fn ends(policy: &PayloadPolicy, names: u64, start: u64) -> Ends {
    let compressor =
        Compressor::new(policy.clone(), WeakNaming(names), Numbered, start << 32).unwrap();
    (
        compressor,
        Decompressor::new(policy.clone(), WeakNaming(names), Numbered, start << 32).unwrap(),
    )
}

fn packet(number: u64, payload: u64) -> Vec<u8> {
    let mut rng = Rng::new(payload);
    let len = 24 + payload % 97;
    let mut packet = number.to_le_bytes().to_vec();
    packet.extend((0..len).map(|_| rng.0.u8(..)));
    packet
}

fn small() -> PayloadPolicy {
    PayloadPolicy { capacity: 2000, min_payload: 24, sights: 64, ..PayloadPolicy::default() }
}

fn policy() -> impl Strategy<Value = PayloadPolicy> {
    let replacement = prop_oneof![Just(Replacement::Lru), Just(Replacement::GreedyDualSize)];
    let compression = prop_oneof![
        Just(CompressionPolicy::Immediate),
        (1u32..4).prop_map(CompressionPolicy::AfterK)
    ];
    let counts = (1u8..4, prop_oneof![Just(1usize), Just(64)], prop_oneof![1usize..4, Just(100)]);
    (100u64..5000, 24usize..60, replacement, compression, counts).prop_map(
        |(capacity, min_payload, replacement, compression, (inclusion, sights, max_illegal))| {
            PayloadPolicy {
                capacity,
                min_payload,
                replacement,
                compression,
                inclusion,
                sights,
                max_illegal,
                ..PayloadPolicy::default()
            }
        },
    )
}

fn write(message: Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    bytes
}

/// Both ends without loss: what is sent is received at once, answers too. Returns what was
/// delivered.
fn step((compressor, decompressor): &mut Ends, packet: &[u8]) -> Vec<Vec<u8>> {
    let sent = compressor.compress(packet);
    assert!(sent.wire_len() <= packet.len());
    let mut forward: VecDeque<Vec<u8>> = compressor.reset_due().map(write).into_iter().collect();
    forward.push_back(write(sent.message()));
    let mut delivered = Vec::new();
    while let Some(bytes) = forward.pop_front() {
        match decompressor.receive(Message::parse(&bytes).unwrap()).unwrap() {
            Received::Packet(packet) => delivered.push(packet.to_vec()),
            Received::Reply(reply) => {
                let reply = write(reply);
                forward.extend(
                    compressor.receive(Message::parse(&reply).unwrap()).unwrap().map(write),
                );
            }
        }
    }
    delivered
}

/// A channel with its faults, in percent.
#[derive(Clone, Copy, Debug)]
struct Faults {
    loss: u64,
    reorder: u64,
    duplicate: u64,
    damage: u64,
    restart: u64,
}

struct World {
    policy: PayloadPolicy,
    names: u64,
    faults: Faults,
    rng: Rng,
    ends: Ends,
    starts: u64,
    forward: VecDeque<Vec<u8>>,
    back: VecDeque<Vec<u8>>,
    sent: HashMap<u64, Vec<u8>>,
    delivered: u64,
    tokens: u64,
}

impl World {
    fn new(policy: PayloadPolicy, names: u64, faults: Faults, seed: u64) -> World {
        let ends = ends(&policy, names, 1);
        let (forward, back) = Default::default();
        let (starts, delivered, tokens) = (1, 0, 0);
        World {
            policy,
            names,
            faults,
            rng: Rng::new(seed),
            ends,
            starts,
            forward,
            back,
            sent: HashMap::new(),
            delivered,
            tokens,
        }
    }

    fn put(rng: &mut Rng, faults: Faults, queue: &mut VecDeque<Vec<u8>>, mut bytes: Vec<u8>) {
        if rng.percent(faults.loss) {
            return;
        }
        if rng.percent(faults.duplicate) {
            queue.push_back(bytes.clone());
        }
        // Plain packets have no checksum of ours: the packet's own, or the carrier's, is for them.
        if rng.percent(faults.damage)
            && !matches!(Message::parse(&bytes), Ok(Message::Plain(_) | Message::Whole(_)))
        {
            let at = 1 + rng.below(bytes.len() as u64 - 1) as usize;
            bytes[at] ^= 1 << rng.below(8);
        }
        let at = if rng.percent(faults.reorder) {
            rng.below(queue.len() as u64 + 1) as usize
        } else {
            queue.len()
        };
        queue.insert(at, bytes);
    }

    fn send(&mut self, payload: u64) {
        let number = self.sent.len() as u64;
        let packet = packet(number, payload);
        let compressor = &mut self.ends.0;
        let sent = compressor.compress(&packet);
        assert!(sent.wire_len() <= packet.len());
        self.tokens += u64::from(matches!(sent, Sent::Token(_)));
        if let Some(reset) = compressor.reset_due() {
            World::put(&mut self.rng, self.faults, &mut self.forward, write(reset));
        }
        World::put(&mut self.rng, self.faults, &mut self.forward, write(sent.message()));
        self.sent.insert(number, packet);
    }

    fn deliver_one(&mut self) {
        let World { policy, faults, rng, ends: (compressor, decompressor), .. } = self;
        if let Some(bytes) = self.forward.pop_front() {
            match decompressor.receive(Message::parse(&bytes).unwrap()).unwrap() {
                Received::Packet(packet) => {
                    let number = u64::from_le_bytes(*packet.first_chunk().unwrap());
                    assert!(
                        self.sent.get(&number).is_some_and(|sent| sent == packet),
                        "a wrong byte in packet {number}"
                    );
                    self.delivered += 1;
                }
                Received::Reply(reply) => World::put(rng, *faults, &mut self.back, write(reply)),
            }
            if rng.percent(20)
                && let Some(request) = decompressor.reset_due()
            {
                World::put(rng, *faults, &mut self.back, write(request));
            }
        }
        // Damage may have made it no message.
        if let Some(bytes) = self.back.pop_front()
            && let Ok(message) = Message::parse(&bytes)
            && let Ok(Some(answer)) = compressor.receive(message)
        {
            let answer = write(answer);
            World::put(rng, *faults, &mut self.forward, answer);
        }
        for dictionary in [compressor.dictionary(), decompressor.dictionary()] {
            assert!(
                dictionary.bytes() <= policy.capacity
                    && dictionary.illegal_names() <= policy.max_illegal
            );
        }
    }

    fn run(&mut self, packets: u64, payloads: u64) {
        for _ in 0..packets {
            if self.rng.percent(self.faults.restart) {
                self.starts += 1;
                let (compressor, decompressor) = ends(&self.policy, self.names, self.starts);
                if self.rng.percent(50) {
                    self.ends.0 = compressor;
                } else {
                    self.ends.1 = decompressor;
                }
            }
            let payload = self.rng.below(payloads).min(self.rng.below(payloads));
            self.send(payload);
            for _ in 0..self.rng.below(4) {
                self.deliver_one();
            }
        }
        while !(self.forward.is_empty() && self.back.is_empty()) {
            self.deliver_one();
        }
    }
}

proptest! {
    #![proptest_config(Config { cases: 96, failure_persistence: None, ..Config::default() })]

    #[test]
    fn without_loss_both_ends_stay_identical(
        policy in policy(),
        names in prop_oneof![Just(0u64), 1u64..40],
        payloads in proptest::collection::vec(prop_oneof![0u64..10, 0u64..200], 0..150),
    ) {
        let mut ends = ends(&policy, names, 1);
        for (number, payload) in payloads.into_iter().enumerate() {
            let packet = packet(number as u64, payload);
            prop_assert_eq!(step(&mut ends, &packet), [packet]);
            prop_assert_eq!(ends.0.dictionary().digest(), ends.1.dictionary().digest());
        }
        prop_assert_eq!(ends.0.stats().rejected, 0);
        prop_assert_eq!(ends.0.stats().tokens, ends.1.stats().tokens);
    }

    #[test]
    fn never_a_wrong_byte(
        policy in policy(),
        names in prop_oneof![Just(0u64), 1u64..40],
        faults in (0u64..40, 0u64..40, 0u64..20, prop_oneof![Just(0u64), 0u64..20], 0u64..5)
            .prop_map(|(loss, reorder, duplicate, damage, restart)| Faults { loss, reorder, duplicate, damage, restart }),
        seed: u64,
        payloads in 1u64..80,
    ) {
        let mut world = World::new(policy, names, faults, seed);
        world.run(300, payloads);
        if faults.loss + faults.duplicate + faults.damage + faults.restart == 0 {
            prop_assert!(world.delivered <= 300);
        }
    }

    #[test]
    fn any_messages_are_answered(messages in proptest::collection::vec(
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..80),
            (0u8..8, 0u64..6, proptest::collection::vec(any::<u8>(), 0..20)).prop_map(|(codepoint, payload, mut tail)| {
                tail.splice(0..0, packet(1, payload));
                tail.insert(0, codepoint);
                tail
            }),
        ], 0..60)) {
        let mut ends = ends(&small(), 3, 1);
        for bytes in &messages {
            if let Ok(message) = Message::parse(bytes) {
                let direction = ends.0.receive(message).is_ok();
                prop_assert_ne!(direction, ends.1.receive(message).is_ok());
            }
            ends.0.compress(bytes);
        }
        prop_assert!(ends.1.dictionary().bytes() <= 2000);
    }
}

#[test]
fn most_is_delivered_and_most_repeats_are_tokens() {
    let faults = Faults { loss: 1, reorder: 2, duplicate: 0, damage: 0, restart: 0 };
    let mut world = World::new(PayloadPolicy { capacity: 20_000, ..small() }, 0, faults, 7);
    world.run(10_000, 400);
    let stats = world.ends.0.stats();
    assert!(world.delivered > 9_800, "{}", world.delivered);
    assert!(world.tokens > 6_000, "{stats:?}");
    // Caches that differ cost rejections, not a cascade of them.
    assert!(stats.rejected > 0 && stats.rejected < 400, "{stats:?}");
}

#[test]
fn a_lost_first_copy_is_repaired_by_rejection() {
    for inclusion in 1..4 {
        let mut ends = ends(&PayloadPolicy { inclusion, ..small() }, 0, 1);
        step(&mut ends, &packet(0, 50));
        for number in 0..u64::from(inclusion) {
            assert!(matches!(ends.0.compress(&packet(number, 1)), Sent::Plain { .. }), "lost");
        }
        let again = packet(9, 1);
        let Sent::Token(token) = ends.0.compress(&again) else { panic!("held at the compressor") };
        let Ok(Received::Reply(reject)) = ends.1.receive(Message::Token(token)) else {
            panic!("unknown at the decompressor")
        };
        assert_eq!(reject, Message::Reject { reason: RejectReason::Unknown, token });
        let Ok(Some(whole)) = ends.0.receive(reject) else { panic!("held still") };
        assert_eq!(whole, Message::Whole(&again));
        assert_eq!(ends.1.receive(whole), Ok(Received::Packet(&again)));
        let next = packet(10, 1);
        let Sent::Token(token) = ends.0.compress(&next) else { panic!("a token again") };
        assert_eq!(
            ends.1.receive(Message::Token(token)),
            Ok(Received::Packet(&next)),
            "and now it is known"
        );
    }
}

#[test]
fn a_repair_leaves_both_ends_identical() {
    let mut ends = ends(&small(), 0, 1);
    step(&mut ends, &packet(0, 2));
    let (lost, again, other) = (packet(1, 1), packet(2, 1), packet(3, 2));
    ends.0.compress(&lost);
    let Sent::Token(token) = ends.0.compress(&again) else { panic!("a token") };
    // Another payload is used while the rejection is on its way.
    step(&mut ends, &other);
    let Ok(Received::Reply(reject)) = ends.1.receive(Message::Token(token)) else {
        panic!("unknown")
    };
    let whole = ends.0.receive(reject).unwrap().unwrap();
    assert_eq!(ends.1.receive(whole), Ok(Received::Packet(&again)));
    assert_eq!(ends.0.dictionary().digest(), ends.1.dictionary().digest());
}

#[test]
fn a_rejection_of_what_is_gone_or_was_not_sent_yields_nothing() {
    let mut ends = ends(&PayloadPolicy { capacity: 200, ..small() }, 0, 1);
    step(&mut ends, &packet(0, 1));
    let again = packet(1, 1);
    let Sent::Token(token) = ends.0.compress(&again) else { panic!("a token") };
    assert_eq!(ends.0.rejected(RejectReason::Unknown, Token { header: b"forged", ..token }), None);
    assert_eq!(ends.0.rejected(RejectReason::Collided, Token { checksum: 0, ..token }), None);
    assert_eq!(ends.0.dictionary().illegal_names(), 0, "a damaged rejection makes nothing illegal");
    for other in 2..9 {
        ends.0.compress(&packet(2, other));
    }
    assert_eq!(ends.0.rejected(RejectReason::Unknown, token), None, "evicted");
}

#[test]
fn a_collided_name_is_illegal_until_a_reset() {
    // One name for all.
    let mut ends = ends(&small(), 1, 1);
    assert_eq!(step(&mut ends, &packet(0, 1)), [packet(0, 1)]);
    assert_eq!(step(&mut ends, &packet(1, 1)), [packet(1, 1)]);
    assert_eq!(ends.1.stats().tokens, 1);
    for number in 2..8 {
        let packet = packet(number, number % 3);
        assert_eq!(step(&mut ends, &packet), [packet]);
    }
    assert_eq!((ends.0.dictionary().illegal_names(), ends.0.dictionary().payloads()), (1, 0));
    assert_eq!((ends.0.stats().tokens, ends.0.stats().illegal), (1, 6));
    ends.0.begin_epoch();
    step(&mut ends, &packet(8, 2));
    step(&mut ends, &packet(9, 2));
    assert_eq!((ends.0.dictionary().illegal_names(), ends.0.stats().tokens), (0, 2));
}

#[test]
fn a_collision_that_only_the_checksum_sees() {
    // The compressor has evicted X; the decompressor, which missed what evicted it, holds it still
    // under the name of Y.
    let mut ends = ends(&PayloadPolicy { capacity: 130, ..small() }, 1, 1);
    let (x, y) = (packet(0, 60), packet(1, 61));
    step(&mut ends, &x);
    ends.0.dictionary.clear();
    assert!(matches!(ends.0.compress(&y), Sent::Plain { remembered: true, .. }), "lost");
    let Sent::Token(token) = ends.0.compress(&y) else { panic!("a token") };
    let Ok(Received::Reply(reject)) = ends.1.receive(Message::Token(token)) else {
        panic!("X in place of Y")
    };
    assert!(matches!(reject, Message::Reject { reason: RejectReason::Collided, .. }));
    let whole = ends.0.receive(reject).unwrap().map(write).expect("Y is held");
    assert_eq!(ends.1.receive(Message::parse(&whole).unwrap()), Ok(Received::Packet(&y)));
    assert_eq!((ends.0.dictionary().illegal_names(), ends.1.dictionary().illegal_names()), (1, 1));
}

#[test]
fn too_many_illegal_names_start_a_new_epoch() {
    let mut ends = ends(&PayloadPolicy { max_illegal: 2, capacity: 100_000, ..small() }, 8, 1);
    for number in 0..300 {
        let packet = packet(number, number % 100);
        assert_eq!(step(&mut ends, &packet), [packet]);
    }
    assert!(ends.0.stats().epochs > 3);
    assert_eq!(ends.0.stats().epochs, ends.1.stats().resets);
    assert_eq!(ends.0.epoch(), (1 << 32) + ends.0.stats().epochs - 1);
}

#[test]
fn no_token_before_the_reset_is_acknowledged() {
    let mut ends = ends(&small(), 0, 1);
    for number in 0..5 {
        assert!(matches!(
            ends.0.compress(&packet(number, 1)),
            Sent::Plain { remembered: true, .. }
        ));
    }
    let reset = ends.0.reset_due().unwrap();
    let epoch = ends.0.epoch();
    assert_eq!(ends.0.receive(Message::ResetDone { epoch: epoch - 1 }), Ok(None));
    assert_eq!(ends.0.reset_due(), Some(reset), "another epoch's acknowledgement");
    ends.0.receive(Message::ResetDone { epoch }).unwrap();
    assert_eq!(ends.0.reset_due(), None);
    assert!(matches!(ends.0.compress(&packet(6, 1)), Sent::Token(_)));
}

#[test]
fn a_decompressor_that_restarts_asks_once_for_an_epoch() {
    let mut ends = ends(&small(), 0, 1);
    step(&mut ends, &packet(0, 1));
    ends.1 = self::ends(&small(), 0, 2).1;
    let request = ends.1.reset_due().unwrap();
    assert!(ends.0.receive(request).unwrap().is_some());
    let reset = Message::Reset { epoch: (1 << 32) + 1 };
    assert_eq!(ends.0.receive(request), Ok(Some(reset)), "received twice: the same epoch");
    let Ok(Received::Reply(done)) = ends.1.receive(reset) else { panic!("a reset is answered") };
    assert_eq!(ends.0.receive(done), Ok(None));
    assert_eq!((ends.0.reset_due(), ends.1.reset_due()), (None, None));
    assert_eq!(ends.0.receive(request), Ok(None), "received late");
    step(&mut ends, &packet(1, 1));
    step(&mut ends, &packet(2, 1));
    assert_eq!((ends.1.stats().tokens, ends.0.stats().rejected), (1, 0));
    // A reset received twice resets once.
    let held = ends.1.dictionary().digest();
    let _ = ends.1.receive(Message::Reset { epoch: ends.0.epoch() });
    assert_eq!(ends.1.dictionary().digest(), held);
}

#[test]
fn tokens_wait_for_the_kth_send_and_start_again_after_a_rejection() {
    let mut ends =
        ends(&PayloadPolicy { compression: CompressionPolicy::AfterK(3), ..small() }, 0, 1);
    step(&mut ends, &packet(0, 50));
    let mut tokens = Vec::new();
    for number in 0..5 {
        step(&mut ends, &packet(number, 1));
        tokens.push(ends.0.stats().tokens);
    }
    assert_eq!(tokens, [0, 0, 0, 1, 2]);
    ends.1.dictionary.clear();
    for number in 5..10 {
        step(&mut ends, &packet(number, 1));
        tokens.push(ends.0.stats().tokens);
    }
    // Rejected and resent whole counts as the first send.
    assert_eq!(tokens[5..], [3, 3, 3, 4, 5]);
}

#[test]
fn what_takes_no_part_is_plain() {
    struct Liar;
    impl Classifier for Liar {
        fn classify(&self, packet: &[u8]) -> Option<usize> {
            Some(packet.len() + 1)
        }
    }
    let mut liar = Compressor::new(small(), WeakNaming(0), Liar, 1).unwrap();
    assert!(matches!(liar.compress(&[1; 100]), Sent::Plain { remembered: false, .. }));
    let mut ends = ends(&PayloadPolicy { max_packet: 60, capacity: 40, ..small() }, 0, 1);
    for (len, remembered) in
        [(0, false), (8 + 23, false), (8 + 24, true), (8 + 40, true), (8 + 41, false), (61, false)]
    {
        let packet = vec![5; len];
        assert!(
            matches!(ends.0.compress(&packet), Sent::Plain { remembered: r, .. } if r == remembered),
            "{len}"
        );
    }
    assert_eq!(ends.0.stats().unclassified, 3);
}
