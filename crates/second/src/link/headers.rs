//! Header sections and the references of slots: section 4.5.

use super::fields::{Fields, Parsed};
use std::collections::HashMap;

/// Where a header has its fields, if it has them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Places {
    pub sequence: Option<usize>,
    pub acknowledgment: Option<usize>,
    pub window: Option<usize>,
    pub flags: Option<usize>,
    pub identification: Option<usize>,
    /// Value and echo reply.
    pub timestamps: Option<usize>,
    pub checksum: Option<usize>,
}

/// Finds them: `packets::places`, or one for invented headers.
pub(super) type Layout = fn(&[u8]) -> Places;

/// Fields in which a header differs from its reference.
#[derive(Clone, Debug, Default)]
struct Differences<'a> {
    sequence: Option<i64>,
    acknowledgment: Option<i64>,
    window: Option<i64>,
    flags: Option<u8>,
    identification: Option<i64>,
    timestamps: Option<(i64, i64)>,
    checksum: Option<&'a [u8]>,
    patch: Option<Patch<'a>>,
}

#[derive(Clone, Debug)]
struct Patch<'a> {
    len: Option<u8>,
    /// How many bytes before each piece stay.
    pieces: Vec<(u8, &'a [u8])>,
}

#[derive(Clone, Debug)]
enum Header<'a> {
    Whole { form: u8, bytes: &'a [u8] },
    From { slot: u64, reference: u8, differences: Differences<'a> },
}

#[derive(Clone, Debug)]
pub struct HeaderSection<'a> {
    slot: u64,
    header: Header<'a>,
    kept_as: Option<u8>,
}

impl HeaderSection<'_> {
    pub fn parse<'a>(fields: &mut Fields<'a>) -> Parsed<HeaderSection<'a>> {
        let (slot, control) = (fields.varint()?, fields.byte()?);
        if slot > 1023 {
            return Err("number of a slot");
        }
        let (is_whole, is_kept) = (control & 4 != 0, control & 0x20 != 0);
        let (low, reference) = (control & 3, control >> 3 & 3);
        if !is_kept && reference != 0 {
            return Err("a reference that nothing is kept as");
        }
        if slot == 0 && (is_kept || !is_whole) {
            return Err("slot 0 keeps nothing");
        }
        let kept_as = is_kept.then_some(reference);
        let header = if is_whole {
            if control & 0xc0 != 0 || low == 3 {
                return Err("bits of a whole header");
            }
            let len = fields.varint()?;
            if is_kept && len > 255 {
                return Err("a header that is too long to keep");
            }
            Header::Whole { form: low, bytes: fields.bytes(len)? }
        } else {
            let from = if control & 0x80 != 0 { fields.varint()? } else { slot };
            if !(1..=1023).contains(&from) {
                return Err("number of a slot");
            }
            let differences = if control & 0x40 != 0 {
                Differences::parse(fields)?
            } else {
                Differences::default()
            };
            Header::From { slot: from, reference: low, differences }
        };
        Ok(HeaderSection { slot, header, kept_as })
    }
}

impl Differences<'_> {
    fn parse<'a>(fields: &mut Fields<'a>) -> Parsed<Differences<'a>> {
        let mask = fields.byte()?;
        if mask == 0 {
            return Err("an empty mask");
        }
        let mut found = Differences::default();
        let has = |bit: u8| mask >> bit & 1 == 1;
        if has(0) {
            found.sequence = Some(fields.difference(32)?);
        }
        if has(1) {
            found.acknowledgment = Some(fields.difference(32)?);
        }
        if has(2) {
            found.window = Some(fields.difference(16)?);
        }
        if has(3) {
            found.flags = Some(fields.byte()?);
        }
        if has(4) {
            found.identification = Some(fields.difference(16)?);
        }
        if has(5) {
            found.timestamps = Some((fields.difference(32)?, fields.difference(32)?));
        }
        if has(6) {
            found.checksum = Some(fields.bytes(2)?);
        }
        if has(7) {
            let head = fields.byte()?;
            let len = if head & 0x80 != 0 { Some(fields.byte()?) } else { None };
            let mut pieces = Vec::new();
            for _ in 0..head & 0x7f {
                let (stay, len) = (fields.byte()?, fields.byte()?);
                pieces.push((stay, fields.bytes(len.into())?));
            }
            if len.is_none() && pieces.is_empty() {
                return Err("an empty patch");
            }
            found.patch = Some(Patch { len, pieces });
        }
        Ok(found)
    }

    /// The header with these differences to a reference.
    fn apply(&self, reference: &[u8], layout: Layout) -> Parsed<Vec<u8>> {
        const ABSENT: &str = "a field that the reference does not have";
        let places = layout(reference);
        let mut header = reference.to_vec();
        let mut add = |at: Option<usize>, len: usize, difference: Option<i64>| {
            let Some(difference) = difference else { return Ok(()) };
            let field = at.and_then(|at| header.get_mut(at..at + len)).ok_or(ABSENT)?;
            let old = field.iter().fold(0, |value: i64, &byte| value << 8 | i64::from(byte));
            field.copy_from_slice(&(old + difference).to_be_bytes()[8 - len..]);
            Ok::<(), &'static str>(())
        };
        add(places.sequence, 4, self.sequence)?;
        add(places.acknowledgment, 4, self.acknowledgment)?;
        add(places.window, 2, self.window)?;
        add(places.identification, 2, self.identification)?;
        if let Some((value, echo)) = self.timestamps {
            add(places.timestamps, 4, Some(value))?;
            add(places.timestamps.map(|at| at + 4), 4, Some(echo))?;
        }
        if let Some(flags) = self.flags {
            *places.flags.and_then(|at| header.get_mut(at)).ok_or(ABSENT)? = flags;
        }
        if let Some(checksum) = self.checksum {
            let at = places.checksum.ok_or(ABSENT)?;
            header.get_mut(at..at + 2).ok_or(ABSENT)?.copy_from_slice(checksum);
        }
        if let Some(patch) = &self.patch {
            if let Some(len) = patch.len {
                header.resize(len.into(), 0);
            }
            let mut at = 0;
            for &(stay, piece) in &patch.pieces {
                at += usize::from(stay);
                let place = header.get_mut(at..at + piece.len()).ok_or("a piece of a patch")?;
                place.copy_from_slice(piece);
                at += piece.len();
            }
        }
        Ok(header)
    }
}

/// A header with its form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Restored {
    pub form: u8,
    pub bytes: Vec<u8>,
}

/// Why there is no header.
pub(super) enum NoHeader {
    /// The reference is not there, or is newer than what refers to it.
    Missing,
    Invalid(&'static str),
}

/// The references of all slots, each with the counter of the datagram that stated it.
#[derive(Default)]
pub(super) struct Slots(HashMap<(u64, u8), (u64, Restored)>);

impl Slots {
    /// The header of a section in the datagram with this counter.
    pub(super) fn restore(
        &self,
        counter: u64,
        section: &HeaderSection<'_>,
        layout: Layout,
    ) -> Result<Restored, NoHeader> {
        match &section.header {
            Header::Whole { form, bytes } => Ok(Restored { form: *form, bytes: bytes.to_vec() }),
            Header::From { slot, reference, differences } => {
                let known = self.0.get(&(*slot, *reference)).filter(|known| known.0 < counter);
                let (_, known) = known.ok_or(NoHeader::Missing)?;
                let bytes = differences.apply(&known.bytes, layout).map_err(NoHeader::Invalid)?;
                Ok(Restored { form: known.form, bytes })
            }
        }
    }

    /// Keeps the header of a section, if it says so.
    pub(super) fn keep(&mut self, counter: u64, section: &HeaderSection<'_>, header: &Restored) {
        if let Some(reference) = section.kept_as {
            let kept = self.0.get(&(section.slot, reference));
            if kept.is_none_or(|kept| kept.0 <= counter) {
                self.0.insert((section.slot, reference), (counter, header.clone()));
            }
        }
    }
}
