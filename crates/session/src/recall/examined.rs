//! What of a flow's queue was looked up.

use oncewire_codec::Domain;
use oncewire_codec::hooks::{Hook, split_markers};
use std::collections::VecDeque;
use std::time::Instant;

/// What of a flow's queue was looked up: the front of it, and, where that goes on on disk, what is behind
/// that, so that it is read while the front is sent.
#[derive(Debug, Default)]
pub(crate) struct Examined {
    /// In the order of the queue, from its front on.
    pub(super) parts: VecDeque<Part>,
    /// Where in the sending log content goes on that was found on disk.
    pub(super) next: Option<u64>,
    /// When content was read that was found there, if there was more behind it: bytes that were
    /// looked up, and of others.
    pub(super) read: Option<(Instant, u64, u64)>,
}

/// Content that was looked up at once, and the markers found there: what is looked up is noted soon,
/// and finding them takes as long as both.
#[derive(Debug, Default)]
pub(super) struct Part {
    /// Bytes that are not sent yet.
    pub(super) len: usize,
    /// Number of the look, and stretches that it has found and the flow waits for.
    pub(super) look: u64,
    pub(super) waits: usize,
    pub(super) markers: Vec<Hook>,
    /// The log of whose key and domain these are.
    pub(super) of: Option<(u64, Domain)>,
}

impl Examined {
    /// Bytes at the front of the queue that were looked up.
    pub(crate) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len).sum()
    }

    /// Nothing is known of so many bytes, which are those behind all that were looked up.
    pub(crate) fn pass(&mut self, len: usize) {
        self.parts.push_back(Part { len, ..Part::default() });
        self.next = None;
    }

    /// Whether the front waits for the disk.
    pub(crate) fn waits(&self) -> bool {
        self.parts.front().is_some_and(|front| front.waits > 0)
    }

    /// Whether what is behind all that were looked up probably goes on on disk.
    pub(crate) fn goes_on(&self) -> bool {
        self.next.is_some()
    }

    /// Whether that is to be looked up now, where so many looks may be under way.
    pub(crate) fn has_room(&self, looks: usize) -> bool {
        self.goes_on() && (1..looks).contains(&self.parts.len())
    }

    /// Bytes at the front that were looked up at once.
    pub(crate) fn front(&self) -> usize {
        self.parts.front().map_or(0, |front| front.len)
    }

    /// The first `len` bytes are sent. Returns their markers, if these were found at once.
    pub(crate) fn take(&mut self, len: usize) -> Option<Markers> {
        let (mut left, mut markers) = (len, None);
        while let Some(front) = self.parts.front_mut().filter(|front| left > 0 || front.len == 0) {
            let now = front.len.min(left);
            let found = split_markers(&mut front.markers, now);
            markers = front.of.filter(|_| now == len).map(|of| Markers { found, of });
            (front.len, left) = (front.len - now, left - now);
            if front.len > 0 {
                break;
            }
            self.parts.pop_front();
        }
        markers
    }

    /// One stretch less that a look waits for.
    pub(crate) fn release(&mut self, look: u64) {
        if let Some(part) = self.parts.iter_mut().find(|part| part.look == look) {
            part.waits = part.waits.saturating_sub(1);
        }
    }

    /// Everything is to be looked up again, once what the front waits for has come.
    pub(crate) fn look_again(&mut self) {
        let front = self.parts.pop_front().filter(|front| front.waits > 0);
        let waiting = front.map(|Part { look, waits, .. }| Part { look, waits, ..Part::default() });
        *self = Examined { parts: waiting.into_iter().collect(), ..Examined::default() };
    }

    /// Everything is to be looked up again. Returns whether the front has waited.
    pub(crate) fn forget(&mut self) -> bool {
        std::mem::take(self).waits()
    }
}

/// Markers of a block.
#[derive(Debug)]
pub(crate) struct Markers {
    pub(super) found: Vec<Hook>,
    pub(super) of: (u64, Domain),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_taken_off_all_parts_with_its_markers() {
        let hook = |at| Hook { at, fingerprint: 1 };
        let part = |len| Part {
            len,
            markers: [0, 50, 100].map(hook).to_vec(),
            of: Some((1, Domain(2))),
            ..Part::default()
        };
        let mut examined =
            Examined { parts: [200, 200, 200].map(part).into(), ..Examined::default() };
        let places = |markers: Option<Markers>| {
            markers.map(|markers| markers.found.iter().map(|hook| hook.at).collect::<Vec<_>>())
        };
        assert_eq!(places(examined.take(90)), Some(vec![0, 50]));
        assert_eq!((examined.len(), examined.front()), (510, 110));
        assert_eq!(places(examined.take(110)), Some(vec![10]));
        // It was not looked up at once, so some of it is of no known marker.
        assert_eq!(places(examined.take(250)), None);
        assert_eq!((examined.len(), examined.front()), (150, 150));
        assert_eq!(places(examined.take(150)), Some(vec![0, 50]));
        assert_eq!((examined.len(), places(examined.take(10))), (0, None));
    }
}
