//! Our own codec as it would be deployed, entropy stage, checksums and frame headers included.

use super::windows::{MAX_HELD, WINDOW_COST};
use super::{Run, Sizes, Tally};
use crate::batch::{Direction, Kind, View};
use oncewire_codec::{ConfigError, Encoder, MAX_BLOCK};
use std::collections::{HashMap, VecDeque};

/// What becomes a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Units {
    /// Each packet's payload, as `oncewire link` would. Every frame is assumed to arrive.
    Packets,
    /// What a TCP flow sends within 10 ms, at most 64 KiB, as `oncewire serve` and `connect` would under some load. UDP is not carried.
    Tunnel,
}

/// A block that is being filled.
struct Open {
    opened: i64,
    direction: Direction,
    bytes: Vec<u8>,
}

/// An encoder for each direction, with the defaults.
pub(crate) struct OncewireRun {
    units: Units,
    cache: Sizes,
    width: i64,
    encoders: [Option<Box<Encoder>>; Direction::ALL.len()],
    /// By flow hash.
    open: HashMap<u64, Open>,
    order: VecDeque<(i64, u64)>,
    /// Time of the packet before.
    latest: i64,
    /// Bytes of open blocks.
    held: usize,
    spare: Vec<Vec<u8>>,
    frame: Vec<u8>,
    tally: Tally,
}

impl OncewireRun {
    pub(crate) fn new(units: Units, cache: Sizes, width: i64) -> OncewireRun {
        OncewireRun {
            units,
            cache,
            width,
            encoders: [const { None }; Direction::ALL.len()],
            open: HashMap::new(),
            order: VecDeque::new(),
            latest: i64::MIN,
            held: 0,
            spare: Vec::new(),
            frame: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn encode(&mut self, direction: Direction, block: &[u8]) -> Result<(), ConfigError> {
        let encoder = match &mut self.encoders[direction.index()] {
            Some(encoder) => encoder,
            empty => {
                let cache = self.cache.of(direction).max(MAX_BLOCK as u64);
                empty.insert(Box::new(Encoder::builder().cache(cache).build()?))
            }
        };
        // An IPv6 jumbogram has more than a block.
        for block in block.chunks(MAX_BLOCK) {
            self.frame.clear();
            encoder.encode(block, &mut self.frame).expect("blocks are no longer than a block may be");
            self.tally.add_to(direction, block.len().saturating_sub(self.frame.len()) as u64);
        }
        Ok(())
    }

    fn close(&mut self, key: u64) -> Result<(), ConfigError> {
        if let Some(Open { direction, mut bytes, .. }) = self.open.remove(&key) {
            self.held -= bytes.len() + WINDOW_COST;
            self.encode(direction, &bytes)?;
            bytes.clear();
            if self.spare.len() < 256 && bytes.capacity() <= 2 * MAX_BLOCK {
                self.spare.push(bytes);
            }
        }
        Ok(())
    }

    /// Closes the block that was opened before all others. `false` if there is none.
    fn close_oldest(&mut self) -> Result<bool, ConfigError> {
        let Some((opened, key)) = self.order.pop_front() else { return Ok(false) };
        if self.open.get(&key).is_some_and(|block| block.opened == opened) {
            self.close(key)?;
        }
        Ok(true)
    }

    /// As for windows of compression.
    fn close_before(&mut self, time: i64) -> Result<(), ConfigError> {
        let back = time < self.latest.saturating_sub(self.width);
        self.latest = time;
        let over = time.saturating_sub(self.width);
        while self.order.front().is_some_and(|&(opened, _)| back || opened <= over) {
            self.close_oldest()?;
        }
        Ok(())
    }
}

impl Run for OncewireRun {
    fn batch(&mut self, view: &View<'_>) -> Result<(), ConfigError> {
        for packet in view.batch.packets().iter().filter(|packet| packet.len > 0) {
            let payload = view.batch.payload(packet);
            if self.units == Units::Packets {
                self.encode(packet.direction, payload)?;
                continue;
            }
            if !matches!(packet.kind, Kind::Tcp { .. }) {
                continue;
            }
            self.close_before(packet.time)?;
            let key = packet.flow_hash;
            if self.open.get(&key).is_some_and(|block| block.bytes.len() + payload.len() > MAX_BLOCK) {
                self.close(key)?;
            }
            let block = self.open.entry(key).or_insert_with(|| {
                self.order.push_back((packet.time, key));
                self.held += WINDOW_COST;
                let bytes = self.spare.pop().unwrap_or_default();
                Open { opened: packet.time, direction: packet.direction, bytes }
            });
            block.bytes.extend_from_slice(payload);
            self.held += payload.len();
            while self.held > MAX_HELD && self.close_oldest()? {}
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ConfigError> {
        while self.close_oldest()? {}
        Ok(())
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn memory(&self) -> u64 {
        let encoders: usize = self.encoders.iter().flatten().map(|encoder| encoder.memory().total()).sum();
        (encoders + self.open.values().map(|block| block.bytes.capacity()).sum::<usize>()) as u64
    }
}
