//! gzip, zstd and xz around a capture, recognized by their first bytes.

use std::{
    error::Error,
    fmt,
    io::{self, BufRead, BufReader, Read},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use super::Compression;

/// Largest zstd window, as a power of two: 128 MiB, the most that `zstd` accepts without `--long`.
const ZSTD_WINDOW_LOG: u32 = 27;

/// Memory limit for xz in KiB: twice the dictionary of `xz -9`, plus some for the decoder.
const XZ_MEMORY_KIB: u32 = (128 << 10) + 1024;

/// Bytes per read from the file into a decompressor.
const COMPRESSED_BUFFER: usize = 128 << 10;

/// Bytes needed to recognize a compression.
const MAGIC: usize = 6;

/// The decompressed bytes of a file.
pub(super) struct Source<R: Read> {
    decoder: Decoder<R>,
    /// Bytes read from the file. Shared with [`Raw`], since not every decoder gives access to its
    /// reader.
    position: Arc<AtomicU64>,
}

enum Decoder<R: Read> {
    Plain(Raw<R>),
    Gzip(Box<MultiGzDecoder<Raw<R>>>),
    Zstd(Box<ZstdReader<R>>),
    Xz(Box<XzReader<BufReader<Raw<R>>>>),
}

impl<R: Read> Source<R> {
    /// Reads the first bytes and selects the decompressor.
    pub(super) fn open(reader: R) -> io::Result<Self> {
        let raw = Raw::new(reader)?;
        let position = Arc::clone(&raw.position);
        let buffered = |raw| BufReader::with_capacity(COMPRESSED_BUFFER, raw);
        let decoder = match raw.head() {
            [0x1f, 0x8b, ..] => Decoder::Gzip(Box::new(MultiGzDecoder::new(raw))),
            [0xfd, b'7', b'z', b'X', b'Z', 0] => {
                Decoder::Xz(Box::new(XzReader::new_mem_limit(buffered(raw), true, XZ_MEMORY_KIB)))
            }
            // A frame, or a skippable frame, which `pzstd` writes first.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
                Decoder::Zstd(Box::new(ZstdReader::new(buffered(raw))?))
            }
            _ => Decoder::Plain(raw),
        };
        Ok(Self { decoder, position })
    }

    pub(super) fn compression(&self) -> Compression {
        match self.decoder {
            Decoder::Plain(_) => Compression::None,
            Decoder::Gzip(_) => Compression::Gzip,
            Decoder::Zstd(_) => Compression::Zstd,
            Decoder::Xz(_) => Compression::Xz,
        }
    }

    /// Bytes read from the file.
    pub(super) fn compressed_position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match &mut self.decoder {
            Decoder::Plain(raw) => raw.read(buf),
            Decoder::Gzip(gzip) => gzip.read(buf),
            Decoder::Zstd(zstd) => zstd.read(buf),
            Decoder::Xz(xz) => xz.read(buf),
        }
    }
}

/// The file. Returns its first bytes again, counts bytes, and marks its errors so that they can be
/// told from those of a decompressor.
struct Raw<R> {
    reader: R,
    head: [u8; MAGIC],
    head_len: usize,
    head_given: usize,
    position: Arc<AtomicU64>,
}

impl<R: Read> Raw<R> {
    fn new(reader: R) -> io::Result<Self> {
        let mut raw =
            Self { reader, head: [0; MAGIC], head_len: 0, head_given: 0, position: Arc::default() };
        while raw.head_len < MAGIC {
            match raw.reader.read(&mut raw.head[raw.head_len..]) {
                Ok(0) => break,
                Ok(n) => raw.head_len += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(FileError::wrap(e)),
            }
        }
        Ok(raw)
    }

    fn head(&self) -> &[u8] {
        &self.head[..self.head_len]
    }
}

impl<R: Read> Read for Raw<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = if self.head_given < self.head_len {
            let n = (&self.head[self.head_given..self.head_len]).read(buf)?;
            self.head_given += n;
            n
        } else {
            self.reader.read(buf).map_err(FileError::wrap)?
        };
        self.position.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// An error reading the file, as opposed to one in its content.
#[derive(Debug)]
pub(super) struct FileError(io::Error);

impl FileError {
    fn wrap(e: io::Error) -> io::Error {
        io::Error::new(e.kind(), Self(e))
    }

    /// Returns the file's error, or as `Err` one from a decompressor.
    pub(super) fn unwrap(e: io::Error) -> Result<io::Error, io::Error> {
        e.downcast::<Self>().map(|file| file.0)
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for FileError {}

/// Concatenated zstd frames (RFC 8878 section 3.1).
struct ZstdReader<R> {
    inner: BufReader<Raw<R>>,
    context: DCtx<'static>,
    /// Whether the current frame is incomplete.
    inside: bool,
}

impl<R: Read> ZstdReader<R> {
    fn new(inner: BufReader<Raw<R>>) -> io::Result<Self> {
        let mut context = DCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
        context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG)).map_err(zstd_error)?;
        Ok(Self { inner, context, inside: false })
    }
}

impl<R: Read> Read for ZstdReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let compressed = self.inner.fill_buf()?;
            let end = compressed.is_empty();
            if buf.is_empty() || (end && !self.inside) {
                return Ok(0);
            }
            let mut input = InBuffer::around(compressed);
            let mut output = OutBuffer::around(&mut *buf);
            let hint =
                self.context.decompress_stream(&mut output, &mut input).map_err(zstd_error)?;
            let (consumed, produced) = (input.pos(), output.pos());
            self.inner.consume(consumed);
            self.inside = hint != 0;
            if produced > 0 {
                return Ok(produced);
            }
            if end && self.inside {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

fn zstd_error(code: usize) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, zstd_safe::get_error_name(code))
}
