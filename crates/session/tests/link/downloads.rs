//! Content in one direction, acknowledgments in the other.

use super::{End, Faults, NONE, PLAIN, Settings, World};
use oncewire_codec::{Domain, Sharing};
use oncewire_session::link::{Implied, Inbound, Policy};
use std::time::Duration;

/// A download: runs of full segments in one direction, nothing in the other.
#[test]
fn runs_leave_in_datagrams_of_one_size_and_are_joined_again() {
    let mut world = World { largest: 1452, faults: NONE, ..World::new(1) };
    world.ends = [End::new(1452, PLAIN), End::new(1452, PLAIN)];
    let header = [5; 52];
    let size = (1452 - oncewire_session::link::OVERHEAD - header.len()) as u16;
    let mut payload = vec![0; usize::from(size) * 44];
    for round in 0..100 {
        world.rng.fill(&mut payload);
        world.send_run(0, &header, size, &payload, Domain(0));
        world.transmit(0);
        let groups: Vec<_> = world.ends[0].batch.groups(64, 65_507).collect();
        // The first run has a whole header, the others slot and control byte: nothing differs. The
        // room of a frame's flags and offset is left: this end keeps no log.
        let size = if round == 0 { 1448 } else { 1448 - 1 - header.len() };
        assert_eq!(groups, [(0..44 * size, size, 0)], "one call sends a run");
        world.arrive(1, usize::MAX);
        assert_eq!(world.ends[1].delivered.packets_mut().count(), 1, "one write for a run");
        world.transmit(1);
        world.arrive(0, usize::MAX);
    }
    let (sent, back) = (world.ends[0].sender.stats(), world.ends[1].sender.stats());
    assert_eq!((sent.packets, world.ends[1].got), (4400, 4400));
    assert!(sent.bytes < sent.inner_bytes, "{sent:?}");
    assert!(back.datagrams > 0 && back.bytes * 100 <= sent.inner_bytes, "{back:?}");
    assert!(sent.delivered > 4000 && sent.lost == 0, "{sent:?}");
}

/// The same file twice, by either policy, over a path without loss and one that loses 1 %.
#[test]
fn repeated_content_takes_a_hundredth() {
    for (policy, loss) in
        [Policy::Acked, Policy::Immediate, Policy::Auto].map(|it| [(it, 0), (it, 10)]).concat()
    {
        let faults = Faults { loss, ..NONE };
        let settings = Settings { log: 16 << 20, policy, sharing: Sharing::None };
        let mut world = World { largest: 1452, faults, ..World::new(3) };
        world.ends = [End::new(1452, settings), End::new(1452, settings)];
        world.connect();
        world.settle();
        let mut file = vec![0; 4 << 20];
        world.rng.fill(&mut file);
        let mut bytes = Vec::new();
        for _ in 0..2 {
            let before = world.ends[0].sender.stats();
            for run in file.chunks(44 * 1364) {
                world.send_run(0, &[5; 52], 1364, run, Domain(1));
                world.round_trip(Duration::from_millis(3));
            }
            world.settle();
            let after = world.ends[0].sender.stats();
            bytes.push(after.bytes - before.bytes);
        }
        let missing: usize = world.ends[1].expected.values().sum();
        let (got, lost) = (world.ends[1].got, world.ways[0].lost);
        // Without loss: the headers of a datagram for each run of 61 kB. With it, a run that refers
        // to one lost datagram is sent again as a whole if the sender did not know.
        let most = match (loss, policy) {
            (0, _) => bytes[0] / 100,
            (_, Policy::Acked) => bytes[0] / 20,
            _ => bytes[0] / 3,
        };
        assert!(bytes[1] < most, "{policy:?}, {loss}: {bytes:?}, {lost} lost");
        assert_eq!(missing > 0, loss > 0, "{policy:?}: {missing} missing, {got} delivered");
        // A datagram of the second pass carries a whole run.
        assert!(missing as u64 <= lost * 45, "{policy:?}: {missing} missing, {lost} lost");
    }
}

/// Small packets that wait together share datagrams.
#[test]
fn small_packets_share_a_datagram() {
    let mut world = World { largest: 1452, faults: NONE, ..World::new(2) };
    world.ends = [End::new(1452, PLAIN), End::new(1452, PLAIN)];
    for at in 0..20 {
        let packet = Inbound {
            header: &[at; 52],
            open_checksum: true,
            implied: Implied::Nothing,
            segment: None,
            payload: &[],
            domain: Domain(0),
        };
        world.ends[0].sender.enqueue(packet).unwrap();
    }
    let end = &mut world.ends[0];
    assert!(end.sender.transmit(world.now, &mut end.batch));
    assert_eq!(end.batch.len(), 1);
    assert!(!end.sender.transmit(world.now, &mut end.batch), "nothing is left");
}
