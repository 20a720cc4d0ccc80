//! Entropy contexts: the state that a lane's frames share, at the writing and at the reading end.

use super::{DescriptorModels, Entropy, TranscodeModels};
use crate::error::{ConfigError, FrameError};
use std::io;
use std::sync::OnceLock;
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

/// Window of a context's zstd stream: 2^20 bytes of past literals. A decoder refuses streams that
/// declare more.
pub(crate) const WINDOW_LOG: u32 = 20;

/// State of a context at the encoder.
pub(crate) struct WriteContext {
    pub(crate) models: DescriptorModels,
    /// Created when first used.
    transcode: Option<Box<TranscodeModels>>,
    /// With zstd only; created when first used.
    stream: Option<CCtx<'static>>,
    level: i32,
    /// Nothing was written yet: the next frame that uses the context is marked as fresh.
    pub(crate) fresh: bool,
}

impl WriteContext {
    pub(crate) fn new(entropy: Entropy) -> WriteContext {
        let level = if let Entropy::Zstd { level } = entropy { level } else { 0 };
        WriteContext {
            models: DescriptorModels::NEW,
            transcode: None,
            stream: None,
            level,
            fresh: true,
        }
    }

    /// The models of transcoded literals.
    pub(crate) fn transcode(&mut self) -> &mut TranscodeModels {
        self.transcode.get_or_insert_with(|| Box::new(TranscodeModels::NEW))
    }

    /// Memory of the models of transcoded literals, in bytes as of now.
    pub(crate) fn transcode_allocated(&self) -> usize {
        self.transcode.as_ref().map_or(0, |models| size_of_val(&**models))
    }

    /// Resets the context; the next frame that uses it is marked as fresh.
    pub(crate) fn reset(&mut self) {
        self.models = DescriptorModels::NEW;
        if let Some(models) = &mut self.transcode {
            **models = TranscodeModels::NEW;
        }
        self.fresh = true;
        if let Some(stream) = &mut self.stream {
            // Cannot fail: it only drops what was buffered.
            let _ = stream.reset(ResetDirective::SessionOnly);
        }
    }

    /// Memory of a context in bytes, once it is used: models, and zstd's window, input buffer and
    /// tables.
    pub(crate) fn memory(entropy: Entropy) -> usize {
        /// What zstd reports for a stream of each level after its first use. Constant, but
        /// expensive to find out.
        static STREAMS: [OnceLock<usize>; 3] = [const { OnceLock::new() }; 3];
        let Entropy::Zstd { level } = entropy else { return size_of::<WriteContext>() };
        let stream = STREAMS[(level.clamp(1, 3) - 1) as usize].get_or_init(|| {
            let mut stream = CCtx::create();
            // Cannot fail: the parameters are in range.
            let _ = configure(&mut stream, level);
            warm(&mut stream)
        });
        size_of::<WriteContext>() + stream
    }

    /// Memory in bytes as of now.
    pub(crate) fn allocated(&self) -> usize {
        size_of::<WriteContext>() + self.stream.as_ref().map_or(0, CCtx::sizeof)
    }

    /// Appends `literals` to the stream and the stream's flushed output to `out`.
    pub(crate) fn compress(
        &mut self,
        literals: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ConfigError> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let mut stream = CCtx::try_create().ok_or_else(|| ConfigError::Memory {
                    bytes: 2 << WINDOW_LOG,
                    what: "entropy context",
                    source: io::ErrorKind::OutOfMemory.into(),
                })?;
                configure(&mut stream, self.level).map_err(refused)?;
                none.insert(stream)
            }
        };
        let start = out.len();
        out.resize(start + zstd_safe::compress_bound(literals.len()) + STREAM_OVERHEAD, 0);
        let mut input = InBuffer::around(literals);
        let mut output = OutBuffer::around_pos(out, start);
        loop {
            let left = stream
                .compress_stream2(&mut output, &mut input, ZSTD_EndDirective::ZSTD_e_flush)
                .map_err(refused)?;
            if left == 0 && input.pos() == literals.len() {
                break;
            }
        }
        let end = output.pos();
        out.truncate(end);
        Ok(())
    }
}

/// Room for a zstd frame header and block headers, in bytes.
const STREAM_OVERHEAD: usize = 64;

pub(super) fn configure(stream: &mut CCtx<'static>, level: i32) -> Result<(), usize> {
    stream.set_parameter(CParameter::CompressionLevel(level))?;
    stream.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
    stream.set_parameter(CParameter::ContentSizeFlag(false))?;
    // What reaches the stream is what the matcher left: it repeats closely or not at all. So short
    // matches pay at level 1 (2 to 3 % fewer bytes for 2 % more time), and at level 3 tables that
    // stay in the first-level cache do (a tenth less time for 1.5 % more bytes). docs/PERFORMANCE.md
    // has what else was tried.
    match level {
        1 => stream.set_parameter(CParameter::MinMatch(6))?,
        3 => {
            stream.set_parameter(CParameter::HashLog(15))?;
            stream.set_parameter(CParameter::ChainLog(14))?
        }
        _ => 0,
    };
    Ok(())
}

/// Uses a stream, so that it allocates what it needs. Returns its memory in bytes.
pub(super) fn warm(stream: &mut CCtx<'static>) -> usize {
    let mut sink = [0; 64];
    let mut output = OutBuffer::around(&mut sink[..]);
    let _ = stream.compress_stream2(
        &mut output,
        &mut InBuffer::around(b"x"),
        ZSTD_EndDirective::ZSTD_e_flush,
    );
    stream.sizeof()
}

fn refused(code: usize) -> ConfigError {
    ConfigError::Memory {
        bytes: 2 << WINDOW_LOG,
        what: "entropy context",
        source: io::Error::other(zstd_safe::get_error_name(code)),
    }
}

/// State of a context at the decoder.
pub(crate) struct ReadContext {
    pub(crate) models: DescriptorModels,
    /// Created when first used.
    transcode: Option<Box<TranscodeModels>>,
    stream: Option<DCtx<'static>>,
    /// In sync: a fresh frame started the context, and none failed since. Frames that continue it
    /// can be read.
    pub(crate) in_step: bool,
}

impl ReadContext {
    pub(crate) fn new() -> ReadContext {
        ReadContext { models: DescriptorModels::NEW, transcode: None, stream: None, in_step: false }
    }

    /// The models of transcoded literals.
    pub(crate) fn transcode(&mut self) -> &mut TranscodeModels {
        self.transcode.get_or_insert_with(|| Box::new(TranscodeModels::NEW))
    }

    /// Memory of the models of transcoded literals, in bytes as of now.
    pub(crate) fn transcode_allocated(&self) -> usize {
        self.transcode.as_ref().map_or(0, |models| size_of_val(&**models))
    }

    /// Resets the context.
    pub(crate) fn reset(&mut self) {
        self.models = DescriptorModels::NEW;
        if let Some(models) = &mut self.transcode {
            **models = TranscodeModels::NEW;
        }
        if let Some(stream) = &mut self.stream {
            // Cannot fail: it only drops what was buffered.
            let _ = stream.reset(ResetDirective::SessionOnly);
        }
        self.in_step = true;
    }

    /// Memory of a context in bytes, once used for a stream with the largest window. Others take
    /// less.
    pub(crate) fn memory() -> usize {
        /// What zstd reports once it has read the header of such a stream and one block. Constant.
        static STREAM: OnceLock<usize> = OnceLock::new();
        let stream = STREAM.get_or_init(|| {
            let mut stream = DCtx::create();
            let mut byte = [0];
            // Cannot fail: magic number, descriptor, a window of 2^20, and a raw block of one byte.
            let _ = stream.decompress_stream(
                &mut OutBuffer::around(&mut byte[..]),
                &mut InBuffer::around(b"\x28\xb5\x2f\xfd\x00\x50\x08\x00\x00x"),
            );
            stream.sizeof()
        });
        size_of::<ReadContext>() + stream
    }

    /// Memory in bytes as of now.
    pub(crate) fn allocated(&self) -> usize {
        size_of::<ReadContext>() + self.stream.as_ref().map_or(0, DCtx::sizeof)
    }

    /// Decompresses `section`, which must yield exactly `expected` bytes, into the front of `out`.
    pub(crate) fn decompress(
        &mut self,
        section: &[u8],
        expected: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        let damaged = FrameError::Literals { method: "zstd" };
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => {
                let mut stream = DCtx::try_create().ok_or_else(|| damaged.clone())?;
                stream
                    .set_parameter(DParameter::WindowLogMax(WINDOW_LOG))
                    .map_err(|_| damaged.clone())?;
                none.insert(stream)
            }
        };
        // With room for one more byte, nothing can stay in the stream and be taken for the next
        // frame's.
        out.resize(expected + 1, 0);
        let mut input = InBuffer::around(section);
        let mut output = OutBuffer::around(&mut out[..]);
        loop {
            let before = (input.pos(), output.pos());
            let hint =
                stream.decompress_stream(&mut output, &mut input).map_err(|_| damaged.clone())?;
            // A stream continues across frames; one that ends (hint 0) is not ours.
            if hint == 0 || output.pos() > expected {
                return Err(damaged);
            }
            if input.pos() == section.len() && output.pos() == expected {
                return Ok(());
            }
            if (input.pos(), output.pos()) == before {
                return Err(damaged);
            }
        }
    }
}
