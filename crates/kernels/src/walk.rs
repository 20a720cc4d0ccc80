//! The loop of SAMPLEBYTE (EndRE Figure 3), which SAMPLEHASH shares: a marker, a skip, the next
//! marker.
//!
//! The skip makes the search a chain of "load, classify, first set bit", one step per marker rather
//! than per byte. What marks is an argument, for one position and for a vector of them, so each
//! caller gets its own copy with its instruction set.

use crate::Sampled;

/// Positions that [`Walk::by_notes`] looks at before it walks.
#[cfg(target_arch = "x86_64")]
const AHEAD: usize = 256;

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

    /// As [`Walk::by_vectors`], for many markers with short skips. Which positions mark is noted for
    /// [`AHEAD`] of them first, where none depends on the markers before it, and then one load and
    /// one count of bits lead from a marker to the next: where it lies is not worth a guess.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub(crate) fn by_notes(
        self,
        vectors: usize,
        markers: &mut [u32],
        hits: impl Fn(usize) -> u32,
        marks: impl Fn(usize) -> bool,
    ) -> Sampled {
        let Walk { from, end, skip, gap } = self;
        let (mut at, mut count) = (from, 0);
        let mut stop = from.saturating_add(gap);
        while at < stop.min(end) && at + AHEAD <= vectors && count < markers.len() {
            // Bit `i` of all says whether `at + i` marks. Behind them are as many that say no.
            let mut notes = [0; AHEAD / 64 + 1];
            for (nth, note) in notes[..AHEAD / 64].iter_mut().enumerate() {
                let first = at + 64 * nth;
                *note = u64::from(hits(first)) | u64::from(hits(first + 32)) << 32;
            }
            let mut next = 0;
            while next < AHEAD && count < markers.len() {
                // Whole words are read as they were just written: a load across two of them waits.
                let (word, bit) = (next / 64, next % 64);
                let inside = notes[word] >> bit | notes[word + 1] << 1 << (63 - bit);
                if inside == 0 {
                    next = (next + 64).min(AHEAD);
                    continue;
                }
                let marker = at + next + inside.trailing_zeros() as usize;
                if marker >= stop.min(end) {
                    return Sampled { count, resume: marker };
                }
                markers[count] = marker as u32;
                count += 1;
                next = marker + 1 + skip - at;
                stop = (marker + 1 + skip).saturating_add(gap);
            }
            at += next;
        }
        let rest = Walk { from: at, end, skip, gap };
        let rest = rest.by_vectors_until(vectors, stop, &mut markers[count..], hits, marks);
        Sampled { count: count + rest.count, resume: rest.resume }
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
        let stop = self.from.saturating_add(self.gap);
        self.by_vectors_until(vectors, stop, markers, hits, marks)
    }

    /// As [`Walk::by_vectors`]; no marker may be at `stop` or after it unless one comes before.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn by_vectors_until(
        self,
        vectors: usize,
        mut stop: usize,
        markers: &mut [u32],
        hits: impl Fn(usize) -> u32,
        marks: impl Fn(usize) -> bool,
    ) -> Sampled {
        let Walk { from, end, skip, gap } = self;
        let (mut at, mut count) = (from, 0);
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
