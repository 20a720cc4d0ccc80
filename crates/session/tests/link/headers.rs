//! What happens to header sections on paths that are worse than the sender expects.

use super::{End, NONE, Settings, World};
use oncewire_codec::{Domain, Sharing};
use oncewire_session::link::Policy;
use std::time::Duration;

/// A frame whose header section refers to a header that was replaced since, because the path has
/// delayed it by more than a round trip: it is rejected, and sent again with a whole header.
#[test]
fn a_frame_with_a_missing_header_is_sent_again() {
    let settings = Settings { log: 1 << 20, policy: Policy::Acked, sharing: Sharing::All };
    let mut world = World { largest: 1452, faults: NONE, ..World::new(4) };
    world.ends = [End::new(1452, settings), End::new(1452, settings)];
    world.connect();
    world.settle();
    let exchange = |world: &mut World| {
        world.round_trip(Duration::from_secs(2));
    };
    let send = |world: &mut World| {
        let mut payload = vec![0; 300];
        world.rng.fill(&mut payload);
        world.send_run(0, &[5; 52], 400, &payload, Domain(0));
    };
    send(&mut world);
    exchange(&mut world);
    // The second frame refers to the header of the first, and is late.
    send(&mut world);
    world.transmit(0);
    let late = world.ways[0].arrivals.pop_first().expect("a datagram");
    for _ in 0..10 {
        send(&mut world);
        exchange(&mut world);
    }
    assert_eq!(world.ends[1].expected.values().sum::<usize>(), 1);
    world.ways[0].arrivals.insert(late.0, late.1);
    world.arrive(1, usize::MAX);
    assert_eq!(world.ends[1].receiver.stats().missing_headers, 1);
    world.settle();
    assert_eq!(world.ends[0].sender.stats().repaired, 1);
    assert_eq!(world.ends[1].expected.values().sum::<usize>(), 0);
    assert_eq!(world.ends[1].got, 12);
}
