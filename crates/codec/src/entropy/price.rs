//! What content would take as coded literals, roughly: what zstd takes.

use std::sync::OnceLock;
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective};

/// Window in bytes, as a power of two: a block and a few times as much before it.
const WINDOW_LOG: u32 = 18;
/// Level of zstd: the default one.
const LEVEL: i32 = 3;

/// Compresses content to see how long it becomes. A context's own coder cannot be asked: it cannot
/// go back.
///
/// A second coder of literals was tried in place of zstd, at levels 1 and 3. Nine kinds of gzip, zip
/// and zstd took the same bytes; gzip -6 and zstd -3 took the same instructions, and deflate with a
/// flush every 150 bytes 14 % fewer. But some content with a flush every 20 to 100 bytes took 0.4 %
/// (level 1) and 2 % (level 3) more bytes than if it was not opened: the estimates around it
/// (`inside/worth.rs`) suit zstd.
#[derive(Default)]
pub(crate) struct Price {
    /// Created when first used.
    stream: Option<CCtx<'static>>,
}

impl std::fmt::Debug for Price {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Price").finish_non_exhaustive()
    }
}

impl Price {
    /// Bytes that `content` takes after `before`, in one frame with it; `None` without memory.
    pub(crate) fn of<'a>(
        &mut self,
        before: impl Iterator<Item = &'a [u8]>,
        content: &[u8],
    ) -> Option<usize> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            none => none.insert(new()?),
        };
        let _ = stream.reset(ResetDirective::SessionOnly);
        for piece in before {
            feed(stream, piece, ZSTD_EndDirective::ZSTD_e_continue)?;
        }
        feed(stream, &[], ZSTD_EndDirective::ZSTD_e_flush)?;
        feed(stream, content, ZSTD_EndDirective::ZSTD_e_flush)
    }

    /// Memory in bytes as of now.
    pub(crate) fn memory(&self) -> usize {
        self.stream.as_ref().map_or(0, CCtx::sizeof)
    }

    /// Memory in bytes, at most.
    pub(crate) fn most_memory() -> usize {
        /// Constant, but expensive to find out.
        static STREAM: OnceLock<usize> = OnceLock::new();
        *STREAM.get_or_init(|| new().map_or(0, |mut stream| warm(&mut stream)))
    }
}

/// Uses a stream, so that it allocates what it needs. Returns its memory in bytes.
fn warm(stream: &mut CCtx<'static>) -> usize {
    let _ = feed(stream, b"x", ZSTD_EndDirective::ZSTD_e_flush);
    stream.sizeof()
}

fn new() -> Option<CCtx<'static>> {
    let mut stream = CCtx::try_create()?;
    stream.set_parameter(CParameter::CompressionLevel(LEVEL)).ok()?;
    stream.set_parameter(CParameter::ContentSizeFlag(false)).ok()?;
    stream.set_parameter(CParameter::WindowLog(WINDOW_LOG)).ok()?;
    Some(stream)
}

/// Appends content to the stream. Returns how many bytes came out.
fn feed(stream: &mut CCtx<'static>, content: &[u8], how: ZSTD_EndDirective) -> Option<usize> {
    let mut sink = [0; 4096];
    let mut input = InBuffer::around(content);
    let mut len = 0;
    loop {
        let mut output = OutBuffer::around(&mut sink[..]);
        let left = stream.compress_stream2(&mut output, &mut input, how).ok()?;
        len += output.pos();
        let is_done = how == ZSTD_EndDirective::ZSTD_e_continue || left == 0;
        if is_done && input.pos() == content.len() {
            return Some(len);
        }
    }
}
