//! Memory of the sending half, in use and promised.

use super::Outgoing;
use super::log::{SentBlock, SentLog};
use crate::config::encoder_of;
use crate::recall::Recall;
use oncewire_codec::matcher::MatchStats;
use oncewire_codec::{EncoderMemory, Tokens};

/// Bytes that become resident when one byte of a large buffer is touched, on systems with huge
/// pages.
const PAGE: u64 = 2 << 20;
/// Pages of the table that the encoder touches when it is built.
const TRIED: u64 = 4;

impl Outgoing {
    /// Memory in use, in bytes: the written part of the log, and some pages of the table and one for
    /// each fingerprint, so the whole table soon.
    pub(crate) fn memory(&self) -> u64 {
        let of = |log: &SentLog| {
            let filled = log.known.end.saturating_sub(log.begin);
            let EncoderMemory { log: capacity, table, domains, contexts, inside, buffers } =
                log.known.memory;
            let MatchStats { looked_up, indexed_only, .. } = log.known.stats.matcher;
            let touched = (looked_up + indexed_only).saturating_add(TRIED);
            let table = (table as u64).min(touched.saturating_mul(PAGE));
            filled.min(capacity as u64)
                + table
                + (domains
                    + contexts
                    + inside
                    + buffers
                    + log.blocks.len() * size_of::<SentBlock>()) as u64
                + log.places.memory()
                + log.writing.memory() as u64
        };
        self.log.as_ref().map_or(0, of)
            + self.store.memory()
            + self.recall.as_ref().map_or(0, Recall::memory)
            + self.spare_tokens.iter().map(Tokens::memory).sum::<usize>() as u64
            + self.spare_messages.iter().map(Vec::capacity).sum::<usize>() as u64
            + self.rescued.values().map(|rescued| rescued.bytes.len() as u64).sum::<u64>()
    }

    /// Whether anything was sent since the ring began.
    pub(crate) fn is_used(&self) -> bool {
        self.filled() > 0
    }

    /// Most memory, in bytes, that a log of `size` bytes in place of this one, its table and the
    /// contexts in use would take; 0 if nothing was sent since the log began.
    pub(crate) fn promised_memory(&self, size: u64) -> u64 {
        let Some(sent) = self.log.as_ref().filter(|_| self.is_used()) else { return 0 };
        let EncoderMemory { mut log, mut table, contexts, mut inside, .. } = sent.known.memory;
        let mut domains = sent.most_domains;
        if size != self.capacity() {
            EncoderMemory { log, table, domains, inside, .. } =
                encoder_of(&self.template, size, self.contexts).memory();
        }
        (log + table + domains + contexts + inside) as u64
    }
}
