//! Headers and runs beside a second receiver, which was written from `docs/LINK.md` alone.

use super::*;

/// A second reader of headers, written from the document, finds the same fields in any bytes.
#[test]
fn fields_of_any_header() {
    let mut rng = fastrand::Rng::with_seed(5);
    let options = [&timestamps(1, 2)[..], &[2, 4, 5, 180, 3, 3, 7, 0]].concat();
    let tcp = Ip { protocol: TCP, options, ..Ip::default() };
    let extensions = (60, vec![TCP, 0, 1, 4, 0, 0, 0, 0]);
    let packets = [
        tcp.packet(),
        Ip { v6: true, extensions, ..tcp.clone() }.packet(),
        Ip { v6: true, ..tcp.clone() }.packet(),
        Ip { protocol: UDP, options: Vec::new(), ..tcp.clone() }.packet(),
        Ip { v6: true, extensions: (44, vec![TCP, 0, 0, 1, 0, 0, 0, 0]), ..tcp }.packet(),
    ];
    let mut with_timestamps = 0;
    for round in 0..40_000 {
        let mut header = packets[round % packets.len()].clone();
        for _ in 0..rng.usize(..4) {
            let at = rng.usize(..header.len());
            header[at] = [rng.u8(..), rng.u8(..16), header[at] ^ 1 << rng.u8(..8)][rng.usize(..3)];
        }
        if rng.usize(..4) == 0 {
            header.truncate(rng.usize(..=header.len()));
        }
        let (first, own) = (layout(&header), second::places(&header));
        let within =
            |at: Option<u8>, len: usize| at.map(usize::from).filter(|at| at + len <= header.len());
        let own_within = |at: Option<usize>, len: usize| at.filter(|at| at + len <= header.len());
        for (first, own, len) in [
            (first.sequence, own.sequence, 4),
            (first.acknowledgment, own.acknowledgment, 4),
            (first.window, own.window, 2),
            (first.flags, own.flags, 1),
            (first.identification, own.identification, 2),
            (first.timestamps, own.timestamps, 8),
            (first.checksum, own.checksum, 2),
        ] {
            assert_eq!(
                within(first, len),
                own_within(own, len),
                "{first:?}, {own:?}: {header:02x?}"
            );
        }
        with_timestamps += usize::from(own.timestamps.is_some());
    }
    assert!(with_timestamps > 10_000, "{with_timestamps}");
}

/// The second receiver and the device's part here cut runs into the same packets.
#[test]
fn segments_of_runs() {
    let mut rng = fastrand::Rng::with_seed(6);
    for round in 0..200 {
        let protocol = [TCP, UDP][round % 2];
        let ip = Ip {
            v6: round % 4 > 1,
            protocol,
            identification: rng.u16(..),
            sequence: rng.u32(..),
            // All flags.
            flags: 0xff,
            options: if protocol == TCP { timestamps(3, 4) } else { Vec::new() },
            payload: vec![7; 3],
            ..Ip::default()
        };
        let mut frame = [&[0; VIRTIO_HEADER], &ip.packet()[..]].concat();
        let offered = offload::from_device(&mut frame).expect("a packet");
        assert_eq!(implied(offered.left_out), Implied::LengthsAndChecksum);
        let header = offered.packet[..offered.headers.total()].to_vec();

        let (first, count, ends) = (rng.u8(..60), rng.u8(1..60), rng.bool());
        let size = rng.u16(1..500);
        let last = if ends { rng.u16(1..=size) } else { size };
        let len = usize::from(size) * usize::from(count - 1) + usize::from(last);
        let payload: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
        let run = [&header[..], &payload].concat();
        let segment = (first, size.try_into().expect("not 0"), ends);
        let mut packets = Vec::new();
        offload::segments(&run, header.len(), segment, |frame| {
            packets.push(frame[VIRTIO_HEADER..].to_vec());
        })
        .expect("a run");

        // A whole header of form 2 that is not kept, and the segment section.
        let mut plain = vec![0x33, 0, 6, header.len() as u8];
        plain.extend(&header);
        plain.extend([first, (count - 1) | u8::from(ends) << 7]);
        varint::put(&mut plain, size.into());
        plain.extend(&payload);
        let mut second = second::Receiver::new(0, 0, second::places);
        assert_eq!(second.datagram(0, 0, &plain, 0), second::Verdict::Processed);
        let own: Vec<_> = second.delivered.iter().map(|it| it.whole().expect("whole")).collect();
        assert_eq!(own, packets, "round {round}");
    }
}
