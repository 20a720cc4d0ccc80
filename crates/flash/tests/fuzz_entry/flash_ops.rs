//! A history of operations with crashes, beside an oracle.

use super::Bytes;
use oncewire_flash::device::{Crash, Fault, Operation};
use oncewire_flash::{Answer, Eviction, Filter, Index, Layout, List, Options};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A value that is this long leaves six entries for a buffer.
const VALUE: usize = 255;
/// Operations after which an entry may be evicted: of 11 incarnations of a partition with 6 entries,
/// a crash may take three, and one is about to be evicted.
const KEPT: u64 = 24;

struct Oracle {
    /// Numbers of the operations on each key, and whether it was inserted or deleted.
    done: BTreeMap<u64, Vec<(u64, bool)>>,
    number: u64,
    covered: u64,
    /// Operations that a crash may have lost: after the first number, up to the second.
    lost: Vec<(u64, u64)>,
    unknown: bool,
}

pub fn run(input: &[u8]) {
    let mut bytes = Bytes(input);
    let first = bytes.byte();
    let list = if first & 1 == 0 { List::Shared } else { List::PerPartition };
    let filter = if first >> 4 & 1 == 0 { Filter::Sliced } else { Filter::Maplet };
    let eviction = [
        Eviction::Fifo,
        Eviction::Used,
        Eviction::Updated,
        Eviction::Priority { byte: 0, least: 128 },
    ][usize::from(first >> 5 & 3)];
    let layout = if first >> 3 & 1 == 0 { Layout::Published } else { Layout::Sorted };
    let options = Options {
        key: 8,
        value: VALUE,
        memory: 1400 << 10,
        buffers: 8192,
        buffer: 4096,
        list,
        layout,
        filter,
        window: u32::from(first >> 1 & 3),
        threads: 2,
        eviction,
    };
    let mut device = Arc::new(Crash::new(280 << 10));
    let open =
        |device: &Arc<Crash>| Index::open(Box::new(device.clone()), &options).expect("opens").0;
    let mut index = open(&device);
    let mut oracle =
        Oracle { done: BTreeMap::new(), number: 0, covered: 0, lost: Vec::new(), unknown: false };
    let mut failed = false;
    for _ in 0..400 {
        if bytes.is_empty() {
            break;
        }
        let operation = bytes.byte();
        let key = u64::from(operation / 8);
        match operation % 8 {
            0..=2 => {
                let value = oracle.number + 1;
                if index
                    .insert(&key.to_le_bytes(), &[value.to_le_bytes(); 32].concat()[..VALUE])
                    .is_ok()
                {
                    oracle.note(key, true);
                } else {
                    assert!(failed, "an insert fails without a fault");
                }
            }
            3 if index.delete(&key.to_le_bytes()).is_ok() => oracle.note(key, false),
            4 if index.flush().is_ok() => oracle.covered = oracle.number,
            5 => oracle.check(&index, key, oracle.number),
            6 => {
                // Power loss.
                device = Arc::new(device.cut(device.steps(), bytes.number(8)));
                oracle.lost.push((oracle.covered, oracle.number));
                index = open(&device);
                failed = false;
                for key in 0..32 {
                    oracle.check(&index, key, oracle.covered);
                }
            }
            7 => {
                let kind = [Operation::Read, Operation::Write, Operation::Sync]
                    [usize::from(bytes.byte() % 3)];
                let fault = [Fault::Io, Fault::NoSpace][usize::from(bytes.byte() % 2)];
                device.fail(kind, u64::from(operation / 8), fault);
                failed = true;
                oracle.unknown |= kind == Operation::Read;
            }
            _ => {}
        }
    }
    let content = device.cut(device.steps(), u64::MAX);
    drop(index);
    let index = open(&Arc::new(content));
    oracle.lost.push((oracle.covered, oracle.number));
    for key in 0..32 {
        oracle.check(&index, key, oracle.covered);
    }
}

impl Oracle {
    fn note(&mut self, key: u64, inserted: bool) {
        self.number += 1;
        self.done.entry(key).or_default().push((self.number, inserted));
    }

    fn check(&self, index: &Index, key: u64, covered: u64) {
        let lost =
            |number: u64| self.lost.iter().any(|(after, to)| (after + 1..=*to).contains(&number));
        let none = Vec::new();
        let done = self.done.get(&key).unwrap_or(&none);
        let newest = done.iter().rev().find(|(number, _)| *number <= covered && !lost(*number));
        let least = newest.map_or(0, |(number, _)| *number);
        match index.get(&key.to_le_bytes()).expect("answers") {
            Answer::Value(value) => {
                let number = u64::from_le_bytes(value[..8].try_into().expect("8 bytes"));
                assert!(done.contains(&(number, true)), "{key}: {number} was never inserted");
                assert!(number >= least, "{key}: {number} is older than {least}");
            }
            Answer::Unknown if self.unknown => {}
            Answer::Unknown => panic!("{key}: nothing is damaged"),
            Answer::Absent => {
                let deleted = done.iter().any(|(number, inserted)| *number >= least && !inserted);
                assert!(
                    newest.is_none() || deleted || least + KEPT <= self.number,
                    "{key}: {least} is gone"
                );
            }
        }
    }
}
