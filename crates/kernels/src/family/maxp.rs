//! MAXP's marker search: local maxima.
//!
//! MAXP (thesis section 2.2; EndRE section 5.1.2) marks local maxima of the bytes themselves, read
//! as digits, after the local-maximum chunking of Bjorner, Blass and Gurevich (*Content-dependent
//! chunking for differential compression, the local maximum approach*).
//!
//! The greatest of the `h` values before and after each position is found by doubling, for the
//! first two bytes of every value, a vector at a time and without a branch. The rest is compared
//! only where these two bytes are not less than all around them.

use crate::sample_hash::{HASHED, hash};
use crate::{Kernels, Sampled};

#[cfg(target_arch = "x86_64")]
use crate::Level;

/// Bytes of a value.
const VALUE: usize = 8;
/// Largest radius, in bytes: half of the largest sampling period.
const MAX_RADIUS: usize = 512;

impl Kernels {
    /// Finds MAXP's markers in `data[from..]`. The value at a position is its next eight bytes,
    /// big-endian; positions with fewer have none. A marker is a position with a whole `window`
    /// left whose value is greater than those of the `radius` positions before it and not less than
    /// those of the `radius` behind it, as far as they exist; also where they lie before `from` or
    /// have no whole window.
    ///
    /// After a marker at `i` the next position examined is `i + radius + 1`. When `gap` positions
    /// in a row are no markers, the one with the greatest value, the leftmost of equal ones,
    /// becomes a marker. So two markers are more than `radius` apart, and no `gap` examined
    /// positions lack one. Stops when `markers` is full or after the last window.
    ///
    /// # Panics
    /// If `window` is below 8, `radius` is not 1..=512, `gap` is 0, or `data` is longer than 4 GiB.
    pub fn maxp(
        self,
        data: &[u8],
        window: usize,
        radius: usize,
        gap: usize,
        from: usize,
        markers: &mut [u32],
    ) -> Sampled {
        self.local_maxima::<Digits>(data, window, radius, gap, from, markers)
    }

    /// As [`Kernels::maxp`], but the value at a position is a 16-bit hash of its next four bytes,
    /// and a marker is a position whose value is greater than those before it and not less than
    /// those behind it; one that is forced likewise.
    ///
    /// # Panics
    /// As [`Kernels::maxp`].
    pub fn peaks(
        self,
        data: &[u8],
        window: usize,
        radius: usize,
        gap: usize,
        from: usize,
        markers: &mut [u32],
    ) -> Sampled {
        self.local_maxima::<Hashes>(data, window, radius, gap, from, markers)
    }

    fn local_maxima<V: Values>(
        self,
        data: &[u8],
        window: usize,
        radius: usize,
        gap: usize,
        from: usize,
        markers: &mut [u32],
    ) -> Sampled {
        assert!(window >= VALUE && (1..=MAX_RADIUS).contains(&radius) && gap > 0);
        assert!(u32::try_from(data.len()).is_ok(), "a block's positions must fit 32 bits");
        let end = (data.len() + 1).saturating_sub(window);
        if from >= end || markers.is_empty() {
            return Sampled { count: 0, resume: from };
        }
        let search = Search { kernels: self, data, end, radius, gap };
        search.run::<V>(from, markers)
    }
}

struct Search<'a> {
    kernels: Kernels,
    data: &'a [u8],
    end: usize,
    radius: usize,
    gap: usize,
}

/// What is compared between positions.
trait Values {
    /// Bytes under a value.
    const BYTES: usize;
    /// Whether equal [`Values::first`] does not mean equal values.
    const LONGER: bool;
    /// The 16 bits by which positions are compared first.
    fn first(bytes: &[u8; 4]) -> u16;
    /// The whole value at the start of `bytes`.
    fn whole(bytes: &[u8]) -> u64;
}

/// Eight bytes as a big-endian number.
struct Digits;

impl Values for Digits {
    const BYTES: usize = 8;
    const LONGER: bool = true;

    #[inline(always)]
    fn first(bytes: &[u8; 4]) -> u16 {
        u16::from_be_bytes([bytes[0], bytes[1]])
    }

    #[inline(always)]
    fn whole(bytes: &[u8]) -> u64 {
        u64::from_be_bytes(*bytes.first_chunk().expect("positions with a value only"))
    }
}

/// The hash of SAMPLEHASH.
struct Hashes;

impl Values for Hashes {
    const BYTES: usize = HASHED;
    const LONGER: bool = false;

    #[inline(always)]
    fn first(bytes: &[u8; 4]) -> u16 {
        // Not 0, which stands for no value: nothing is less than that, and a marker is greater than
        // what is before it.
        hash(bytes).max(1)
    }

    #[inline(always)]
    fn whole(bytes: &[u8]) -> u64 {
        u64::from(Self::first(bytes.first_chunk().expect("positions with a value only")))
    }
}

impl Search<'_> {
    fn run<V: Values>(&self, from: usize, markers: &mut [u32]) -> Sampled {
        // The scratch is cleared at every call, so a small radius has a small one.
        if self.radius <= 128 {
            self.run_in::<V, 1024>(from, markers)
        } else {
            self.run_in::<V, 4096>(from, markers)
        }
    }

    fn run_in<V: Values, const N: usize>(&self, from: usize, markers: &mut [u32]) -> Sampled {
        let mut scratch = Scratch { values: [0; N], maxima: [[0; N]; 2], flags: [0; N] };
        let mut found = Found { markers, count: 0, next: from };
        let mut at = from;
        while at < self.end {
            // No further than the markers wanted are likely to reach: what is examined behind the
            // last of them is examined again.
            let wanted = (found.markers.len() - found.count) * 2 * self.radius;
            let len = wanted
                .next_multiple_of(64)
                .clamp(256, (N - 2 * self.radius) & !63)
                .min(self.end - at);
            self.flag::<V, N>(&mut scratch, at, len);
            scratch.flags[len..len.next_multiple_of(64)].fill(0);
            // Positions below this are known to be in a run and none.
            let mut known = 0;
            for word in 0..len.div_ceil(64) {
                let mut bits = pack(
                    scratch.flags[word * 64..].first_chunk().expect("the scratch is whole words"),
                );
                while bits != 0 {
                    let position = at + word * 64 + bits.trailing_zeros() as usize;
                    bits &= bits - 1;
                    if V::LONGER {
                        if position < known {
                            continue;
                        }
                        // It is flagged, so nothing around it begins with more; mostly nothing
                        // begins with the same either.
                        let around = &scratch.values[position - at..][..2 * self.radius + 1];
                        let equal: u16 = around
                            .iter()
                            .map(|&other| u16::from(other == around[self.radius]))
                            .sum();
                        if equal > 1 && !self.is_maximum::<V>(position) {
                            known = self.run_until::<V>(position);
                            continue;
                        }
                    }
                    if !self.force::<V>(&mut found, position) {
                        return found.sampled();
                    }
                    // A forced marker may be less than a radius before.
                    if position >= found.next && !found.push(position, self.radius) {
                        return found.sampled();
                    }
                }
            }
            at += len;
            if !self.force::<V>(&mut found, at) {
                return found.sampled();
            }
        }
        Sampled { count: found.count, resume: found.next.max(self.end) }
    }

    /// The first position behind `position` whose value may differ from that before it.
    fn run_until<V: Values>(&self, position: usize) -> usize {
        let bytes = &self.data[position..];
        if bytes[0] != bytes[1] || bytes[1] != bytes[2] {
            return position + 1;
        }
        position
            + (self.kernels.common_prefix(bytes, &bytes[1..]) + 2).saturating_sub(V::BYTES).max(1)
    }

    /// Forces a marker in every whole gap before `until`. Returns whether there is
    /// room for more.
    fn force<V: Values>(&self, found: &mut Found<'_>, until: usize) -> bool {
        while until - found.next.min(until) >= self.gap {
            let greatest = self.greatest::<V>(found.next, found.next + self.gap);
            if !found.push(greatest, self.radius) {
                return false;
            }
        }
        true
    }

    fn greatest<V: Values>(&self, from: usize, to: usize) -> usize {
        // Long stretches without a maximum are runs, mostly.
        let bytes = &self.data[from..to + V::BYTES - 1];
        if bytes[0] == bytes[1] && self.kernels.common_prefix(bytes, &bytes[1..]) == bytes.len() - 1
        {
            return from;
        }
        let mut best = (0, from);
        for (position, value) in (from..).zip(bytes.windows(V::BYTES)) {
            let value = V::whole(value);
            if value > best.0 {
                best = (value, position);
            }
        }
        best.1
    }

    /// The definition, nearest first: few positions are greater than many around them, so this
    /// takes a logarithmic number of steps per byte at worst.
    fn is_maximum<V: Values>(&self, position: usize) -> bool {
        let whole = |at: usize| V::whole(&self.data[at..]);
        let value = whole(position);
        let last = self.data.len() - V::BYTES;
        (1..=self.radius).all(|distance| {
            position.checked_sub(distance).is_none_or(|before| whole(before) < value)
                && (position + distance > last || whole(position + distance) <= value)
        })
    }

    /// Flags the `len` positions from `at` on by the first two bytes of their values.
    fn flag<V: Values, const N: usize>(&self, scratch: &mut Scratch<N>, at: usize, len: usize) {
        match self.kernels.level() {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `Kernels` holds this level only if the machine has it.
            Level::Avx512 => unsafe {
                flag_avx512::<V, N>(self.data, self.radius, scratch, at, len)
            },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Level::Avx2 => unsafe { flag_avx2::<V, N>(self.data, self.radius, scratch, at, len) },
            _ => flag::<V, N>(self.data, self.radius, scratch, at, len),
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

/// One bit per flag, which is 0 or 1; the first is the lowest.
#[inline(always)]
fn pack(flags: &[u8; 64]) -> u64 {
    let (eights, _) = flags.as_chunks::<8>();
    let mut bits = 0;
    for (i, eight) in eights.iter().enumerate() {
        // Each flag is multiplied to its place in the upper byte.
        bits |= u64::from_le_bytes(*eight).wrapping_mul(0x0102_0408_1020_4080) >> 56 << (8 * i);
    }
    bits
}

/// # Safety
/// The machine must have AVX-512 F, BW and VL.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx2")]
unsafe fn flag_avx512<V: Values, const N: usize>(
    data: &[u8],
    radius: usize,
    scratch: &mut Scratch<N>,
    at: usize,
    len: usize,
) {
    flag::<V, N>(data, radius, scratch, at, len);
}

/// # Safety
/// The machine must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn flag_avx2<V: Values, const N: usize>(
    data: &[u8],
    radius: usize,
    scratch: &mut Scratch<N>,
    at: usize,
    len: usize,
) {
    flag::<V, N>(data, radius, scratch, at, len);
}

/// Plain loops over whole arrays, which the compiler turns into vectors of each level's width.
#[inline(always)]
fn flag<V: Values, const N: usize>(
    data: &[u8],
    radius: usize,
    scratch: &mut Scratch<N>,
    at: usize,
    len: usize,
) {
    // `values[i]` belongs to position `at - radius + i`; where there is none it is 0.
    let total = len + 2 * radius;
    let values = &mut scratch.values[..total];
    let missing = radius.saturating_sub(at);
    let first = at + missing - radius;
    let present = (data.len() - (V::BYTES - 1) - first).min(total - missing);
    values[..missing].fill(0);
    values[missing + present..].fill(0);
    let bytes = &data[first..first + present + 3];
    let shifted = bytes.iter().zip(&bytes[1..]).zip(bytes[2..].iter().zip(&bytes[3..]));
    for (value, ((&a, &b), (&c, &d))) in values[missing..][..present].iter_mut().zip(shifted) {
        *value = V::first(&[a, b, c, d]);
    }
    // `maxima[i]` is the greatest of the `reach` values from `i` on; each step makes that up to
    // four times as many.
    let [maxima, next] = &mut scratch.maxima;
    let (mut maxima, mut next) = (&mut maxima[..total], &mut next[..total]);
    maxima.copy_from_slice(values);
    let mut reach = 1;
    while reach < radius {
        let last = (3 * reach).min(radius - reach);
        let (first, second) = (reach.min(last), (2 * reach).min(last));
        let far = maxima[second..].iter().zip(&maxima[last..]);
        for (((next, &a), &b), (&c, &d)) in
            next.iter_mut().zip(&*maxima).zip(&maxima[first..]).zip(far)
        {
            *next = a.max(b).max(c.max(d));
        }
        std::mem::swap(&mut maxima, &mut next);
        reach += last;
    }
    let (before, behind) = (&maxima[..len], &maxima[radius + 1..][..len]);
    for (((flag, &value), &before), &behind) in
        scratch.flags[..len].iter_mut().zip(&values[radius..]).zip(before).zip(behind)
    {
        let first = if V::LONGER { value >= before } else { value > before };
        *flag = u8::from(first & (value >= behind));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{blocks, in_batches};
    use proptest::prelude::*;

    fn digits(data: &[u8]) -> Vec<u64> {
        data.windows(8)
            .map(|bytes| bytes.iter().fold(0, |value, &byte| value << 8 | u64::from(byte)))
            .collect()
    }

    fn hashes(data: &[u8]) -> Vec<u64> {
        data.windows(4).map(|bytes| u64::from(hash(bytes.first_chunk().unwrap()).max(1))).collect()
    }

    /// The definition, over the values of all positions.
    fn naive(values: &[u64], end: usize, radius: usize, gap: usize, from: usize) -> Vec<u32> {
        let maximum = |i: usize| {
            let before = &values[i.saturating_sub(radius)..i];
            let behind = &values[i + 1..(i + 1 + radius).min(values.len())];
            before.iter().all(|&value| value < values[i])
                && behind.iter().all(|&value| value <= values[i])
        };
        let (mut markers, mut next) = (Vec::new(), from);
        while next < end {
            let to = (next + gap).min(end);
            let marker = if let Some(marker) = (next..to).find(|&i| maximum(i)) {
                marker
            } else if to == next + gap {
                let greatest = values[next..to].iter().max().unwrap();
                (next..to).find(|&i| values[i] == *greatest).unwrap()
            } else {
                break;
            };
            markers.push(marker as u32);
            next = marker + radius + 1;
        }
        markers
    }

    #[test]
    fn runs_and_slopes_have_markers() {
        for kernels in Kernels::available() {
            let all = |data: &[u8]| {
                in_batches(3, 0, data.len() - 31, |at, found| {
                    kernels.maxp(data, 32, 16, 128, at, found)
                })
            };
            // A run: the first of all its equals is a local maximum; behind it, the first of every
            // gap.
            assert_eq!(all(&[7; 1000])[..3], [0, 17, 34]);
            // A slope up: the last of every gap. Down: the first position, then the first behind
            // each radius.
            let up: Vec<u8> = (0..600u32).flat_map(u32::to_be_bytes).collect::<Vec<_>>();
            assert!(all(&up).windows(2).all(|pair| (17..=144).contains(&(pair[1] - pair[0]))));
            let down: Vec<u8> = (0..=255).rev().collect();
            assert_eq!(all(&down)[..2], [0, 17]);
        }
    }

    #[test]
    fn what_decides_may_lie_before_and_behind() {
        let mut data = [5u8; 100];
        (data[40], data[50]) = (9, 8);
        for kernels in Kernels::available() {
            let from = |from, radius| {
                in_batches(9, from, 69, |at, found| {
                    kernels.maxp(&data, 32, radius, 1000, at, found)
                })
            };
            assert_eq!(from(0, 20), [0, 40]);
            // 50 is not greater than 40, although the search begins behind that.
            assert_eq!(from(45, 20), [] as [u32; 0]);
            assert_eq!(from(45, 9), [50]);
        }
    }

    proptest! {
        #[test]
        fn every_level_and_batch_equals_the_definition(
            data in blocks(),
            window in 8usize..70,
            radius in prop_oneof![1usize..40, 100usize..=512],
            periods in prop_oneof![1usize..6, Just(1000)],
            from in prop_oneof![Just(0usize), 0usize..300],
            batch in 1usize..70,
        ) {
            let end = (data.len() + 1).saturating_sub(window);
            let gap = radius * periods;
            let expected = [
                naive(&digits(&data), end, radius, gap, from),
                naive(&hashes(&data), end, radius, gap, from),
            ];
            for kernels in Kernels::available() {
                let maxp = in_batches(batch, from, end, |at, found| kernels.maxp(&data, window, radius, gap, at, found));
                let peaks = in_batches(batch, from, end, |at, found| kernels.peaks(&data, window, radius, gap, at, found));
                prop_assert_eq!(&maxp, &expected[0], "{}", kernels.level());
                prop_assert_eq!(&peaks, &expected[1], "{}", kernels.level());
            }
        }
    }
}
