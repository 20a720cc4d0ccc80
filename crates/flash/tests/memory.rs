//! What an index says that it takes is what the allocator gives it, from open to close.

mod support;

use oncewire_flash::device::{Device, DeviceError, Memory};
use oncewire_flash::{Answers, Entries, Filter, Index, Keys, OpenError, Options};
use std::sync::Arc;
use support::{Random, SIZE, TINY_SIZE, small_kinds, tiny};

/// Fills an index, updates, deletes, looks up, opens it again: the most that it takes at any time.
fn most(device: &Arc<Memory>, options: &Options) -> u64 {
    let mut answers = Answers::new();
    let keys: Vec<u8> = (0..70_000u64).flat_map(u64::to_le_bytes).collect();
    // What the caller has is not the index's.
    answers.reserve(70_000, options.value);
    let mut said = 0;
    let counted = allocation_counter::measure(|| {
        for _ in 0..2 {
            let (mut index, _) = Index::open(Box::new(device.clone()), options).expect("opens");
            said = index.memory().total();
            let mut random = Random::new(3);
            for n in 0..40_000u64 {
                let key = if n % 3 == 0 { random.below(30) } else { random.below(30_000) };
                index.insert(&key.to_le_bytes(), &n.to_le_bytes()).expect("inserts");
                if n % 3 == 1 {
                    index.delete(&random.below(30_000).to_le_bytes()).expect("deletes");
                }
                if n % 5000 == 0 {
                    index.flush().expect("flushes");
                }
            }
            index.insert_batch(&Entries { keys: &keys, values: &keys }).expect("inserts");
            index.get_batch(&Keys(&keys), &mut answers).expect("answers");
            index.load_all();
            index.get_batch(&Keys(&keys), &mut answers).expect("answers");
            index.close().expect("closes");
        }
    });
    // Threads free what starts them.
    assert!(counted.bytes_current.unsigned_abs() < 512 * u64::from(options.threads), "{counted:?}");
    assert!(said <= options.memory);
    let most = counted.bytes_max;
    assert!(most <= said, "{most} of {said}: {options:?}");
    most
}

#[test]
fn all_memory_is_counted() {
    for options in small_kinds() {
        for filter in [Filter::Sliced, Filter::Maplet] {
            let options = Options { filter, ..options };
            let most = most(&Arc::new(Memory::new(SIZE)), &options);
            // And not much more is said than is used.
            assert!(most > options.memory * 9 / 10, "{most} of {}", options.memory);
        }
    }
    // Large buffers.
    let options = Options { memory: 4 << 20, buffers: 512 << 10, threads: 4, ..Options::default() };
    most(&Arc::new(Memory::new(8 << 20)), &options);
    // Many slots, so that recovery has many records, and many reads in flight.
    let options = Options { memory: 2400 << 10, threads: 64, ..tiny() };
    most(&Arc::new(Memory::new(TINY_SIZE)), &options);
}

/// A device of which nothing is kept.
struct Nothing(u64);

impl Device for Nothing {
    fn size(&self) -> u64 {
        self.0
    }
    fn read(&self, _: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        into.fill(0);
        Ok(())
    }
    fn write(&self, _: u64, _: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }
    fn sync(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// The goal for 32 GiB: 2.5 bytes a key at 0.01 spurious reads a look-up.
#[test]
fn an_index_of_32_gib_takes_2_5_bytes_a_key() {
    let flash = 32u64 << 30;
    let buffers = (flash / 62).next_multiple_of(128 << 10);
    let options = Options { buffers, memory: 6 << 30, ..Options::default() };
    let open = |options: &Options| Index::open(Box::new(Nothing(flash)), options);
    let capacity = open(&options).expect("opens").0.capacity();
    assert!(capacity > 2_000_000_000, "{capacity}");
    let refused = open(&Options { memory: buffers, ..options }).expect_err("too little");
    let OpenError::Memory { least, .. } = refused else { panic!("{refused}") };
    println!("{:.3} bytes a key at least", least as f64 / capacity as f64);
    let memory = capacity * 5 / 2;
    let (index, _) = open(&Options { memory, ..options }).expect("has enough");
    assert!(index.memory().total() <= memory);
    // Entries of the filter that are compared, by how full they are, and the chance that one agrees.
    let filters = index.filters();
    let full = f64::from(filters.entries) * 16.0 / f64::from(filters.bits);
    let spurious = 8.0 * full / 1024.0;
    assert!(spurious < 0.0078, "{spurious}");
    println!(
        "{:.3} bytes a key, {spurious:.5} spurious reads: {:?}",
        index.memory().total() as f64 / capacity as f64,
        index.memory()
    );
}
