//! Packets that a link must not simply carry.

use super::*;
use crate::link::inner::carry_congestion;
use oncewire_packet::checksum::Sum;
use oncewire_packet::ecn::Ecn;
use oncewire_packet::fields::{Headers, TCP};

/// Two sites, of which site 1 connects and sends as `shaping` says.
pub(super) async fn pair(shaping: Shaping) -> [Site; 2] {
    let keys = Keys::new(2);
    let port = any_port();
    let at_zero = port.0.address();
    let mut zero = keys.site(0, Some(port), vec![keys.peer(1, None)], quick());
    let peers = vec![keys.peer(0, Some(at_zero))];
    let mut one = keys.site_with(1, None, peers, quick(), shaping);
    one.exchange(&mut zero).await;
    [zero, one]
}

/// A UDP packet to site 0 of `len` bytes.
fn udp(len: usize, dont_fragment: bool) -> Vec<u8> {
    let content: Vec<u8> = (0..len - 28).map(|at| at as u8).collect();
    let mut packet = packet(address(1), address(0), (1, 2), &content);
    if !dont_fragment {
        packet[6] = 0;
        let sum = u16::from_be_bytes([packet[10], packet[11]]) + 0x4000;
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    packet
}

#[tokio::test(flavor = "multi_thread")]
async fn packets_that_are_too_big_are_answered_or_sent_in_pieces() {
    let [mut zero, mut one] = pair(Shaping::default()).await;
    let mtu = usize::from(one.link.shared.config.device.mtu);
    one.input.send(udp(mtu, true)).unwrap();
    assert_eq!(wait(zero.output.recv()).await.unwrap(), udp(mtu, true));
    // The largest packet that fits has no segments, so 1,500 is sure to be too big.
    one.input.send(udp(1500, true)).unwrap();
    let answer = wait(one.output.recv()).await.unwrap();
    assert_eq!((answer[9], &answer[20..22]), (1, &[3, 4][..]), "fragmentation needed");
    assert_eq!(usize::from(u16::from_be_bytes([answer[26], answer[27]])), mtu);
    assert_eq!(answer[28..56], udp(1500, true)[..28]);
    assert_eq!(one.drops().too_large, 1);
    // A router would fragment this one.
    for len in [1500, 4000, 65_000] {
        one.input.send(udp(len, false)).unwrap();
        assert_eq!(wait(zero.output.recv()).await.unwrap(), udp(len, false));
    }
    assert_eq!((one.drops().too_large, one.drops().malformed), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_larger_mtu_packets_are_sent_in_pieces() {
    let [mut zero, mut one] = pair(Shaping { split: true, ..Shaping::default() }).await;
    for len in [1300, 1500, 1501, 9000] {
        one.input.send(udp(len, true)).unwrap();
        assert_eq!(wait(zero.output.recv()).await.unwrap(), udp(len, true));
    }
    assert_eq!(one.drops(), Drops::default());
    one.exchange(&mut zero).await;
}

/// A SYN of site `from` with an MSS of 1,460.
fn syn(from: u8, to: u8) -> Vec<u8> {
    let mut packet = packet(address(from), address(to), (40_000, 80), &[0; 16]);
    packet[9] = TCP;
    packet[24..44]
        .copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0x60, 2, 0xff, 0xff, 0, 0, 0, 0, 2, 4, 5, 0xb4]);
    packet[10..12].fill(0);
    let checksum = Sum::default().plus(&packet[..20]).checksum();
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    let pseudo = Sum::of_pseudo_header(address(from).into(), address(to).into(), TCP, 24);
    let checksum = pseudo.plus(&packet[20..]).checksum();
    packet[36..38].copy_from_slice(&checksum.to_be_bytes());
    packet
}

#[tokio::test(flavor = "multi_thread")]
async fn the_mss_of_both_directions_fits() {
    let [mut zero, mut one] = pair(Shaping::default()).await;
    let mss = (one.link.shared.config.device.mtu - 40).to_be_bytes();
    one.input.send(syn(1, 0)).unwrap();
    let arrived = wait(zero.output.recv()).await.unwrap();
    assert_eq!((arrived.len(), &arrived[42..44]), (44, &mss[..]));
    let pseudo = Sum::of_pseudo_header(address(1).into(), address(0).into(), TCP, 24);
    assert_eq!(pseudo.plus(&arrived[20..]).checksum(), 0);
    zero.input.send(syn(0, 1)).unwrap();
    assert_eq!(wait(one.output.recv()).await.unwrap()[42..44], mss);
}

#[test]
fn congestion_on_the_path_is_carried_to_packets() {
    for (inner, outer, expected) in [
        (Ecn::Ect0, Ecn::Ce, Some(Ecn::Ce)),
        (Ecn::Ect0, Ecn::Ect1, Some(Ecn::Ect1)),
        (Ecn::Ect1, Ecn::NotEct, Some(Ecn::Ect1)),
        (Ecn::NotEct, Ecn::Ce, None),
        (Ecn::Ce, Ecn::Ect0, Some(Ecn::Ce)),
    ] {
        let mut packet = udp(100, true);
        let headers = Headers::parse(&packet).unwrap();
        inner.set(&mut packet, &headers, true);
        let carried = carry_congestion(&mut packet, &headers, outer.bits(), false);
        assert_eq!(carried.then(|| Ecn::of(&packet)), expected);
        assert_eq!(Sum::default().plus(&packet[..20]).checksum(), 0);
    }
}

/// A path of 8 Mbit/s.
fn slow() -> Shaping {
    Shaping { rate: Some(1_000_000), ..Shaping::default() }
}

/// Counts packets, not time: most of a quarter of a second of another flow is still waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_small_flow_overtakes_what_waits_for_the_path() {
    let [mut zero, one] = pair(slow()).await;
    for _ in 0..200 {
        one.input.send(udp(1200, true)).unwrap();
    }
    one.input.send(packet(address(1), address(0), (7, 7), b"small")).unwrap();
    let mut before = 0;
    while wait(zero.output.recv()).await.unwrap()[28..] != *b"small" {
        before += 1;
    }
    assert!(before < 100, "{before} packets came first");
}

#[tokio::test(flavor = "multi_thread")]
async fn flows_that_understand_marks_lose_nothing_in_the_queue() {
    let [mut zero, one] = pair(slow()).await;
    let mut bulk = udp(1200, true);
    let headers = Headers::parse(&bulk).unwrap();
    Ecn::Ect0.set(&mut bulk, &headers, true);
    for _ in 0..400 {
        one.input.send(bulk.clone()).unwrap();
    }
    let mut marked = 0;
    for _ in 0..400 {
        let packet = wait(zero.output.recv()).await.unwrap();
        marked += usize::from(Ecn::of(&packet) == Ecn::Ce);
        assert_eq!(Sum::default().plus(&packet[..20]).checksum(), 0);
    }
    assert!(marked > 0 && one.drops().queue == 0, "{marked} marks");
}

#[tokio::test(flavor = "multi_thread")]
async fn spares_of_small_datagrams_are_dropped_by_the_replay_window() {
    let gap = Some(Duration::from_millis(10));
    let [mut zero, mut one] = pair(Shaping { duplicate: gap, ..Shaping::default() }).await;
    // The exchange took one, which may be under way still.
    for nth in 2..5 {
        one.input.send(udp(100, true)).unwrap();
        assert_eq!(wait(zero.output.recv()).await.unwrap(), udp(100, true));
        until(|| zero.drops().replayed >= nth).await;
    }
    assert_eq!(zero.drops().violations, 0);
    one.exchange(&mut zero).await;
}
