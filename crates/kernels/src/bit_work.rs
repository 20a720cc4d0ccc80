//! Compiles loops of its callers for machines that shift, mask and count bits in one instruction
//! each.

use crate::{Kernels, Level};

/// A loop over bits: a Huffman decoder, for instance. It is compiled twice, so its results do not
/// depend on the machine.
pub trait BitWork {
    /// Its results.
    type Output;

    /// Runs it. Mark the method, and all that it calls in its loop, `#[inline(always)]`: only what
    /// is inlined is compiled twice.
    fn run(self) -> Self::Output;
}

impl Kernels {
    /// Runs `work`, with BMI1, BMI2, LZCNT and POPCNT from [`Level::Avx2`] on.
    #[inline]
    pub fn bit_work<W: BitWork>(self, work: W) -> W::Output {
        match self.level() {
            Level::Portable => work.run(),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: both levels include the four, and `Kernels` holds a level only if the
            // machine has it.
            Level::Avx2 | Level::Avx512 => unsafe { with_bmi2(work) },
            #[cfg(not(target_arch = "x86_64"))]
            _ => work.run(),
        }
    }
}

/// # Safety
/// The machine must have BMI1, BMI2, LZCNT and POPCNT.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt")]
unsafe fn with_bmi2<W: BitWork>(work: W) -> W::Output {
    work.run()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes the bits of a number apart in fields, each as wide as the one before says.
    struct Fields(u64);

    impl BitWork for Fields {
        type Output = Vec<u64>;

        #[inline(always)]
        fn run(self) -> Vec<u64> {
            let (mut rest, mut width, mut fields) = (self.0, 3, Vec::new());
            while rest != 0 {
                let field = rest & ((1 << width) - 1);
                fields.push(field);
                rest = rest.checked_shr(width).unwrap_or(0);
                width = 1 + field.leading_zeros() % 19;
            }
            fields
        }
    }

    #[test]
    fn every_level_has_the_same_results() {
        for number in [0, 1, u64::MAX, 0x9e37_79b9_7f4a_7c15, 1 << 63] {
            for kernels in Kernels::available() {
                assert_eq!(kernels.bit_work(Fields(number)), Fields(number).run(), "{kernels:?}");
            }
        }
    }
}
