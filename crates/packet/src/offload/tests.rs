use super::*;
use crate::fields::Headers;
use proptest::prelude::*;

/// A packet as the kernel passes it: with an open checksum, and with segments of `size` bytes.
fn frame(v6: bool, protocol: u8, payload: &[u8], size: u16) -> Vec<u8> {
    let mut transport = if protocol == TCP {
        let mut tcp = vec![0x30, 0x39, 0, 80, 0xff, 0xff, 0xff, 0, 1, 2, 3, 4, 0x80, 0x19, 0x10, 0];
        tcp.extend([0; 16]);
        tcp
    } else {
        vec![0x30, 0x39, 0, 53, 0, 0, 0, 0]
    };
    let header = transport.len();
    transport.extend_from_slice(payload);
    let len = transport.len();
    if protocol == UDP {
        transport[4..6].copy_from_slice(&(len as u16).to_be_bytes());
    }
    let mut packet = if v6 {
        let mut ip = vec![0x60, 0, 0, 0, (len >> 8) as u8, len as u8, protocol, 64];
        ip.extend([0xfd; 16]);
        ip.extend([0xfe; 16]);
        ip
    } else {
        let total = len + 20;
        vec![
            0x45,
            0,
            (total >> 8) as u8,
            total as u8,
            0xff,
            0xff,
            0x40,
            0,
            64,
            protocol,
            0,
            0,
            10,
            1,
            0,
            1,
            10,
            2,
            0,
            1,
        ]
    };
    let network = packet.len();
    if !v6 {
        let sum = Sum::default().plus(&packet).checksum();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    packet.extend(transport);
    let headers = Headers::parse(&packet).unwrap();
    let at = headers.checksum_at().unwrap();
    let open = Sum::of_pseudo_header(headers.source, headers.destination, protocol, len).folded();
    packet[at..at + 2].copy_from_slice(&open.to_be_bytes());
    let mut frame = vec![0; VIRTIO_HEADER];
    frame[0] = NEEDS_CHECKSUM;
    if payload.len() > usize::from(size) {
        frame[1] = match (protocol, v6) {
            (TCP, false) => TCP4_SEGMENTS,
            (TCP, true) => TCP6_SEGMENTS,
            _ => UDP_SEGMENTS,
        };
        frame[2..4].copy_from_slice(&((network + header) as u16).to_ne_bytes());
        frame[4..6].copy_from_slice(&size.to_ne_bytes());
    }
    frame[6..8].copy_from_slice(&(network as u16).to_ne_bytes());
    frame[8..10].copy_from_slice(&((at - network) as u16).to_ne_bytes());
    frame.extend(packet);
    frame
}

/// The checksums of a packet as its receiver verifies them.
fn verify(packet: &[u8]) {
    let headers = Headers::parse(packet).unwrap();
    let transport = &packet[headers.network..];
    let pseudo = Sum::of_pseudo_header(
        headers.source,
        headers.destination,
        headers.protocol,
        transport.len(),
    );
    assert_eq!(pseudo.plus(transport).checksum(), 0, "transport checksum");
    if headers.source.is_ipv4() {
        assert_eq!(Sum::default().plus(&packet[..headers.network]).checksum(), 0, "IP checksum");
        assert_eq!(usize::from(u16::from_be_bytes([packet[2], packet[3]])), packet.len());
    }
}

/// What a device makes of a frame: single packets with closed checksums. A plain form of what the
/// kernel does (net/ipv4/tcp_offload.c, udp_offload.c), with no code of the module.
fn packets_of(frame: &[u8]) -> Vec<Vec<u8>> {
    let number = |at: usize| usize::from(u16::from_ne_bytes([frame[at], frame[at + 1]]));
    let packet = &frame[VIRTIO_HEADER..];
    if frame[0] & NEEDS_CHECKSUM == 0 {
        return vec![packet.to_vec()];
    }
    let (start, at) = (number(6), number(6) + number(8));
    let is_tcp = number(8) == 16;
    let header = start + if is_tcp { usize::from(packet[start + 12] >> 4) * 4 } else { 8 };
    let size = if frame[1] == NO_SEGMENTS { packet.len() } else { number(4) };
    let chunks: Vec<&[u8]> = match packet.len() - header {
        0 => vec![&[]],
        _ => packet[header..].chunks(size).collect(),
    };
    let mut made = Vec::new();
    for (i, chunk) in chunks.iter().enumerate() {
        let mut one = packet[..header].to_vec();
        one.extend_from_slice(chunk);
        let len = one.len();
        if one[0] >> 4 == 4 {
            let id = u16::from_be_bytes([one[4], one[5]]).wrapping_add(i as u16);
            one[4..6].copy_from_slice(&id.to_be_bytes());
            one[2..4].copy_from_slice(&(len as u16).to_be_bytes());
            one[10..12].fill(0);
            let sum = Sum::default().plus(&one[..start]).checksum();
            one[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            one[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        }
        if is_tcp {
            let seq = one[start + 4..start + 8].try_into().unwrap();
            let seq = u32::from_be_bytes(seq).wrapping_add((i * size) as u32);
            one[start + 4..start + 8].copy_from_slice(&seq.to_be_bytes());
            if i + 1 < chunks.len() {
                one[start + 13] &= !(PSH | FIN);
            }
        } else {
            one[start + 4..start + 6].copy_from_slice(&((len - start) as u16).to_be_bytes());
        }
        let headers = Headers::parse(&one).unwrap();
        let pseudo = Sum::of_pseudo_header(
            headers.source,
            headers.destination,
            headers.protocol,
            len - start,
        );
        one[at..at + 2].fill(0);
        let checksum = pseudo.plus(&one[start..]).checksum();
        one[at..at + 2]
            .copy_from_slice(&if checksum == 0 { 0xffff } else { checksum }.to_be_bytes());
        made.push(one);
    }
    made
}

fn any_payload() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..3000)
}

proptest! {
    /// However a run is cut into parts, and whether the device or we make the packets, they are the
    /// packets that the kernel would have made of it.
    #[test]
    fn every_kind_of_run_is_restored(
        v6: bool,
        tcp: bool,
        payload in any_payload(),
        size in 20u16..1400,
        cuts in proptest::collection::vec(0usize..100, 0..4),
    ) {
        let size = NonZeroU16::new(size).unwrap();
        let original = frame(v6, if tcp { TCP } else { UDP }, &payload, size.get());
        let expected = packets_of(&original);
        let mut taken = original.clone();
        let offered = from_device(&mut taken).unwrap();
        prop_assert!(offered.open_checksum);
        let header = offered.headers.total();
        if offered.segment.is_none() {
            let mut frame = [&[0; VIRTIO_HEADER], offered.packet].concat();
            let left_out = offered.left_out;
            to_device(&mut frame, header, Shape::Packet { open_checksum: true, left_out }).unwrap();
            prop_assert_eq!(packets_of(&frame), expected);
            return Ok(());
        }
        let segments_in_run = expected.len();
        let mut bounds: Vec<usize> = cuts.iter().map(|cut| cut % segments_in_run).collect();
        bounds.extend([0, segments_in_run]);
        bounds.sort_unstable();
        let (mut by_device, mut by_us) = (Vec::new(), Vec::new());
        for bound in bounds.windows(2).filter(|bound| bound[0] < bound[1]) {
            let (first, ends) = (bound[0] as u8, bound[1] == segments_in_run);
            let body = &payload[bound[0] * usize::from(size.get())..(bound[1] * usize::from(size.get())).min(payload.len())];
            let packet = [&offered.packet[..header], body].concat();
            let mut frame = [&[7; VIRTIO_HEADER], &packet[..]].concat();
            to_device(&mut frame, header, Shape::Segments { first, size, ends }).unwrap();
            by_device.extend(packets_of(&frame));
            segments(&packet, header, (first, size, ends), |frame| {
                by_us.extend(packets_of(frame));
            }).unwrap();
        }
        for packet in &by_us {
            verify(packet);
        }
        prop_assert_eq!(&by_device, &expected);
        prop_assert_eq!(&by_us, &expected);
        // A part of a run that becomes a run itself.
        let cut = segments_in_run / 2;
        let mut part = Vec::new();
        header_of_part(&offered, cut, size, true, &mut part);
        part.extend_from_slice(&payload[cut * usize::from(size.get())..]);
        let mut made = Vec::new();
        segments(&part, header, (0, size, true), |frame| made.extend(packets_of(frame))).unwrap();
        prop_assert_eq!(&made[..], &expected[cut..]);
    }

    /// Whatever a packet is, and however wrong its fields are, it comes back as it was.
    #[test]
    fn packets_come_back_as_they_were(
        v6: bool,
        tcp: bool,
        open: bool,
        payload in proptest::collection::vec(any::<u8>(), 0..80),
        changes in proptest::collection::vec((0usize..60, any::<u8>()), 0..3),
    ) {
        let mut original = frame(v6, if tcp { TCP } else { UDP }, &payload, 1000);
        if !open {
            original = [&[0; VIRTIO_HEADER], &packets_of(&original)[0][..]].concat();
        }
        for (at, byte) in changes {
            let at = VIRTIO_HEADER + at % (original.len() - VIRTIO_HEADER);
            original[at] ^= byte & 0x81;
        }
        let mut taken = original.clone();
        let Ok(offered) = from_device(&mut taken) else { return Ok(()) };
        let (left_out, open_checksum) = (offered.left_out, offered.open_checksum);
        let header = offered.headers.total();
        let mut again = [&[0; VIRTIO_HEADER], offered.packet].concat();
        to_device(&mut again, header, Shape::Packet { open_checksum, left_out }).unwrap();
        if open && !open_checksum {
            // It was completed inside another protocol.
            return Ok(());
        }
        prop_assert_eq!(again, original);
    }

    #[test]
    fn any_bytes_are_a_packet_or_an_error(
        mut frame in proptest::collection::vec(any::<u8>(), 0..200),
        kind in 0u8..7,
        version in 0u8..3,
        header in 0usize..100,
        first: u8,
        size in 1u16..,
        ends: bool,
    ) {
        if frame.len() > VIRTIO_HEADER {
            frame[1] = kind;
            frame[VIRTIO_HEADER] = [frame[VIRTIO_HEADER], 0x45, 0x60][usize::from(version)];
        }
        let _ = from_device(&mut frame.clone());
        let size = NonZeroU16::new(size).unwrap();
        for left_out in [LeftOut::Nothing, LeftOut::Lengths, LeftOut::LengthsAndChecksum] {
            let shape = Shape::Packet { open_checksum: ends, left_out };
            let _ = to_device(&mut frame.clone(), header, shape);
        }
        let _ = to_device(&mut frame.clone(), header, Shape::Segments { first, size, ends });
        let _ = segments(&frame, header, (first, size, ends), |_| {});
    }
}

#[test]
fn a_checksum_inside_another_protocol_is_completed() {
    // UDP in IPv4 in IPv4: the open checksum is that of the inner packet.
    let inner = frame(false, UDP, b"inside", 1000);
    let mut outer = inner[..VIRTIO_HEADER].to_vec();
    outer[6..8].copy_from_slice(&40u16.to_ne_bytes());
    outer.extend([0x45, 0, 0, 54, 0, 1, 0, 0, 64, 4, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
    outer.extend(&inner[VIRTIO_HEADER..]);
    let offered = from_device(&mut outer).unwrap();
    assert!(!offered.open_checksum);
    verify(&offered.packet[20..]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let run = frame(false, TCP, &[1; 100], 40);
    for (at, byte) in [(1, TCP6_SEGMENTS), (1, UDP_SEGMENTS), (1, 3), (0, 0)] {
        let mut wrong = run.clone();
        wrong[at] = byte;
        assert_eq!(from_device(&mut wrong).err(), Some(OffloadError::Mismatch), "{at} {byte}");
    }
    let mut none = run.clone();
    none[4..6].fill(0);
    assert_eq!(from_device(&mut none).err(), Some(OffloadError::Mismatch));
    assert_eq!(from_device(&mut [0; 9]).err(), Some(OffloadError::Length { len: 0 }));
    let size = NonZeroU16::new(40).unwrap();
    let shape = Shape::Segments { first: 0, size, ends: true };
    assert_eq!(to_device(&mut run.clone(), 51, shape), Err(OffloadError::Mismatch));
    let mut long = vec![0; VIRTIO_HEADER + MAX_PACKET + 1];
    assert!(matches!(to_device(&mut long, 52, shape), Err(OffloadError::Length { .. })));
}

#[test]
fn only_what_follows_from_the_rest_is_left_out() {
    let left_out = |frame: &[u8]| from_device(&mut frame.to_vec()).unwrap().left_out;
    let at = VIRTIO_HEADER;
    for v6 in [false, true] {
        for protocol in [TCP, UDP] {
            let open = frame(v6, protocol, b"payload", 1000);
            let closed = [&[0; VIRTIO_HEADER], &packets_of(&open)[0][..]].concat();
            assert_eq!(left_out(&open), LeftOut::LengthsAndChecksum);
            assert_eq!(left_out(&closed), LeftOut::LengthsAndChecksum);
            let mut wrong = closed.clone();
            *wrong.last_mut().unwrap() ^= 1;
            assert_eq!(left_out(&wrong), LeftOut::Lengths, "a wrong checksum");
            let mut longer = closed.clone();
            longer.push(0);
            assert_eq!(left_out(&longer), LeftOut::Nothing, "a trailer");
            let mut open_and_wrong = open.clone();
            let checksum = at + if v6 { 40 } else { 20 } + if protocol == TCP { 16 } else { 6 };
            open_and_wrong[checksum] ^= 1;
            assert_eq!(left_out(&open_and_wrong), LeftOut::Nothing);
        }
    }
    let mut no_checksum = frame(false, UDP, b"tunnel", 1000);
    no_checksum[0] = 0;
    no_checksum[at + 26..at + 28].fill(0);
    assert_eq!(left_out(&no_checksum), LeftOut::Lengths);
    // A fragment that looks like a UDP header, and one of 20 bytes.
    let mut fragment = no_checksum.clone();
    fragment[at + 6] = 0x20;
    fragment[at + 10..at + 12].fill(0);
    let sum = Sum::default().plus(&fragment[at..at + 20]).checksum();
    fragment[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
    fragment[at + 24] = 0xff;
    let mut taken = fragment.clone();
    let offered = from_device(&mut taken).unwrap();
    assert_eq!(offered.left_out, LeftOut::Lengths);
    let mut again = [&[0; VIRTIO_HEADER], offered.packet].concat();
    let shape = Shape::Packet { open_checksum: false, left_out: LeftOut::Lengths };
    to_device(&mut again, 20, shape).unwrap();
    assert_eq!(again[VIRTIO_HEADER..], fragment[VIRTIO_HEADER..]);
}
