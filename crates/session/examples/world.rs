//! Plays one world of the simulation in `tests/sim`:
//! `cargo run -p oncewire-session --example world -- --profile Storm --seed 14 --trace`.
//!
//! Without `--profile`, plays the seed in each profile. `--trace` prints what happens.
#![allow(dead_code)] // The tests use the rest of these modules.

#[path = "../tests/sim/content.rs"]
mod content;
#[path = "../tests/sim/dice.rs"]
mod dice;
#[path = "../tests/sim/profile.rs"]
mod profile;
#[path = "../tests/sim/script.rs"]
mod script;
#[path = "../tests/sim/wire.rs"]
mod wire;
#[path = "../tests/sim/world/mod.rs"]
mod world;

use profile::Profile;
use script::Script;
use std::process::ExitCode;
use std::time::Instant;
use world::World;

const PROFILES: [Profile; 14] = [
    Profile::Clean,
    Profile::Lossy,
    Profile::Storm,
    Profile::TinyLog,
    Profile::Corrupt,
    Profile::Shrink,
    Profile::Restart,
    Profile::RestartWarm,
    Profile::RestartHalfWarm,
    Profile::Generations,
    Profile::Crash,
    Profile::CrashTinyLog,
    Profile::Disks,
    Profile::Everything,
];

fn main() -> ExitCode {
    match arguments(std::env::args().skip(1)) {
        Ok((profiles, seed, trace)) => {
            for profile in profiles {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "simulated time needs a time to start from"
                )]
                let mut world = World::new(Script::generate(profile, seed), trace, Instant::now());
                world.run();
                println!("{profile:?}: {:?}", world.summary);
            }
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!(
                "{why}\nusage: world --seed N [--profile {}] [--trace]",
                PROFILES.map(|it| format!("{it:?}")).join("|")
            );
            ExitCode::from(2)
        }
    }
}

fn arguments(mut args: impl Iterator<Item = String>) -> Result<(Vec<Profile>, u64, bool), String> {
    let (mut profiles, mut seed, mut trace) = (PROFILES.to_vec(), None, false);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match &arg[..] {
            "--trace" => trace = true,
            "--seed" => seed = Some(value()?.parse().map_err(|error| format!("--seed: {error}"))?),
            "--profile" => {
                let name = value()?;
                let is_named =
                    |profile: &Profile| format!("{profile:?}").eq_ignore_ascii_case(&name);
                profiles =
                    vec![PROFILES.into_iter().find(is_named).ok_or(format!("no profile {name}"))?];
            }
            _ => return Err(format!("unexpected argument {arg}")),
        }
    }
    Ok((profiles, seed.ok_or("--seed is missing")?, trace))
}
