//! What the eviction policies are good for (T:4485): look-ups that find their key, and what that
//! costs, on two workloads and a simulated Intel SSD, in virtual time.
//!
//! ```text
//! cargo run --release -p oncewire-flash --example eviction
//! ```
#![allow(missing_docs)]

use oncewire_flash::device::{Chip, Memory};
use oncewire_flash::model::Costs;
use oncewire_flash::{Answer, Eviction, Index, Options};
use oncewire_kernels::random::{SplitMix64, mix};
use std::sync::Arc;

type Failure = Box<dyn std::error::Error>;

const FLASH: usize = 8 << 20;
const POLICIES: [(&str, Eviction); 4] = [
    ("FIFO", Eviction::Fifo),
    ("used", Eviction::Used),
    ("updated", Eviction::Updated),
    ("priority", Eviction::Priority { byte: 0, least: 1 }),
];

struct Cache {
    index: Index,
    chip: Arc<Chip>,
    inserted: u64,
}

impl Cache {
    fn new(eviction: Eviction) -> Result<Cache, Failure> {
        let chip = Arc::new(Chip::new(Box::new(Memory::new(FLASH)), Costs::INTEL_SSD));
        let options = Options {
            memory: 5 << 20,
            buffers: 512 << 10,
            buffer: 32 << 10,
            eviction,
            ..Options::default()
        };
        let (index, _) = Index::open(Box::new(chip.clone()), &options)?;
        Ok(Cache { index, chip, inserted: 0 })
    }

    fn look_up(&mut self, key: u64) -> Result<bool, Failure> {
        Ok(match self.index.get(&key.to_le_bytes())? {
            Answer::Value(_) => true,
            Answer::Absent => false,
            Answer::Unknown => return Err("a page cannot be read".into()),
        })
    }

    fn insert(&mut self, key: u64, priority: u8) -> Result<(), Failure> {
        let mut value = self.inserted.to_le_bytes();
        value[0] = priority;
        self.inserted += 1;
        Ok(self.index.insert(&key.to_le_bytes(), &value)?)
    }

    /// Counts from here.
    fn restart(&mut self) {
        self.chip.take();
        self.index.reset_stats();
        self.inserted = 0;
    }

    fn row(&self, name: &str) {
        let (stats, used) = (self.index.stats(), self.chip.take());
        let look_ups = stats.look_ups as f64;
        println!(
            "{name:>10} {:>9.2} % {:>12.2} {:>15.2} {:>12.1} us",
            100.0 * stats.found as f64 / look_ups,
            stats.pages_read as f64 / look_ups,
            used.written as f64 / (16 * self.inserted) as f64,
            1e6 * used.time.as_secs_f64() / look_ups,
        );
    }
}

fn head(title: &str) {
    println!("\n{title}");
    println!(
        "{:>10} {:>11} {:>12} {:>15} {:>15}",
        "policy", "found", "pages read", "bytes written", "I/O a look-up"
    );
}

/// A cache of three times as many keys as it has room for, by Zipf's law with exponent 0.9. Four
/// of five operations are look-ups, and what is not found is inserted; the others are updates. The
/// most popular tenth of the keys has priority.
fn zipf() -> Result<(), Failure> {
    head("Zipf with updates: three times as many keys as fit");
    for (name, eviction) in POLICIES {
        let mut cache = Cache::new(eviction)?;
        let capacity = cache.index.capacity();
        let keys = (3 * capacity) as f64;
        let mut random = SplitMix64(7);
        for n in 0..10 * capacity {
            if n == 5 * capacity {
                cache.restart();
            }
            let power = 1.0 - 0.9;
            let rank = (random.unit() * (keys.powf(power) - 1.0) + 1.0).powf(1.0 / power);
            let key = mix(rank as u64);
            let priority = u8::from(rank < keys / 10.0);
            if random.unit() < 0.2 || !cache.look_up(key)? {
                cache.insert(key, priority)?;
            }
        }
        cache.row(name);
    }
    Ok(())
}

/// Releases of ten projects in turn, whose chunks are looked up, and inserted if they are new. The
/// chunks of one release of each fill three tenths of the index. Of a project, 70 % of the chunks
/// change with 2 % of the releases and have priority, the others with half of them.
fn releases() -> Result<(), Failure> {
    head("Chunks of releases in order: ten projects");
    for (name, eviction) in POLICIES {
        let mut cache = Cache::new(eviction)?;
        let chunks = cache.index.capacity() * 3 / 100;
        let mut random = SplitMix64(9);
        let mut projects: Vec<Vec<u64>> =
            (0..10).map(|_| (0..chunks).map(|_| random.next_u64()).collect()).collect();
        let rounds = 44;
        for round in 0..rounds {
            if round == rounds / 2 {
                cache.restart();
            }
            for project in &mut projects {
                for (place, chunk) in project.iter_mut().enumerate() {
                    let stable = (place as u64) < chunks * 7 / 10;
                    if random.unit() < if stable { 0.02 } else { 0.5 } {
                        *chunk = random.next_u64();
                    }
                    if !cache.look_up(*chunk)? {
                        cache.insert(*chunk, u8::from(stable))?;
                    }
                }
            }
        }
        cache.row(name);
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    zipf()?;
    releases()
}
