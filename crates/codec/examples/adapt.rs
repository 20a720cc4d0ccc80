//! Encoding under a CPU budget, with real load: what each step of the ladder costs, what a change
//! of the period loses, and what the controller does with files offered at a steady rate.
//!
//! ```text
//! cargo run --release -p oncewire-codec --example adapt -- [--rate MB/s] FILES...
//! ```
//!
//! The files are read into memory and form one stream of blocks of 64 KiB, in the order given. CPU
//! time is that of the one thread. For the last table the thread sleeps until each block is due.
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "a measurement needs a clock"
)]

use cpu_time::ThreadTime;
use oncewire_codec::adapt::{Controller, CpuShare, Effort, Ladder};
use oncewire_codec::{DEFAULT_BLOCK, DEFAULT_PERIOD, Encoder, Entropy};
use std::error::Error;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let mut rate = 300e6;
    let mut files = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match &arg[..] {
            "--rate" => {
                rate = args.next().ok_or("--rate needs megabytes per second")?.parse::<f64>()? * 1e6
            }
            path => files.push(std::fs::read(path).map_err(|error| format!("{path}: {error}"))?),
        }
    }
    if files.is_empty() {
        return Err("name the files to encode".into());
    }
    let ladder = Ladder::new(DEFAULT_PERIOD, Entropy::DEFAULT)?;
    costs(&ladder, &files)?;
    to_and_fro(&ladder, &files)?;
    for percent in [100, 50, 25, 10] {
        paced(&ladder, CpuShare::from_thousandths(percent * 10)?, rate, &files)?;
    }
    Ok(())
}

fn encoder(files: &[Vec<u8>]) -> Result<Encoder, Box<dyn Error>> {
    let total: usize = files.iter().map(Vec::len).sum();
    let mut encoder = Encoder::builder().cache((2 * total as u64).max(1 << 20)).build()?;
    encoder.prefault();
    Ok(encoder)
}

/// Encodes everything at the effort at hand; returns the bytes of the frames.
fn encode(encoder: &mut Encoder, files: &[Vec<u8>]) -> Result<usize, Box<dyn Error>> {
    let mut wire = 0;
    for block in files.iter().flat_map(|file| file.chunks(DEFAULT_BLOCK)) {
        wire += encoder.encode_frame(block, 0)?.len();
    }
    Ok(wire)
}

fn costs(ladder: &Ladder, files: &[Vec<u8>]) -> Result<(), Box<dyn Error>> {
    let total: usize = files.iter().map(Vec::len).sum();
    println!("Cost of the steps on {:.1} MB, sent twice:\n", total as f64 / 1e6);
    println!(
        "{:32} {:>12} {:>9} {:>12} {:>9}",
        "effort", "new: ns/B", "sent", "again: ns/B", "sent"
    );
    for &effort in ladder.efforts() {
        let mut encoder = encoder(files)?;
        encoder.set_effort(effort);
        let mut line = format!("{:32}", effort.to_string());
        for _ in 0..2 {
            let begun = ThreadTime::now();
            let wire = encode(&mut encoder, files)?;
            let cost = begun.elapsed().as_secs_f64() * 1e9 / total as f64;
            line += &format!(" {cost:12.2} {:6.1} MB", wire as f64 / 1e6);
        }
        println!("{line}");
    }
    println!();
    Ok(())
}

/// The first file at one effort, the rest at another: how much of the rest is matched?
fn to_and_fro(ladder: &Ladder, files: &[Vec<u8>]) -> Result<(), Box<dyn Error>> {
    let Some((first, rest)) = files.split_at_checked(1).filter(|(_, rest)| !rest.is_empty()) else {
        return Ok(());
    };
    let rest = &rest[..1];
    let efforts: Vec<Effort> = ladder
        .efforts()
        .iter()
        .copied()
        .filter(|effort| effort.stage() == oncewire_codec::adapt::Stage::Off)
        .collect();
    println!(
        "Matched of the second file, in percent, by the efforts at which the first (row) and the second (column) are encoded:\n"
    );
    let label = |effort: &Effort| {
        if effort.search() { effort.period().to_string() } else { "passed".into() }
    };
    let columns: Vec<_> = efforts.iter().filter(|effort| effort.search()).collect();
    println!(
        "{:8}{}",
        "",
        columns.iter().map(|effort| format!("{:>7}", label(effort))).collect::<String>()
    );
    for indexed in &efforts {
        let mut line = format!("{:8}", label(indexed));
        for &&sought in &columns {
            let mut encoder = encoder(files)?;
            encoder.set_effort(*indexed);
            encode(&mut encoder, first)?;
            let before = encoder.stats();
            encoder.set_effort(sought);
            encode(&mut encoder, rest)?;
            let after = encoder.stats();
            let matched = (after.matched_bytes - before.matched_bytes) as f64
                / (after.block_bytes - before.block_bytes) as f64;
            line += &format!("{:7.1}", 100.0 * matched);
        }
        println!("{line}");
    }
    println!();
    Ok(())
}

fn paced(
    ladder: &Ladder,
    budget: CpuShare,
    rate: f64,
    files: &[Vec<u8>],
) -> Result<(), Box<dyn Error>> {
    let mut encoder = encoder(files)?;
    let (begun, cpu_begun) = (Instant::now(), ThreadTime::now());
    let mut controller = Controller::new(ladder.clone(), budget, Duration::ZERO);
    println!("Budget {budget}, {:.0} MB/s offered:", rate / 1e6);
    let (mut offered, mut wire) = (0, 0);
    let mut decisions = Vec::new();
    let mut encoding = Duration::ZERO;
    for block in files.iter().flat_map(|file| file.chunks(DEFAULT_BLOCK)) {
        let due = Duration::from_secs_f64(offered as f64 / rate);
        std::thread::sleep(due.saturating_sub(begun.elapsed()));
        let cpu = ThreadTime::now();
        wire += encoder.encode_frame(block, 0)?.len();
        let cpu = cpu.elapsed();
        offered += block.len();
        encoding += cpu;
        let now = begun.elapsed();
        if let Some(decision) = controller.spent(block.len() as u64, cpu, now) {
            encoder.set_effort(decision.to);
            decisions.push((now, decision));
        }
    }
    let (time, all) = (begun.elapsed(), cpu_begun.elapsed());
    for (at, decision) in decisions {
        println!("  {:6.2} s  {decision}", at.as_secs_f64());
    }
    for usage in controller.usage().iter().filter(|usage| usage.bytes > 0) {
        let (mb, seconds) = (usage.bytes as f64 / 1e6, usage.time.as_secs_f64());
        let share = 100.0 * usage.cpu.as_secs_f64() / seconds;
        println!(
            "  {:32} {seconds:6.2} s {mb:8.1} MB {share:6.1} % of a core",
            usage.effort.to_string()
        );
    }
    println!(
        "  in all {:.1} % of a core for encoding ({:.1} % with sleeping and waking), {:.2} s, saved {:.1} %\n",
        100.0 * encoding.as_secs_f64() / time.as_secs_f64(),
        100.0 * all.as_secs_f64() / time.as_secs_f64(),
        time.as_secs_f64(),
        100.0 * (1.0 - wire as f64 / offered as f64),
    );
    Ok(())
}
