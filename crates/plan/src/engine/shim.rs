//! The shim, which an ingress writes between a packet's headers and the unmatched payload.
//!
//! `docs/PLANNERS.md`, "Shim", is the specification.

use oncewire_codec::varint::{self, Stop};

/// Longest payload of an IP packet, in bytes.
pub const MAX_PAYLOAD: usize = 65_535;

/// Most matches that the format can carry.
pub const MAX_MATCHES: usize = 7;

const COUNT: u8 = 0b0000_0111;
const CACHE: u8 = 0b0000_1000;
const VERSION: u8 = 0b0001_0000;
const PATH: u8 = 0b0010_0000;

/// Parameters that all nodes of a network share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bytes of a packet's name, 1..=8.
    pub name_bytes: u8,
    /// Most matches in a packet, 0..=7. The thesis: 3 (section 3.5).
    pub max_matches: u8,
    /// Whether shims carry the packet's path. Otherwise nodes know it from MPLS labels or routing
    /// (section 3.2, footnote).
    pub path_ids: bool,
}

impl Default for Format {
    fn default() -> Self {
        Self { name_bytes: 4, max_matches: 3, path_ids: true }
    }
}

/// A matched region: `length` bytes at `at` of the payload are those at `offset` of the payload of
/// packet `name` of path `path`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Path of the packet referred to.
    pub path: u32,
    /// Its name among the packets of its path: [`super::Identity::name`].
    pub name: u64,
    /// Position in the payload, in bytes.
    pub at: u32,
    /// Position in the payload referred to, in bytes.
    pub offset: u32,
    /// Bytes, at least 1.
    pub length: u32,
}

impl Spec {
    /// Position after the last byte of the region.
    pub fn end(&self) -> u32 {
        self.at + self.length
    }

    /// Bytes of this match in the shim of a packet of path `path`, after a match that ends at
    /// `after`.
    pub fn bytes(&self, format: &Format, path: u32, after: u32) -> usize {
        width(zigzag(i64::from(self.path) - i64::from(path)))
            + usize::from(format.name_bytes)
            + width(u64::from(self.at - after))
            + width(zigzag(i64::from(self.offset) - i64::from(self.at)))
            + width(u64::from(self.length))
    }
}

/// A shim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shim {
    /// Path of the packet.
    pub path: u32,
    /// A node downstream caches this packet, under the manifest whose version has this lowest bit.
    pub cache: Option<bool>,
    /// [`super::HeaderHasher::check`] of the whole payload. Written only if there are matches.
    pub check: u32,
    /// Regions that are not in the packet, ascending and disjoint.
    pub matches: Vec<Spec>,
}

/// Why a shim cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShimError {
    /// The shim is truncated.
    #[error("the packet ends inside the shim")]
    Short,
    /// A reserved or meaningless bit is set.
    #[error("the shim's first byte is {0:#04x}")]
    Control(u8),
    /// More matches than agreed.
    #[error("{0} matches")]
    Matches(u8),
    /// A varint that is too long, not in shortest form, or out of range.
    #[error("a {0} out of range")]
    Number(&'static str),
    /// The matches reach beyond the packet, or make it too long.
    #[error("matches that do not fit the packet")]
    Region,
}

impl Shim {
    /// Whether the shim is empty. A packet with an empty shim is sent without one.
    pub fn is_empty(&self) -> bool {
        self.cache.is_none() && self.matches.is_empty()
    }

    /// Appends the shim to `out`; nothing, if it is empty.
    ///
    /// # Panics
    /// If there are more matches than [`MAX_MATCHES`], or they are not ascending and disjoint.
    pub fn write(&self, format: &Format, out: &mut Vec<u8>) {
        if self.is_empty() {
            return;
        }
        assert!(self.matches.len() <= MAX_MATCHES);
        let mut control = self.matches.len() as u8;
        if let Some(version) = self.cache {
            control |= CACHE | if version { VERSION } else { 0 };
        }
        if format.path_ids {
            control |= PATH;
        }
        out.push(control);
        if format.path_ids {
            varint::put(out, u64::from(self.path));
        }
        if !self.matches.is_empty() {
            out.extend_from_slice(&self.check.to_le_bytes());
        }
        let mut after = 0;
        for spec in &self.matches {
            varint::put(out, zigzag(i64::from(spec.path) - i64::from(self.path)));
            out.extend_from_slice(&spec.name.to_le_bytes()[..usize::from(format.name_bytes)]);
            varint::put(out, u64::from(spec.at.checked_sub(after).expect("matches ascend")));
            varint::put(out, zigzag(i64::from(spec.offset) - i64::from(spec.at)));
            varint::put(out, u64::from(spec.length));
            after = spec.end();
        }
    }

    /// Takes a shim off the front of `packet`, which then holds the unmatched payload. `known` is
    /// the path according to routing; it is used if the shim carries none.
    ///
    /// # Errors
    /// [`ShimError`]; `packet` is then unspecified.
    pub fn take(format: &Format, known: u32, packet: &mut &[u8]) -> Result<Shim, ShimError> {
        let shim = Self::take_head(format, known, packet)?;
        shim.decoded_length(packet.len())?;
        Ok(shim)
    }

    /// As [`Shim::take`], where the rest of the packet is elsewhere: its length is to be checked
    /// with [`Shim::decoded_length`].
    ///
    /// # Errors
    /// [`ShimError`]; `input` is then unspecified.
    pub fn take_head(format: &Format, known: u32, input: &mut &[u8]) -> Result<Shim, ShimError> {
        let control = take_bytes::<1>(input)?[0];
        let useless =
            control & VERSION != 0 && control & CACHE == 0 || control & (COUNT | CACHE) == 0;
        if control & !(COUNT | CACHE | VERSION | PATH) != 0
            || useless
            || (control & PATH != 0) != format.path_ids
        {
            return Err(ShimError::Control(control));
        }
        let count = control & COUNT;
        if count > format.max_matches {
            return Err(ShimError::Matches(count));
        }
        let path = if format.path_ids { small(number(input, "path")?, "path")? } else { known };
        let cache = (control & CACHE != 0).then_some(control & VERSION != 0);
        let check = if count > 0 { u32::from_le_bytes(take_bytes(input)?) } else { 0 };
        let mut matches = Vec::with_capacity(usize::from(count));
        let mut after = 0u32;
        for _ in 0..count {
            let of = i64::from(path) + unzigzag(number(input, "path")?);
            let of = u32::try_from(of).map_err(|_| ShimError::Number("path"))?;
            let mut name = [0; 8];
            let (head, rest) =
                input.split_at_checked(usize::from(format.name_bytes)).ok_or(ShimError::Short)?;
            name[..head.len()].copy_from_slice(head);
            *input = rest;
            let position = |value: u64| {
                if value <= MAX_PAYLOAD as u64 { Ok(value as u32) } else { Err(ShimError::Region) }
            };
            let at = position(
                u64::from(after) + u64::from(small(number(input, "position")?, "position")?),
            )?;
            let offset = i64::from(at) + unzigzag(number(input, "offset")?);
            let offset = position(u64::try_from(offset).map_err(|_| ShimError::Number("offset"))?)?;
            let length = position(u64::from(small(number(input, "length")?, "length")?))?;
            if length == 0 {
                return Err(ShimError::Number("length"));
            }
            after = position(u64::from(at + length))?;
            position(u64::from(offset + length))?;
            matches.push(Spec { path: of, name: u64::from_le_bytes(name), at, offset, length });
        }
        Ok(Shim { path, cache, check, matches })
    }

    /// Length of the whole payload, of which `literals` bytes are in the packet.
    ///
    /// # Errors
    /// [`ShimError::Region`].
    pub fn decoded_length(&self, literals: usize) -> Result<usize, ShimError> {
        let matched: usize = self.matches.iter().map(|spec| spec.length as usize).sum();
        let total = literals.saturating_add(matched);
        let end = self.matches.last().map_or(0, |last| last.end() as usize);
        if total > MAX_PAYLOAD || end > total { Err(ShimError::Region) } else { Ok(total) }
    }
}

fn take_bytes<const N: usize>(input: &mut &[u8]) -> Result<[u8; N], ShimError> {
    let (head, rest) = input.split_first_chunk::<N>().ok_or(ShimError::Short)?;
    *input = rest;
    Ok(*head)
}

fn number(input: &mut &[u8], what: &'static str) -> Result<u64, ShimError> {
    varint::take(input).map_err(|stop| match stop {
        Stop::Short => ShimError::Short,
        Stop::Malformed => ShimError::Number(what),
    })
}

fn small(value: u64, what: &'static str) -> Result<u32, ShimError> {
    u32::try_from(value).map_err(|_| ShimError::Number(what))
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Bytes of a varint.
fn width(value: u64) -> usize {
    ((64 - value.leading_zeros()).max(1) as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shims() -> impl Strategy<Value = (Format, Shim, usize)> {
        let spec = (any::<u32>(), any::<u64>(), 0u32..500, 0u32..3000, 1u32..500);
        let version = proptest::option::of(any::<bool>());
        (
            1u8..=8,
            any::<bool>(),
            any::<u32>(),
            version,
            any::<u32>(),
            proptest::collection::vec(spec, 0..=7),
            0usize..2000,
        )
            .prop_map(|(name_bytes, path_ids, path, cache, check, specs, tail)| {
                let mut after = 0;
                let mut literals = tail;
                let matches: Vec<Spec> = specs
                    .into_iter()
                    .map(|(of, name, gap, offset, length)| {
                        let at = after + gap;
                        after = at + length;
                        literals += gap as usize;
                        Spec {
                            path: of,
                            name: name >> (64 - 8 * u32::from(name_bytes)),
                            at,
                            offset,
                            length,
                        }
                    })
                    .collect();
                let check = if matches.is_empty() { 0 } else { check };
                (
                    Format { name_bytes, max_matches: 7, path_ids },
                    Shim { path, cache, check, matches },
                    literals,
                )
            })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read((format, shim, literals) in shims()) {
            prop_assume!(!shim.is_empty());
            let mut out = Vec::new();
            shim.write(&format, &mut out);
            let mut after = 0;
            let specs: usize = shim.matches.iter().map(|spec| {
                let bytes = spec.bytes(&format, shim.path, after);
                after = spec.end();
                bytes
            }).sum();
            let head = 1 + if format.path_ids { width(u64::from(shim.path)) } else { 0 } + if shim.matches.is_empty() { 0 } else { 4 };
            prop_assert_eq!(out.len(), head + specs);
            for cut in 0..out.len() {
                prop_assert!(Shim::take_head(&format, shim.path, &mut &out[..cut]).is_err());
            }
            out.resize(out.len() + literals, 7);
            let mut rest = &out[..];
            prop_assert_eq!(Shim::take(&format, shim.path, &mut rest), Ok(shim));
            prop_assert_eq!(rest.len(), literals);
        }

        #[test]
        fn strangers_bytes_give_an_error_or_a_shim_that_fits(bytes in proptest::collection::vec(any::<u8>(), 0..80), path_ids: bool) {
            let format = Format { path_ids, ..Format::default() };
            let mut rest = &bytes[..];
            if let Ok(shim) = Shim::take(&format, 3, &mut rest) {
                let total = shim.decoded_length(rest.len()).unwrap();
                prop_assert!(total <= MAX_PAYLOAD);
                prop_assert!(shim.matches.len() <= 3);
                prop_assert!(shim.matches.windows(2).all(|pair| pair[0].end() <= pair[1].at));
                prop_assert!(shim.matches.iter().all(|spec| spec.length > 0 && spec.end() as usize <= total));
                // There is one form of each shim.
                let mut again = Vec::new();
                shim.write(&format, &mut again);
                prop_assert_eq!(&again[..], &bytes[..bytes.len() - rest.len()]);
            }
        }
    }

    #[test]
    fn golden_bytes() {
        let format = Format::default();
        let spec = Spec { path: 299, name: 0x0403_0201, at: 130, offset: 130, length: 300 };
        let shim = Shim { path: 300, cache: Some(true), check: 0x0d0c_0b0a, matches: vec![spec] };
        let mut out = Vec::new();
        shim.write(&format, &mut out);
        assert_eq!(
            out,
            [
                0x39, 0xac, 0x02, 0x0a, 0x0b, 0x0c, 0x0d, 0x01, 1, 2, 3, 4, 0x82, 0x01, 0x00, 0xac,
                0x02
            ]
        );
        // Bad: 130 bytes before the match are not there; reserved bits; nothing to say; a version
        // of nothing; no path; four matches; length 0.
        assert_eq!(Shim::take(&format, 0, &mut &out[..]), Err(ShimError::Region));
        for control in [0xb9, 0x79, 0x20, 0x31, 0x19] {
            out[0] = control;
            assert_eq!(Shim::take(&format, 0, &mut &out[..]), Err(ShimError::Control(control)));
        }
        out[0] = 0x3c;
        assert_eq!(Shim::take(&format, 0, &mut &out[..]), Err(ShimError::Matches(4)));
        out[0] = 0x39;
        out.truncate(15);
        out.extend([0, 0, 0]);
        assert_eq!(Shim::take(&format, 0, &mut &out[..]), Err(ShimError::Number("length")));
    }
}
