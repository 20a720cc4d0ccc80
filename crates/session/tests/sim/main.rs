//! Two sessions in a simulated world. Each run follows from a profile and a seed, or from a script.
//!
//! `cargo run -p oncewire-session --example world -- --profile Storm --seed 14 --trace` plays one
//! world and shows what happens. `ONCEWIRE_SIM_SEEDS=n` plays that many of each profile here.
#![allow(missing_docs)]

mod byzantine;
mod content;
mod dice;
mod profile;
mod regressions;
mod reports;
mod script;
mod wire;
mod world;

use profile::Profile;
use script::Script;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;
use world::{Summary, World};

/// The number in a variable of the environment, or `default`.
#[expect(clippy::disallowed_methods, reason = "the environment says how many worlds to play")]
fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

/// The time when a world begins. Its value does not matter.
#[expect(clippy::disallowed_methods, reason = "simulated time needs a time to start from")]
fn base() -> Instant {
    Instant::now()
}

fn play_many(profile: Profile, seeds: u64) {
    let (seeds, first) = (number("ONCEWIRE_SIM_SEEDS", seeds), number("ONCEWIRE_SIM_FIRST", 0));
    let started = base();
    let mut sum = Summary::default();
    for seed in first..first + seeds {
        let mut world = World::new(Script::generate(profile, seed), false, base());
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| world.run())) {
            eprintln!("--profile {profile:?} --seed {seed} breaks a guarantee");
            std::panic::resume_unwind(panic);
        }
        sum += world.summary;
    }
    eprintln!("{profile:?}: {seeds} seeds in {:.1} s: {sum:?}", started.elapsed().as_secs_f64());
}

fn play(script: Script) -> Summary {
    let mut world = World::new(script, true, base());
    world.run();
    world.summary
}

#[test]
fn lost_first_answer() {
    let summary = play(regressions::lost_first_answer());
    assert_eq!((summary.sessions, summary.bytes), (1, 1000));
}

#[test]
fn fin_of_a_refused_flow() {
    let summary = play(regressions::fin_of_a_refused_flow());
    assert_eq!(summary.flows, 9, "three flows in each of three sessions");
    let summary = play(regressions::fin_of_a_refused_flow_after_a_lost_transport());
    assert_eq!((summary.flows, summary.resumes), (2, 2));
}

#[test]
fn late_epoch_on_a_second_lane() {
    let summary = play(regressions::late_epoch_on_a_second_lane());
    assert_eq!((summary.epochs, summary.resumes), (2, 0));
    let summary = play(regressions::late_epoch_and_a_lost_transport());
    assert_eq!((summary.epochs, summary.resumes), (2, 2));
}

#[test]
fn a_log_lost_twice() {
    let summary = play(regressions::a_log_lost_twice());
    assert_eq!((summary.sessions, summary.epochs, summary.failures), (1, 3, 4));
    play(regressions::a_log_lost_twice_on_two_lanes());
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
    crash: Crash, 400;
    crash_tiny_log: CrashTinyLog, 150;
    disks: Disks, 150;
    everything: Everything, 500;
}

#[test]
fn byzantine_peer() {
    for seed in 0..number("ONCEWIRE_SIM_SEEDS", 800) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| byzantine::run(seed, base()))) {
            eprintln!("byzantine seed {seed} breaks a guarantee");
            std::panic::resume_unwind(panic);
        }
    }
}
