//! Frozen contexts: trained, announced, used, replaced and dropped; and refused.

use super::{NONE, Settings, WORDS, World};
use oncewire_codec::{Domain, Sharing};
use oncewire_session::link::control::Control;
use oncewire_session::link::{ContextTerms, MAX_CONTEXTS, Policy, REPLAY_WINDOW};

/// A world without faults between ends that keep logs.
fn world(sharing: Sharing) -> World {
    let mut world = World::new(1);
    (world.faults, world.largest) = (NONE, 500);
    let settings = Settings { log: 8 << 20, policy: Policy::Acked, sharing };
    world.ends = [(); 2].map(|()| super::End::new(world.largest, settings));
    world.connect();
    exchange(&mut world);
    world
}

/// Until all messages have arrived.
fn exchange(world: &mut World) {
    for _ in 0..20 {
        world.message(0);
        world.message(1);
    }
}

/// Text of a kind that no other number has.
fn text(world: &mut World, kind: u64, len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while out.len() < len {
        let word = WORDS[world.rng.usize(..WORDS.len())];
        let number = world.rng.u32(..1000);
        out.extend_from_slice(format!("{word}{number} of kind {kind}{kind:x}: ").as_bytes());
    }
    out.truncate(len);
    out
}

/// Sends `len` bytes of a domain, all of which arrives and is acknowledged. Returns the bytes of
/// frames.
fn send(world: &mut World, domain: u64, len: usize) -> u64 {
    let before = world.ends[0].sender.stats().frame_bytes;
    let payload = text(world, domain, len);
    for run in payload.chunks(40 * 400) {
        deliver(world, domain, run);
    }
    world.ends[0].sender.stats().frame_bytes - before
}

fn deliver(world: &mut World, domain: u64, run: &[u8]) {
    world.send_run(0, &[5; 40], 400, run, Domain(domain));
    world.round_trip(std::time::Duration::from_secs(2));
}

#[test]
fn a_context_is_trained_and_makes_frames_shorter() {
    let mut world = world(Sharing::None);
    // Less than a context needs: built in only.
    let first = send(&mut world, 1, 50_000);
    exchange(&mut world);
    assert_eq!(world.contexts, 0);
    send(&mut world, 1, 60_000);
    exchange(&mut world);
    assert_eq!(world.contexts, 1);
    let with_context = send(&mut world, 1, 50_000);
    assert!(with_context * 10 < first * 9, "{with_context} with it, {first} without");
    // It is of one domain.
    let other = send(&mut world, 2, 50_000);
    assert!(other * 10 > first * 9, "{other} of another domain, {first} at first");
    assert_eq!(world.ends[1].receiver.stats().rejected, 0);
}

/// No context makes it shorter.
#[test]
fn content_that_looks_random_trains_no_context() {
    let mut world = world(Sharing::None);
    for _ in 0..20 {
        let mut payload = vec![0; 40 * 400];
        world.rng.fill(&mut payload);
        deliver(&mut world, 1, &payload);
        exchange(&mut world);
    }
    assert_eq!(world.contexts, 0);
    assert!(!world.ends[0].sender.has_message());
    send(&mut world, 1, 110_000);
    exchange(&mut world);
    assert_eq!(world.contexts, 1);
}

#[test]
fn numbers_are_used_again_and_old_contexts_dropped() {
    let mut world = world(Sharing::None);
    for domain in 0..u64::from(MAX_CONTEXTS) + 4 {
        send(&mut world, domain, 110_000);
        exchange(&mut world);
    }
    // All numbers are used; those used longest ago retire, once nothing on the way can have them.
    assert!(world.contexts >= u64::from(MAX_CONTEXTS), "{}", world.contexts);
    let memory = world.ends[1].receiver.memory();
    let before = world.contexts;
    assert_eq!(world.drops, 0);
    for round in 0..3 {
        send(&mut world, 100 + round, 150_000);
        exchange(&mut world);
        // As many datagrams as the replay window admits, and more.
        for _ in 0..REPLAY_WINDOW / 40 + 10 {
            let mut payload = vec![0; 40 * 400];
            world.rng.fill(&mut payload);
            deliver(&mut world, 50, &payload);
        }
        exchange(&mut world);
    }
    assert!(world.contexts > before && world.drops > 0, "{} and {}", world.contexts, world.drops);
    assert!(world.ends[1].receiver.memory() < memory + (1 << 20));
    assert_eq!(world.ends[1].receiver.stats().rejected, 0);
}

#[test]
fn a_context_that_the_log_does_not_have_is_refused() {
    let mut world = world(Sharing::All);
    send(&mut world, 1, 110_000);
    // The announcement as it is, and what is wrong with it.
    let job = world.ends[0].sender.training().expect("enough literals");
    world.ends[0].sender.trained(job.run());
    let Some(Control::Context(terms)) = world.ends[0].sender.message() else {
        panic!("no context")
    };
    let is_taken =
        |world: &mut World, terms: &ContextTerms| match world.ends[1].receiver.context(terms) {
            Some(Control::ContextReady { is_taken, .. }) => Some(is_taken),
            None => None,
            other => panic!("{other:?}"),
        };
    let mut wrong = vec![terms.clone(); 6];
    wrong[0].checksum ^= 1;
    wrong[1].parts[0] = 1 << 40..(1 << 40) + 10;
    wrong[2].parts = vec![0..20_000; 2];
    wrong[3].codes.pop();
    wrong[4].codes[3] = 0;
    wrong[5].parts.pop();
    for wrong in &wrong {
        assert_eq!(is_taken(&mut world, wrong), Some(false), "{wrong:?}");
    }
    let other_log = ContextTerms { log: terms.log + 1, ..terms.clone() };
    assert_eq!(is_taken(&mut world, &other_log), None);
    assert_eq!(is_taken(&mut world, &terms), Some(true));
    // A refusal: the number is free again, and another context is trained later.
    world.ends[0].sender.context_ready(terms.log, terms.number, false);
    send(&mut world, 1, 200_000);
    exchange(&mut world);
    assert_eq!(world.contexts, 1);
}
