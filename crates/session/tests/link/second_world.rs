//! Worlds whose recordings the second receiver plays.

use super::replay::{Compared, Recording, replay};
use super::{End, Faults, NONE, Settings, World, number};
use oncewire_codec::{Domain, Sharing};
use oncewire_session::link::Policy;
use std::panic::{catch_unwind, resume_unwind};
use std::time::Duration;

/// What all recordings of a world have in common with the second receiver's.
fn compare(world: &mut World) -> Compared {
    world.finish_recordings();
    let mut compared = Compared::default();
    for recording in world.recordings.iter().flatten() {
        compared += replay(recording);
    }
    compared
}

/// Plays worlds, and says which one failed.
pub(super) fn all<T: std::fmt::Debug + Copy + std::panic::RefUnwindSafe>(
    worlds: impl Iterator<Item = T>,
    play: fn(T) -> Compared,
) -> Compared {
    let mut compared = Compared::default();
    for world in worlds {
        match catch_unwind(|| play(world)) {
            Ok(of_world) => compared += of_world,
            Err(panic) => {
                eprintln!("world {world:?} is not the same for both");
                resume_unwind(panic);
            }
        }
    }
    compared
}

fn any_world(seed: u64) -> Compared {
    let mut world = World::new(seed);
    world.recordings = Some(Vec::new());
    world.connect();
    for _ in 0..world.rng.usize(10..400) {
        world.step();
    }
    world.settle();
    compare(&mut world)
}

#[test]
fn a_second_receiver_delivers_and_acknowledges_the_same() {
    let compared =
        all(number("ONCEWIRE_SIM_FIRST", 0)..number("ONCEWIRE_SIM_SEEDS", 60), any_world);
    assert!(
        compared.waited > 2 && compared.rejections > 0 && compared.pieces > 100,
        "too little happened: {compared:?}"
    );
}

/// Text that repeats, in small packets of a few flows, in one direction. Frames overtake what they
/// refer to, and some of that never comes.
pub(super) fn download_world(
    (policy, sharing, faults): (Policy, Sharing, Faults),
    rounds: u64,
) -> Vec<Recording> {
    let mut world = World { largest: 700, faults, ..World::new(5) };
    world.recordings = Some(Vec::new());
    let settings = Settings { log: 1 << 20, policy, sharing };
    world.ends = [End::new(700, settings), End::new(700, settings)];
    world.connect();
    world.settle();
    world.words = true;
    for round in 0..rounds {
        let header = world.header();
        let payload = world.content(3_000);
        world.send_run(0, &header, 500, &payload, Domain(round / 400));
        world.transmit(0);
        let most = world.rng.usize(..8);
        world.arrive(1, most);
        world.now += Duration::from_micros(500);
        if round % 8 == 0 {
            world.answer();
        }
    }
    world.settle();
    world.finish_recordings();
    world.recordings.unwrap_or_default()
}

fn download(world: (Policy, Sharing, Faults)) -> Compared {
    let mut compared = Compared::default();
    for recording in download_world(world, 1500) {
        compared += replay(&recording);
    }
    compared
}

/// More than the log holds, so that generations begin and end.
#[test]
fn a_second_receiver_follows_every_policy_on_every_path() {
    let lossy = Faults { loss: 20, reordering: 5, ..NONE };
    let mut of_policy = Vec::new();
    for policy in [Policy::Acked, Policy::Immediate, Policy::Auto] {
        let worlds = [NONE, lossy, Faults { repeats: 50, reordering: 40, ..NONE }]
            .into_iter()
            .flat_map(|faults| [Sharing::All, Sharing::None].map(|it| (policy, it, faults)));
        of_policy.push((policy, all(worlds, download)));
    }
    for (policy, compared) in of_policy {
        let leans = policy != Policy::Acked;
        assert!(compared.contexts > 10, "{policy:?}: {compared:?}");
        assert_eq!(
            (compared.waited > 20, compared.rejections > 3),
            (leans, leans),
            "{policy:?}: {compared:?}"
        );
    }
}
