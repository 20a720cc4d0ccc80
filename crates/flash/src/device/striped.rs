//! Several devices as one (T:4168).

use super::{Device, DeviceError, check};
use std::io;

/// Several devices as one: stripes of the same length, taken from each in turn. With slots that are
/// as long as a stripe or shorter, consecutive incarnations lie on different devices, so that
/// writes and reads are spread over all of them.
///
/// The thesis spreads partitions over devices, so that each has a circular list; here, one list
/// runs over all of them, which is what recovery relies on.
pub struct Striped {
    devices: Vec<Box<dyn Device>>,
    stripe: u64,
    /// Bytes of each device that are used.
    each: u64,
}

impl Striped {
    /// Joins devices. Of each, as much is used as the smallest has; their order must always be the
    /// same.
    ///
    /// # Errors
    ///
    /// If there is none, or `stripe` is not a positive number of pages.
    pub fn new(devices: Vec<Box<dyn Device>>, stripe: u64) -> io::Result<Striped> {
        if stripe == 0 || !stripe.is_multiple_of(super::PAGE as u64) {
            let what = format!("stripes of {stripe} bytes; use a multiple of {}", super::PAGE);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let Some(smallest) = devices.iter().map(|device| device.size()).min() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no device to join"));
        };
        Ok(Striped { devices, stripe, each: smallest / stripe * stripe })
    }

    /// The parts of a range: device, offset there, and bytes.
    fn parts(&self, at: u64, len: usize) -> impl Iterator<Item = (&dyn Device, u64, usize)> {
        let mut at = at;
        let mut left = len as u64;
        std::iter::from_fn(move || {
            if left == 0 {
                return None;
            }
            let (stripe, inside) = (at / self.stripe, at % self.stripe);
            let number = self.devices.len() as u64;
            let device = &self.devices[(stripe % number) as usize];
            let len = left.min(self.stripe - inside);
            let there = stripe / number * self.stripe + inside;
            (at, left) = (at + len, left - len);
            Some((&**device, there, len as usize))
        })
    }
}

impl Device for Striped {
    fn size(&self) -> u64 {
        self.each * self.devices.len() as u64
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        check(self.size(), at, into.len())?;
        let mut rest = &mut into[..];
        for (device, there, len) in self.parts(at, rest.len()) {
            let (now, later) = rest.split_at_mut(len);
            device.read(there, now)?;
            rest = later;
        }
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        check(self.size(), at, bytes.len())?;
        let mut rest = bytes;
        for (device, there, len) in self.parts(at, bytes.len()) {
            let (now, later) = rest.split_at(len);
            device.write(there, now)?;
            rest = later;
        }
        Ok(())
    }

    /// Syncs all devices, also after one of them failed.
    fn sync(&self) -> Result<(), DeviceError> {
        let mut result = Ok(());
        for device in &self.devices {
            result = result.and(device.sync());
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Crash, Fault, Memory, Operation, PAGE};
    use super::*;
    use std::sync::Arc;

    #[test]
    fn stripes_are_one_device() {
        let devices: Vec<Arc<Memory>> =
            [7, 6, 9].map(|pages| Arc::new(Memory::new(pages * PAGE))).into();
        let boxed = devices.iter().map(|device| Box::new(device.clone()) as Box<dyn Device>);
        let striped = Striped::new(boxed.collect(), 2 * PAGE as u64).expect("joins");
        assert_eq!(striped.size(), 18 * PAGE as u64);
        let all: Vec<u8> = (0..18 * PAGE).map(|n| (n / PAGE) as u8).collect();
        // In pieces that cross stripes.
        for (n, piece) in all.chunks(5 * PAGE).enumerate() {
            striped.write((n * 5 * PAGE) as u64, piece).expect("writes");
        }
        let mut found = vec![0; 18 * PAGE];
        striped.read(0, &mut found).expect("reads");
        assert!(found == all);
        let mut page = [0; PAGE];
        for (n, device) in devices.iter().enumerate() {
            for (at, expected) in [(0, 2 * n), (1, 2 * n + 1), (2, 2 * n + 6), (5, 2 * n + 13)] {
                device.read((at * PAGE) as u64, &mut page).expect("reads");
                assert_eq!(page, [expected as u8; PAGE]);
            }
        }
        let beyond = striped.read(17 * PAGE as u64, &mut found[..2 * PAGE]);
        assert!(matches!(beyond, Err(DeviceError::OutOfRange { .. })), "{beyond:?}");
        assert!(Striped::new(Vec::new(), PAGE as u64).is_err());
        for stripe in [0, 5000] {
            let one: Vec<Box<dyn Device>> = vec![Box::new(Memory::new(8192))];
            assert!(Striped::new(one, stripe).is_err());
        }
    }

    #[test]
    fn a_sync_that_fails_fails_the_whole() {
        let devices = [Arc::new(Crash::new(PAGE)), Arc::new(Crash::new(PAGE))];
        devices[0].fail(Operation::Sync, 0, Fault::Io);
        let boxed = devices.iter().map(|device| Box::new(device.clone()) as Box<dyn Device>);
        let striped = Striped::new(boxed.collect(), PAGE as u64).expect("joins");
        striped.write(0, &[1; 2 * PAGE]).expect("writes");
        assert!(striped.sync().is_err());
        assert_eq!(devices[1].steps(), 2, "the other one is synced");
    }
}
