//! A device in memory.

use super::{Device, DeviceError, check};
use std::sync::{Mutex, PoisonError};

/// A device in memory. A sync does nothing.
#[derive(Debug)]
pub struct Memory {
    bytes: Mutex<Vec<u8>>,
    size: u64,
}

impl Memory {
    /// `size` zero bytes.
    #[must_use]
    pub fn new(size: usize) -> Memory {
        Memory { bytes: Mutex::new(vec![0; size]), size: size as u64 }
    }

    /// A device with this content.
    #[must_use]
    pub fn with(bytes: Vec<u8>) -> Memory {
        Memory { size: bytes.len() as u64, bytes: Mutex::new(bytes) }
    }
}

impl Device for Memory {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        check(self.size, at, into.len())?;
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        into.copy_from_slice(&bytes[at as usize..][..into.len()]);
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        check(self.size, at, bytes.len())?;
        let mut all = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        all[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}
