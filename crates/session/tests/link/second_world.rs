//! Worlds whose recordings the second receiver plays.

use super::replay::{Compared, replay};
use super::{World, number};

fn play(seed: u64) -> Compared {
    let mut world = World::new(seed);
    world.recordings = Some(Vec::new());
    world.connect();
    for _ in 0..world.rng.usize(10..400) {
        world.step();
    }
    world.settle();
    world.finish_recordings();
    let mut compared = Compared::default();
    for recording in world.recordings.iter().flatten() {
        compared += replay(recording);
    }
    compared
}

#[test]
fn a_second_receiver_delivers_and_acknowledges_the_same() {
    let mut compared = Compared::default();
    for seed in 0..number("ONCEWIRE_SIM_SEEDS", 60) {
        match std::panic::catch_unwind(|| play(seed)) {
            Ok(of_world) => compared += of_world,
            Err(panic) => {
                eprintln!("world {seed} is not the same for both");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(
        compared.waited > 10 && compared.rejections > 4 && compared.pieces > 100,
        "too little happened: {compared:?}"
    );
}
