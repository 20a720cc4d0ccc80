//! What a store reads from its files and writes to them.

use crate::device::{Device, DeviceError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that all logs of a store have read and written since it was opened, whole pages and
/// everything around content included.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    read: AtomicU64,
    written: AtomicU64,
}

impl Traffic {
    /// Bytes read, and bytes written.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.read.load(Ordering::Relaxed), self.written.load(Ordering::Relaxed))
    }
}

/// A device that counts.
pub(super) struct Counted<D> {
    pub(super) device: D,
    pub(super) traffic: Arc<Traffic>,
}

impl<D: Device> Device for Counted<D> {
    fn size(&self) -> u64 {
        self.device.size()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.traffic.read.fetch_add(into.len() as u64, Ordering::Relaxed);
        self.device.read(at, into)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.traffic.written.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.device.write(at, bytes)
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.device.sync()
    }
}
