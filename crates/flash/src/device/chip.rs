//! A published flash device, by its costs.

use super::{Device, DeviceError, PAGE, check};
use crate::model::{Costs, Kind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Gives another device the costs of a published one, in virtual time.
///
/// A chip follows the rules of flash (T:3951-3969): a page that was written can be written again
/// only after its whole block was erased, and other pages of that block are read before and written
/// back after. An SSD has the costs of its writes for that.
pub struct Chip {
    content: Box<dyn Device>,
    costs: Costs,
    state: Mutex<State>,
}

struct State {
    /// Pages that were written since their block was erased, as bits.
    written: Vec<u64>,
    used: Used,
}

/// What a simulated device did since it was made or [`Chip::take`] was called.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Virtual time.
    pub time: Duration,
    /// Of this, to erase and to move pages.
    pub erasing: Duration,
    /// Reads asked for.
    pub reads: u64,
    /// Writes asked for.
    pub writes: u64,
    /// Bytes of these writes.
    pub written: u64,
    /// Blocks erased.
    pub erased: u64,
    /// Pages read and written back around an erasure.
    pub moved: u64,
}

impl Chip {
    /// A device whose content is in another.
    #[must_use]
    pub fn new(content: Box<dyn Device>, costs: Costs) -> Chip {
        let pages = content.size().div_ceil(PAGE as u64);
        let written = vec![0; pages.div_ceil(64) as usize];
        Chip { content, costs, state: Mutex::new(State { written, used: Used::default() }) }
    }

    /// Its costs.
    #[must_use]
    pub fn costs(&self) -> &Costs {
        &self.costs
    }

    /// What it did; counting restarts.
    pub fn take(&self) -> Used {
        std::mem::take(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner).used)
    }

    fn charge(&self, at: u64, len: usize) {
        let mut guard = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { written, used } = &mut *guard;
        used.writes += 1;
        used.written += len as u64;
        used.time += Duration::from_secs_f64(self.costs.write.of(len as u64));
        let Kind::Chip { erase, block } = self.costs.kind else { return };
        let in_block = block / PAGE as u64;
        let pages = at / PAGE as u64..(at + len as u64) / PAGE as u64;
        let is_written = |written: &[u64], page: u64| {
            written.get((page / 64) as usize).is_some_and(|word| word >> (page % 64) & 1 == 1)
        };
        let (mut erased, mut moved) = (0, 0);
        for number in pages.start / in_block..pages.end.div_ceil(in_block) {
            let mut all = number * in_block..(number + 1) * in_block;
            let rewrites = |page: u64| pages.contains(&page) && is_written(written, page);
            if all.clone().any(rewrites) {
                erased += 1;
                moved += all
                    .by_ref()
                    .filter(|page| !pages.contains(page) && is_written(written, *page))
                    .count() as u64;
            }
        }
        for page in pages {
            written[(page / 64) as usize] |= 1 << (page % 64);
        }
        let mut extra = 0.0;
        if erased > 0 {
            extra += erase.of(erased * block);
        }
        if moved > 0 {
            let bytes = moved * PAGE as u64;
            extra += self.costs.read.of(bytes) + self.costs.write.of(bytes);
        }
        used.erased += erased;
        used.moved += moved;
        let extra = Duration::from_secs_f64(extra);
        used.erasing += extra;
        used.time += extra;
    }
}

impl Device for Chip {
    fn size(&self) -> u64 {
        self.content.size()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.content.read(at, into)?;
        let used = &mut self.state.lock().unwrap_or_else(PoisonError::into_inner).used;
        used.reads += 1;
        used.time += Duration::from_secs_f64(self.costs.read.of(into.len() as u64));
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        check(self.size(), at, bytes.len())?;
        self.content.write(at, bytes)?;
        self.charge(at, bytes.len());
        Ok(())
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.content.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Memory;

    const BLOCK: usize = 131_072;

    fn chip(costs: Costs) -> Chip {
        Chip::new(Box::new(Memory::new(4 * BLOCK)), costs)
    }

    #[test]
    fn whole_blocks_cost_what_the_model_says() {
        let costs = Costs::FLASH_CHIP;
        for blocks in [1, 2, 4] {
            let chip = chip(costs);
            let bytes = vec![1; blocks * BLOCK];
            chip.write(0, &bytes).expect("writes");
            let first = chip.take();
            assert_eq!((first.erased, first.erasing), (0, Duration::ZERO));
            chip.write(0, &bytes).expect("writes");
            let again = chip.take();
            assert_eq!((again.erased, again.moved), (blocks as u64, 0));
            let model = costs.c1(bytes.len() as u64) + costs.c2(bytes.len() as u64);
            assert!((again.time.as_secs_f64() - model).abs() < 1e-8, "{again:?}");
        }
    }

    /// P1: to update a page in place, its block is read, erased and written.
    #[test]
    fn an_update_in_place_moves_the_rest_of_the_block() {
        let chip = chip(Costs::FLASH_CHIP);
        chip.write(0, &vec![1; 2 * BLOCK]).expect("writes");
        chip.take();
        chip.write(5 * PAGE as u64, &[2; PAGE]).expect("writes");
        let update = chip.take();
        assert_eq!((update.erased, update.moved), (1, 31));
        // Elsewhere it takes one page.
        chip.write(3 * BLOCK as u64, &[2; PAGE]).expect("writes");
        let fresh = chip.take();
        assert_eq!((fresh.erased, fresh.moved), (0, 0));
        assert!(update.time > 30 * fresh.time, "{update:?} {fresh:?}");
        let mut page = [0; PAGE];
        chip.read(4 * PAGE as u64, &mut page).expect("reads");
        assert_eq!(page, [1; PAGE]);
        assert_eq!(chip.take().time, Duration::from_micros(240));
    }

    #[test]
    fn an_ssd_does_not_erase() {
        let chip = chip(Costs::INTEL_SSD);
        for _ in 0..2 {
            chip.write(0, &[1; BLOCK]).expect("writes");
            assert_eq!(chip.take().time, Duration::from_micros(2720));
        }
    }
}
