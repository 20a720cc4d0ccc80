//! Marker search by a hash of four bytes.

use crate::{Kernels, Sampled};

/// Bytes under the hash.
const HASHED: usize = 4;
const LOW: u16 = 0x9e37;
const HIGH: u16 = 0xc2b3;

#[inline(always)]
fn hash(bytes: &[u8; HASHED]) -> u16 {
    let low = u16::from_le_bytes([bytes[0], bytes[1]]);
    let high = u16::from_le_bytes([bytes[2], bytes[3]]);
    low.wrapping_mul(LOW).wrapping_add(high.wrapping_mul(HIGH))
}

impl Kernels {
    /// Lab.
    pub fn stretch(self, data: &[u8], window: usize, skip: usize, reach: usize, from: usize, markers: &mut [u32]) -> Sampled {
        let end = (data.len() + 1).saturating_sub(window);
        let mut at = from;
        let mut count = 0;
        while at < end && count < markers.len() {
            let to = (at + reach).min(end);
            let mut best = (u16::MAX, at);
            for i in at..to {
                let h = hash(data[i..].first_chunk().unwrap());
                if h < best.0 {
                    best = (h, i);
                }
            }
            markers[count] = best.1 as u32;
            count += 1;
            at = best.1 + 1 + skip;
        }
        Sampled { count, resume: at }
    }
    /// Lab.
    pub fn threshold(self, data: &[u8], window: usize, skip: usize, limit: u16, from: usize, markers: &mut [u32]) -> Sampled {
        let end = (data.len() + 1).saturating_sub(window);
        let mut at = from;
        let mut count = 0;
        while at < end && count < markers.len() {
            let h = u16::from_le_bytes(*data[at..].first_chunk().unwrap()).wrapping_mul(LOW);
            if h < limit {
                markers[count] = at as u32;
                count += 1;
                at += skip;
            }
            at += 1;
        }
        Sampled { count, resume: at.max(end.min(at)) }
    }
}
