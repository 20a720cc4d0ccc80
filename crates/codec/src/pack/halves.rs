//! A reader of packs in two halves, for a caller with two threads: one half reads frames and undoes
//! their entropy stage, the other one puts blocks together and verifies them.

use super::{Header, Next, PackError, PackReader, Summary, next};
use crate::decoder::{Assembler, Decoder, FrameReader, Place};
use crate::error::FrameError;
use crate::format::is_transcoded;
use crate::log::Geometry;
use crate::matcher::Match;

/// What a frame says of its block: everything but what the log holds.
#[derive(Clone, Debug, Default)]
pub struct FrameParts {
    /// Content before it, in bytes.
    at: u64,
    place: Place,
    matches: Vec<Match>,
    literals: Vec<u8>,
}

/// The result of a step of [`PackFrames`].
#[derive(Debug, PartialEq, Eq)]
pub enum FramesStep {
    /// At least this many more bytes are needed; nothing was consumed.
    NeedMore(usize),
    /// The parts of the next frame were read.
    Parts {
        /// Bytes of the input that the frame occupied.
        consumed: usize,
    },
    /// The next frame cannot be read without the log; nothing was consumed.
    /// [`PackFrames::join`] the halves for it.
    NeedsLog,
    /// The pack is complete, and verified once its blocks are.
    End {
        /// Bytes of the input that the trailer occupied. Nothing should follow it.
        consumed: usize,
    },
}

/// The first half of a [`PackReader`]: frames to their parts.
pub struct PackFrames {
    max_cache: u64,
    header: Header,
    reader: FrameReader,
    geometry: Geometry,
    /// End of the blocks so far in the log.
    end: u64,
    summary: Summary,
    scratch: Vec<u8>,
}

/// The second half of a [`PackReader`]: parts to verified blocks.
pub struct PackBlocks {
    assembler: Assembler,
}

impl PackReader {
    /// Whether the frame at the front of `input` can be read by [`PackFrames`]: the pack's header
    /// was read, and the frame is not one of transcoded literals.
    pub fn reads_apart(&self, input: &[u8]) -> bool {
        self.open.is_some() && input.first().is_some_and(|&flags| !is_transcoded(flags))
    }

    /// Divides the reader, for the frames that follow.
    ///
    /// # Panics
    /// Before the header has been read.
    pub fn split(self) -> (PackFrames, PackBlocks) {
        let (header, decoder) = self.open.expect("the header comes first");
        let (reader, assembler) = decoder.into_halves();
        let frames = PackFrames {
            max_cache: self.max_cache,
            header,
            reader,
            geometry: assembler.geometry(),
            end: assembler.low,
            summary: self.summary,
            scratch: Vec::new(),
        };
        (frames, PackBlocks { assembler })
    }
}

impl PackFrames {
    /// Reads the frame or trailer at the front of `input`. A frame's parts go to `parts`, for
    /// [`PackBlocks::assemble`], in order.
    ///
    /// # Errors
    /// [`PackError`]. Blocks whose parts were read before may still be put together.
    pub fn step(&mut self, input: &[u8], parts: &mut FrameParts) -> Result<FramesStep, PackError> {
        let view = match next(input, &self.header, &self.summary)? {
            Next::NeedMore(more) => return Ok(FramesStep::NeedMore(more)),
            Next::Frame(view) => view,
            Next::End { consumed } => return Ok(FramesStep::End { consumed }),
        };
        if is_transcoded(input[0]) {
            return Ok(FramesStep::NeedsLog);
        }
        let at = self.summary.total;
        let offset = self.geometry.place(self.end, view.block_len);
        let FrameParts { matches, literals, .. } = parts;
        self.reader
            .read_parts(&view, offset, matches, literals, &mut self.scratch)
            .map_err(|source| PackError::Frame { at, source })?;
        parts.at = at;
        parts.place = Place {
            offset,
            padding: offset - self.end,
            block_len: view.block_len,
            checksum: view.checksum,
        };
        self.end = offset + view.block_len as u64;
        self.summary.add(view.block_len, view.checksum);
        Ok(FramesStep::Parts { consumed: view.frame_len })
    }

    /// Content of the frames read so far, in bytes.
    pub fn total(&self) -> u64 {
        self.summary.total
    }

    /// The whole reader again, once `blocks` has put together all that was read.
    ///
    /// # Panics
    /// If it has not.
    pub fn join(self, blocks: PackBlocks) -> PackReader {
        assert_eq!(self.end, blocks.assembler.low, "parts are left");
        let decoder = Decoder::new(self.reader, blocks.assembler, self.header.max_block, true);
        PackReader {
            max_cache: self.max_cache,
            open: Some((self.header, decoder)),
            summary: self.summary,
        }
    }
}

impl PackBlocks {
    /// Puts the next block together. Returns its verified content.
    ///
    /// # Errors
    /// [`PackError::Frame`]. Nothing after it can be put together.
    pub fn assemble(&mut self, parts: &FrameParts) -> Result<&[u8], PackError> {
        let FrameParts { at, place, matches, literals } = parts;
        let damaged = |source| PackError::Frame { at: *at, source };
        if place.offset != self.assembler.geometry().place(self.assembler.low, place.block_len) {
            let (offset, low) = (place.offset, self.assembler.low);
            return Err(damaged(FrameError::Offset { offset, low, high: low }));
        }
        self.assembler.assemble(*place, matches, literals).map_err(damaged)?;
        Ok(self.assembler.content())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PackStep, pack};
    use super::*;
    use crate::Encoder;
    use crate::testing::content;
    use proptest::prelude::*;
    use std::io::Write;

    /// All content, until something is wrong.
    fn whole(packed: &[u8]) -> (Vec<u8>, bool) {
        let (mut reader, mut rest, mut content) = (PackReader::new(1 << 30), packed, Vec::new());
        loop {
            rest = match reader.step(rest) {
                Ok(PackStep::Header { consumed }) => &rest[consumed..],
                Ok(PackStep::Block { content: block, consumed }) => {
                    content.extend_from_slice(block);
                    &rest[consumed..]
                }
                Ok(PackStep::End { .. }) => return (content, true),
                Ok(PackStep::NeedMore(_)) | Err(_) => return (content, false),
            };
        }
    }

    /// The same with halves, which are joined for `joined` frames after each `apart` of them, and
    /// where they must be. Also how many frames were read apart.
    fn halves(packed: &[u8], apart: usize, joined: usize) -> (Vec<u8>, bool, usize) {
        let (mut reader, mut rest, mut content) = (PackReader::new(1 << 30), packed, Vec::new());
        let (mut count, mut left) = (0, joined);
        loop {
            if left > 0 || !reader.reads_apart(rest) {
                rest = match reader.step(rest) {
                    Ok(PackStep::Header { consumed }) => &rest[consumed..],
                    Ok(PackStep::Block { content: block, consumed }) => {
                        content.extend_from_slice(block);
                        &rest[consumed..]
                    }
                    Ok(PackStep::End { .. }) => return (content, true, count),
                    Ok(PackStep::NeedMore(_)) | Err(_) => return (content, false, count),
                };
                left = left.saturating_sub(1);
                continue;
            }
            let (mut frames, mut blocks) = reader.split();
            let mut queue: Vec<FrameParts> = Vec::new();
            let mut end = None;
            while queue.len() < apart && end.is_none() {
                let mut parts = FrameParts::default();
                match frames.step(rest, &mut parts) {
                    Ok(FramesStep::Parts { consumed }) => {
                        rest = &rest[consumed..];
                        queue.push(parts);
                    }
                    Ok(FramesStep::NeedsLog) => break,
                    Ok(FramesStep::End { .. }) => end = Some(true),
                    Ok(FramesStep::NeedMore(_)) | Err(_) => end = Some(false),
                }
            }
            for parts in &queue {
                match blocks.assemble(parts) {
                    Ok(block) => content.extend_from_slice(block),
                    Err(_) => return (content, false, count),
                }
            }
            count += queue.len();
            if let Some(end) = end {
                return (content, end, count);
            }
            reader = frames.join(blocks);
            left = joined;
        }
    }

    fn packed(content: &[u8], cache: u64, block: usize, level: i32) -> Vec<u8> {
        let header = Header { cache, max_block: block, seed: 3, base: None };
        let entropy = crate::Entropy::Coded { level };
        pack(content, &header, Encoder::builder().entropy(entropy).inside(true)).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn halves_read_what_the_whole_reads(
            content in content(), cache in prop_oneof![Just(1u64 << 20), 20_000u64..90_000],
            block in 1000usize..20_000, level in 1i32..=3,
            apart in 1usize..9, joined in 0usize..4,
        ) {
            let packed = packed(&content, cache, block, level);
            let (back, is_whole, _) = halves(&packed, apart, joined);
            prop_assert!(is_whole && back == content);
            prop_assert_eq!(whole(&packed), (back, true));
        }

        #[test]
        fn halves_stop_where_the_whole_stops(
            content in content(), block in 1000usize..20_000,
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..3),
            apart in 1usize..9, joined in 0usize..4,
        ) {
            let mut packed = packed(&content, 50_000, block, 1);
            for (at, byte) in changes {
                let at = at.index(packed.len());
                packed[at] = byte;
            }
            let (back, is_whole, _) = halves(&packed, apart, joined);
            prop_assert_eq!(whole(&packed), (back, is_whole));
        }
    }

    /// The same page in gzip twice, in other companions: literals of the second one are transcoded.
    #[test]
    fn frames_that_need_the_log_are_left_to_both() {
        let mut random = fastrand::Rng::with_seed(7);
        let words: Vec<Vec<u8>> = (0..400)
            .map(|_| (0..random.usize(3..9)).map(|_| random.u8(b'a'..=b'z')).collect())
            .collect();
        let text: Vec<u8> =
            (0..60_000).flat_map(|_| [&words[random.usize(..400)][..], b" "].concat()).collect();
        let gzip = |text: &[u8]| {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
            out.write_all(text).unwrap();
            out.finish().unwrap()
        };
        let next = [b"another beginning ", &text[..]].concat();
        let content = [gzip(&text), gzip(&next), text].concat();
        let packed = packed(&content, 8 << 20, 1 << 16, 3);
        let (back, is_whole, count) = halves(&packed, 4, 0);
        assert!(is_whole && back == content);
        let blocks = content.len().div_ceil(1 << 16);
        assert!(count > 0 && count < blocks, "{count} of {blocks}");
    }
}
