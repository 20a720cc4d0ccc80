//! The loop of SAMPLEBYTE (EndRE Figure 3), which SAMPLEHASH shares: a marker, a skip, the next
//! marker.
//!
//! The skip makes the search a chain of "load, classify, first set bit", one step per marker rather
//! than per byte. What marks is an argument, for one position and for a vector of them, so each
//! caller gets its own copy with its instruction set.

use crate::Sampled;

/// Where a walk goes.
#[derive(Clone, Copy)]
pub(crate) struct Walk {
    /// First position examined.
    pub(crate) from: usize,
    /// Exclusive end of the positions with a whole window left.
    pub(crate) end: usize,
    /// Positions skipped after a marker.
    pub(crate) skip: usize,
    /// The walk stops when this many positions in a row are no markers.
    pub(crate) gap: usize,
}

impl Walk {
    /// Follows the markers one position at a time.
    #[inline(always)]
    pub(crate) fn plain(self, markers: &mut [u32], marks: impl Fn(usize) -> bool) -> Sampled {
        self.rest(self.from, self.from.saturating_add(self.gap), markers, marks)
    }

    /// From `at` on; no marker may be at `stop` or after it unless one comes before.
    #[inline(always)]
    fn rest(
        self,
        mut at: usize,
        mut stop: usize,
        markers: &mut [u32],
        marks: impl Fn(usize) -> bool,
    ) -> Sampled {
        let Walk { end, skip, gap, .. } = self;
        let mut count = 0;
        while at < stop.min(end) && count < markers.len() {
            if marks(at) {
                markers[count] = at as u32;
                count += 1;
                at += skip;
                stop = (at + 1).saturating_add(gap);
            }
            at += 1;
        }
        Sampled { count, resume: at }
    }

    /// Follows the markers 32 positions at a time. Bit `i` of `hits(at)` says whether `at + i`
    /// marks; it is called where `at < vectors` only. `marks` says the same of one position.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn by_vectors(
        self,
        vectors: usize,
        markers: &mut [u32],
        hits: impl Fn(usize) -> u32,
        marks: impl Fn(usize) -> bool,
    ) -> Sampled {
        let Walk { from, end, skip, gap } = self;
        let (mut at, mut count) = (from, 0);
        let mut stop = from.saturating_add(gap);
        while at < stop.min(end) && at < vectors && count < markers.len() {
            let mut inside = hits(at);
            // Usually the skip leaves the vector and one step is made; a small period has several
            // markers in one.
            let base = at;
            at += 32;
            while inside != 0 {
                let marker = base + inside.trailing_zeros() as usize;
                if marker >= stop.min(end) || count == markers.len() {
                    return Sampled { count, resume: marker };
                }
                markers[count] = marker as u32;
                count += 1;
                let next = marker + 1 + skip;
                stop = next.saturating_add(gap);
                let gone = next - base;
                if gone >= 32 {
                    at = next;
                    break;
                }
                inside &= u32::MAX << gone;
            }
        }
        let rest = self.rest(at, stop, &mut markers[count..], marks);
        Sampled { count: count + rest.count, resume: rest.resume }
    }
}
