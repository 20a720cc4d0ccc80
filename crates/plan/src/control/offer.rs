//! The part of a plan on its way to its node: whole, or as differences from the part that the node has.

use xxhash_rust::xxh3::xxh3_64;
use zstd_safe::{CCtx, CParameter, DCtx};

use super::message_error::MessageError;
use crate::manifest::MAX_PART;

/// First byte of an offer of a whole part, and of one as differences. Other messages begin with `{`.
pub(super) const WHOLE: u8 = 1;
pub(super) const DIFFERENCES: u8 = 2;
/// Level of zstd: parts have kilobytes, and the bytes go to hundreds of nodes at once.
const LEVEL: i32 = 12;

/// The part of a plan for a node, packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Hash of the part that it differs from; none if it is whole.
    pub base: Option<u64>,
    /// Hash of the part.
    pub hash: u64,
    /// Bytes of the part.
    size: u32,
    /// A frame of zstd, with the other part before it.
    packed: Vec<u8>,
}

/// An offer that cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OfferError {
    /// It differs from a part that is not there.
    #[error("a plan comes as differences from another than the one that is here")]
    Base,
    /// What was unpacked is not the part.
    #[error("a plan that has been damaged on its way")]
    Damaged,
}

/// What parts are told apart by.
pub fn part_hash(part: &[u8]) -> u64 {
    xxh3_64(part)
}

impl Offer {
    /// A part, as differences from `base` if there is one.
    pub fn new(part: &[u8], base: Option<&[u8]>) -> Offer {
        let pack = || {
            let mut context = CCtx::try_create()?;
            context.set_parameter(CParameter::CompressionLevel(LEVEL)).ok()?;
            if let Some(base) = base {
                context.ref_prefix(base).ok()?;
            }
            let mut packed = Vec::with_capacity(zstd_safe::compress_bound(part.len()));
            context.compress2(&mut packed, part).ok()?;
            Some(packed)
        };
        Offer {
            base: base.map(part_hash),
            hash: part_hash(part),
            size: u32::try_from(part.len()).unwrap_or(u32::MAX),
            // Only without memory; an empty frame is refused by the node.
            packed: pack().unwrap_or_default(),
        }
    }

    /// The part. `base` is the one that is here.
    ///
    /// # Errors
    /// [`OfferError`].
    pub fn open(&self, base: Option<&[u8]>) -> Result<Vec<u8>, OfferError> {
        let base = match self.base {
            None => None,
            Some(hash) => {
                Some(base.filter(|base| part_hash(base) == hash).ok_or(OfferError::Base)?)
            }
        };
        let unpack = || {
            let mut context = DCtx::try_create()?;
            if let Some(base) = base {
                context.ref_prefix(base).ok()?;
            }
            let mut part = Vec::with_capacity((self.size as usize).min(MAX_PART));
            context.decompress(&mut part, &self.packed).ok()?;
            Some(part)
        };
        let part = unpack().ok_or(OfferError::Damaged)?;
        let is_it = part.len() == self.size as usize && part_hash(&part) == self.hash;
        if is_it { Ok(part) } else { Err(OfferError::Damaged) }
    }

    pub(super) fn write(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(21 + self.packed.len());
        out.push(if self.base.is_some() { DIFFERENCES } else { WHOLE });
        if let Some(base) = self.base {
            out.extend_from_slice(&base.to_le_bytes());
        }
        out.extend_from_slice(&self.hash.to_le_bytes());
        out.extend_from_slice(&self.size.to_le_bytes());
        out.extend_from_slice(&self.packed);
        out
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Offer, MessageError> {
        let wrong = |what: &str| MessageError::Malformed(what.into());
        let cut = || wrong("an offer that ends too early");
        let (&kind, mut rest) = bytes.split_first().ok_or_else(cut)?;
        let mut number = || {
            let (number, after) = rest.split_first_chunk::<8>().ok_or_else(cut)?;
            rest = after;
            Ok(u64::from_le_bytes(*number))
        };
        let base = if kind == DIFFERENCES { Some(number()?) } else { None };
        let hash = number()?;
        let (size, packed) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
        let size = u32::from_le_bytes(*size);
        if size as usize > MAX_PART {
            return Err(wrong("a part that is larger than parts are"));
        }
        Ok(Offer { base, hash, size, packed: packed.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_comes_back_whole_and_as_differences() {
        let old: Vec<u8> = (0..20_000u32).flat_map(|n| (n * n).to_le_bytes()).collect();
        let mut new = old.clone();
        new[4000] ^= 1;
        new.splice(30_000..30_000, *b"inserted");
        let whole = Offer::new(&new, None);
        assert_eq!(whole.open(None).as_ref(), Ok(&new));
        assert_eq!(whole.open(Some(&old)).as_ref(), Ok(&new), "it needs no other");
        let differences = Offer::new(&new, Some(&old));
        assert_eq!(differences.open(Some(&old)).as_ref(), Ok(&new));
        assert!(differences.write().len() * 100 < whole.write().len());
        for offer in [&whole, &differences] {
            assert_eq!(&Offer::read(&offer.write()).unwrap(), offer);
        }
        assert_eq!(differences.open(None), Err(OfferError::Base));
        assert_eq!(differences.open(Some(&new)), Err(OfferError::Base));
    }

    #[test]
    fn damaged_offers_are_errors() {
        let part = vec![7; 1000];
        let offer = Offer::new(&part, None);
        let bytes = offer.write();
        for cut in 0..13 {
            assert!(Offer::read(&bytes[..cut]).is_err());
        }
        for at in 1..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            if let Ok(offer) = Offer::read(&damaged) {
                // A bit of the frame means nothing.
                let opened = offer.open(None);
                assert!(opened.is_err() || opened.as_ref() == Ok(&part), "byte {at}");
            }
        }
        let mut large = bytes;
        large[9..13].copy_from_slice(&(MAX_PART as u32 + 1).to_le_bytes());
        assert!(Offer::read(&large).is_err());
    }
}
