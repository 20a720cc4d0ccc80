//! Our own codec as it would be deployed, entropy stage, checksums and frame headers included.

use super::timed::{Open, Timed};
use super::{Run, Sizes, Tally};
use crate::batch::{Direction, Kind, View};
use oncewire_codec::{ConfigError, Encoder, MAX_BLOCK};

/// What becomes a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Units {
    /// Each packet's payload, as `oncewire link` would. Every frame is assumed to arrive.
    Packets,
    /// What a TCP flow sends within 10 ms, at most 64 KiB, as `oncewire serve` and `connect` would
    /// under some load. UDP is not carried.
    Tunnel,
}

/// An encoder for each direction, with the defaults.
pub(crate) struct OncewireRun {
    units: Units,
    cache: Sizes,
    encoders: [Option<Box<Encoder>>; Direction::ALL.len()],
    /// Blocks that are being filled, by flow hash.
    open: Timed<Direction>,
    spare: Vec<Vec<u8>>,
    frame: Vec<u8>,
    tally: Tally,
}

impl OncewireRun {
    pub(crate) fn new(units: Units, cache: Sizes, width: i64) -> OncewireRun {
        OncewireRun {
            units,
            cache,
            encoders: [const { None }; Direction::ALL.len()],
            open: Timed::new(width),
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
        self.frame.clear();
        encoder.encode(block, &mut self.frame).expect("blocks are no longer than a block may be");
        self.tally.add_to(direction, block.len().saturating_sub(self.frame.len()) as u64);
        Ok(())
    }

    fn close(
        &mut self,
        Open { mut bytes, value: direction, .. }: Open<Direction>,
    ) -> Result<(), ConfigError> {
        self.encode(direction, &bytes)?;
        bytes.clear();
        if self.spare.len() < 256 {
            self.spare.push(bytes);
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
            while let Some(block) = self.open.expired(packet.time) {
                self.close(block)?;
            }
            let key = packet.flow_hash;
            if self.open.len(key) + payload.len() > MAX_BLOCK
                && let Some(block) = self.open.close(key)
            {
                self.close(block)?;
            }
            let spare = &mut self.spare;
            let new = || (spare.pop().unwrap_or_default(), packet.direction);
            self.open.with(key, packet.time, new, |block| block.bytes.extend_from_slice(payload));
            while let Some(block) = self.open.too_much() {
                self.close(block)?;
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ConfigError> {
        while let Some(block) = self.open.oldest() {
            self.close(block)?;
        }
        Ok(())
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn memory(&self) -> u64 {
        let encoders: usize =
            self.encoders.iter().flatten().map(|encoder| encoder.memory().total()).sum();
        encoders as u64 + self.open.memory()
    }

    fn notes(&self) -> Vec<String> {
        self.open.notes("blocks of the tunnel")
    }
}
