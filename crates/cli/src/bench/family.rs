//! Payload-match and Martynov's modified algorithm, which do not use our encoder.

use super::candidate::{Candidate, Details, Wire, compare};
use crate::failure::{Failure, Outcome};
use crate::setup::config_failure;
use oncewire_family::chunk::study::{ForgeableChunks, ForgeableFigures};
use oncewire_family::payload::{
    Compressor, Decompressor, KeyedBlake3, Message, PayloadPolicy, Received, WholePacket,
};

/// Santos and Wetherall's link, with each block as a packet's payload. It loses nothing, so nothing
/// is rejected.
pub(super) struct Payload {
    compressor: Compressor<KeyedBlake3, WholePacket>,
    decompressor: Decompressor<KeyedBlake3, WholePacket>,
    tokens_before: u64,
}

fn broken(error: impl std::fmt::Display) -> Failure {
    Failure::failed(format!("payload-match failed: {error}; please report this"))
}

impl Payload {
    pub(super) fn new(cache: u64) -> Outcome<Payload> {
        let policy = PayloadPolicy { capacity: cache, ..PayloadPolicy::default() };
        let naming = || KeyedBlake3::new([0; 32]);
        let refused = |error| Failure::usage(format!("payload-match: {error}"));
        let mut compressor =
            Compressor::new(policy.clone(), naming(), WholePacket, 1).map_err(refused)?;
        let mut decompressor =
            Decompressor::new(policy, naming(), WholePacket, 1).map_err(refused)?;
        // Both ends start in the same epoch.
        if let Some(reset) = compressor.reset_due()
            && let Received::Reply(done) = decompressor.receive(reset).map_err(broken)?
        {
            compressor.receive(done).map_err(broken)?;
        }
        Ok(Payload { compressor, decompressor, tokens_before: 0 })
    }
}

impl Candidate for Payload {
    fn encode(&mut self, data: &[u8], block: usize, _: bool, wire: &mut Wire) -> Outcome {
        self.tokens_before = self.compressor.stats().tokens;
        for block in data.chunks(block) {
            self.compressor.compress(block).message().write(wire.out());
            wire.end_block();
        }
        Ok(())
    }

    fn decode(&mut self, wire: &Wire, _: usize, _: usize, check: Option<&[u8]>) -> Outcome {
        let mut at = 0;
        for sent in wire.blocks() {
            match self
                .decompressor
                .receive(Message::parse(sent).map_err(broken)?)
                .map_err(broken)?
            {
                Received::Packet(packet) => {
                    compare(packet, at, check, "payload-match")?;
                    at += packet.len();
                }
                Received::Reply(reply) => {
                    return Err(broken(format_args!(
                        "an answer on a link without loss: {reply:?}"
                    )));
                }
            }
        }
        Ok(())
    }

    fn memory(&self) -> (usize, usize) {
        (self.compressor.dictionary().memory(), self.decompressor.dictionary().memory())
    }

    fn details(&self) -> Option<Details> {
        Some(Details {
            matches: self.compressor.stats().tokens - self.tokens_before,
            ..Details::default()
        })
    }
}

/// Chunk-match with forgeable names: measured, never sent.
pub(super) struct Modified {
    study: ForgeableChunks,
    before: ForgeableFigures,
    memory: usize,
}

impl Modified {
    pub(super) fn new(
        cache: u64,
        window: usize,
        period: usize,
        entries: Option<u64>,
    ) -> Outcome<Modified> {
        // One per expected chunk; a period of 0 is refused below.
        let entries = entries.unwrap_or(cache / period.max(1) as u64 + 1);
        let study = ForgeableChunks::new(cache, window, period, entries).map_err(config_failure)?;
        // The algorithm needs no log; the study holds one to find collisions.
        let memory = usize::try_from(entries).unwrap_or(usize::MAX).saturating_mul(16);
        Ok(Modified { study, before: ForgeableFigures::default(), memory })
    }
}

impl Candidate for Modified {
    fn encode(&mut self, data: &[u8], block: usize, _: bool, wire: &mut Wire) -> Outcome {
        self.before = self.study.figures();
        for block in data.chunks(block) {
            self.study
                .look_at(block)
                .map_err(|error| Failure::failed(format!("cannot measure: {error}")))?;
        }
        wire.count((self.study.figures().wire_bytes - self.before.wire_bytes) as usize);
        Ok(())
    }

    fn decode(&mut self, _: &Wire, _: usize, _: usize, _: Option<&[u8]>) -> Outcome {
        Ok(())
    }

    fn decodes(&self) -> bool {
        false
    }

    fn memory(&self) -> (usize, usize) {
        (self.memory, 0)
    }

    fn details(&self) -> Option<Details> {
        let (now, before) = (self.study.figures(), self.before);
        let ratio = |whole: u64, parts: u64| (parts > 0).then(|| whole as f64 / parts as f64);
        let matches = now.matches - before.matches;
        Some(Details {
            matches,
            mean_match_bytes: ratio(now.matched_bytes - before.matched_bytes, matches),
            bytes_per_fingerprint: ratio(
                now.block_bytes - before.block_bytes,
                now.chunks - before.chunks,
            ),
            false_hits: now.collisions - before.collisions,
            incompressible_blocks: 0,
            opened_bytes: 0,
            token_bytes: 0,
        })
    }
}
