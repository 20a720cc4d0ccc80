//! Compression of packets, alone or over windows of time, of what they carry or of what redundancy elimination leaves of it.
//!
//! Each window is compressed with fresh state, as a link must that may lose packets (thesis, section 2.2; EndRE, section 9.1; RFC 2393).

use super::{PayloadRun, Run, Tally};
use crate::batch::{Direction, Packet, View};
use flate2::{Compress, Compression, FlushCompress, Status};
use oncewire_codec::ConfigError;
use std::collections::{HashMap, VecDeque};

/// What compresses a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coder {
    /// DEFLATE at gzip's level 6, without gzip's header and trailer of 18 bytes (as RFC 2394 for IP packets).
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
    /// What the reference algorithm leaves of it: literals, and 4 bytes for each match. The shim is not compressed.
    Residue,
    /// A name if payload-match knows the payload, else the payload (Santos and Wetherall, Table 2, "both").
    Names(Box<PayloadRun>),
}

/// A window that is open.
struct Window {
    opened: i64,
    direction: Direction,
    bytes: Vec<u8>,
    /// Payload that the bytes stand for.
    payload: u64,
    /// Bytes on the wire that are not compressed.
    plain: u64,
}

/// Most bytes of a window; one that fills up is closed before its time.
const MAX_WINDOW: usize = 16 << 20;

/// Most bytes of open windows together, with [`WINDOW_COST`] for each: beyond it the oldest are closed before their time.
pub(super) const MAX_HELD: usize = 64 << 20;

/// Bytes that an open window is taken to cost besides its content.
pub(super) const WINDOW_COST: usize = 256;

/// Compression over windows of time. A window opens at its first packet.
pub(crate) struct WindowRun {
    coder: Coder,
    grouping: Grouping,
    source: Source,
    /// Nanoseconds that a window stays open.
    width: i64,
    /// By direction or flow hash.
    open: HashMap<u64, Window>,
    /// The open ones in the order of their opening; entries of windows closed meanwhile do not match their `opened`.
    order: VecDeque<(i64, u64)>,
    /// Time of the packet before.
    latest: i64,
    /// Bytes of open windows.
    held: usize,
    spare: Vec<Vec<u8>>,
    deflate: Compress,
    zstd: zstd_safe::CCtx<'static>,
    out: Vec<u8>,
    tally: Tally,
    memory: u64,
}

impl WindowRun {
    pub(crate) fn new(coder: Coder, grouping: Grouping, source: Source, width: i64) -> WindowRun {
        WindowRun {
            coder,
            grouping,
            source,
            width,
            open: HashMap::new(),
            order: VecDeque::new(),
            latest: i64::MIN,
            held: 0,
            spare: Vec::new(),
            deflate: Compress::new(Compression::new(6), false),
            zstd: zstd_safe::CCtx::create(),
            out: Vec::new(),
            tally: Tally::default(),
            memory: 0,
        }
    }

    /// Length of the bytes compressed, or as they are if that is shorter.
    fn coded(&mut self, bytes: &[u8]) -> u64 {
        self.out.clear();
        let len = match self.coder {
            Coder::Deflate => {
                // Room for stored blocks, 5 bytes more for each of 16 KiB: a stream that ended without it would not be reset well by
                // zlib-rs 0.6, whose next stream panics then.
                self.out.reserve(bytes.len() + bytes.len() / 1000 + 64);
                self.deflate.reset();
                match self.deflate.compress_vec(bytes, &mut self.out, FlushCompress::Finish) {
                    Ok(Status::StreamEnd) => self.out.len(),
                    _ => {
                        self.deflate = Compress::new(Compression::new(6), false);
                        bytes.len()
                    }
                }
            }
            Coder::Zstd => {
                self.out.reserve(zstd_safe::compress_bound(bytes.len()));
                self.zstd.compress(&mut self.out, bytes, 3).unwrap_or(bytes.len())
            }
        };
        len.min(bytes.len()) as u64
    }

    fn close(&mut self, mut window: Window) {
        let coded = self.coded(&window.bytes) + window.plain;
        self.tally.add_to(window.direction, window.payload.saturating_sub(coded));
        window.bytes.clear();
        if self.spare.len() < 64 && window.bytes.capacity() <= 1 << 20 {
            self.spare.push(window.bytes);
        }
    }

    /// Closes the window of a key.
    fn close_key(&mut self, key: u64) {
        if let Some(window) = self.open.remove(&key) {
            self.held -= window.bytes.len() + WINDOW_COST;
            self.close(window);
        }
    }

    /// Closes the window that was opened before all others. `false` if there is none.
    fn close_oldest(&mut self) -> bool {
        let Some((opened, key)) = self.order.pop_front() else { return false };
        if self.open.get(&key).is_some_and(|window| window.opened == opened) {
            self.close_key(key);
        }
        true
    }

    /// Closes the windows whose time is over when a packet of `time` comes: all of them if the clock of the capture was set back, or if
    /// another capture begins.
    fn close_before(&mut self, time: i64) {
        let back = time < self.latest.saturating_sub(self.width);
        self.latest = time;
        let over = time.saturating_sub(self.width);
        while self.order.front().is_some_and(|&(opened, _)| back || opened <= over) {
            self.close_oldest();
        }
    }

    /// Appends what of the packet is to be compressed; returns the bytes that are not.
    fn fill(source: &mut Source, view: &View<'_>, index: usize, packet: &Packet, out: &mut Vec<u8>) -> Result<u64, ConfigError> {
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
        for (index, packet) in view.batch.packets().iter().enumerate().filter(|(_, packet)| packet.len > 0) {
            let key = match self.grouping {
                Grouping::Packet => {
                    let mut bytes = self.spare.pop().unwrap_or_default();
                    let plain = WindowRun::fill(&mut self.source, view, index, packet, &mut bytes)?;
                    let payload = u64::from(packet.len);
                    self.close(Window { opened: packet.time, direction: packet.direction, bytes, payload, plain });
                    continue;
                }
                Grouping::Direction => packet.direction.index() as u64,
                Grouping::Flow => packet.flow_hash,
            };
            self.close_before(packet.time);
            if self.open.get(&key).is_some_and(|window| window.bytes.len() >= MAX_WINDOW) {
                self.close_key(key);
            }
            let window = self.open.entry(key).or_insert_with(|| {
                self.order.push_back((packet.time, key));
                self.held += WINDOW_COST;
                let bytes = self.spare.pop().unwrap_or_default();
                Window { opened: packet.time, direction: packet.direction, bytes, payload: 0, plain: 0 }
            });
            let before = window.bytes.len();
            window.plain += WindowRun::fill(&mut self.source, view, index, packet, &mut window.bytes)?;
            window.payload += u64::from(packet.len);
            self.held += window.bytes.len() - before;
            while self.held > MAX_HELD && self.close_oldest() {}
        }
        let held: usize = self.open.values().map(|window| window.bytes.capacity()).sum();
        self.memory = self.memory.max(held as u64);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ConfigError> {
        while self.close_oldest() {}
        Ok(())
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn memory(&self) -> u64 {
        let names = if let Source::Names(names) = &self.source { names.memory() } else { 0 };
        self.memory + names + self.out.capacity() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::testing::noise;

    #[test]
    fn what_does_not_shrink_leaves_nothing_behind_for_the_next() {
        let text = b"GET /index.html HTTP/1.1\r\nHost: www.example.org\r\nAccept: text/html\r\n\r\n".repeat(30);
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
