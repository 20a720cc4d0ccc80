//! The receiver's half: restores headers, and keeps those that the sender may refer to.

use super::super::record_error::RecordError;
use super::{Implied, Kept, Layout, MAX_KEPT, REFERENCES, Section, Source, read_fields};
use std::ops::Range;

/// Why a section was not restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Refusal {
    /// The header that it refers to is not there. That happens if datagrams are reordered by more
    /// than a round trip, and between different keys.
    Missing,
    /// The peer breaks the format.
    Record(RecordError),
}

impl From<RecordError> for Refusal {
    fn from(error: RecordError) -> Refusal {
        Refusal::Record(error)
    }
}

/// A restored header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Restored {
    /// Where it is in the buffer that was passed.
    pub(in super::super) header: Range<usize>,
    /// What it leaves out.
    pub(in super::super) implied: Implied,
    keep: Option<(u16, u8)>,
    is_first: bool,
}

impl Restored {
    /// Whether the sender did not refer to a header of the same slot, and can refer to this one once it
    /// knows that it arrived.
    pub(in super::super) fn waits_for_acknowledgment(&self) -> bool {
        self.is_first && self.keep.is_some()
    }
}

/// A reference, with the counter of the datagram that stated it.
#[derive(Debug, Default)]
struct Reference {
    counter: u64,
    kept: Kept,
}

type Slot = [Option<Reference>; REFERENCES];

/// The references that a peer may use. They take at most [`MAX_SLOTS`](super::MAX_SLOTS) times
/// [`REFERENCES`] times [`MAX_KEPT`] bytes, and some 80 bytes beside each.
#[derive(Debug)]
pub(in super::super) struct HeaderDecoder {
    layout: Layout,
    slots: Vec<Option<Box<Slot>>>,
    /// A header while it is restored, or the last one that was.
    scratch: Vec<u8>,
    last: Option<Last>,
    /// Its section.
    section: Vec<u8>,
}

/// What is known of the last section that was restored to `scratch`, as long as nothing was kept since:
/// the datagrams of a run have the same one.
#[derive(Clone, Copy, Debug)]
struct Last {
    counter: u64,
    implied: Implied,
}

impl HeaderDecoder {
    pub(in super::super) fn new(layout: Layout) -> HeaderDecoder {
        HeaderDecoder {
            layout,
            slots: Vec::new(),
            scratch: Vec::with_capacity(MAX_KEPT),
            last: None,
            section: Vec::new(),
        }
    }

    /// Most memory of the references, in bytes.
    pub(in super::super) fn memory(&self) -> usize {
        let used = self.slots.iter().flatten().count();
        self.slots.capacity() * 8 + used * (size_of::<Slot>() + REFERENCES * MAX_KEPT)
    }

    /// Appends the header of a section, from the datagram with this counter, to `out`. Nothing is
    /// kept yet.
    ///
    /// # Errors
    /// [`Refusal`]; `out` is as before.
    pub(in super::super) fn restore(
        &mut self,
        section: &[u8],
        counter: u64,
        out: &mut Vec<u8>,
    ) -> Result<Restored, Refusal> {
        let start = out.len();
        if let Some(last) = self.last
            && last.counter <= counter
            && self.section == section
        {
            out.extend_from_slice(&self.scratch);
            let header = start..out.len();
            return Ok(Restored { header, implied: last.implied, keep: None, is_first: false });
        }
        let mut rest = section;
        let Section { source, keep } = Section::take(&mut rest)?;
        let implied = match source {
            Source::Whole { implied, header } => {
                out.extend_from_slice(header);
                implied
            }
            Source::Reference { slot, reference, mask, mut fields } => {
                let kept = find(&self.slots, slot, reference, counter).ok_or(Refusal::Missing)?;
                if mask == 0 {
                    out.extend_from_slice(&kept.header);
                } else {
                    self.last = None;
                    self.scratch.clear();
                    self.scratch.extend_from_slice(&kept.header);
                    read_fields(mask, &mut fields, Some((&kept.fields, &mut self.scratch)))?;
                    out.extend_from_slice(&self.scratch);
                    if keep.is_none() {
                        self.last = Some(Last { counter, implied: kept.implied });
                        self.section.clear();
                        self.section.extend_from_slice(section);
                    }
                }
                kept.implied
            }
        };
        let is_first = match source {
            Source::Whole { .. } => true,
            Source::Reference { slot, .. } => keep.is_some_and(|(own, _)| own != slot),
        };
        Ok(Restored { header: start..out.len(), implied, keep, is_first })
    }

    /// Keeps a restored header if its section says so. Must be called for every section of a datagram
    /// before that is acknowledged.
    pub(in super::super) fn keep(&mut self, restored: &Restored, counter: u64, buffer: &[u8]) {
        let Some((slot, reference)) = restored.keep else { return };
        self.last = None;
        let slot = usize::from(slot);
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        let slot = self.slots[slot].get_or_insert_default();
        let reference = &mut slot[usize::from(reference)];
        if reference.as_ref().is_some_and(|reference| reference.counter > counter) {
            return;
        }
        let reference = reference.get_or_insert_default();
        let header = &buffer[restored.header.clone()];
        reference.counter = counter;
        reference.kept.header.clear();
        reference.kept.header.extend_from_slice(header);
        reference.kept.implied = restored.implied;
        reference.kept.fields = (self.layout)(header);
    }
}

/// The header that a datagram with this counter means. A sender refers to what was acknowledged
/// before; so if the reference came in a later datagram, the sender meant the one before that, which
/// is gone.
fn find(slots: &[Option<Box<Slot>>], slot: u16, reference: u8, counter: u64) -> Option<&Kept> {
    let slot = slots.get(usize::from(slot))?.as_ref()?;
    let reference = slot[usize::from(reference)].as_ref()?;
    (reference.counter < counter).then_some(&reference.kept)
}
