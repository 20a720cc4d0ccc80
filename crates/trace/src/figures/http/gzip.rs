//! Sizes under gzip, of streams that are never held whole.

use crate::batch::FlowKey;
use crate::lru::LruCache;
use flate2::{Compress, Compression, FlushCompress, Status};

/// Header and trailer of a gzip member (RFC 1952).
const FRAME: u64 = 18;

/// Bytes charged for a compressor: window, chains, hash heads and pending output of DEFLATE at
/// level 6 take 371 KiB (zlib-rs 0.6, counted).
pub(crate) const COMPRESSOR: usize = 400 << 10;

/// A gzip -6 stream of which only the size matters.
#[derive(Debug)]
pub(crate) struct Gzip(Compress);

impl Gzip {
    pub(crate) fn new() -> Gzip {
        Gzip(Compress::new(Compression::new(6), false))
    }

    pub(crate) fn write(&mut self, mut bytes: &[u8]) {
        let mut out = [0; 4096];
        while !bytes.is_empty() {
            let before = self.0.total_in();
            // The state is that of a running stream and there is room: no error can occur.
            if self.0.compress(bytes, &mut out, FlushCompress::None).is_err() {
                return;
            }
            bytes = &bytes[(self.0.total_in() - before) as usize..];
        }
    }

    /// Ends the stream; returns its size in bytes, and is ready for another.
    pub(crate) fn finish(&mut self) -> u64 {
        let mut out = [0; 4096];
        while let Ok(Status::Ok | Status::BufError) =
            self.0.compress(&[], &mut out, FlushCompress::Finish)
        {}
        let size = self.0.total_out() + FRAME;
        self.0.reset();
        size
    }
}

/// The compressors of the objects in transit; the one that was used longest ago is taken for a new
/// object.
#[derive(Debug)]
pub(crate) struct Gzips {
    live: LruCache<FlowKey, Gzip>,
    free: Vec<Gzip>,
    max: usize,
}

impl Gzips {
    pub(crate) fn new(max: usize) -> Gzips {
        Gzips { live: LruCache::unbounded(), free: Vec::new(), max: max.max(1) }
    }

    /// Most memory taken, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        ((self.live.len() + self.free.len()) * COMPRESSOR) as u64
    }

    pub(crate) fn start(&mut self, flow: &FlowKey) {
        let mut old = self.live.pop(flow).or_else(|| self.free.pop());
        if old.is_none() && self.live.len() >= self.max {
            old = self.live.pop_lru().map(|(_, gzip)| gzip);
        }
        let mut gzip = old.unwrap_or_else(Gzip::new);
        // Ends what another object left, rather than only reset it: zlib-rs 0.6.8 loses room for
        // output at a reset with some pending.
        gzip.finish();
        self.live.put(*flow, gzip);
    }

    pub(crate) fn write(&mut self, flow: &FlowKey, bytes: &[u8]) {
        if let Some(gzip) = self.live.get_mut(flow) {
            gzip.write(bytes);
        }
    }

    /// The size of the flow's object. `None` if its compressor was taken.
    pub(crate) fn finish(&mut self, flow: &FlowKey) -> Option<u64> {
        let mut gzip = self.live.pop(flow)?;
        let size = gzip.finish();
        self.free.push(gzip);
        Some(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::testing::{Made, noise};

    #[test]
    fn a_compressor_that_was_taken_starts_anew() {
        let flow = Made::tcp("10.0.0.1:80", "10.0.0.2:2000").packet.flow.unwrap();
        let content = noise(1, 70_001);
        let mut alone = Gzip::new();
        alone.write(&content);
        let expected = alone.finish();
        let mut gzips = Gzips::new(1);
        for len in (1..).map(|n| n * 977).take_while(|len| *len < content.len()) {
            gzips.start(&flow);
            gzips.write(&flow, &content[..len]);
        }
        gzips.start(&flow);
        gzips.write(&flow, &content);
        assert_eq!(gzips.finish(&flow), Some(expected));
    }
}
