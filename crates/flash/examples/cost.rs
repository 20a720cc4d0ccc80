//! Inserts and look-ups of a full index in memory, to count instructions:
//!
//! ```text
//! cargo build --release -p oncewire-flash --example cost
//! valgrind --tool=callgrind --toggle-collect='cost::measured*' \
//!     target/release/examples/cost insert-batch 1000000
//! ```
//!
//! Operations are `insert`, `insert-batch`, `get`, `get-batch`, both of absent keys, and `found`. Divide the
//! instructions by the operations, which are printed.
#![allow(missing_docs)]

use oncewire_flash::device::Memory;
use oncewire_flash::{Answers, Entries, Index, Keys, Options};
use oncewire_kernels::random::SplitMix64;
use std::hint::black_box;

type Failure = Box<dyn std::error::Error>;

/// Bytes of the device: sixty-one incarnations of four partitions.
const FLASH: u64 = 31 << 20;
const BATCH: usize = 1 << 14;

fn keys(from: u64, len: usize) -> Vec<u8> {
    (from..from + len as u64).flat_map(|n| SplitMix64(n).next_u64().to_le_bytes()).collect()
}

#[inline(never)]
fn measured(
    index: &mut Index,
    operation: &str,
    keys: &[u8],
    answers: &mut Answers,
) -> Result<(), Failure> {
    match operation {
        "insert-batch" => index.insert_batch(&Entries { keys, values: keys })?,
        "get-batch" => index.get_batch(&Keys(keys), answers)?,
        "insert" => {
            for key in keys.chunks_exact(8) {
                index.insert(key, key)?;
            }
        }
        _ => {
            for key in keys.chunks_exact(8) {
                black_box(index.get(key)?);
            }
        }
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let operation = args.next().ok_or("name an operation")?;
    let operations: usize = args.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let options = Options::builder(FLASH, 8 << 20).threads(1).build()?;
    let (mut index, _) = Index::open(Box::new(Memory::new(FLASH as usize)), &options)?;
    let mut n = 0;
    while index.stats().evicted < 16 {
        let keys = keys(n, BATCH);
        index.insert_batch(&Entries { keys: &keys, values: &keys })?;
        n += BATCH as u64;
    }
    index.reset_stats();
    let mut answers = Answers::new();
    for batch in 0..operations.div_ceil(BATCH) as u64 {
        let from = match &operation[..] {
            // Of the newest half.
            "found" => n - (batch + 1) * BATCH as u64 % (n / 2),
            _ => n + batch * BATCH as u64,
        };
        let keys = keys(from, BATCH.min(operations - batch as usize * BATCH));
        measured(&mut index, &operation, &keys, &mut answers)?;
    }
    println!("{operations} operations of an index of {n} keys");
    println!("{:?}", index.stats());
    println!("{:.2} bytes a key", index.memory().total() as f64 / index.capacity() as f64);
    Ok(())
}
