//! Blocks of zstd frames (RFC 8878) from matches that were found elsewhere, coded by libzstd.
//!
//! libzstd takes matches of a caller through a *block-level sequence producer*, which it calls for
//! each block. Its context believes that it writes a frame with a window of 128 KiB, so that it
//! keeps no content; the frame's header is not passed on, and the caller writes one with the window
//! that it needs. Nothing of a block depends on the window.

use crate::Sequence;
use std::ffi::{c_int, c_void};
use std::ptr::NonNull;
use zstd_sys::*;

/// Most content of a block of zstd, in bytes (RFC 8878, section 3.1.1.2.4).
pub const ZSTD_BLOCK_MAX: usize = 128 << 10;
/// Shortest match of zstd, in bytes.
const MATCH_MIN: u32 = 3;
/// Farthest match, in bytes. An accumulator of 32 bits has no room for the codes of farther ones
/// unless libzstd knows the window.
pub const ZSTD_DISTANCE_MAX: u32 =
    if cfg!(target_pointer_width = "64") { (1 << 31) - 1 } else { (1 << 25) - 1 };

/// libzstd failed: its name for the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZstdFailure(pub &'static str);

impl std::fmt::Display for ZstdFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "zstd: {}", self.0)
    }
}

impl std::error::Error for ZstdFailure {}

/// Writes blocks that follow each other in a frame.
///
/// Those of several writers can follow each other, too: the first blocks after
/// [`ZstdBlocks::reset`] depend on nothing before them, neither on codes nor on distances.
#[derive(Debug)]
pub struct ZstdBlocks {
    context: NonNull<ZSTD_CCtx>,
    /// From a `Box`. Shared with the context, which uses it only during calls.
    next: NonNull<Next>,
    is_begun: bool,
    recent: Recent,
    /// Failed: the state is unknown until it is reset.
    is_broken: bool,
}

/// What the sequence producer returns next.
#[derive(Debug, Default)]
struct Next {
    /// With the last one, which has the literals after all matches.
    sequences: Vec<ZSTD_Sequence>,
    block_len: usize,
}

/// Which of the decoder's three recent distances are known: the first so many.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    known: [u32; 3],
    count: usize,
}

/// What the context believes the recent distances of a new frame to be.
const FIRST: [u32; 3] = [1, 4, 8];

impl Recent {
    /// Whether a match at `distance` is coded alike whatever the unknown distances are; it is then
    /// the most recent one.
    fn push(&mut self, distance: u32) -> bool {
        let at = self.known[..self.count].iter().position(|&known| known == distance);
        if self.count < 3 && at.is_none() {
            if FIRST.contains(&distance) {
                return false;
            }
            self.count += 1;
        }
        let last = at.unwrap_or(self.count.min(3) - 1);
        self.known[..=last].rotate_right(1);
        self.known[0] = distance;
        true
    }
}

// SAFETY: a context may be used by any thread, by one at a time.
unsafe impl Send for ZstdBlocks {}

impl ZstdBlocks {
    /// # Errors
    /// If there is not enough memory.
    pub fn new() -> Result<ZstdBlocks, ZstdFailure> {
        // SAFETY: without arguments. The result is checked.
        let context =
            NonNull::new(unsafe { ZSTD_createCCtx() }).ok_or(ZstdFailure("out of memory"))?;
        let next = NonNull::from(Box::leak(Box::new(Next::default())));
        let blocks = ZstdBlocks {
            context,
            next,
            is_begun: false,
            recent: Recent::default(),
            is_broken: false,
        };
        use ZSTD_cParameter::*;
        let parameters = [
            (ZSTD_c_compressionLevel, 1),
            (ZSTD_c_windowLog, ZSTD_BLOCK_MAX.ilog2()),
            // It searches nothing itself.
            (ZSTD_c_strategy, 1),
            (ZSTD_c_hashLog, 6),
            (ZSTD_c_chainLog, 6),
            (ZSTD_c_checksumFlag, 0),
            (ZSTD_c_contentSizeFlag, 0),
            // ZSTD_c_validateSequences: it would refuse distances beyond the pretended window.
            (ZSTD_c_experimentalParam12, 0),
            // ZSTD_c_splitAfterSequences, off, and ZSTD_c_blockSplitterLevel, none.
            (ZSTD_c_experimentalParam13, 2),
            (ZSTD_c_experimentalParam20, 1),
            // ZSTD_c_searchForExternalRepcodes, on.
            (ZSTD_c_experimentalParam19, 1),
        ];
        for (parameter, value) in parameters {
            // SAFETY: the context exists, and no frame has begun.
            check(unsafe { ZSTD_CCtx_setParameter(context.as_ptr(), parameter, value as c_int) })?;
        }
        // SAFETY: as above; `next` lives as long as the context.
        unsafe {
            ZSTD_registerSequenceProducer(context.as_ptr(), next.as_ptr().cast(), Some(produce));
        }
        Ok(blocks)
    }

    /// Forgets all blocks: the next ones can follow those of another writer.
    pub fn reset(&mut self) {
        // SAFETY: the context exists. This cannot fail.
        unsafe {
            ZSTD_CCtx_reset(self.context.as_ptr(), ZSTD_ResetDirective::ZSTD_reset_session_only)
        };
        self.is_begun = false;
        self.is_broken = false;
        self.recent = Recent::default();
    }

    /// Appends a block, which is not the last of its frame, to `out`: `content`, of which
    /// `sequences` are repeats and the literals between them. Shorter matches than 3 bytes count as
    /// literals. Does nothing if there is no content.
    ///
    /// That a match equals what is `distance` before it is up to the caller; if not, decoders refuse
    /// the frame, or its checksum.
    ///
    /// # Errors
    /// [`ZstdFailure`] if libzstd fails; the writer must then be reset.
    ///
    /// # Panics
    /// If the content is longer than [`ZSTD_BLOCK_MAX`], the sequences are longer than the content,
    /// or a distance is 0 or beyond [`ZSTD_DISTANCE_MAX`].
    pub fn write(
        &mut self,
        content: &[u8],
        sequences: &[Sequence],
        out: &mut Vec<u8>,
    ) -> Result<(), ZstdFailure> {
        if self.is_broken {
            return Err(ZstdFailure("an earlier block failed"));
        }
        if content.is_empty() {
            return Ok(());
        }
        let recent = self.prepare(content.len(), sequences);
        let start = out.len();
        self.is_broken = true;
        self.compress(content, out)?;
        self.is_broken = false;
        if !self.is_begun {
            let header = out[start..].first_chunk::<HEADER_LEN>();
            if header.is_none_or(|header| header[..4] != ZSTD_MAGICNUMBER.to_le_bytes()) {
                self.is_broken = true;
                return Err(ZstdFailure("unexpected header"));
            }
            out.drain(start..start + HEADER_LEN);
            self.is_begun = true;
        }
        // Only a compressed block changes the recent distances.
        const COMPRESSED: u8 = 2;
        if out.get(start).is_some_and(|first| first >> 1 & 3 == COMPRESSED) {
            self.recent = recent;
        }
        Ok(())
    }

    /// Hands sequences to the producer. Returns the recent distances after them.
    fn prepare(&mut self, block_len: usize, sequences: &[Sequence]) -> Recent {
        assert!(block_len <= ZSTD_BLOCK_MAX, "a block of zstd has at most 128 KiB");
        // SAFETY: it comes from a `Box` and is freed only with `self`; the context does not use it
        // now.
        let next = unsafe { self.next.as_mut() };
        next.block_len = block_len;
        next.sequences.clear();
        let mut recent = self.recent;
        let (mut literals, mut rest) = (0, block_len as u64);
        for &Sequence { literals: run, len, distance } in sequences {
            assert!((1..=ZSTD_DISTANCE_MAX).contains(&distance), "distance out of range");
            let whole = u64::from(run) + u64::from(len);
            rest = rest.checked_sub(whole).expect("sequences are part of the block");
            literals += run;
            if len < MATCH_MIN || !recent.push(distance) {
                literals += len;
                continue;
            }
            next.sequences.push(ZSTD_Sequence {
                offset: distance,
                litLength: literals,
                matchLength: len,
                rep: 0,
            });
            literals = 0;
        }
        let literals = literals + rest as u32;
        next.sequences.push(ZSTD_Sequence {
            offset: 0,
            litLength: literals,
            matchLength: 0,
            rep: 0,
        });
        recent
    }

    /// Codes and flushes the block that was prepared.
    fn compress(&mut self, content: &[u8], out: &mut Vec<u8>) -> Result<(), ZstdFailure> {
        // A raw block is the content and 3 bytes.
        let room = HEADER_LEN + content.len() + 64;
        let start = out.len();
        out.resize(start + room, 0);
        let mut input = ZSTD_inBuffer { src: content.as_ptr().cast(), size: content.len(), pos: 0 };
        let mut output =
            ZSTD_outBuffer { dst: out[start..].as_mut_ptr().cast(), size: room, pos: 0 };
        // SAFETY: the context exists; both buffers are slices of that many bytes, and outlive the
        // call. `next` is not borrowed.
        let missing = unsafe {
            ZSTD_compressStream2(
                self.context.as_ptr(),
                &raw mut output,
                &raw mut input,
                ZSTD_EndDirective::ZSTD_e_flush,
            )
        };
        out.truncate(start + output.pos.min(room));
        check(missing)?;
        if missing != 0 || input.pos != content.len() {
            return Err(ZstdFailure("a block took more room than its content"));
        }
        Ok(())
    }
}

impl Drop for ZstdBlocks {
    fn drop(&mut self) {
        // SAFETY: both were allocated in `new`, and nobody uses them any more.
        unsafe {
            ZSTD_freeCCtx(self.context.as_ptr());
            drop(Box::from_raw(self.next.as_ptr()));
        }
    }
}

/// Magic number, descriptor, and window, of a frame without more.
const HEADER_LEN: usize = 6;

fn check(code: usize) -> Result<(), ZstdFailure> {
    // SAFETY: any number is fine; a name is a static string.
    let name = unsafe {
        if ZSTD_isError(code) == 0 {
            return Ok(());
        }
        std::ffi::CStr::from_ptr(ZSTD_getErrorName(code))
    };
    Err(ZstdFailure(name.to_str().unwrap_or("unknown error")))
}

/// The sequence producer: copies what was prepared.
///
/// # Safety
/// As libzstd calls it: `state` is the registered [`Next`], which is not borrowed, and `out` has
/// room for `capacity` sequences.
unsafe extern "C" fn produce(
    state: *mut c_void,
    out: *mut ZSTD_Sequence,
    capacity: usize,
    _content: *const c_void,
    len: usize,
    _dictionary: *const c_void,
    _dictionary_len: usize,
    _level: c_int,
    _window: usize,
) -> usize {
    // SAFETY: by the caller.
    let next = unsafe { &*state.cast::<Next>() };
    let sequences = &next.sequences;
    // Anything above the capacity is an error.
    if len != next.block_len || sequences.len() > capacity {
        return usize::MAX;
    }
    // SAFETY: there is room for that many, and `out` is memory of the context.
    unsafe { out.copy_from_nonoverlapping(sequences.as_ptr(), sequences.len()) };
    sequences.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    /// A whole frame with these blocks, whose window is 2 GiB.
    fn frame(blocks: &[u8]) -> Vec<u8> {
        [&[0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3][..], blocks, &[1, 0, 0]].concat()
    }

    /// What libzstd makes of a frame.
    fn decoded(frame: &[u8], len: usize) -> Result<Vec<u8>, ZstdFailure> {
        let mut out = vec![0; len + 1];
        // SAFETY: both are slices of that many bytes.
        let done = unsafe {
            ZSTD_decompress(out.as_mut_ptr().cast(), len + 1, frame.as_ptr().cast(), frame.len())
        };
        check(done)?;
        out.truncate(done);
        Ok(out)
    }

    fn sequence(literals: u32, len: u32, distance: u32) -> Sequence {
        Sequence { literals, len, distance }
    }

    #[test]
    fn distances_reach_beyond_the_window_of_the_context() {
        let noise = SplitMix64(1).bytes(300_000);
        let mut blocks = ZstdBlocks::new().unwrap();
        let mut out = Vec::new();
        for block in noise.chunks(ZSTD_BLOCK_MAX) {
            blocks.write(block, &[], &mut out).unwrap();
        }
        let before = out.len();
        assert!(before < noise.len() + 10);
        let again = [b"some literals", &noise[..100_000]].concat();
        blocks.write(&again, &[sequence(13, 100_000, 300_013)], &mut out).unwrap();
        assert!(out.len() < before + 60, "{}", out.len() - before);
        let all = [&noise[..], &again].concat();
        assert_eq!(decoded(&frame(&out), all.len()).unwrap(), all);
    }

    /// Writers do not know the decoder's recent distances, of which a new context assumes 1, 4, 8.
    #[test]
    fn blocks_of_several_writers_follow_each_other() {
        // Each of the first distances occurs early, twice, and between others.
        let orders: [&[u32]; 6] = [
            &[1, 4, 8, 1],
            &[5, 1, 5, 4],
            &[8, 5, 4, 6, 8, 1],
            &[5, 6, 7, 1, 8],
            &[5, 4, 6],
            &[2, 1, 3, 8, 4],
        ];
        let (mut all, mut out) = (Vec::new(), Vec::new());
        for round in 0..2 {
            for distances in orders {
                let mut blocks = ZstdBlocks::new().unwrap();
                if round == 1 {
                    // The same after a reset.
                    let text = b"before before before before before before before before";
                    blocks.write(text, &[sequence(7, 48, 7)], &mut Vec::new()).unwrap();
                    blocks.reset();
                }
                for literals in [3u8, 0] {
                    let mut content = b"0123456789abcdef".repeat(20);
                    let mut sequences = vec![sequence(content.len() as u32, 0, 1)];
                    for &distance in distances {
                        content.extend((0..literals).map(|nth| b"xyzw"[usize::from(nth)]));
                        for _ in 0..4 {
                            content.push(content[content.len() - distance as usize]);
                        }
                        sequences.push(sequence(literals.into(), 4, distance));
                    }
                    blocks.write(&content, &sequences, &mut out).unwrap();
                    all.extend_from_slice(&content);
                }
            }
        }
        assert_eq!(decoded(&frame(&out), all.len()).unwrap(), all);
    }

    #[test]
    fn what_is_short_or_of_one_byte_comes_back() {
        let mut blocks = ZstdBlocks::new().unwrap();
        let (mut all, mut out) = (Vec::new(), Vec::new());
        for len in (0..40).chain([1000, ZSTD_BLOCK_MAX]) {
            let content = vec![7; len];
            let matches = if len > 20 { &[sequence(2, len as u32 - 2, 2)][..] } else { &[] };
            blocks.write(&content, matches, &mut out).unwrap();
            all.extend_from_slice(&content);
        }
        assert_eq!(decoded(&frame(&out), all.len()).unwrap(), all);
    }

    #[test]
    #[should_panic(expected = "sequences are part of the block")]
    fn sequences_beyond_the_block_are_refused() {
        let mut blocks = ZstdBlocks::new().unwrap();
        let _ = blocks.write(&[0; 20], &[sequence(2, 19, 1)], &mut Vec::new());
    }

    #[test]
    fn many_short_matches_fit() {
        let content = vec![b'x'; ZSTD_BLOCK_MAX];
        let mut sequences = vec![sequence(9, 4, 5)];
        sequences.extend(std::iter::repeat_n(sequence(0, 3, 5), (ZSTD_BLOCK_MAX - 13) / 3));
        let mut out = Vec::new();
        ZstdBlocks::new().unwrap().write(&content, &sequences, &mut out).unwrap();
        assert_eq!(decoded(&frame(&out), content.len()).unwrap(), content);
    }
}
