//! Our codec as a candidate.

use super::candidate::{Candidate, Details, Wire, compare};
use crate::failure::{Failure, Outcome};
use crate::setup::config_failure;
use oncewire_codec::{Decoded, Decoder, DecoderBuilder, Encoder, EncoderBuilder, EncoderStats};
use oncewire_flash::IndexSearch;

pub(super) struct Oncewire {
    encoder: Encoder,
    decoder: Decoder,
    before: EncoderStats,
    /// Knows whether a table on flash failed.
    on_flash: Option<IndexSearch>,
}

impl Oncewire {
    pub(super) fn new(
        encoder: EncoderBuilder,
        decoder: DecoderBuilder,
        on_flash: Option<IndexSearch>,
    ) -> Outcome<Oncewire> {
        let encoder = encoder.build().map_err(config_failure)?;
        let decoder = decoder.build().map_err(config_failure)?;
        Ok(Oncewire { encoder, decoder, before: EncoderStats::default(), on_flash })
    }
}

impl Candidate for Oncewire {
    fn encode(&mut self, data: &[u8], block: usize, _: bool, wire: &mut Wire) -> Outcome {
        self.before = self.encoder.stats();
        for block in data.chunks(block) {
            let frame = self
                .encoder
                .encode_frame(block, 0)
                .map_err(|error| Failure::failed(format!("cannot encode: {error}")))?;
            for part in frame.parts() {
                wire.part(part, data);
            }
            // As if the acknowledgement arrived at once; only chunk-match needs it.
            self.encoder.acknowledge(self.encoder.end());
        }
        match self.on_flash.as_ref().and_then(IndexSearch::error) {
            Some(error) => Err(Failure::failed(format!("the table on flash failed: {error}"))),
            None => Ok(()),
        }
    }

    fn decode(&mut self, wire: &Wire, _: usize, _: usize, check: Option<&[u8]>) -> Outcome {
        let (mut rest, mut at) = (wire.bytes(), 0);
        while !rest.is_empty() {
            match self.decoder.decode(rest) {
                Ok(Decoded::Block { content, consumed, .. }) => {
                    compare(content, at, check, "oncewire")?;
                    at += content.len();
                    rest = &rest[consumed..];
                }
                other => {
                    return Err(Failure::failed(format!(
                        "cannot decode our own frames: {other:?}; please report this"
                    )));
                }
            }
        }
        Ok(())
    }

    fn prefault(&mut self) -> Outcome {
        self.encoder.prefault();
        self.decoder.prefault();
        Ok(())
    }

    fn memory(&self) -> (usize, usize) {
        (self.encoder.memory().total(), self.decoder.memory().total())
    }

    fn details(&self) -> Option<Details> {
        let (now, before) = (self.encoder.stats(), self.before);
        let matches = now.matches - before.matches;
        let looked_up = now.matcher.looked_up - before.matcher.looked_up;
        let ratio = |whole: u64, parts: u64| (parts > 0).then(|| whole as f64 / parts as f64);
        Some(Details {
            matches,
            mean_match_bytes: ratio(now.matched_bytes - before.matched_bytes, matches),
            bytes_per_fingerprint: ratio(
                now.matcher.sampled_bytes - before.matcher.sampled_bytes,
                looked_up,
            ),
            false_hits: now.matcher.false_hits - before.matcher.false_hits,
            incompressible_blocks: now.incompressible_blocks - before.incompressible_blocks,
            opened_bytes: now.inside.opened_bytes - before.inside.opened_bytes,
            token_bytes: now.inside.found_bytes - before.inside.found_bytes,
        })
    }
}
