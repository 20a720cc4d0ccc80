use super::*;
use std::future::poll_fn;

const ONE: usize = 20;

async fn receive(port: &SharedPort) -> (Vec<u8>, RecvMeta) {
    let (mut bytes, mut metas) = (vec![0; 65_536], [RecvMeta::default()]);
    let count = poll_fn(|cx| port.poll_recv(cx, &mut [IoSliceMut::new(&mut bytes)], &mut metas));
    assert_eq!(count.await.unwrap(), 1);
    bytes.truncate(metas[0].len);
    (bytes, metas[0])
}

/// A short header, or a long one, whose connection ID has this tag.
fn datagram(tag: Tag, is_long: bool, content: u8) -> Vec<u8> {
    let mut datagram = if is_long { vec![0xe0, 0, 0, 0, 1, CID as u8] } else { vec![0x40] };
    datagram.extend(tag);
    datagram.resize(ONE, content);
    datagram
}

/// Datagrams for three processes, which the kernel may join: each gets its own, and the one that
/// reads the port also gets those for a process that is gone, as any stranger's.
#[tokio::test]
async fn datagrams_reach_the_process_that_their_connection_id_names() {
    let socket = crate::sockets::udp_at((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let old = SharedPort::new(socket.try_clone().unwrap()).unwrap();
    old.give_way().unwrap();
    let new = SharedPort::new(socket).unwrap();
    let nobody = old.tag.map(|byte| !byte);
    let sent = [
        datagram(new.tag, false, 0),
        datagram(old.tag, false, 1),
        datagram(old.tag, true, 2),
        datagram(nobody, false, 3),
        vec![0xc0, 0, 0, 0, 1, 20, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 4],
        datagram(old.tag, false, 5),
        datagram(new.tag, true, 6),
        vec![0x40, 7],
    ];
    let client = SharedPort::new(crate::sockets::udp_at((Ipv4Addr::LOCALHOST, 0).into()).unwrap());
    let client = client.unwrap();
    let contents = sent.concat();
    let transmit = Transmit {
        destination: new.address,
        ecn: EcnCodepoint::from_bits(2),
        contents: &contents,
        segment_size: Some(ONE),
        src_ip: None,
    };
    client.io.writable().await.unwrap();
    client.try_send(&transmit).unwrap();
    for (port, expected) in [(&new, [0, 3, 4, 6, 7].as_slice()), (&old, &[1, 2, 5])] {
        let mut found = Vec::new();
        while found.len() < expected.len() {
            let (bytes, meta) = receive(port).await;
            assert_eq!((meta.addr, meta.ecn), (client.address, EcnCodepoint::from_bits(2)));
            assert_eq!(meta.dst_ip, Some(Ipv4Addr::LOCALHOST.into()));
            found.extend(bytes.chunks(meta.stride.max(1)).map(<[u8]>::to_vec));
        }
        let expected: Vec<_> = expected.iter().map(|&at: &usize| sent[at].clone()).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn connection_ids_have_the_tag_of_their_process_and_differ() {
    let tag = [1, 2, 3];
    let mut ids = Ids(tag);
    let [one, other] = [ids.generate_cid(), ids.generate_cid()];
    assert!(one != other && one.len() == ids.cid_len());
    let datagram = [&[0x40][..], &one, &[0; 30]].concat();
    assert_eq!(tag_of(&datagram), Some(tag));
}

#[test]
fn messages_of_another_format_and_short_datagrams_are_nothing() {
    let mut header = [0; HEADER];
    assert!(read_header(&header).is_none());
    header[0] = FORMAT;
    assert!(read_header(&header).is_none(), "it is from nowhere");
    for from in ["192.0.2.1:7", "[2001:db8::1]:7"] {
        let from: SocketAddr = from.parse().unwrap();
        let mut bytes = Vec::new();
        write_address(&mut bytes, Some(from));
        let bytes: [u8; ADDRESS] = bytes.try_into().unwrap();
        assert_eq!(read_address(&bytes), Ok(Some(from)));
    }
    assert_eq!(read_address(&[5; ADDRESS]), Err(()));
    for len in 0..4 {
        assert_eq!(tag_of(&[0x40; 4][..len]), None);
        assert_eq!(tag_of(&[0xc0, 0, 0, 0, 1, CID as u8, 1, 2][..len + 4]), None);
    }
}
