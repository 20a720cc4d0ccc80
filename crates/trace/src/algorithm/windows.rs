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
use oncewire_codec::matcher::Match;

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

/// DEFLATE that starts each time with fresh state.
pub(crate) struct Deflate {
    state: Compress,
    level: u32,
    /// Whether with the header and checksum of zlib.
    zlib: bool,
    out: Vec<u8>,
}

impl Deflate {
    pub(crate) fn new(level: u32, zlib: bool) -> Deflate {
        Deflate {
            state: Compress::new(Compression::new(level), zlib),
            level,
            zlib,
            out: Vec::new(),
        }
    }

    /// Length of the bytes compressed, or as they are if that is shorter.
    pub(crate) fn len(&mut self, bytes: &[u8]) -> u64 {
        self.out.clear();
        // Room for what does not shrink too: stored blocks add 5 bytes to 16 KiB or less. A stream
        // that was left in the middle must not be reset: zlib-rs 0.6 then counts what it had still to
        // write, and panics when that fills its buffer.
        self.out.reserve(bytes.len() + bytes.len() / 8 + 256);
        match self.state.compress_vec(bytes, &mut self.out, FlushCompress::Finish) {
            Ok(Status::StreamEnd) => self.state.reset(),
            _ => {
                self.state = Compress::new(Compression::new(self.level), self.zlib);
                return bytes.len() as u64;
            }
        }
        self.out.len().min(bytes.len()) as u64
    }

    /// Memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.out.capacity() as u64
    }
}

/// Compression over windows of time. A window opens at its first packet.
pub(crate) struct WindowRun {
    coder: Coder,
    grouping: Grouping,
    source: Source,
    /// By direction or flow hash.
    open: Timed<Window>,
    spare: Vec<Vec<u8>>,
    deflate: Deflate,
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
            deflate: Deflate::new(6, false),
            zstd: zstd_safe::CCtx::create(),
            out: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// Length of the bytes compressed, or as they are if that is shorter.
    fn coded(&mut self, bytes: &[u8]) -> u64 {
        match self.coder {
            Coder::Deflate => self.deflate.len(bytes),
            Coder::Zstd => {
                self.out.clear();
                self.out.reserve(zstd_safe::compress_bound(bytes.len()));
                let len = self.zstd.compress(&mut self.out, bytes, 3).unwrap_or(bytes.len());
                len.min(bytes.len()) as u64
            }
        }
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

    /// Takes a packet with payload, and what matches leave of it instead. Each match comes with how
    /// far back it is.
    pub(crate) fn take_residue(
        &mut self,
        packet: &Packet,
        payload: &[u8],
        matches: impl Iterator<Item = (Match, u64)>,
    ) -> Result<(), ConfigError> {
        self.take(packet, |_, out| {
            residue(payload, matches, out);
            Ok(0)
        })
    }

    /// Takes a packet with payload. `fill` appends what of it is to be compressed, and returns the
    /// bytes that are not.
    fn take(
        &mut self,
        packet: &Packet,
        fill: impl FnOnce(&mut Source, &mut Vec<u8>) -> Result<u64, ConfigError>,
    ) -> Result<(), ConfigError> {
        let key = match self.grouping {
            Grouping::Packet => {
                let mut bytes = self.spare.pop().unwrap_or_default();
                let plain = fill(&mut self.source, &mut bytes)?;
                let (direction, payload) = (packet.direction, packet.len.into());
                self.close(&Window { direction, payload, plain }, bytes);
                return Ok(());
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
            window.value.plain += fill(source, &mut window.bytes)?;
            window.value.payload += u64::from(packet.len);
            Ok(())
        })?;
        while let Some(window) = self.open.too_much() {
            self.close_open(window);
        }
        Ok(())
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
                let found = matches.iter().map(|found| (*found, view.distance(packet, found)));
                residue(payload, found, out);
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

/// Appends what matches leave of a payload: literals, and 4 bytes for each match, which is so far back.
fn residue(payload: &[u8], matches: impl Iterator<Item = (Match, u64)>, out: &mut Vec<u8>) {
    let mut done = 0;
    for (found, distance) in matches {
        out.extend_from_slice(&payload[done..found.at as usize]);
        out.extend_from_slice(&((distance as u32) << 16 | found.len & 0xffff).to_le_bytes());
        done = found.end();
    }
    out.extend_from_slice(&payload[done..]);
}

impl Run for WindowRun {
    fn batch(&mut self, view: &View<'_>) -> Result<(), ConfigError> {
        for (index, packet) in
            view.batch.packets().iter().enumerate().filter(|(_, packet)| packet.len > 0)
        {
            self.take(packet, |source, out| WindowRun::fill(source, view, index, packet, out))?;
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
        self.open.memory() + names + self.deflate.memory() + self.out.capacity() as u64
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
