//! Two sessions in a simulated world: every run follows from a profile and a seed.
//!
//! `ONCEWIRE_SIM_SEED=n ONCEWIRE_SIM_PROFILE=name cargo test -p oncewire-session --test sim one_seed -- --nocapture` plays one world;
//! `ONCEWIRE_SIM_TRACE=1` tells what happens. `ONCEWIRE_SIM_SEEDS=n` plays so many of each profile.
#![allow(missing_docs)]

mod byzantine;
mod profile;
mod rng;
mod wire;
mod world;

use profile::Profile;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;
use world::{Summary, World};

#[expect(clippy::disallowed_methods, reason = "a test is told by its environment what to play")]
fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Time in a world is a base, which says nothing, and what was simulated since.
#[expect(clippy::disallowed_methods, reason = "simulated time needs something to begin with")]
fn base() -> Instant {
    Instant::now()
}

fn play(profile: Profile, seed: u64) -> Summary {
    let trace = env("ONCEWIRE_SIM_TRACE").is_some();
    let mut world = World::new(profile, seed, trace, base());
    match catch_unwind(AssertUnwindSafe(|| world.run())) {
        Ok(()) => world.summary,
        Err(panic) => {
            eprintln!("ONCEWIRE_SIM_PROFILE={profile:?} ONCEWIRE_SIM_SEED={seed} breaks a promise");
            std::panic::resume_unwind(panic);
        }
    }
}

fn play_many(profile: Profile, seeds: u64) {
    let seeds = env("ONCEWIRE_SIM_SEEDS").and_then(|seeds| seeds.parse().ok()).unwrap_or(seeds);
    let first = env("ONCEWIRE_SIM_FIRST").and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let began = base();
    let mut sum = Summary::default();
    for seed in first..first + seeds {
        sum += play(profile, seed);
    }
    eprintln!("{profile:?}: {seeds} seeds in {:.1} s: {sum:?}", began.elapsed().as_secs_f64());
}

/// Worlds that once broke a promise, and what was wrong.
const FOUND: [(Profile, u64, &str); 7] = [
    (Profile::Lossy, 3, "the first answer was lost: the same hello again was refused, and the session ended"),
    (Profile::Generations, 5, "FIN of a flow that was refused as one too many told of something to read"),
    (Profile::Storm, 14, "the same, with lost transports"),
    (Profile::Storm, 21, "the beginning of a log was late on a second lane and took the peer back to that log"),
    (Profile::Shrink, 38, "the same, without a lost transport in between"),
    (Profile::Corrupt, 195, "a log was lost twice before all of the first was sent again: the session ended"),
    (Profile::Everything, 121, "the same"),
];

#[test]
fn found_before() {
    for (profile, seed, story) in FOUND {
        eprintln!("{profile:?} {seed}: {story}");
        play(profile, seed);
    }
}

#[test]
fn one_seed() {
    let (Some(seed), profile) = (env("ONCEWIRE_SIM_SEED"), env("ONCEWIRE_SIM_PROFILE")) else { return };
    let seed = seed.parse().expect("a number");
    let profiles: Vec<Profile> = match profile {
        Some(name) => vec![Profile::named(&name).expect("a profile")],
        None => Profile::ALL.to_vec(),
    };
    for profile in profiles {
        eprintln!("{profile:?}: {:?}", play(profile, seed));
    }
}

macro_rules! profiles {
    ($($name:ident: $profile:ident, $seeds:literal;)*) => {
        $(#[test]
        fn $name() {
            play_many(Profile::$profile, $seeds);
        })*
    };
}

profiles! {
    clean: Clean, 300;
    lossy: Lossy, 400;
    storm: Storm, 400;
    tiny_log: TinyLog, 100;
    corrupt: Corrupt, 500;
    shrink: Shrink, 400;
    restart: Restart, 400;
    restart_warm: RestartWarm, 400;
    restart_half_warm: RestartHalfWarm, 300;
    generations: Generations, 150;
    everything: Everything, 500;
}

#[test]
fn byzantine_peer() {
    let seeds = env("ONCEWIRE_SIM_SEEDS").and_then(|seeds| seeds.parse().ok()).unwrap_or(800);
    for seed in 0..seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| byzantine::run(seed, base()))) {
            eprintln!("byzantine seed {seed} breaks a promise");
            std::panic::resume_unwind(panic);
        }
    }
}
