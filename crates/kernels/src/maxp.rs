//! MAXP's marker search: local maxima.
//!
//! MAXP (thesis section 2.2; EndRE section 5.1.2) marks local maxima of the bytes themselves, read as digits, after the local-maximum
//! chunking of Bjorner, Blass and Gurevich (*Content-dependent chunking for differential compression, the local maximum approach*).
//!
//! The greatest of the `h` values before and behind each position is found by doubling, for the first two bytes of every value, a
//! vector at a time and without a branch. Only where these two bytes are no less than all around them is the rest compared.

use crate::Kernels;
use crate::Sampled;

#[cfg(target_arch = "x86_64")]
use crate::Level;

/// Bytes of a value.
const VALUE: usize = 8;
/// Largest radius, in bytes: half of the largest sampling period.
const MAX_RADIUS: usize = 512;

impl Kernels {
    /// Finds MAXP's markers in `data[from..]`. The value at a position is its next eight bytes, big-endian; positions with fewer have
    /// none. A marker is a position with a whole `window` left whose value is greater than those of the `radius` positions before
    /// it and not less than those of the `radius` behind it, as far as they exist; also where they lie before `from` or have no
    /// whole window.
    ///
    /// After a marker at `i` the next position examined is `i + radius + 1`. When `gap` positions in a row are no markers, the
    /// position with the greatest value of them, the leftmost of equal ones, is made one. So two markers are more than `radius`
    /// apart, and `gap` positions behind what follows a marker never lack one. Stops when `markers` is full or the last window has
    /// been passed.
    ///
    /// # Panics
    /// If `window` is below 8, `radius` is not 1..=512, `gap` is 0, or `data` is longer than 4 GiB.
    pub fn maxp(self, data: &[u8], window: usize, radius: usize, gap: usize, from: usize, markers: &mut [u32]) -> Sampled {
        assert!(window >= VALUE && (1..=MAX_RADIUS).contains(&radius) && gap > 0);
        assert!(u32::try_from(data.len()).is_ok(), "a block's positions must fit 32 bits");
        let end = (data.len() + 1).saturating_sub(window);
        if from >= end || markers.is_empty() {
            return Sampled { count: 0, resume: from };
        }
        let search = Search { kernels: self, data, end, radius, gap };
        // The scratch is cleared at every call, so a small radius has a small one.
        if radius <= 128 { search.run::<1024>(from, markers) } else { search.run::<4096>(from, markers) }
    }
}

struct Search<'a> {
    kernels: Kernels,
    data: &'a [u8],
    end: usize,
    radius: usize,
    gap: usize,
}

/// Position is certainly no local maximum, may be one, certainly is one.
const NONE: u8 = 0;
const TIE: u8 = 1;

impl Search<'_> {
    fn run<const N: usize>(&self, from: usize, markers: &mut [u32]) -> Sampled {
        let mut scratch = Scratch { values: [0; N], maxima: [[0; N]; 2], flags: [NONE; N] };
        let mut found = Found { markers, count: 0, next: from };
        let mut at = from;
        while at < self.end {
            let wanted = (found.markers.len() - found.count) * 2 * self.radius;
            let len = wanted.next_multiple_of(64).clamp(256, N - 2 * self.radius).min(self.end - at);
            self.flag(&mut scratch, at, len);
            let mut flagged = 0;
            while let Some(offset) = next_flag(&scratch.flags[..len], flagged) {
                flagged = offset + 1;
                let position = at + offset;
                if scratch.flags[offset] == TIE && !self.is_maximum(position) {
                    continue;
                }
                if !self.force(&mut found, position) {
                    return found.sampled();
                }
                // A forced marker may be less than a radius before.
                if position >= found.next && !found.push(position, self.radius) {
                    return found.sampled();
                }
                flagged = flagged.max(found.next.saturating_sub(at));
            }
            at += len;
            if !self.force(&mut found, at) {
                return found.sampled();
            }
        }
        Sampled { count: found.count, resume: found.next.max(self.end) }
    }

    /// Makes markers where there are none in a whole gap before `until`. Returns whether there is room for more.
    fn force(&self, found: &mut Found<'_>, until: usize) -> bool {
        while until - found.next.min(until) >= self.gap {
            let greatest = self.greatest(found.next, found.next + self.gap);
            if !found.push(greatest, self.radius) {
                return false;
            }
        }
        true
    }

    fn value(&self, at: usize) -> u64 {
        u64::from_be_bytes(*self.data[at..].first_chunk().expect("positions with a value only"))
    }

    fn greatest(&self, from: usize, to: usize) -> usize {
        // Long stretches without a maximum are runs, mostly.
        if self.kernels.common_prefix(&self.data[from..to + VALUE - 1], &self.data[from + 1..]) >= to - from + VALUE - 2 {
            return from;
        }
        let values = self.data[from..to + VALUE - 1].windows(VALUE);
        let mut best = (0, from);
        for (position, value) in (from..).zip(values) {
            let value = u64::from_be_bytes(*value.first_chunk().expect("windows of eight"));
            if value > best.0 {
                best = (value, position);
            }
        }
        best.1
    }

    /// The definition, nearest first: few positions are greater than many around them, so this takes a logarithmic number of steps
    /// per byte at worst.
    fn is_maximum(&self, position: usize) -> bool {
        let value = self.value(position);
        let last = self.data.len() - VALUE;
        (1..=self.radius).all(|distance| {
            position.checked_sub(distance).is_none_or(|before| self.value(before) < value)
                && (position + distance > last || self.value(position + distance) <= value)
        })
    }

    /// Flags the `len` positions from `at` on by the first two bytes of their values.
    fn flag<const N: usize>(&self, scratch: &mut Scratch<N>, at: usize, len: usize) {
        match self.kernels.level() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels` holds this level only if the machine has it.
            Level::Avx512 => unsafe { flag_avx512(self.data, self.radius, scratch, at, len) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx2 => unsafe { flag_avx2(self.data, self.radius, scratch, at, len) },
            _ => flag(self.data, self.radius, scratch, at, len),
        }
    }
}

struct Found<'a> {
    markers: &'a mut [u32],
    count: usize,
    /// The first position that may be a marker.
    next: usize,
}

impl Found<'_> {
    /// Returns whether there is room for more.
    fn push(&mut self, marker: usize, radius: usize) -> bool {
        self.markers[self.count] = marker as u32;
        self.count += 1;
        self.next = marker + radius + 1;
        self.count < self.markers.len()
    }

    fn sampled(&self) -> Sampled {
        Sampled { count: self.count, resume: self.next }
    }
}

struct Scratch<const N: usize> {
    values: [u16; N],
    maxima: [[u16; N]; 2],
    flags: [u8; N],
}

fn next_flag(flags: &[u8], mut at: usize) -> Option<usize> {
    while let Some(eight) = flags.get(at..at + 8) {
        let eight = u64::from_le_bytes(*eight.first_chunk()?);
        if eight != 0 {
            return Some(at + eight.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    flags.get(at..)?.iter().position(|&flag| flag != NONE).map(|offset| at + offset)
}

/// # Safety
/// The machine must have AVX-512 F, BW and VL.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2")]
unsafe fn flag_avx512<const N: usize>(data: &[u8], radius: usize, scratch: &mut Scratch<N>, at: usize, len: usize) {
    flag(data, radius, scratch, at, len);
}

/// # Safety
/// The machine must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn flag_avx2<const N: usize>(data: &[u8], radius: usize, scratch: &mut Scratch<N>, at: usize, len: usize) {
    flag(data, radius, scratch, at, len);
}

/// Plain loops over whole arrays, which the compiler turns into vectors of each level's width.
#[inline(always)]
fn flag<const N: usize>(data: &[u8], radius: usize, scratch: &mut Scratch<N>, at: usize, len: usize) {
    // `values[i]` belongs to position `at - radius + i`; where there is none it is 0, which no value is less than.
    let total = len + 2 * radius;
    let values = &mut scratch.values[..total];
    let missing = radius.saturating_sub(at);
    let first = at + missing - radius;
    let present = (data.len() - (VALUE - 1) - first).min(total - missing);
    values[..missing].fill(0);
    values[missing + present..].fill(0);
    for ((value, &high), &low) in values[missing..][..present].iter_mut().zip(&data[first..]).zip(&data[first + 1..]) {
        *value = u16::from(high) << 8 | u16::from(low);
    }
    // `maxima[i]` is the greatest of the `reach` values from `i` on.
    let [maxima, next] = &mut scratch.maxima;
    let (mut maxima, mut next) = (&mut maxima[..total], &mut next[..total]);
    let mut reach = 1;
    maxima.copy_from_slice(values);
    while reach < radius {
        let step = reach.min(radius - reach);
        for ((next, &a), &b) in next.iter_mut().zip(&*maxima).zip(&maxima[step..]) {
            *next = a.max(b);
        }
        std::mem::swap(&mut maxima, &mut next);
        reach += step;
    }
    let (before, behind) = (&maxima[..len], &maxima[radius + 1..][..len]);
    for (((flag, &value), &before), &behind) in scratch.flags[..len].iter_mut().zip(&values[radius..]).zip(before).zip(behind) {
        let around = before.max(behind);
        *flag = u8::from(value >= around) + u8::from(value > around);
    }
}
