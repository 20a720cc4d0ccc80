//! A buffer over a stream that makes each record contiguous.

use std::io::{self, Read};

use super::{
    CaptureError,
    decompress::{FileError, Source},
};

/// Initial buffer size in bytes. It grows only for a larger record, so to at most
/// [`MAX_BLOCK`](super::MAX_BLOCK) rounded up to a power of two. 256 KiB fits in a second-level
/// cache.
const WINDOW: usize = 256 << 10;

pub(super) struct Buffer<R: Read> {
    source: Source<R>,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Offset of `start` in the uncompressed stream.
    position: u64,
}

impl<R: Read> Buffer<R> {
    pub(super) fn new(source: Source<R>) -> Self {
        Self { source, bytes: vec![0; WINDOW], start: 0, end: 0, position: 0 }
    }

    pub(super) fn source(&self) -> &Source<R> {
        &self.source
    }

    /// Offset of the next byte in the uncompressed stream.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Bytes read but not yet [consumed](Self::consume).
    pub(super) fn available(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Reads until `n` bytes are [available](Self::available), and returns them. Returns fewer at
    /// the end of the stream.
    #[inline]
    pub(super) fn peek(&mut self, n: usize) -> Result<&[u8], CaptureError> {
        if self.end - self.start < n {
            self.fill(n)?;
        }
        Ok(&self.bytes[self.start..self.end.min(self.start + n)])
    }

    /// Consumes `n` available bytes.
    #[inline]
    pub(super) fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.end - self.start);
        self.start += n;
        self.position += n as u64;
    }

    /// The last `n` bytes consumed.
    #[inline]
    pub(super) fn consumed(&self, n: usize) -> &[u8] {
        &self.bytes[self.start - n..self.start]
    }

    /// Skips `n` bytes, available or not. Returns `false` if the stream ends first.
    pub(super) fn skip(&mut self, mut n: u64) -> Result<bool, CaptureError> {
        while n > 0 {
            let step = n.min(WINDOW as u64) as usize;
            let got = self.peek(step)?.len();
            self.consume(got);
            n -= got as u64;
            if got < step {
                return Ok(false);
            }
        }
        Ok(true)
    }

    #[cold]
    fn fill(&mut self, n: usize) -> Result<(), CaptureError> {
        self.bytes.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if n > self.bytes.len() {
            self.bytes.resize(n.next_power_of_two(), 0);
        }
        while self.end < n {
            match self.source.read(&mut self.bytes[self.end..]) {
                Ok(0) => break,
                Ok(got) => self.end += got,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.error(e)),
            }
        }
        Ok(())
    }

    /// Distinguishes an error of the file from one in the compressed data.
    fn error(&self, e: io::Error) -> CaptureError {
        match FileError::unwrap(e) {
            Ok(file) => CaptureError::Io(file),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                CaptureError::Cut { at: self.position, what: "compressed stream" }
            }
            Err(e) => CaptureError::Compressed {
                at: self.position + self.available().len() as u64,
                what: e.to_string(),
            },
        }
    }
}
