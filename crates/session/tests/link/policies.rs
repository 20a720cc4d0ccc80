//! What content is referred to, and what that costs when datagrams are lost.

use super::{AFTER_2, End, Faults, NONE, Settings, World};
use oncewire_codec::{Domain, Sharing};
use oncewire_session::link::{Implied, Inbound, Policy};
use std::time::Duration;

fn world(policy: Policy, loss: usize) -> World {
    let faults = Faults { loss, ..NONE };
    let mut world = World { largest: 1452, faults, ..World::new(3) };
    let settings = Settings { log: 16 << 20, policy, sharing: Sharing::None };
    world.ends = [End::new(1452, settings), End::new(1452, settings)];
    world.connect();
    world.settle();
    world
}

/// The first copy of a packet is lost, and its sender sends it again. Without a flow, nobody knows that
/// it is the same packet: it then refers to what was lost, and waits in vain.
#[test]
fn what_is_sent_again_does_not_need_its_lost_copy() {
    for policy in [Policy::Auto, Policy::Immediate] {
        for (flow, waits) in [(77, 0), (0, 1)] {
            let mut world = world(policy, 0);
            // Text: of what looks random, few places are indexed.
            let content: String = (0..200).map(|_| format!("{} ", world.rng.u16(..))).collect();
            let content = &content.as_bytes()[..1000];
            let packet = Inbound {
                header: &[5; 40],
                open_checksum: true,
                implied: Implied::Nothing,
                segment: None,
                payload: content,
                domain: Domain(1),
            };
            for copy in 0..2 {
                world.ends[0].sender.set_flow(flow, false);
                world.ends[0].sender.enqueue(packet).unwrap();
                world.faults.loss = if copy == 0 { 1000 } else { 0 };
                world.transmit(0);
            }
            assert_eq!(world.ways[0].lost, 1);
            let (_, (counter, plain)) = world.ways[0].arrivals.pop_first().unwrap();
            let end = &mut world.ends[1];
            end.delivered.clear();
            end.receiver.receive(counter, &plain, 0, world.now, &mut end.delivered).unwrap();
            assert_eq!(end.receiver.stats().waited, waits, "{policy:?}");
            assert_eq!(end.delivered.is_empty(), waits > 0);
        }
    }
}

/// A path that loses 1 %, and content that repeats: once it is known that the path loses, no frame
/// lacks what was lost before it.
#[test]
fn dependence_adds_little_to_losses() {
    let mut world = world(Policy::Auto, 10);
    let mut file = vec![0; 4 << 20];
    world.rng.fill(&mut file);
    let mut settled = None;
    let mut sent = Vec::new();
    for pass in 0..6 {
        let before = world.ends[0].sender.stats().bytes;
        for run in file.chunks(10 * 1364) {
            world.send_run(0, &[5; 52], 1364, run, Domain(1));
            world.round_trip(Duration::from_millis(3));
        }
        sent.push(world.ends[0].sender.stats().bytes - before);
        if pass == 0 {
            settled = Some((world.ways[0].lost, world.ends[1].receiver.stats().rejected));
        }
    }
    let (lost, rejected) = settled.unwrap();
    let lost = world.ways[0].lost - lost;
    let rejected = world.ends[1].receiver.stats().rejected - rejected;
    assert!(
        lost > 10 && rejected * 10 <= lost,
        "{rejected} frames rejected, {lost} datagrams lost"
    );
    // What was lost the first time is sent whole the second.
    assert!(sent[5] * 20 < sent[0], "{sent:?}");
}

/// A packet that refers to eight others comes before all of them. It is delivered when the last of them
/// is there, and not a moment later.
#[test]
fn what_comes_too_early_waits_for_all_that_it_lacks() {
    let mut world = world(Policy::Immediate, 0);
    let words = |rng: &mut fastrand::Rng| -> String {
        (0..200).map(|_| format!("{} ", rng.u16(..))).collect()
    };
    let parts: Vec<String> = (0..8).map(|_| words(&mut world.rng)).collect();
    let whole: Vec<u8> = parts.iter().flat_map(|part| part.as_bytes()[..150].to_vec()).collect();
    for payload in parts.iter().map(String::as_bytes).map(|part| &part[..900]).chain([&whole[..]]) {
        let packet = Inbound {
            header: &[5; 40],
            open_checksum: true,
            implied: Implied::Nothing,
            segment: None,
            payload,
            domain: Domain(1),
        };
        world.ends[0].sender.enqueue(packet).unwrap();
        world.transmit(0);
    }
    let mut datagrams: Vec<_> = std::mem::take(&mut world.ways[0].arrivals).into_values().collect();
    assert_eq!(datagrams.len(), 9);
    datagrams.rotate_right(1);
    let end = &mut world.ends[1];
    for (at, (counter, plain)) in datagrams.iter().enumerate() {
        end.delivered.clear();
        end.receiver.receive(*counter, plain, 0, world.now, &mut end.delivered).unwrap();
        let delivered = end.delivered.packets_mut().count();
        assert_eq!(delivered, [0, 1, 1, 1, 1, 1, 1, 1, 2][at], "datagram {at}");
    }
    let stats = end.receiver.stats();
    assert_eq!((stats.waited, stats.rejected), (1, 0));
}

/// Sends a run of text, and says in how many bytes of datagrams, how many segments were delivered, and
/// how many frames have waited so far.
fn send(world: &mut World, sequence: u32, content: &[u8], is_lost: bool) -> (u64, u64, u64) {
    let mut header = [5; 52];
    header[3..7].copy_from_slice(&sequence.to_be_bytes());
    let (before, got) = (world.ends[0].sender.stats().bytes, world.ends[1].got);
    world.ends[0].sender.set_flow(77, false);
    world.send_run(0, &header, 1000, content, Domain(1));
    world.faults.loss = if is_lost { 1000 } else { 0 };
    world.transmit(0);
    world.faults.loss = 0;
    world.arrive(1, usize::MAX);
    world.now += Duration::from_millis(20);
    world.transmit(1);
    world.arrive(0, usize::MAX);
    let stats = world.ends[1].receiver.stats();
    (world.ends[0].sender.stats().bytes - before, world.ends[1].got - got, stats.waited)
}

fn text(rng: &mut fastrand::Rng) -> Vec<u8> {
    (0..3000).flat_map(|_| format!("{} ", rng.u16(..)).into_bytes()).take(10_000).collect()
}

/// Content goes whole until it was sent twice. Then a datagram that refers to it depends on the newest
/// copy, whichever that is.
#[test]
fn after_2_refers_to_what_was_sent_twice() {
    for (lost, waits) in [(None, 0), (Some(0), 0), (Some(1), 1)] {
        let mut world = world(AFTER_2, 0);
        let content = text(&mut world.rng);
        let mut copies = Vec::new();
        for nth in 0..3 {
            // As three hosts that fetch the same: nothing is sent again.
            copies.push(send(&mut world, 10_000 * nth, &content, lost == Some(nth)));
        }
        let [first, second, third] = copies[..] else { panic!("three copies") };
        // Context 0 codes the digits.
        assert!(first.0 > 4000 && second.0 > 4000 && third.0 < 200, "{copies:?}");
        assert_eq!(third.2, waits, "{lost:?}");
        let repaired = if waits > 0 { 0 } else { 10 };
        assert_eq!(third.1, repaired, "{lost:?}");
    }
}

/// What the link's receiver has acknowledged does not count, but what the inner receiver has.
#[test]
fn tcp_acked_refers_to_what_tcp_has_acknowledged() {
    let mut world = world(Policy::TcpAcked, 0);
    let content = text(&mut world.rng);
    assert!(send(&mut world, 0, &content, false).0 > 4000);
    let (bytes, ..) = send(&mut world, 10_000, &content, false);
    assert!(bytes > 4000, "{bytes} bytes, although nothing is acknowledged");
    world.ends[0].sender.inner_acknowledged(77, 9_999);
    assert!(send(&mut world, 20_000, &content, false).0 > 4000, "a byte is missing");
    world.ends[0].sender.inner_acknowledged(77, 10_000);
    assert!(send(&mut world, 30_000, &content, false).0 < 200);
    // A lost copy, and the same again: it is the second that the receiver has.
    let other = text(&mut world.rng);
    assert_eq!(send(&mut world, 40_000, &other, true).1, 0);
    assert!(send(&mut world, 40_000, &other, false).0 > 4000);
    world.ends[0].sender.inner_acknowledged(77, 50_000);
    let (bytes, got, waited) = send(&mut world, 50_000, &other, false);
    assert!(bytes < 200 && got == 10 && waited == 0, "{bytes} bytes, {got} segments");
}

/// Once the path has recovered, everything is referred to again, but not what was lost before.
#[test]
fn what_is_known_to_be_lost_is_not_referred_to() {
    for policy in [Policy::Auto, Policy::Immediate] {
        let mut world = world(policy, 0);
        let mut file = vec![0; 3 << 20];
        world.rng.fill(&mut file);
        let mut bytes = Vec::new();
        for pass in 0..3 {
            let before = world.ends[0].sender.stats().bytes;
            for (nth, run) in file.chunks(10 * 1364).enumerate() {
                world.faults.loss = if pass == 0 && nth < 40 { 50 } else { 0 };
                world.send_run(0, &[5; 52], 1364, run, Domain(1));
                world.round_trip(Duration::from_millis(3));
            }
            bytes.push(world.ends[0].sender.stats().bytes - before);
        }
        let (lost, stats) = (world.ways[0].lost, world.ends[1].receiver.stats());
        assert!(lost > 5, "{lost}");
        assert_eq!((stats.waited, stats.rejected), (0, 0), "{policy:?}, {lost} lost");
        assert!(bytes[1] * 10 < bytes[0] && bytes[2] * 40 < bytes[0], "{policy:?}: {bytes:?}");
    }
}

/// The handshake of a flow passes while the ends still agree on a log. What follows does not show any
/// more that the flow is encrypted.
#[test]
fn an_encrypted_flow_that_began_before_the_log_bypasses_it() {
    let mut world = World { largest: 1452, faults: NONE, ..World::new(4) };
    let settings = Settings { log: 16 << 20, policy: Policy::Auto, sharing: Sharing::None };
    world.ends = [End::new(1452, settings), End::new(1452, settings)];
    assert!(world.ends[0].sender.is_unknown(7));
    world.ends[0].sender.set_flow(7, true);
    world.send_run(0, &[5; 52], 1200, &[1; 1200], Domain(1));
    assert!(!world.ends[0].sender.is_unknown(7));
    world.connect();
    world.settle();
    let mut payload = vec![0; 40 * 1200];
    world.rng.fill(&mut payload);
    for (flow, bypassed) in [(7, 48_000), (8, 48_000)] {
        world.ends[0].sender.set_flow(flow, false);
        world.send_run(0, &[5; 52], 1200, &payload, Domain(1));
        assert_eq!(world.ends[0].sender.stats().bypassed_bytes, bypassed, "flow {flow}");
    }
    assert_eq!(world.ends[0].sender.stats().logged_bytes, 48_000, "the other flow");
}
