//! Content that was kept elsewhere goes back into the log, and into the table.

use super::{Finder, looks_compressible};
use crate::chunks::Stream;
use crate::domain::{Domain, Sharing};
use crate::error::EncodeError;
use crate::format::ChecksumSeed;
use crate::limits::{DEFAULT_BLOCK, MAX_OFFSET};
use crate::policy::CachePolicy;
use crate::search::Past;
use std::ops::Range;

/// Where content went that was appended again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recalled {
    /// Its offset in the log.
    pub offset: u64,
    /// Bytes of padding before it.
    pub padding: u64,
    /// The checksum that its frame would have.
    pub checksum: u64,
}

impl Finder {
    /// See [`Encoder::recall`](crate::Encoder::recall), and
    /// [`Encoder::recall_stream`](crate::Encoder::recall_stream).
    pub(in crate::encoder) fn recall(
        &mut self,
        domain: Domain,
        content: &[u8],
        stream: Option<&mut Stream>,
    ) -> Result<Recalled, EncodeError> {
        let (offset, padding) = self.place(content.len())?;
        self.enter(domain);
        let density = self.density(looks_compressible(content));
        let is_all = self.policy == CachePolicy::All;
        let Past::Log { log, matcher } = &mut self.past else {
            return Err(EncodeError::NotHeld { offset, len: content.len() });
        };
        if !is_all || !log.is_memory() {
            return Err(EncodeError::NotHeld { offset, len: content.len() });
        }
        matcher.note(content, offset, density);
        log.write(offset, content);
        if let Some(stream) = stream {
            let len = content.len() as u64;
            if let Some(inside) = &mut self.inside {
                inside.pass(stream.id(), offset..offset + len);
            }
            if self.sharing == Sharing::Chunks && stream.is_shared() {
                match &self.chunks {
                    Some(chunks) => chunks.pass(stream, log.geometry(), offset, content.len()),
                    None => self.backlog.note(stream, log.geometry(), offset, content),
                }
            }
            self.stats.blocks += 1;
            self.stats.block_bytes += len;
            self.stats.matches += 1;
            self.stats.matched_bytes += len;
        }
        let checksum = self.seed.checksum(offset, padding, content);
        Ok(Recalled { offset, padding, checksum })
    }

    /// See [`Encoder::restore`](crate::Encoder::restore).
    pub(in crate::encoder) fn restore(
        &mut self,
        domain: Domain,
        offset: u64,
        content: &[u8],
    ) -> Result<(), EncodeError> {
        let not_held = EncodeError::NotHeld { offset, len: content.len() };
        let fits = |log: &crate::Log| {
            content.len() <= DEFAULT_BLOCK
                && offset < MAX_OFFSET
                && log.is_memory()
                && log.follows(offset, self.max_block)
                && log.geometry().place(offset, content.len()) == offset
        };
        if !matches!(&self.past, Past::Log { log, .. } if fits(log))
            || self.policy != CachePolicy::All
            || content.is_empty()
        {
            return Err(not_held);
        }
        if self.sharing != Sharing::All || domain == Domain::NOBODY {
            self.domain = domain;
            self.past.enter(domain);
        }
        let density = self.density(looks_compressible(content));
        let Past::Log { log, matcher } = &mut self.past else { return Err(not_held) };
        log.restore(offset, content);
        if domain != Domain::NOBODY {
            matcher.note(content, offset, density);
        } else if self.sharing == Sharing::All {
            // What comes next belongs to all again.
            self.domain = Domain::COMMON;
            self.past.enter(Domain::COMMON);
        }
        Ok(())
    }

    /// See [`Encoder::begin_at`](crate::Encoder::begin_at).
    pub(in crate::encoder) fn begin_at(&mut self, offset: u64) -> Result<(), EncodeError> {
        let not_held = EncodeError::NotHeld { offset, len: 0 };
        let Past::Log { log, .. } = &mut self.past else { return Err(not_held) };
        if log.is_memory() && log.begin_at(offset) { Ok(()) } else { Err(not_held) }
    }

    /// See [`Encoder::rewind_to`](crate::Encoder::rewind_to).
    pub(in crate::encoder) fn rewind_to(
        &mut self,
        offset: u64,
        seed: ChecksumSeed,
    ) -> Result<(), EncodeError> {
        let not_held = EncodeError::NotHeld { offset, len: 0 };
        let Past::Log { log, matcher } = &mut self.past else { return Err(not_held) };
        if !log.is_memory() || !log.rewind_to(offset) {
            return Err(not_held);
        }
        matcher.interrupt();
        self.rewound(offset, seed);
        Ok(())
    }

    /// See [`Encoder::give_up_below`](crate::Encoder::give_up_below).
    pub(in crate::encoder) fn give_up_below(&mut self, offset: u64) {
        if let Past::Log { log, .. } = &mut self.past {
            log.give_up_below(offset);
        }
    }

    /// See [`Encoder::owners`](crate::Encoder::owners).
    pub(in crate::encoder) fn owners(&self, range: &Range<u64>) -> Vec<(u64, Domain)> {
        match &self.past {
            Past::Log { log, .. } => log.owners(range),
            Past::Store(_) => vec![(range.start, Domain::COMMON)],
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Decoded, Decoder, Domain, Encoder, FrameError, Sharing};

    #[test]
    fn recalled_content_is_found_by_its_domain_and_by_no_other() {
        let mut state = 1u64;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u8
        };
        let text: Vec<u8> = std::iter::repeat_with(next).take(60_000).collect();
        let builder = Encoder::builder().cache(1 << 20).sharing(Sharing::None);
        let mut encoder = builder.explicit_offsets(true).fingerprint_key(7).build().unwrap();
        let mut decoder = Decoder::builder().cache(1 << 20).build().unwrap();
        let send = |encoder: &mut Encoder, decoder: &mut Decoder, domain, content: &[u8]| {
            let mut wire = Vec::new();
            encoder.enter(domain);
            encoder.encode(content, &mut wire).unwrap();
            let decoded = decoder.decode(&wire).unwrap();
            assert!(matches!(decoded, Decoded::Block { content: got, .. } if got == content));
            wire.len()
        };
        send(&mut encoder, &mut decoder, Domain(1), b"before");
        let place = encoder.recall(Domain(1), &text).unwrap();
        let mut other = text.clone();
        other[30_000] ^= 1;
        let held = decoder.acknowledged();
        let failed = decoder.recall(place, &other).unwrap_err();
        assert!(matches!(failed, FrameError::Checksum { .. }));
        assert_eq!(decoder.acknowledged(), held);
        decoder.recall(place, &text).unwrap();
        assert_eq!(decoder.acknowledged(), encoder.end());
        assert!(send(&mut encoder, &mut decoder, Domain(2), &text) > 50_000, "of another domain");
        assert!(send(&mut encoder, &mut decoder, Domain(1), &text[5_000..40_000]) < 60);
    }
}
