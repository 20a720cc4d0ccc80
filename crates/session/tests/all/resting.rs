//! Logs that both ends store, and that lose their memory for a while.

use crate::stored::{MIB, Pair, SIDES};
use oncewire_codec::Sharing;
use oncewire_session::{Owner, Side};
use oncewire_testkit::content::incompressible;

/// Memory is needed elsewhere: the ring goes, and what both ends have stored stays.
#[test]
fn a_log_that_was_released_goes_on_and_a_restart_finds_all_of_it() {
    let content = incompressible(16, MIB);
    let mut pair = Pair::new(Sharing::All);
    pair.upload(Owner::default(), &content);
    pair.exchange();
    for released in 1..4u64 {
        assert!(pair.ends[0].session.release_logs(pair.now));
        pair.ends[0].drain();
        assert_eq!(pair.ends[0].session.promised_memory(), 0);
        let more = incompressible(160 + released, 100_000);
        assert!(pair.upload(Owner::default(), &more) > more.len());
        assert!(pair.upload(Owner::default(), &more) < 2000, "memory works again");
        assert!(pair.ends[1].session.memory() < 3 * MIB as u64);
        for (end, side) in [(0, Side::Sending), (1, Side::Receiving)] {
            let stored = pair.ends[end].store[side as usize].as_ref().expect("the log");
            let end = MIB as u64 + released * 200_000;
            assert_eq!((stored.record.from, stored.record.end.offset), (0, end));
            assert_eq!(stored.record.header.epoch.number, released);
        }
    }
    let mut pair = pair.restart(|_| {});
    assert_eq!(pair.warm(), 1);
    let wire = pair.upload(Owner::default(), &content);
    assert!(wire < 4000, "{wire} bytes for what was written before memory was released");
}

/// The other end asks, and a log that is smaller for a while grows again.
#[test]
fn a_log_that_shrinks_and_grows_is_the_same_log_on_disk() {
    let content = incompressible(17, MIB);
    let mut pair = Pair::new(Sharing::All);
    pair.upload(Owner::default(), &content);
    let capacity = |pair: &Pair| pair.ends[0].session.counters().log_capacity;
    let id = |pair: &Pair| {
        let stored = [(0, Side::Sending), (1, Side::Receiving)].map(|(end, side)| {
            pair.ends[end].store[side as usize].as_ref().expect("the log").record.header.epoch
        });
        assert_eq!(stored[0], stored[1]);
        stored[0]
    };
    let begun = id(&pair);
    for (nth, limit) in [1 << 20, 4 << 20, 3 << 20].into_iter().enumerate() {
        let now = pair.now;
        pair.ends[1].session.set_log_limit(limit, now).unwrap();
        // A smaller log must be full before a larger one is of use.
        for part in 0..2 {
            let more = incompressible(170 + 2 * nth as u64 + part, 600_000);
            pair.upload(Owner::default(), &more);
        }
        pair.upload(Owner::default(), b"and one more");
        assert_eq!(capacity(&pair), limit);
        assert_eq!((id(&pair).log, id(&pair).number), (begun.log, nth as u64 + 1));
    }
    let mut pair = pair.restart(|_| {});
    assert_eq!((pair.warm(), id(&pair).log), (1, begun.log));
    let newest = incompressible(175, 600_000);
    assert!(pair.upload(Owner::default(), &newest) < 4000);
}

/// One end falls and has less than memory of the other goes back to: the log goes on all the same.
#[test]
fn a_log_goes_on_from_a_place_that_lies_below_memory() {
    for killed in [0, 1] {
        let content = incompressible(18, MIB);
        let mut pair = Pair::new(Sharing::All);
        pair.upload(Owner::default(), &content);
        assert!(pair.ends[0].session.release_logs(pair.now));
        pair.upload(Owner::default(), &incompressible(19, 300_000));
        let begun = pair.ends[0].store[0].as_ref().expect("the log").record.header.epoch.log;
        let (side, mut to) = (SIDES[killed], 0);
        let mut pair = pair.restart_of(
            [killed == 0, killed == 1],
            |stores| {
                let stored = stores[killed][side as usize].as_mut().expect("a log");
                stored.rewind(stored.record.places[8]);
                to = stored.record.end.offset;
            },
            false,
        );
        assert_eq!((pair.warm(), pair.ends[0].session.offsets().0), (1, to), "{killed}");
        pair.upload(Owner::default(), &incompressible(20, 300_000));
        let stored = pair.ends[1].store[1].as_ref().expect("the log");
        assert_eq!((stored.record.header.epoch.log, stored.record.from), (begun, 0), "{killed}");
        let mut pair = pair.restart(|_| {});
        assert_eq!(pair.warm(), 1);
        assert!(pair.upload(Owner::default(), &content[..500_000]) < 4000);
    }
}
