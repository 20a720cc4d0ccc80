//! Packets that do not fit a datagram.

use super::{End, Faults, NONE, PLAIN, World, start};

/// Among others that do, in an order that the path chooses.
#[test]
fn packets_that_do_not_fit_arrive_whole() {
    for reordering in [0, 30] {
        let faults = Faults { reordering, repeats: 100, ..NONE };
        let mut world = World { faults, largest: 1000, ..World::new(3) };
        world.ends = [End::new(1000, PLAIN), End::new(1000, PLAIN)];
        for _ in 0..200 {
            for from in 0..2 {
                world.send(from, false);
                world.send(from, false);
                world.transmit(from);
                world.arrive(1 - from, 3);
            }
        }
        for to in 0..2 {
            world.arrive(to, usize::MAX);
        }
        world.settle();
        for end in &world.ends {
            // A header that is overtaken by a round trip cannot be restored: its packet is dropped.
            let stats = end.receiver.stats();
            assert!(stats.missing_headers <= 4, "{stats:?}");
            assert_eq!(end.expected.values().sum::<usize>() as u64, stats.missing_headers);
            assert_eq!((end.got, stats.given_up), (400 - stats.missing_headers, 0));
        }
        let sent = world.ends[0].sender.stats();
        assert!(sent.datagrams > 300, "some took several: {sent:?}");
    }
}

/// A datagram of a hostile peer: pieces whose whole is no packet, or holds more than one record.
#[test]
fn what_is_no_packet_after_reassembly_is_not_delivered() {
    let packet = [0x30, 0, 4, 2, 1, 2, 3, 4];
    let wholes: [(&[u8], u64); 6] = [
        (&packet, 1),
        // A length, and another record after it.
        (&[0x20, 4, 0, 4, 0, 7, 0x00, 0], 0),
        // A frame, an acknowledgment, a piece, padding.
        (&[0x50, 0, 4, 0, 0, 7], 0),
        (&[0x70, 0, 0, 0, 0, 0, 0, 0], 0),
        (&[0xb0, 0x80, 1, 2, 3], 0),
        (&[0x10, 0, 0], 0),
    ];
    for (whole, delivered) in wholes {
        let mut end = End::new(1000, PLAIN);
        for (at, half) in whole.chunks(whole.len().div_ceil(2)).enumerate() {
            let plain = [&[0xb0, at as u8 | if at == 1 { 0x80 } else { 0 }], half].concat();
            end.receiver.receive(at as u64, &plain, 0, start(), &mut end.delivered).unwrap();
        }
        let stats = end.receiver.stats();
        assert_eq!((stats.packets, stats.given_up), (delivered, 1 - delivered), "{whole:?}");
        assert_eq!(end.delivered.is_empty(), delivered == 0);
    }
}
