//! A device that loses power on request.

use super::{Device, DeviceError, check};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, PoisonError};

/// What a disk writes as a whole, in bytes.
pub const SECTOR: usize = 512;

/// A device in memory that remembers every write, so that [`Crash::cut`] can make what a crash
/// between any two of them leaves: of the sectors written since the last sync, each is kept or
/// dropped, and one that was written several times may have any of its contents.
#[derive(Debug)]
pub struct Crash {
    first: Vec<u8>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    now: Vec<u8>,
    history: Vec<Step>,
    counts: [u64; 3],
    faults: BTreeMap<(Operation, u64), Fault>,
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, Vec<u8>),
    Sync,
}

/// Kind of operation, for [`Crash::fail`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    /// [`Device::read`].
    Read,
    /// [`Device::write`].
    Write,
    /// [`Device::sync`].
    Sync,
}

/// What happens in place of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails. After a sync that failed, unsynced writes are gone and the next sync succeeds, as
    /// on Linux: who tries again loses data.
    Io,
    /// It fails because the file system is full.
    NoSpace,
    /// It succeeds, but a bit of the data is wrong: this one.
    FlipBit(usize),
}

impl Crash {
    /// `size` zero bytes, durable.
    #[must_use]
    pub fn new(size: usize) -> Crash {
        Crash::with(vec![0; size])
    }

    fn with(bytes: Vec<u8>) -> Crash {
        let state = State {
            now: bytes.clone(),
            history: Vec::new(),
            counts: [0; 3],
            faults: BTreeMap::new(),
        };
        Crash { first: bytes, state: Mutex::new(state) }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets operation number `nth` of its kind from now on, counted from 0, fail.
    pub fn fail(&self, operation: Operation, nth: u64, fault: Fault) {
        let mut state = self.state();
        let at = state.counts[operation as usize] + nth;
        state.faults.insert((operation, at), fault);
    }

    /// Writes and syncs so far: [`Crash::cut`] has one more place than this.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.state().history.len()
    }

    /// The device after a crash that followed the first `steps` writes and syncs. `choice` decides
    /// about every unsynced sector; 0 drops them all and `u64::MAX` keeps them all.
    #[must_use]
    pub fn cut(&self, steps: usize, choice: u64) -> Crash {
        let state = self.state();
        let history = &state.history[..steps];
        let synced =
            history.iter().rposition(|step| matches!(step, Step::Sync)).map_or(0, |at| at + 1);
        let mut bytes = self.first.clone();
        for step in &history[..synced] {
            if let Step::Write(at, written) = step {
                bytes[*at as usize..][..written.len()].copy_from_slice(written);
            }
        }
        let mut random = choice;
        for step in &history[synced..] {
            let Step::Write(at, written) = step else { continue };
            for (n, sector) in written.chunks(SECTOR).enumerate() {
                random = random.wrapping_add(0x9E37_79B9_7F4A_7C15);
                let mixed = (random ^ random >> 31).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                let keep = match choice {
                    0 => false,
                    u64::MAX => true,
                    _ => mixed >> 40 & 1 == 1,
                };
                if keep {
                    bytes[*at as usize + n * SECTOR..][..sector.len()].copy_from_slice(sector);
                }
            }
        }
        Crash::with(bytes)
    }

    /// Changes a byte, as decay of the medium does.
    pub fn rot(&self, at: u64) {
        self.state().now[at as usize] ^= 0x10;
    }

    /// All of its content.
    #[must_use]
    pub fn content(&self) -> Vec<u8> {
        self.state().now.clone()
    }
}

impl State {
    /// Counts an operation. The fault that was ordered for it.
    fn next(&mut self, operation: Operation) -> Option<Fault> {
        let count = &mut self.counts[operation as usize];
        *count += 1;
        self.faults.remove(&(operation, *count - 1))
    }
}

fn failure(what: &'static str, at: u64, len: usize, fault: Fault) -> Result<(), DeviceError> {
    match fault {
        Fault::Io => {
            let source = io::Error::other("a fault that was ordered");
            Err(DeviceError::Io { what, at, len, source })
        }
        Fault::NoSpace => Err(DeviceError::NoSpace { at, len }),
        Fault::FlipBit(_) => Ok(()),
    }
}

fn flip(bytes: &mut [u8], fault: Option<Fault>) {
    if let Some(Fault::FlipBit(bit)) = fault
        && !bytes.is_empty()
    {
        let at = bit / 8 % bytes.len();
        bytes[at] ^= 1 << (bit % 8);
    }
}

impl Device for Crash {
    fn size(&self) -> u64 {
        self.first.len() as u64
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        check(self.size(), at, into.len())?;
        let mut state = self.state();
        let fault = state.next(Operation::Read);
        if let Some(fault) = fault {
            failure("read", at, into.len(), fault)?;
        }
        into.copy_from_slice(&state.now[at as usize..][..into.len()]);
        flip(into, fault);
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        check(self.size(), at, bytes.len())?;
        let mut state = self.state();
        let fault = state.next(Operation::Write);
        if let Some(fault) = fault {
            failure("write", at, bytes.len(), fault)?;
        }
        let mut bytes = bytes.to_vec();
        flip(&mut bytes, fault);
        state.now[at as usize..][..bytes.len()].copy_from_slice(&bytes);
        state.history.push(Step::Write(at, bytes));
        Ok(())
    }

    fn sync(&self) -> Result<(), DeviceError> {
        let fault = self.state().next(Operation::Sync);
        if let Some(fault) = fault {
            let steps = self.steps();
            let durable = self.cut(steps, 0).content();
            let mut state = self.state();
            state.now = durable;
            while matches!(state.history.last(), Some(Step::Write(..))) {
                state.history.pop();
            }
            drop(state);
            failure("sync", 0, 0, fault)?;
        }
        self.state().history.push(Step::Sync);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::PAGE;

    fn first_bytes(device: &Crash) -> Vec<u8> {
        device.content().chunks(SECTOR).map(|sector| sector[0]).collect()
    }

    #[test]
    fn a_cut_keeps_synced_sectors_and_any_others() {
        let device = Crash::new(2 * PAGE);
        device.write(0, &[1; PAGE]).expect("writes");
        device.sync().expect("syncs");
        device.write(0, &[2; PAGE]).expect("writes");
        device.write(PAGE as u64, &[3; PAGE]).expect("writes");
        device.write(0, &[4; PAGE]).expect("writes");
        assert_eq!(device.steps(), 5);
        assert_eq!(first_bytes(&device.cut(0, u64::MAX)), [0; 16]);
        assert_eq!(first_bytes(&device.cut(1, 0)), [0; 16]);
        assert_eq!(first_bytes(&device.cut(2, 0))[..8], [1; 8]);
        assert_eq!(first_bytes(&device.cut(5, 0))[..8], [1; 8]);
        assert_eq!(first_bytes(&device.cut(5, u64::MAX))[..8], [4; 8]);
        // Each sector has any of its contents, on its own.
        let mut seen = std::collections::BTreeSet::new();
        for choice in 1..2000 {
            let content = first_bytes(&device.cut(5, choice));
            assert!(content[..8].iter().all(|byte| [1, 2, 4].contains(byte)), "{content:?}");
            assert!(content[8..].iter().all(|byte| [0, 3].contains(byte)), "{content:?}");
            seen.insert((content[0], content[7], content[8]));
        }
        assert_eq!(seen.len(), 18);
    }

    #[test]
    fn faults_come_once_and_where_they_were_ordered() {
        let device = Crash::new(2 * PAGE);
        device.fail(Operation::Write, 1, Fault::NoSpace);
        device.fail(Operation::Read, 0, Fault::FlipBit(9));
        device.write(0, &[1; PAGE]).expect("writes");
        let full = device.write(0, &[2; PAGE]);
        assert!(matches!(full, Err(DeviceError::NoSpace { .. })), "{full:?}");
        let mut page = [0; PAGE];
        device.read(0, &mut page).expect("reads");
        assert_eq!(page[..3], [1, 3, 1]);
        device.read(0, &mut page).expect("reads");
        assert_eq!(page[..3], [1, 1, 1]);
    }

    #[test]
    fn a_failed_sync_loses_what_was_not_synced() {
        let device = Crash::new(PAGE);
        device.write(0, &[1; PAGE]).expect("writes");
        device.fail(Operation::Sync, 0, Fault::Io);
        assert!(device.sync().is_err());
        assert_eq!(first_bytes(&device), [0; 8]);
        device.sync().expect("the next sync succeeds");
        assert_eq!(first_bytes(&device.cut(device.steps(), 0)), [0; 8]);
    }
}
