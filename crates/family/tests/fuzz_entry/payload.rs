//! Bytes as operations on the two ends of a payload-match link, with colliding names, over a
//! channel that loses, duplicates, reorders and corrupts messages, and delivers bytes from
//! strangers.

use super::input::{Input, noise, text};
use oncewire_codec::ChecksumSeed;
use oncewire_family::payload::{
    Classifier, CompressionPolicy, Compressor, Decompressor, ENTRY_OVERHEAD, IpPayload,
    KeyedBlake3, Message, Name, Naming, PayloadPolicy, Received, Replacement, Sent,
};
use std::collections::HashSet;

/// Most operations per input, so that a run stays short.
const MOST: usize = 400;

/// Number of distinct names; 0 for all.
#[derive(Clone, Copy)]
struct Weak(u8);

impl Naming for Weak {
    fn name(&self, payload: &[u8]) -> Name {
        let strong = KeyedBlake3::new([3; 32]).name(payload);
        if self.0 == 0 {
            strong
        } else {
            Name(std::array::from_fn(|i| if i == 0 { strong.0[0] % self.0 } else { 0 }))
        }
    }
}

/// The form of a packet's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// The packet's number in eight bytes.
    Numbered,
    /// IPv4 and UDP, with the number in the addresses.
    Ip,
    /// A classifier that returns the value of the packet's ninth byte, even beyond its end.
    Wild,
}

impl Classifier for Shape {
    fn classify(&self, packet: &[u8]) -> Option<usize> {
        match self {
            Shape::Numbered => (packet.len() >= 8).then_some(8),
            Shape::Ip => IpPayload.classify(packet),
            Shape::Wild => packet.get(8).map(|&byte| usize::from(byte)),
        }
    }
}

impl Shape {
    /// A packet unlike any other, with a payload of the given kind.
    fn packet(self, number: u64, kind: u8) -> Vec<u8> {
        let len = 20 + usize::from(kind) * 7 % 150;
        let payload =
            if kind.is_multiple_of(3) { noise(kind.into(), len) } else { text(kind.into(), len) };
        let mut packet = number.to_le_bytes().to_vec();
        if self == Shape::Ip {
            let total = (28 + payload.len()) as u16;
            packet = [
                &[0x45, 0],
                &total.to_be_bytes()[..],
                &[0, 0, 0x40, 0, 64, 17, 0, 0],
                &number.to_le_bytes(),
                &[0; 8],
            ]
            .concat();
        }
        packet.extend_from_slice(&payload);
        packet
    }
}

struct World {
    policy: PayloadPolicy,
    names: Weak,
    shape: Shape,
    compressor: Compressor<Weak, Shape>,
    decompressor: Decompressor<Weak, Shape>,
    starts: u64,
    forward: Vec<Vec<u8>>,
    back: Vec<Vec<u8>>,
    /// Everything that may be delivered: packets that were sent, and packets that strangers sent as
    /// plain packets.
    sent: HashSet<Vec<u8>>,
    number: u64,
    /// Nothing has been lost, corrupted, reordered or added so far.
    clean: bool,
}

fn written(message: Message<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.write(&mut bytes);
    assert_eq!(bytes.len(), message.wire_len() + 1);
    bytes
}

/// Whether these bytes are a packet sent as it is, which other checksums must protect.
fn is_plain(bytes: &[u8]) -> bool {
    matches!(Message::parse(bytes), Ok(Message::Plain(_) | Message::Whole(_)))
}

impl World {
    fn new(input: &mut Input<'_>) -> World {
        let min_payload = 24 + usize::from(input.u8() % 60);
        let choices = input.u8();
        let policy = PayloadPolicy {
            capacity: 1 + input.u16() as u64 % 6000,
            min_payload,
            max_packet: if choices & 1 == 1 { 120 } else { 65_536 },
            replacement: if choices & 2 == 2 {
                Replacement::GreedyDualSize
            } else {
                Replacement::Lru
            },
            inclusion: 1 + (choices >> 2) % 3,
            sights: if choices & 16 == 16 { 1 } else { 64 },
            compression: match choices >> 5 {
                k @ 5.. => CompressionPolicy::AfterK(u32::from(k) - 4),
                _ => CompressionPolicy::Immediate,
            },
            max_illegal: 1 + usize::from(input.u8() % 20),
            checksum: ChecksumSeed { session: choices.into(), epoch: 0 },
        };
        let names = Weak(input.u8() % 40);
        let shape = [Shape::Numbered, Shape::Ip, Shape::Wild][usize::from(input.u8()) % 3];
        World {
            compressor: Compressor::new(policy.clone(), names, shape, 1 << 32).unwrap(),
            decompressor: Decompressor::new(policy.clone(), names, shape, 1 << 32).unwrap(),
            policy,
            names,
            shape,
            starts: 1,
            forward: Vec::new(),
            back: Vec::new(),
            sent: HashSet::new(),
            number: 0,
            clean: true,
        }
    }

    fn send(&mut self, kind: u8) {
        let packet = self.shape.packet(self.number, kind);
        self.number += 1;
        let sent = self.compressor.compress(&packet);
        assert!(sent.wire_len() <= packet.len(), "a packet grew");
        if let Sent::Token(token) = sent {
            assert!(packet.starts_with(token.header));
        }
        let message = written(sent.message());
        self.forward.extend(self.compressor.reset_due().map(written));
        self.forward.push(message);
        self.sent.insert(packet);
    }

    fn deliver(&mut self, at: usize) {
        if at < self.forward.len() {
            let bytes = self.forward.remove(at);
            let Ok(message) = Message::parse(&bytes) else { return };
            match self.decompressor.receive(message) {
                Ok(Received::Packet(packet)) => assert!(self.sent.contains(packet), "a wrong byte"),
                Ok(Received::Reply(reply)) => self.back.push(written(reply)),
                Err(error) => assert!(message.codepoint() > 3 && !error.to_string().is_empty()),
            }
        }
    }

    fn answer(&mut self, at: usize) {
        if at < self.back.len() {
            let bytes = self.back.remove(at);
            let Ok(message) = Message::parse(&bytes) else { return };
            match self.compressor.receive(message) {
                Ok(Some(Message::Whole(packet))) => {
                    assert!(self.sent.contains(packet), "a wrong packet in answer to a rejection");
                    self.forward.push(written(Message::Whole(packet)));
                }
                Ok(Some(message @ Message::Reset { .. })) => self.forward.push(written(message)),
                Ok(Some(other)) => panic!("{other:?} in answer"),
                Ok(None) => {}
                Err(error) => assert!(message.codepoint() <= 3 && !error.to_string().is_empty()),
            }
        }
    }

    fn settle(&mut self) {
        // Each answer is at most one message, and its answer one more.
        for _ in 0..10_000 {
            if self.forward.is_empty() && self.back.is_empty() {
                break;
            }
            self.deliver(0);
            self.answer(0);
        }
        assert!(self.forward.is_empty() && self.back.is_empty(), "the ends do not come to rest");
        if self.clean {
            let (a, b) = (self.compressor.dictionary(), self.decompressor.dictionary());
            assert_eq!(a.digest(), b.digest(), "the ends differ without a fault");
        }
    }

    fn check_memory(&self) {
        for dictionary in [self.compressor.dictionary(), self.decompressor.dictionary()] {
            let PayloadPolicy { capacity, min_payload, max_illegal, sights, .. } = self.policy;
            assert!(dictionary.bytes() <= capacity && dictionary.illegal_names() <= max_illegal);
            let entries = capacity as usize / min_payload + 1;
            let bound =
                capacity as usize + entries * ENTRY_OVERHEAD + max_illegal * 64 + sights * 8 + 2048;
            assert!(
                dictionary.memory() <= bound,
                "{} bytes of memory, {bound} at most",
                dictionary.memory()
            );
        }
    }

    fn restart(&mut self, compressor: bool) {
        self.starts += 1;
        let (policy, start) = (self.policy.clone(), self.starts << 32);
        if compressor {
            self.compressor = Compressor::new(policy, self.names, self.shape, start).unwrap();
        } else {
            self.decompressor = Decompressor::new(policy, self.names, self.shape, start).unwrap();
        }
    }
}

/// Any bytes can be classified, also if their length is the one in the header.
fn classify(bytes: &[u8]) {
    let mut packet = bytes.to_vec();
    for fit in 0..3 {
        if fit > 0 && packet.len() >= 8 {
            let len = packet.len();
            let (version, at, claimed) =
                if fit == 1 { (0x40, 2, len) } else { (0x60, 4, len.saturating_sub(40)) };
            packet[0] = version | packet[0] & 15;
            packet[at..at + 2].copy_from_slice(&(claimed as u16).to_be_bytes());
        }
        if let Some(start) = IpPayload.classify(&packet) {
            assert!(
                (20..=packet.len()).contains(&start),
                "a payload at {start} of {}",
                packet.len()
            );
        }
    }
}

/// Policies, then operations.
// More than 100 lines: an operation of the input each.
pub(crate) fn run(input: &[u8]) {
    let mut input = Input(input);
    let mut world = World::new(&mut input);
    for _ in 0..MOST {
        if input.is_empty() {
            break;
        }
        let operation = input.u8();
        let many = usize::from(operation >> 4);
        match operation & 15 {
            0..=3 => {
                for _ in 0..=many {
                    world.send(input.u8());
                }
            }
            4 => {
                // In order.
                for _ in 0..=many {
                    world.deliver(0);
                    world.answer(0);
                }
            }
            5 => {
                world.clean = false;
                let (at, of) = (usize::from(input.u8()), world.forward.len().max(1));
                world.deliver(at % of);
            }
            6 => {
                world.clean = false;
                let (at, of) = (usize::from(input.u8()), world.back.len().max(1));
                world.answer(at % of);
            }
            7 | 8 => {
                world.clean = false;
                let at = usize::from(input.u8());
                let queue = if operation & 15 == 7 { &mut world.forward } else { &mut world.back };
                if !queue.is_empty() {
                    let at = at % queue.len();
                    // Lost, or duplicated.
                    if many % 2 == 0 { _ = queue.remove(at) } else { queue.push(queue[at].clone()) }
                }
            }
            9 | 10 => {
                world.clean = false;
                let (at, byte, change) = (usize::from(input.u8()), input.u16(), input.u8());
                let queue = if operation & 15 == 9 { &mut world.forward } else { &mut world.back };
                let of = queue.len().max(1);
                if let Some(bytes) = queue.get_mut(at % of)
                    && !(bytes.is_empty() || is_plain(bytes))
                {
                    let byte = byte % bytes.len();
                    bytes[byte] ^= change;
                    // The carrier must protect the codepoint.
                    if is_plain(bytes) {
                        bytes[byte] ^= change;
                    }
                }
            }
            11 | 12 => {
                world.clean = false;
                let len = usize::from(input.u8() % 64);
                let bytes = input.bytes(len).to_vec();
                match Message::parse(&bytes) {
                    Ok(message) => {
                        assert_eq!(written(message), bytes, "what was read is what was written");
                        if let Message::Plain(packet) | Message::Whole(packet) = message {
                            world.sent.insert(packet.to_vec());
                        }
                    }
                    Err(error) => assert!(!error.to_string().is_empty()),
                }
                let queue = if operation & 15 == 11 { &mut world.forward } else { &mut world.back };
                queue.push(bytes);
            }
            13 => {
                let len = usize::from(input.u8());
                classify(input.bytes(len));
            }
            14 => match many % 4 {
                0 => {
                    world.clean = false;
                    world.restart(true);
                }
                1 => {
                    world.clean = false;
                    world.restart(false);
                }
                2 => {
                    world.compressor.begin_epoch();
                    let reset = world.compressor.reset_due().map(written);
                    world.forward.extend(reset);
                }
                _ => {
                    let request = world.decompressor.reset_due().map(written);
                    world.back.extend(request);
                }
            },
            _ => world.settle(),
        }
        world.check_memory();
    }
    world.settle();
}

/// Initial inputs.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let send = |kinds: &[u8]| [&[(kinds.len() as u8 - 1) << 4][..], kinds].concat();
    let repeats = send(&[30, 31, 33, 30, 31, 60, 61, 33, 30, 60]);
    let faults: [&[u8]; 9] = [
        &[0xf4],
        &[5, 2, 5, 1, 6, 0],
        &[7, 3, 0x17, 1, 8, 0],
        &[9, 1, 20, 0, 1, 9, 2, 5, 0, 0x80, 10, 0, 3, 0, 4],
        &[14, 0x1e, 0x3e, 0x2e],
        &[11, 9, 3, 1, 0, 0, 0, 0, 0, 0, 0, 12, 9, 6, 7, 0, 0, 0, 0, 0, 0, 0],
        &[
            11, 12, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 27, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
        ],
        &[13, 24, 0x45, 0, 0, 24, 0, 0, 0x20, 1, 9, 6, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 80, 0, 0, 1],
        &[0x1f],
    ];
    let mut seeds = Vec::new();
    for i in 0..27u8 {
        // Minimum, choices, capacity, illegal names, names, shape.
        let mut seed = vec![
            i,
            i.wrapping_mul(41),
            [0xd0, 0, 90][usize::from(i % 3)],
            [7, 4, 1][usize::from(i % 3)],
            i % 7,
            [0, 3, 20][usize::from(i / 3 % 3)],
            i,
        ];
        for turn in 0..5usize {
            seed.extend_from_slice(&repeats);
            seed.extend_from_slice(faults[(usize::from(i) + 2 * turn) % faults.len()]);
            seed.push(if turn % 2 == 0 { 0xf4 } else { 0x0f });
        }
        seeds.push(seed);
    }
    seeds
}
