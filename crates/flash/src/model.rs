//! The cost model and the tuning of BufferHash (Anand, *Redundancy Elimination as a Primitive*,
//! 2012, section 5.3), as functions without state.
//!
//! Sizes are in bytes and times in seconds. The published formulas have bits: their `s`, `B` and
//! `b` are 8 times ours. What they call `c` incarnations is [`Tuning::incarnations`], and the least gain
//! over a table without buffers, printed as "B'αs", is B'/(αs).

use std::f64::consts::LN_2;

/// A cost that is linear in the length of an operation: `a + bx`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear {
    /// Seconds for each operation, whatever its length.
    pub fixed: f64,
    /// Seconds for each byte.
    pub per_byte: f64,
}

impl Linear {
    /// Seconds for an operation of this many bytes.
    #[must_use]
    pub fn of(&self, bytes: u64) -> f64 {
        self.fixed + self.per_byte * bytes as f64
    }

    /// The line through two measurements, each bytes and seconds. Noise cannot make either part
    /// negative.
    #[must_use]
    pub fn through(short: (u64, f64), long: (u64, f64)) -> Linear {
        let per_byte = ((long.1 - short.1) / (long.0 - short.0).max(1) as f64).max(0.0);
        Linear { fixed: (short.1 - per_byte * short.0 as f64).max(0.0), per_byte }
    }
}

/// Who erases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A flash chip: a page can be written once, and then only after its whole block was erased.
    Chip {
        /// Cost of an erasure, by the bytes erased.
        erase: Linear,
        /// Bytes of an erase block, `Sb`.
        block: u64,
    },
    /// A device that erases by itself: the costs of writes include that.
    Ssd,
}

/// Costs of a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Bytes of a page or sector, `Sp`.
    pub page: u64,
    /// `ar + br x`.
    pub read: Linear,
    /// `aw + bw x`.
    pub write: Linear,
    /// Chip or SSD.
    pub kind: Kind,
}

impl Costs {
    /// A flash chip. Printed: 0.24 ms to read a page (Table 5.2), erase blocks of 128 KB. From data
    /// sheets of single-level NAND of that time, since the thesis prints no more: 25 us to find a
    /// page, 0.2 ms to program 2 KB, 1.5 ms to erase a block. What is left of the 0.24 ms is the
    /// transfer, which a write pays as well.
    pub const FLASH_CHIP: Costs = Costs {
        page: 4096,
        read: Linear { fixed: 25e-6, per_byte: 215e-6 / 4096.0 },
        write: Linear { fixed: 25e-6, per_byte: (215e-6 + 400e-6) / 4096.0 },
        kind: Kind::Chip {
            erase: Linear { fixed: 0.1e-3, per_byte: 1.4e-3 / 131_072.0 },
            block: 131_072,
        },
    };
    /// Intel X18-M. Printed: 0.31 ms to read a sector (Table 5.2), 2.72 ms for the slowest insert,
    /// which writes 128 KB. From its data sheet: 250 MB/s of reads and 70 MB/s of writes.
    pub const INTEL_SSD: Costs = Costs {
        page: 4096,
        read: Linear { fixed: 0.31e-3 - 4096.0 / 250e6, per_byte: 1.0 / 250e6 },
        write: Linear { fixed: 2.72e-3 - 131_072.0 / 70e6, per_byte: 1.0 / 70e6 },
        kind: Kind::Ssd,
    };
    /// Transcend TS32GSSD25. From the printed 0.12 ms a look-up of which 0.4073 reads a sector
    /// (Tables 5.2 and 5.3), and 0.007 ms an insert of which one in 4096 writes 128 KB; its data
    /// sheet has 26 MB/s of writes and 30 MB/s of reads.
    pub const TRANSCEND_SSD: Costs = Costs {
        page: 4096,
        read: Linear { fixed: 0.295e-3 - 4096.0 / 30e6, per_byte: 1.0 / 30e6 },
        write: Linear { fixed: 4096.0 * 0.007e-3 - 131_072.0 / 26e6, per_byte: 1.0 / 26e6 },
        kind: Kind::Ssd,
    };

    /// `cr`: seconds to read a page.
    #[must_use]
    pub fn page_read(&self) -> f64 {
        self.read.of(self.page)
    }

    /// `C1`: seconds to write a buffer of this many bytes.
    #[must_use]
    pub fn c1(&self, buffer: u64) -> f64 {
        self.write.of(buffer.div_ceil(self.page) * self.page)
    }

    /// `C2`: seconds to erase for it. Zero for an SSD.
    #[must_use]
    pub fn c2(&self, buffer: u64) -> f64 {
        let Kind::Chip { erase, block } = self.kind else { return 0.0 };
        let (pages, in_block) = self.pages(buffer, block);
        let share = (pages as f64 / in_block as f64).min(1.0);
        share * erase.of(pages.div_ceil(in_block) * block)
    }

    /// `C3`: seconds to move other incarnations out of the way. Zero for an SSD. As printed, it has
    /// the fixed costs even where no page has to move.
    #[must_use]
    pub fn c3(&self, buffer: u64) -> f64 {
        let Kind::Chip { block, .. } = self.kind else { return 0.0 };
        let (pages, in_block) = self.pages(buffer, block);
        let moved = (in_block - pages % in_block) % in_block * self.page;
        self.read.of(moved) + self.write.of(moved)
    }

    fn pages(&self, buffer: u64, block: u64) -> (u64, u64) {
        (buffer.div_ceil(self.page).max(1), (block / self.page).max(1))
    }

    /// `Cworst`: seconds for the insert that fills a buffer.
    #[must_use]
    pub fn worst_insert(&self, buffer: u64) -> f64 {
        self.c1(buffer) + self.c2(buffer) + self.c3(buffer)
    }

    /// `Camortized`: seconds of I/O for an insert, where an entry takes `entry` bytes of a buffer.
    #[must_use]
    pub fn mean_insert(&self, buffer: u64, entry: f64) -> f64 {
        self.worst_insert(buffer) * entry / buffer as f64
    }
}

/// A division of memory for a flash of a given size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    /// `F`: bytes of flash.
    pub flash: f64,
    /// `s`: bytes of flash for an entry, empty slots included: 32 for 16 at half load.
    pub entry: f64,
    /// `B`: bytes of all buffers.
    pub buffers: f64,
    /// `b`: bytes of all Bloom filters.
    pub filters: f64,
}

impl Tuning {
    /// The division that needs the fewest reads: [`best_buffers`], and the rest for filters. `None`
    /// if the buffers alone need more than `memory`.
    #[must_use]
    pub fn best(flash: f64, entry: f64, memory: f64) -> Option<Tuning> {
        let buffers = best_buffers(flash, entry);
        (buffers < memory).then_some(Tuning { flash, entry, buffers, filters: memory - buffers })
    }

    /// `N`: entries on flash when it is full.
    #[must_use]
    pub fn entries(&self) -> f64 {
        self.flash / self.entry
    }

    /// `k = F/B`: incarnations of a super table.
    #[must_use]
    pub fn incarnations(&self) -> f64 {
        self.flash / self.buffers
    }

    /// Bits of filter for an entry: `bs/F`, with `b` in bits.
    #[must_use]
    pub fn bits(&self) -> f64 {
        8.0 * self.filters / self.entries()
    }

    /// `h = m' ln 2 / n'`: the best number of hash functions.
    #[must_use]
    pub fn hashes(&self) -> f64 {
        self.bits() * LN_2
    }

    /// `k (1/2)^h`: pages that a look-up of an absent key reads. The model's sum of probabilities;
    /// it exceeds 1 where filters are far too small.
    #[must_use]
    pub fn spurious_reads(&self) -> f64 {
        self.incarnations() * 0.5f64.powf(self.hashes())
    }

    /// `Clookup`: seconds of these reads.
    #[must_use]
    pub fn look_up(&self, page_read: f64) -> f64 {
        self.spurious_reads() * page_read
    }
}

/// `Bopt = F / (s (ln 2)^2)` bits, in bytes: the size of all buffers that needs the fewest reads,
/// whatever the memory.
#[must_use]
pub fn best_buffers(flash: f64, entry: f64) -> f64 {
    flash / (entry * LN_2 * LN_2) / 8.0
}

/// `b'`: bytes of filters that limit the reads of an absent key to `target` seconds, with the best
/// buffers, if a page takes `page_read` seconds to read.
#[must_use]
pub fn filters_for(flash: f64, entry: f64, target: f64, page_read: f64) -> f64 {
    let most = 8.0 * entry * LN_2 * LN_2 * page_read / target;
    best_buffers(flash, entry) * most.ln().max(0.0)
}

/// At least how many times fewer seconds an insert takes than in a table without buffers:
/// `B'/(alpha s)`, where writing a buffer takes `alpha` times as long as writing a random sector.
#[must_use]
pub fn insert_gain(buffer: f64, alpha: f64, entry: f64) -> f64 {
    buffer / (alpha * entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: f64 = (1u64 << 30) as f64;

    fn published(buffers: f64) -> Tuning {
        Tuning { flash: 32.0 * GIB, entry: 32.0, buffers, filters: 4.0 * GIB - buffers }
    }

    /// Equal to three digits.
    #[track_caller]
    fn near(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 0.02, "{found} is not {expected}");
    }

    #[test]
    fn the_best_buffers_for_32_gb() {
        let best = Tuning::best(32.0 * GIB, 32.0, 4.0 * GIB).expect("enough memory");
        near(best.buffers, 279e6);
        near(best.incarnations(), 123.0);
        near(best.bits(), 29.9);
        near(best.spurious_reads(), 7.0e-5);
        // No other division is better.
        for share in 1..400 {
            let other = published(GIB * f64::from(share) / 100.0);
            assert!(other.spurious_reads() > 0.999_999 * best.spurious_reads(), "{other:?}");
        }
        assert_eq!(Tuning::best(32.0 * GIB, 32.0, 0.25 * GIB), None);
    }

    /// Figure 5.5: half, one, two and three GB of buffers.
    #[test]
    fn spurious_reads_by_memory_for_buffers() {
        let table = [
            (0.5, 64.0, 28.0, 9.2e-5),
            (1.0, 32.0, 24.0, 3.1e-4),
            (2.0, 16.0, 16.0, 7.3e-3),
            (3.0, 10.7, 8.0, 0.23),
        ];
        for (buffers, incarnations, bits, reads) in table {
            let tuning = published(buffers * GIB);
            near(tuning.incarnations(), incarnations);
            near(tuning.bits(), bits);
            near(tuning.spurious_reads(), reads);
        }
        // The configuration of section 5.4: 128 KB each make 16,384 buffers.
        assert_eq!(2.0 * GIB / 131_072.0, 16_384.0);
    }

    /// Figure 5.3: 1 GB of filters limit the overhead to 1 ms with 32 GB of flash.
    #[test]
    fn filters_for_a_limit() {
        let buffers = best_buffers(32.0 * GIB, 32.0);
        let tuning = Tuning { flash: 32.0 * GIB, entry: 32.0, buffers, filters: GIB };
        near(tuning.spurious_reads(), 2.6);
        near(tuning.look_up(0.31e-3), 0.82e-3);
        // The inverse.
        near(filters_for(32.0 * GIB, 32.0, tuning.look_up(0.31e-3), 0.31e-3), GIB);
        assert!(filters_for(32.0 * GIB, 32.0, 1e-3, 0.31e-3) < GIB);
        assert_eq!(filters_for(32.0 * GIB, 32.0, 1.0, 0.31e-3), 0.0);
        // Twice the flash needs twice the filters.
        near(
            filters_for(64.0 * GIB, 32.0, 1e-3, 0.31e-3),
            2.0 * filters_for(32.0 * GIB, 32.0, 1e-3, 0.31e-3),
        );
    }

    /// Figure 5.4(a): on a chip, buffers as large as an erase block have the cheapest inserts.
    #[test]
    fn a_chip_wants_buffers_of_an_erase_block() {
        let chip = Costs::FLASH_CHIP;
        let block = 131_072;
        let (worst, mean) = (chip.worst_insert(block), chip.mean_insert(block, 32.0));
        for buffer in (1..32).map(|pages| pages * 4096) {
            assert!(chip.worst_insert(buffer) > worst, "{buffer}");
            assert!(chip.mean_insert(buffer, 32.0) > mean, "{buffer}");
        }
        for buffer in (33..=128).map(|pages| pages * 4096) {
            assert!(chip.worst_insert(buffer) > worst, "{buffer}");
            // Larger multiples share the fixed costs of an operation, under a percent in all.
            assert!(chip.mean_insert(buffer, 32.0) > 0.99 * mean, "{buffer}");
        }
    }

    /// Figures 5.4(b) and (c): on an SSD, larger buffers make the mean smaller and the worst larger.
    #[test]
    fn an_ssd_trades_mean_for_worst() {
        for ssd in [Costs::INTEL_SSD, Costs::TRANSCEND_SSD] {
            for buffer in (12..20).map(|power| 1 << power) {
                assert!(ssd.mean_insert(2 * buffer, 32.0) < ssd.mean_insert(buffer, 32.0));
                assert!(ssd.worst_insert(2 * buffer) > ssd.worst_insert(buffer));
                assert_eq!(ssd.c2(buffer) + ssd.c3(buffer), 0.0);
            }
        }
    }

    #[test]
    fn devices_have_the_printed_costs() {
        near(Costs::FLASH_CHIP.page_read(), 0.24e-3);
        near(Costs::INTEL_SSD.page_read(), 0.31e-3);
        near(Costs::INTEL_SSD.worst_insert(131_072), 2.72e-3);
        near(0.4073 * Costs::TRANSCEND_SSD.page_read(), 0.12e-3);
        near(Costs::TRANSCEND_SSD.mean_insert(131_072, 32.0), 0.007e-3);
        for costs in [Costs::FLASH_CHIP, Costs::INTEL_SSD, Costs::TRANSCEND_SSD] {
            assert!(costs.read.fixed > 0.0 && costs.write.fixed > 0.0, "{costs:?}");
        }
    }

    #[test]
    fn buffers_gain_by_their_size() {
        // Samsung's alpha (T 5.3), and 128 KB.
        near(insert_gain(131_072.0, 0.39, 32.0), 10_503.0);
    }

    #[test]
    fn a_line_through_noise_is_never_negative() {
        let line = Linear::through((4096, 100e-6), (65_536, 160e-6));
        near(line.of(4096), 100e-6);
        near(line.of(65_536), 160e-6);
        assert_eq!(
            Linear::through((4096, 2e-4), (65_536, 1e-4)),
            Linear { fixed: 2e-4, per_byte: 0.0 }
        );
        assert_eq!(Linear::through((4096, 1e-6), (8192, 1.0)).fixed, 0.0);
    }
}
