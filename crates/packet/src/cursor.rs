//! A position in a packet that may be truncated in the capture.

use crate::{Layer, Skipped};

/// The rest of a packet, after the headers read so far.
///
/// `data` holds its captured bytes, `wire >= data.len()` counts its bytes on the wire, and
/// `trailer` the bytes on the wire after it that a length field excluded. Everything else of the
/// packet came before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    pub(crate) data: &'a [u8],
    pub(crate) wire: u32,
    pub(crate) trailer: u32,
    /// Offset of `data` in the original bytes.
    pub(crate) position: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(data: &'a [u8], wire: u32, trailer: u32) -> Self {
        debug_assert!(data.len() as u64 <= u64::from(wire));
        Self { data, wire, trailer, position: 0 }
    }

    /// Reads the next `N` bytes, as part of `layer`.
    #[inline]
    pub(crate) fn take<const N: usize>(&mut self, layer: Layer) -> Result<&'a [u8; N], Skipped> {
        match self.data.split_first_chunk() {
            Some((head, rest)) => {
                self.data = rest;
                self.wire -= N as u32;
                self.position += N;
                Ok(head)
            }
            None => Err(self.short(N, layer)),
        }
    }

    /// The next `N` bytes, if they were captured.
    #[inline]
    pub(crate) fn peek<const N: usize>(&self) -> Option<&'a [u8; N]> {
        self.data.first_chunk()
    }

    /// Skips `n` bytes that must have been captured.
    #[inline]
    pub(crate) fn skip(&mut self, n: usize, layer: Layer) -> Result<(), Skipped> {
        match self.data.split_at_checked(n) {
            Some((_, rest)) => {
                self.data = rest;
                self.wire -= n as u32;
                self.position += n;
                Ok(())
            }
            None => Err(self.short(n, layer)),
        }
    }

    /// Skips `n` bytes that need not have been captured.
    #[inline]
    pub(crate) fn pass(&mut self, n: usize, layer: Layer) -> Result<(), Skipped> {
        if n > self.wire as usize {
            return Err(Skipped::Malformed(layer));
        }
        let captured = n.min(self.data.len());
        self.data = &self.data[captured..];
        self.wire -= n as u32;
        self.position += captured;
        Ok(())
    }

    /// Ends the packet `n` bytes from here, according to a length field of `layer`.
    #[inline]
    pub(crate) fn limit(&mut self, n: u32, layer: Layer) -> Result<(), Skipped> {
        if n > self.wire {
            return Err(Skipped::Malformed(layer));
        }
        self.trailer += self.wire - n;
        self.wire = n;
        self.data = &self.data[..self.data.len().min(n as usize)];
        Ok(())
    }

    #[cold]
    fn short(&self, n: usize, layer: Layer) -> Skipped {
        if n > self.wire as usize { Skipped::Malformed(layer) } else { Skipped::Truncated(layer) }
    }
}
