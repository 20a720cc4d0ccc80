//! The figures and tables of the chapter (T:3940-4925) on devices with the published costs, in
//! virtual time: the load of the machine does not matter.
//!
//! ```text
//! cargo run --release -p oncewire-flash --example chapter -- [SCALE [DIR [PARTS]]]
//! ```
//!
//! `SCALE` divides the published sizes of flash and memory (32 GB and 4 GB): 8 if it is not given.
//! The content of the device is a temporary file in `DIR`, or memory if there is none. `PARTS` are
//! Figures 5.3 to 5.5, Tables 5.2 and 5.3, and what buffers and filters contribute:
//! `f3,f4,f5,t2,t3,c`.
#![allow(missing_docs)]

use oncewire_flash::device::{Chip, Device, FileDevice, Memory};
use oncewire_flash::format::Geometry;
use oncewire_flash::model::{Costs, Tuning, best_buffers};
use oncewire_flash::{Answer, Filter, Index, Layout, List, Options, Stats, Unbuffered};
use oncewire_kernels::random::SplitMix64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

type Failure = Box<dyn std::error::Error>;

const GIB: u64 = 1 << 30;
const KIB: u64 = 1 << 10;

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let scale: u64 = args.next().map_or(Ok(8), |text| text.parse())?;
    let directory = args.next().map(PathBuf::from);
    let parts = args.next().unwrap_or_else(|| "f3,f4,f5,t2,t3,c".into());
    for part in parts.split(',') {
        match part {
            "f3" => figure_3(),
            "f4" => figure_4()?,
            "f5" => figure_5(scale, directory.as_deref())?,
            "t2" => table_2(scale, directory.as_deref())?,
            "t3" => table_3(scale, directory.as_deref())?,
            "c" => contributions(scale)?,
            _ => return Err(format!("{part}: write f3, f4, f5, t2, t3 or c").into()),
        }
    }
    Ok(())
}

/// An index on a simulated device.
struct Setup {
    index: Index,
    chip: Arc<Chip>,
    random: SplitMix64,
}

impl Setup {
    fn new(
        costs: Costs,
        flash: u64,
        options: &Options,
        directory: Option<&Path>,
    ) -> Result<Setup, Failure> {
        let content: Box<dyn Device> = match directory {
            Some(directory) => Box::new(FileDevice::temporary(directory, flash)?),
            None => Box::new(Memory::new(flash as usize)),
        };
        let chip = Arc::new(Chip::new(content, costs));
        let (index, _) = Index::open(Box::new(chip.clone()), options)?;
        Ok(Setup { index, chip, random: SplitMix64(1) })
    }

    /// Inserts random keys below `range` until the ring was written once, and a bit more.
    fn fill(&mut self, range: u64) -> Result<(), Failure> {
        while self.index.stats().evicted < 64 {
            let key = self.random.next_u64() % range;
            self.index.insert(&key.to_le_bytes(), &key.to_le_bytes())?;
        }
        self.chip.take();
        self.index.reset_stats();
        Ok(())
    }

    fn look_up(&mut self, range: u64) -> Result<Duration, Failure> {
        let key = self.random.next_u64() % range;
        let answer = self.index.get(&key.to_le_bytes())?;
        if !matches!(&answer, Answer::Absent) && answer != Answer::Value(key.to_le_bytes().to_vec())
        {
            return Err(format!("wrong answer: {answer:?}").into());
        }
        Ok(self.chip.take().time)
    }

    fn insert(&mut self, range: u64) -> Result<Duration, Failure> {
        let key = self.random.next_u64() % range;
        self.index.insert(&key.to_le_bytes(), &key.to_le_bytes())?;
        Ok(self.chip.take().time)
    }
}

/// Keys below this number are found with this probability when the ring is full of random ones.
fn range_for(capacity: u64, found: f64) -> u64 {
    if found == 0.0 { u64::MAX } else { (-(capacity as f64) / (1.0 - found).ln()) as u64 }
}

/// The published configuration: as many slots and as much memory for buffers and filters. What
/// the format adds (directory, spill areas) and tables in memory come on top.
fn published(
    costs: Costs,
    scale: u64,
    buffers: u64,
    window: u32,
    directory: Option<&Path>,
) -> Result<Setup, Failure> {
    let buffers = buffers / scale;
    let slots = 32 * GIB / scale / (128 * KIB);
    let partitions = (buffers / (128 * KIB)) as u32;
    let mut flash = 32 * GIB / scale;
    loop {
        let fits =
            Geometry::fit(flash, partitions, 32, 8, 8, List::Shared, Layout::Published)?.slots;
        if fits >= slots {
            break;
        }
        flash += (slots - fits) * (128 * KIB + 64);
    }
    let generous = Options {
        memory: 5 * GIB / scale + (16 << 20),
        buffers,
        window,
        layout: Layout::Published,
        filter: Filter::Sliced,
        ..Options::default()
    };
    let tables = Setup::new(costs, flash, &generous, directory)?.index.memory().tables;
    let memory = (4 * GIB / scale + tables) * 64 / 63;
    Setup::new(costs, flash, &Options { memory, ..generous }, directory)
}

fn figure_3() {
    println!(
        "\nFigure 5.3: reads of an absent key by the size of the filters, model, 0.31 ms a read"
    );
    println!("{:>12} {:>12} {:>12}", "filters", "32 GB", "64 GB");
    for filters in [64u64, 128, 256, 512, 1024, 2048, 4096] {
        let cost = |flash: u64| {
            let flash = (flash * GIB) as f64;
            let buffers = best_buffers(flash, 32.0);
            let tuning = Tuning { flash, entry: 32.0, buffers, filters: (filters << 20) as f64 };
            1e3 * tuning.look_up(Costs::INTEL_SSD.page_read())
        };
        println!("{:>9} MB {:>9.3} ms {:>9.3} ms", filters, cost(32), cost(64));
    }
}

fn figure_4() -> Result<(), Failure> {
    for (name, costs) in [
        ("flash chip", Costs::FLASH_CHIP),
        ("Intel SSD", Costs::INTEL_SSD),
        ("Transcend SSD", Costs::TRANSCEND_SSD),
    ] {
        println!(
            "\nFigure 5.4: inserts on the {name}, I/O only: the model, and an index of 48 MiB"
        );
        println!(
            "{:>10} {:>12} {:>12} {:>12} {:>12} {:>14}",
            "buffer", "mean, model", "mean, index", "worst, model", "worst, index", "pages moved"
        );
        for buffer in [16 * KIB, 32 * KIB, 64 * KIB, 96 * KIB, 128 * KIB, 160 * KIB, 256 * KIB] {
            let options = Options {
                memory: 24 << 20,
                buffers: 16 * buffer,
                buffer,
                list: List::PerPartition,
                layout: Layout::Published,
                filter: Filter::Sliced,
                ..Options::default()
            };
            let mut setup = Setup::new(costs, 48 << 20, &options, None)?;
            setup.fill(u64::MAX)?;
            let inserts = 4 * setup.index.filters().partitions * setup.index.filters().entries;
            let (mut sum, mut worst, mut moved) = (Duration::ZERO, Duration::ZERO, 0);
            for n in 0..inserts {
                let key = (n as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                setup.index.insert(&key.to_le_bytes(), &key.to_le_bytes())?;
                let used = setup.chip.take();
                sum += used.time;
                worst = worst.max(used.time);
                moved += used.moved;
            }
            let entry = buffer as f64 / f64::from(setup.index.filters().entries);
            println!(
                "{:>6} KiB {:>9.2} us {:>9.2} us {:>9.2} ms {:>9.2} ms {:>14}",
                buffer / KIB,
                1e6 * costs.mean_insert(buffer, entry),
                1e6 * sum.as_secs_f64() / f64::from(inserts),
                1e3 * costs.worst_insert(buffer),
                1e3 * worst.as_secs_f64(),
                moved
            );
        }
    }
    Ok(())
}

fn figure_5(scale: u64, directory: Option<&Path>) -> Result<(), Failure> {
    println!("\nFigure 5.5: spurious reads by memory for buffers, of 4 GB; index at 1/{scale}");
    println!(
        "{:>10} {:>6} {:>6} {:>12} {:>12} {:>12}",
        "buffers", "k", "h", "model", "index", "window of 8"
    );
    for buffers in [256, 512, 1024, 2048, 3072] {
        let mut found = Vec::new();
        let mut filters = None;
        for window in [0, 8] {
            let mut setup = published(Costs::INTEL_SSD, scale, buffers << 20, window, directory)?;
            setup.fill(u64::MAX)?;
            for _ in 0..200_000 {
                setup.look_up(u64::MAX)?;
            }
            let stats = setup.index.stats();
            found.push(stats.spurious as f64 / stats.look_ups as f64);
            filters.get_or_insert(setup.index.filters());
        }
        let flash = (32 * GIB) as f64;
        let full = (buffers << 20) as f64;
        let tuning = Tuning { flash, entry: 32.0, buffers: full, filters: (4 * GIB) as f64 - full };
        let hashes = filters.map_or(0, |filters| filters.hashes);
        println!(
            "{:>7} MB {:>6.0} {:>6} {:>12.6} {:>12.6} {:>12.6}",
            buffers,
            tuning.incarnations(),
            hashes,
            tuning.spurious_reads(),
            found[0],
            found[1]
        );
    }
    Ok(())
}

fn table_2(scale: u64, directory: Option<&Path>) -> Result<(), Failure> {
    println!("\nTable 5.2: pages that a look-up reads, 2 GB of buffers; index at 1/{scale}");
    let printed = [[0.9899, 0.0094, 0.0005, 0.00005], [0.6032, 0.3894, 0.0073, 0.00003]];
    for (column, found) in [0.0, 0.4].into_iter().enumerate() {
        let mut setup = published(Costs::INTEL_SSD, scale, 2 * GIB, 0, directory)?;
        let range = range_for(setup.index.capacity(), found);
        setup.fill(range)?;
        let mut times = Vec::new();
        for _ in 0..1_000_000 {
            times.push(setup.look_up(range)?);
            setup.insert(range)?;
        }
        let Stats { reads, look_ups, found: hits, spurious, written, inserts, .. } =
            setup.index.stats();
        let share = |n: u64| n as f64 / look_ups as f64;
        println!(
            "{:.1} % found, {:.4} spurious reads a look-up, {:.3} bytes written per byte inserted",
            100.0 * share(hits),
            share(spurious),
            written as f64 / (16 * inserts) as f64
        );
        println!("{:>8} {:>10} {:>10}", "reads", "published", "index");
        for (n, count) in reads.into_iter().enumerate() {
            println!(
                "{:>8} {:>10.5} {:>10.5}",
                if n == 3 { "3 or more".to_owned() } else { n.to_string() },
                printed[column][n],
                share(count)
            );
        }
        times.sort_unstable();
        let mean = times.iter().sum::<Duration>().as_secs_f64() / times.len() as f64;
        println!(
            "look-up: mean {:.3} ms, 99.8 % within {:.3} ms, I/O only (published: 0.06 ms, 0.176 ms)",
            1e3 * mean,
            1e3 * times[times.len() * 998 / 1000].as_secs_f64()
        );
        println!(
            "memory: {:.2} bytes an entry",
            setup.index.memory().total() as f64 / setup.index.capacity() as f64
        );
    }
    Ok(())
}

fn table_3(scale: u64, directory: Option<&Path>) -> Result<(), Failure> {
    println!(
        "\nTable 5.3: an operation on the Transcend SSD, I/O only, 40 % found; index at 1/{scale}"
    );
    println!("{:>10} {:>12} {:>12} {:>14}", "look-ups", "published", "index", "Berkeley DB");
    let mut setup = published(Costs::TRANSCEND_SSD, scale, 2 * GIB, 0, directory)?;
    let range = range_for(setup.index.capacity(), 0.4);
    setup.fill(range)?;
    for (share, published, berkeley) in [
        (0.0, 0.007, 18.4),
        (0.3, 0.01, 13.5),
        (0.5, 0.09, 10.3),
        (0.7, 0.11, 5.3),
        (1.0, 0.12, 0.3),
    ] {
        let (mut sum, operations) = (Duration::ZERO, 400_000);
        for _ in 0..operations {
            let look_up = setup.random.unit() < share;
            sum += if look_up { setup.look_up(range)? } else { setup.insert(range)? };
        }
        let mean = 1e3 * sum.as_secs_f64() / f64::from(operations);
        println!("{share:>10.1} {published:>9.3} ms {mean:>9.3} ms {berkeley:>11.1} ms");
    }
    Ok(())
}

/// What buffers and filters contribute (T:4669): the mean of an insert and of a look-up, beside a
/// hash table of the same size that has neither.
fn contributions(scale: u64) -> Result<(), Failure> {
    for (name, costs) in [("Intel SSD", Costs::INTEL_SSD), ("Transcend SSD", Costs::TRANSCEND_SSD)]
    {
        let mut setup = published(costs, scale, 2 * GIB, 0, None)?;
        let range = range_for(setup.index.capacity(), 0.4);
        setup.fill(range)?;
        let filters = setup.index.filters();
        // Every buffer is written once.
        let inserts = filters.partitions * filters.entries;
        let (mut insert, mut look_up) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..inserts {
            insert += setup.insert(range)?;
        }
        for _ in 0..200_000 {
            look_up += setup.look_up(range)?;
        }
        let stats = setup.index.stats();
        let pages = stats.pages_read as f64 / stats.look_ups as f64;
        let (insert, look_up) =
            (insert.as_secs_f64() / f64::from(inserts), look_up.as_secs_f64() / 200_000.0);
        println!("\nWhat buffers and filters contribute, {name}, I/O only; index at 1/{scale}");
        println!("index: {:.2} us an insert, {:.1} us a look-up", 1e6 * insert, 1e6 * look_up);

        let flash = 32 * GIB / scale;
        let chip = Arc::new(Chip::new(Box::new(Memory::new(flash as usize)), costs));
        let entries = (0..flash / 33).map(|n: u64| {
            let key = n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes().to_vec();
            (key.clone(), key)
        });
        let mut table = Unbuffered::create(Box::new(chip.clone()), 8, 8, entries)?;
        chip.take();
        for n in 0..20_000u64 {
            table.insert(&n.to_le_bytes(), &n.to_le_bytes())?;
        }
        let plain = chip.take().time.as_secs_f64() / 20_000.0;
        println!(
            "without buffers: {:.0} us an insert, {:.0} times as long",
            1e6 * plain,
            plain / insert
        );
        // Every incarnation is read for an absent key, and half of them on average for another.
        let k = f64::from(filters.incarnations);
        let unfiltered = 0.6 * k + 0.4 * (k + 1.0) / 2.0;
        println!(
            "without filters: {unfiltered:.1} pages a look-up instead of {pages:.2}, {:.0} times as many",
            unfiltered / pages
        );
    }
    Ok(())
}
