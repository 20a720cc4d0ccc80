//! What reads and writes of a device cost, measured for a bounded time.

use oncewire_flash::device::{Aligned, Device, DeviceError, PAGE};
use oncewire_flash::model::{Costs, Kind, Linear};
use oncewire_kernels::random::SplitMix64;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Fewest operations of a kind, however long they take.
const LEAST: usize = 8;

/// Latencies of one kind of operation, one at a time.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Latencies {
    pub(super) operation: &'static str,
    pub(super) bytes: u64,
    pub(super) operations: u64,
    pub(super) mean_seconds: f64,
    pub(super) median_seconds: f64,
    pub(super) p99_seconds: f64,
}

/// A measured device.
pub(super) struct Measured {
    pub(super) rows: Vec<Latencies>,
    pub(super) costs: Costs,
}

/// Measures a device by overwriting it.
///
/// # Errors
///
/// If the device fails, or is smaller than 2 MiB.
pub(super) fn measure(device: &dyn Device, time: Duration) -> Result<Measured, DeviceError> {
    // Random content: a flash device may compress or detect zeros.
    let mut random = SplitMix64(1);
    let mut bytes = Aligned::new(1 << 20);
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&random.next_u64().to_le_bytes());
    }
    // Fill it first: pages that were never written are read from nowhere.
    let mut filled = 0;
    let begun = Instant::now();
    while filled + (1 << 20) <= device.size() && (filled < 4 << 20 || begun.elapsed() < time / 4) {
        device.write(filled, &bytes)?;
        filled += 1 << 20;
    }
    device.sync()?;
    let filled = filled.max(1 << 20);
    let mut rows = Vec::new();
    let mut run = |operation,
                   len: u64,
                   time: Duration,
                   each: &mut dyn FnMut(u64) -> Result<(), DeviceError>| {
        let mut times = Vec::new();
        let begun = Instant::now();
        while times.len() < LEAST || begun.elapsed() < time {
            let start = Instant::now();
            each(len)?;
            times.push(start.elapsed().as_secs_f64());
        }
        let latencies = latencies(operation, len, times);
        let mean = latencies.mean_seconds;
        rows.push(latencies);
        Ok::<f64, DeviceError>(mean)
    };
    let page = PAGE as u64;
    let mut random_read = |len: u64| {
        let at = random.next_u64() % (filled / len) * len;
        device.read(at, &mut bytes[..len as usize])
    };
    let read = run("random read", page, time / 4, &mut random_read)?;
    let long_read = run("random read", 16 * page, time / 8, &mut random_read)?;
    let mut at = 0;
    let mut write = |len: u64| {
        at = if at + len > filled { 0 } else { at };
        let done = device.write(at, &bytes[..len as usize]);
        at += len;
        done
    };
    let written = run("sequential write", 4 * page, time / 8, &mut write)?;
    let long_write = run("sequential write", 64 * page, time / 8, &mut write)?;
    let mut random_write = |len: u64| {
        let at = random.next_u64() % (filled / len) * len;
        device.write(at, &bytes[..len as usize])
    };
    run("random write", page, time / 16, &mut random_write)?;
    run("write and sync", page, time / 16, &mut |len| {
        random_write(len)?;
        device.sync()
    })?;
    let costs = Costs {
        page,
        read: Linear::through((page, read), (16 * page, long_read)),
        write: Linear::through((4 * page, written), (64 * page, long_write)),
        kind: Kind::Ssd,
    };
    Ok(Measured { rows, costs })
}

pub(super) fn latencies(operation: &'static str, bytes: u64, mut times: Vec<f64>) -> Latencies {
    times.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    Latencies {
        operation,
        bytes,
        operations: times.len() as u64,
        mean_seconds: times.iter().sum::<f64>() / times.len() as f64,
        median_seconds: at(0.5),
        p99_seconds: at(0.99),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncewire_flash::device::{Crash, Fault, Memory, Operation};

    #[test]
    fn every_operation_is_measured_and_errors_end_it() {
        let measured = measure(&Memory::new(4 << 20), Duration::ZERO).expect("measured");
        assert_eq!(measured.rows.len(), 6);
        assert!(measured.rows.iter().all(|row| row.operations == LEAST as u64));
        assert!(measured.costs.read.of(4096) >= 0.0);
        let device = Crash::new(2 << 20);
        device.fail(Operation::Read, 3, Fault::Io);
        assert!(measure(&device, Duration::ZERO).is_err());
    }

    #[test]
    fn percentiles_are_of_sorted_times() {
        let row = latencies("read", 4096, vec![3.0, 1.0, 2.0]);
        assert_eq!((row.mean_seconds, row.median_seconds, row.p99_seconds), (2.0, 2.0, 3.0));
    }
}
