//! The workload that all programs of this workspace run, in Rust; `native/workload.h` is the same in
//! C. README.md has the command line.

use cpu_time::ProcessTime;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub type Result<T> = std::result::Result<T, Box<dyn Error>>;
pub type Key = [u8; 8];

/// Numbers of keys that are never inserted start here.
const ABSENT: u64 = 1 << 40;
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// An index of keys and values of 8 bytes.
pub trait Engine {
    fn insert(&mut self, key: Key, value: Key) -> Result<()>;
    fn get(&mut self, key: Key) -> Result<Option<Key>>;

    /// Inserts keys one after another, unless the engine has something better.
    fn insert_batch(&mut self, entries: &[(Key, Key)]) -> Result<()> {
        entries.iter().try_for_each(|&(key, value)| self.insert(key, value))
    }

    /// Looks keys up one after another, unless the engine has something better.
    fn get_batch(&mut self, keys: &[Key]) -> Result<Vec<Option<Key>>> {
        keys.iter().map(|&key| self.get(key)).collect()
    }

    /// Makes everything durable, and ends work in the background.
    fn finish(&mut self) -> Result<()>;
}

/// What an engine may use.
pub struct Setup {
    pub dir: PathBuf,
    /// Bytes of memory of the whole process.
    pub memory: u64,
    /// Keys that it has, or that are loaded.
    pub keys: u64,
    /// Keys that were loaded, to size it by.
    pub planned: u64,
    /// Whether the index is to be created.
    pub create: bool,
}

/// The finalizer of SplitMix64.
fn mix(bits: u64) -> u64 {
    let bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

/// Key number `n`. Different numbers have different keys.
pub fn key(seed: u64, n: u64) -> u64 {
    mix(seed.wrapping_add((n + 1).wrapping_mul(GOLDEN)))
}

fn value(key: u64) -> Key {
    key.rotate_left(32).to_be_bytes()
}

/// Latencies by powers of two of nanoseconds, each in eight parts. A batch counts as all of its
/// operations, each with the time of the batch.
struct Latencies {
    counts: Vec<u64>,
    total: u64,
}

impl Latencies {
    fn new() -> Latencies {
        Latencies { counts: vec![0; 64 * 8], total: 0 }
    }

    fn add(&mut self, time: Duration, operations: u64) {
        let ns = (time.as_nanos() as u64).max(8);
        let power = ns.ilog2();
        self.counts[(power * 8) as usize + (ns >> (power - 3) & 7) as usize] += operations;
        self.total += operations;
    }

    /// Microseconds that this share of the operations did not exceed, within an eighth.
    fn at(&self, share: f64) -> f64 {
        let mut left = (self.total as f64 * share) as u64;
        for (place, &count) in self.counts.iter().enumerate() {
            if count > left {
                return (1u64 << (place / 8)) as f64 * (1.0 + (place % 8 + 1) as f64 / 8.0) / 1e3;
            }
            left -= count;
        }
        0.0
    }
}

/// Bytes that this process caused to be read and written, by the kernel's count.
fn bytes() -> (u64, u64) {
    let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let of = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
    };
    (of("read_bytes:"), of("write_bytes:"))
}

/// Runs the command line.
// More than 100 lines: phases of one workload, each with its own clock.
pub fn run<E: Engine>(name: &str, sorted: bool, open: impl Fn(&Setup) -> Result<E>) -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: DIR MEMORY SEED load KEYS | mix KEYS SECONDS LOOK-UPS FOUND BATCH | vector";
    let [dir, memory, seed, command, rest @ ..] = &args[..] else { return Err(usage.into()) };
    let seed: u64 = seed.parse()?;
    if command == "vector" {
        for n in 0..4 {
            println!("{:016x}", key(seed, n));
        }
        return Ok(());
    }
    let keys: u64 = rest.first().ok_or(usage)?.parse()?;
    let (dir, create) = (PathBuf::from(dir), command == "load");
    let plan = dir.join("keys");
    if create {
        fs::write(&plan, keys.to_string())?;
    }
    let planned = fs::read_to_string(plan)?.parse()?;
    let setup = Setup { dir, memory: memory.parse()?, keys, planned, create };
    let mut engine = open(&setup)?;
    let (begun, cpu, (read, written)) = (Instant::now(), ProcessTime::now(), bytes());
    let (mut look_ups, mut inserts) = (Latencies::new(), Latencies::new());
    let (mut found, mut next) = (0u64, keys);
    match (&command[..], &rest[1..]) {
        ("load", []) if sorted => {
            let mut all: Vec<u64> = (0..keys).map(|n| key(seed, n)).collect();
            all.sort_unstable();
            for key in all {
                engine.insert(key.to_be_bytes(), value(key))?;
            }
        }
        ("load", []) => {
            for n in 0..keys {
                let key = key(seed, n);
                engine.insert(key.to_be_bytes(), value(key))?;
            }
        }
        ("mix", [seconds, share, hits, batch]) => {
            let limit = Duration::from_secs_f64(seconds.parse()?);
            let (share, hits): (f64, f64) = (share.parse()?, hits.parse()?);
            let batch: usize = batch.parse()?;
            let mut state = mix(seed ^ keys);
            let mut uniform = || {
                state = state.wrapping_add(GOLDEN);
                mix(state)
            };
            let below = |bits: u64, share: f64| ((bits >> 11) as f64) < share * (1u64 << 53) as f64;
            let (mut asked, mut expected) = (Vec::new(), Vec::new());
            let mut entries = Vec::new();
            let mut now = Instant::now();
            let most = keys + planned / 10;
            while now.duration_since(begun) < limit && next < most {
                let then = now;
                if below(uniform(), share) {
                    (asked.clear(), expected.clear());
                    for _ in 0..batch {
                        let hit = below(uniform(), hits);
                        let n = if hit { uniform() % keys } else { ABSENT + uniform() % ABSENT };
                        let key = key(seed, n);
                        asked.push(key.to_be_bytes());
                        expected.push(hit.then(|| value(key)));
                        found += u64::from(hit);
                    }
                    let answers = match &asked[..] {
                        [one] => vec![engine.get(*one)?],
                        many => engine.get_batch(many)?,
                    };
                    if answers != expected {
                        return Err("a wrong answer".into());
                    }
                    now = Instant::now();
                    look_ups.add(now - then, batch as u64);
                } else {
                    entries.clear();
                    for _ in 0..batch {
                        let key = key(seed, next);
                        entries.push((key.to_be_bytes(), value(key)));
                        next += 1;
                    }
                    match &entries[..] {
                        [(key, value)] => engine.insert(*key, *value)?,
                        many => engine.insert_batch(many)?,
                    }
                    now = Instant::now();
                    inserts.add(now - then, batch as u64);
                }
            }
        }
        _ => return Err(usage.into()),
    }
    engine.finish()?;
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu.elapsed().as_secs_f64());
    let after = bytes();
    let times = |times: &Latencies| {
        serde_json::json!({
            "operations": times.total,
            "median_us": times.at(0.5),
            "p99_us": times.at(0.99),
        })
    };
    let result = serde_json::json!({
        "engine": name,
        "keys": next,
        "seconds": seconds,
        "cpu_seconds": cpu,
        "read_bytes": after.0 - read,
        "written_bytes": after.1 - written,
        "found": found,
        "look_ups": times(&look_ups),
        "inserts": times(&inserts),
    });
    println!("{result}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same as in `native/workload.h`: `scripts/flash.py` compares the programs.
    #[test]
    fn keys_are_as_documented() {
        let keys = [0, 1, 2].map(|n| key(1, n));
        assert_eq!(keys, [0x910a2dec89025cc1, 0xbeeb8da1658eec67, 0xf893a2eefb32555e]);
    }

    #[test]
    fn latencies_are_within_an_eighth() {
        let mut latencies = Latencies::new();
        for us in 1..=1000 {
            latencies.add(Duration::from_micros(us), 1);
        }
        for (share, expected) in [(0.5, 500.0), (0.99, 990.0)] {
            let found = latencies.at(share);
            assert!((1.0..1.13).contains(&(found / expected)), "{share}: {found}");
        }
    }
}
