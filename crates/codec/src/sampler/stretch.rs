//! Lab.
#![allow(missing_docs)]
use super::Sampler;
use oncewire_kernels::{Kernels, Sampled};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    pub skip: usize,
    pub reach: usize,
    pub limit: u16,
}

impl Sampler for Stretch {
    fn sample(&self, kernels: Kernels, block: &[u8], window: usize, _: usize, from: usize, markers: &mut [u32]) -> Sampled {
        if self.limit > 0 {
            kernels.threshold(block, window, self.skip, self.limit, from, markers)
        } else {
            kernels.stretch(block, window, self.skip, self.reach, from, markers)
        }
    }

    fn expected_rate(&self, period: usize) -> f64 {
        period as f64
    }
}
