//! A place in a packet, of which perhaps not all bytes were captured.

use crate::{Layer, Unused};

/// What is left of a packet behind the headers that were read.
///
/// `data` are the captured bytes of it, `wire >= data.len()` its bytes on the wire, and `trailer` the bytes on the wire that were
/// cut off behind it because a length field said so. What was in front is the rest of the packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    pub(crate) data: &'a [u8],
    pub(crate) wire: u32,
    pub(crate) trailer: u32,
    /// Where `data` begins in what the cursor was made of.
    pub(crate) position: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(data: &'a [u8], wire: u32, trailer: u32) -> Self {
        debug_assert!(data.len() as u64 <= u64::from(wire));
        Self { data, wire, trailer, position: 0 }
    }

    /// Reads the next `N` bytes, as part of `layer`.
    #[inline]
    pub(crate) fn take<const N: usize>(&mut self, layer: Layer) -> Result<&'a [u8; N], Unused> {
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

    /// Goes past `n` bytes that must have been captured.
    #[inline]
    pub(crate) fn skip(&mut self, n: usize, layer: Layer) -> Result<(), Unused> {
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

    /// Goes past `n` bytes that need not have been captured.
    #[inline]
    pub(crate) fn pass(&mut self, n: usize, layer: Layer) -> Result<(), Unused> {
        if n > self.wire as usize {
            return Err(Unused::Malformed(layer));
        }
        let captured = n.min(self.data.len());
        self.data = &self.data[captured..];
        self.wire -= n as u32;
        self.position += captured;
        Ok(())
    }

    /// Ends the packet `n` bytes from here, as a length field of `layer` says.
    #[inline]
    pub(crate) fn limit(&mut self, n: u32, layer: Layer) -> Result<(), Unused> {
        if n > self.wire {
            return Err(Unused::Malformed(layer));
        }
        self.trailer += self.wire - n;
        self.wire = n;
        self.data = &self.data[..self.data.len().min(n as usize)];
        Ok(())
    }

    #[cold]
    fn short(&self, n: usize, layer: Layer) -> Unused {
        if n > self.wire as usize { Unused::Malformed(layer) } else { Unused::Truncated(layer) }
    }
}
