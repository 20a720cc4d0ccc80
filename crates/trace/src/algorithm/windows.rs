//! Compression of packets, alone or over windows of time, of what they carry or of what redundancy
//! elimination leaves of it.
//!
//! Each window is compressed with fresh state, as a link must that may lose packets (thesis,
//! section 2.2; EndRE, section 9.1; RFC 2393).

use super::timed::{Open, Timed};
use super::{PayloadRun, Run, Tally};
use crate::batch::{Direction, Packet, View};
use flate2::{Compress, Compression, FlushCompress, Status};
use oncewire_codec::ConfigError;

/// What compresses a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coder {
    /// DEFLATE at gzip's level 6, without gzip's header and trailer of 18 bytes (as RFC 2394 for IP
    /// packets).
    Deflate,
    /// zstd at level 3.
    Zstd,
}

/// Which packets share a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// None: each is compressed alone.
    Packet,
    /// Those of a direction, flows mixed (thesis).
    Direction,
    /// Those of a flow (EndRE's emulation of compression at the socket).
    Flow,
}

/// What of a packet goes into the window.
pub(crate) enum Source {
    /// Its payload.
    Payload,
    /// What the reference algorithm leaves of it: literals, and 4 bytes for each match. The shim is
    /// not compressed.
    Residue,
    /// A name if payload-match knows the payload, else the payload (Santos and Wetherall, Table 2,
    /// "both").
    Names(Box<PayloadRun>),
}

/// What a window's bytes are.
#[derive(Debug)]
struct Window {
    direction: Direction,
    /// Payload that the bytes stand for.
    payload: u64,
    /// Bytes on the wire that are not compressed.
    plain: u64,
}

/// Most bytes of a window; one that fills up is closed before its time.
const MAX_WINDOW: usize = 16 << 20;

/// Compression over windows of time. A window opens at its first packet.
pub(crate) struct WindowRun {
    coder: Coder,
    grouping: Grouping,
    source: Source,
    /// By direction or flow hash.
    open: Timed<Window>,
    spare: Vec<Vec<u8>>,
    deflate: Compress,
    zstd: zstd_safe::CCtx<'static>,
    out: Vec<u8>,
    tally: Tally,
}

impl WindowRun {
    pub(crate) fn new(coder: Coder, grouping: Grouping, source: Source, width: i64) -> WindowRun {
        WindowRun {
            coder,
            grouping,
            source,
            open: Timed::new(width),
            spare: Vec::new(),
            deflate: Compress::new(Compression::new(6), false),
            zstd: zstd_safe::CCtx::create(),
            out: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Length of the bytes compressed, or as they are if that is shorter.
    fn coded(&mut self, bytes: &[u8]) -> u64 {
        self.out.clear();
        let len = match self.coder {
            Coder::Deflate => {
                // Room for what does not shrink too: stored blocks add 5 bytes to 16 KiB or less. A
                // stream that was left in the middle must not be reset: zlib-rs 0.6 then counts
                // what it had still to write, and panics when that fills its buffer.
                self.out.reserve(bytes.len() + bytes.len() / 8 + 256);
                match self.deflate.compress_vec(bytes, &mut self.out, FlushCompress::Finish) {
                    Ok(Status::StreamEnd) => self.deflate.reset(),
                    _ => {
                        self.deflate = Compress::new(Compression::new(6), false);
                        return bytes.len() as u64;
                    }
                }
                self.out.len()
            }
            Coder::Zstd => {
                self.out.reserve(zstd_safe::compress_bound(bytes.len()));
                self.zstd.compress(&mut self.out, bytes, 3).unwrap_or(bytes.len())
            }
        };
        len.min(bytes.len()) as u64
    }

    fn close(&mut self, window: &Window, mut bytes: Vec<u8>) {
        let coded = self.coded(&bytes) + window.plain;
        self.tally.add_to(window.direction, window.payload.saturating_sub(coded));
        bytes.clear();
        if self.spare.len() < 64 && bytes.capacity() <= 64 << 10 {
            self.spare.push(bytes);
        }
    }

    fn close_open(&mut self, Open { bytes, value, .. }: Open<Window>) {
        self.close(&value, bytes);
    }

    /// Appends what of the packet is to be compressed; returns the bytes that are not.
    fn fill(
        source: &mut Source,
        view: &View<'_>,
        index: usize,
        packet: &Packet,
        out: &mut Vec<u8>,
    ) -> Result<u64, ConfigError> {
        let payload = view.batch.payload(packet);
        match source {
            Source::Payload => out.extend_from_slice(payload),
            Source::Residue => {
                let matches = view.matches.of(index);
                if view.charge.saved(matches) == 0 {
                    out.extend_from_slice(payload);
                    return Ok(0);
                }
                let mut done = 0;
                for found in matches {
                    out.extend_from_slice(&payload[done..found.at as usize]);
                    let distance = view.distance(packet, found) as u32;
                    out.extend_from_slice(&(distance << 16 | found.len & 0xffff).to_le_bytes());
                    done = found.end();
                }
                out.extend_from_slice(&payload[done..]);
                return Ok(u64::from(view.charge.per_packet));
            }
            Source::Names(names) => {
                if names.is_token(packet.direction, payload)? {
                    // A name is as random as its packet is not: 16 bytes of it, not compressible.
                    return Ok(16);
                }
                out.extend_from_slice(payload);
            }
        }
        Ok(0)
    }
}

impl Run for WindowRun {
    fn batch(&mut self, view: &View<'_>) -> Result<(), ConfigError> {
        for (index, packet) in
            view.batch.packets().iter().enumerate().filter(|(_, packet)| packet.len > 0)
        {
            let key = match self.grouping {
                Grouping::Packet => {
                    let mut bytes = self.spare.pop().unwrap_or_default();
                    let plain = WindowRun::fill(&mut self.source, view, index, packet, &mut bytes)?;
                    self.close(
                        &Window { direction: packet.direction, payload: packet.len.into(), plain },
                        bytes,
                    );
                    continue;
                }
                Grouping::Direction => packet.direction.index() as u64,
                Grouping::Flow => packet.flow_hash,
            };
            while let Some(window) = self.open.expired(packet.time) {
                self.close_open(window);
            }
            if self.open.len(key) >= MAX_WINDOW
                && let Some(window) = self.open.close(key)
            {
                self.close_open(window);
            }
            let (source, spare) = (&mut self.source, &mut self.spare);
            let new = || {
                (
                    spare.pop().unwrap_or_default(),
                    Window { direction: packet.direction, payload: 0, plain: 0 },
                )
            };
            self.open.with(key, packet.time, new, |window| -> Result<(), ConfigError> {
                window.value.plain +=
                    WindowRun::fill(source, view, index, packet, &mut window.bytes)?;
                window.value.payload += u64::from(packet.len);
                Ok(())
            })?;
            while let Some(window) = self.open.too_much() {
                self.close_open(window);
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ConfigError> {
        while let Some(window) = self.open.oldest() {
            self.close_open(window);
        }
        Ok(())
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn memory(&self) -> u64 {
        let names = if let Source::Names(names) = &self.source { names.memory() } else { 0 };
        self.open.memory() + names + self.out.capacity() as u64
    }

    fn notes(&self) -> Vec<String> {
        self.open.notes("compression windows")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::testing::noise;

    #[test]
    fn what_does_not_shrink_leaves_nothing_behind_for_the_next() {
        let text =
            b"GET /index.html HTTP/1.1\r\nHost: www.example.org\r\nAccept: text/html\r\n\r\n"
                .repeat(30);
        for coder in [Coder::Deflate, Coder::Zstd] {
            let fresh = || WindowRun::new(coder, Grouping::Packet, Source::Payload, 0);
            let alone = fresh().coded(&text);
            assert!(alone < text.len() as u64 / 4);
            let mut run = fresh();
            for len in (0..70_000).step_by(1_733) {
                let noise = noise(len as u64, len);
                assert_eq!(run.coded(&noise), len as u64, "{coder:?}");
                assert_eq!(run.coded(&text), alone, "{coder:?} after {len} bytes of noise");
            }
        }
    }
}
