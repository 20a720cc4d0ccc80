//! Algorithms that identify content by name: payload-match (Santos and Wetherall) and chunk-match
//! (EndRE section 5.2.1; Martynov section 3.1).

use super::{Run, Sizes, Tally};
use crate::batch::{Charge, Direction, View};
use oncewire_codec::{ConfigError, Encoder, Finder, Tokens};
use oncewire_family::chunk::ChunkForm;
use oncewire_family::payload::{
    Compressor, KeyedBlake3, Message, PayloadPolicy, Sent, WholePacket,
};
use oncewire_family::{FamilySearch, MatcherKind, SamplerKind};

/// Bytes charged for a token: the name alone, as in the paper. The codec's token also has a
/// checksum.
const TOKEN: u64 = 16;

/// Payload-match, with a dictionary for each direction.
pub(crate) struct PayloadRun {
    policy: PayloadPolicy,
    ends: [Option<Compressor<KeyedBlake3, WholePacket>>; Direction::ALL.len()],
    tally: Tally,
}

impl PayloadRun {
    pub(crate) fn new(cache: u64) -> PayloadRun {
        let policy = PayloadPolicy { capacity: cache, ..PayloadPolicy::default() };
        PayloadRun { policy, ends: [const { None }; Direction::ALL.len()], tally: Tally::default() }
    }

    /// Whether a payload would be sent as a token.
    pub(crate) fn is_token(
        &mut self,
        direction: Direction,
        payload: &[u8],
    ) -> Result<bool, ConfigError> {
        let end = match &mut self.ends[direction.index()] {
            Some(end) => end,
            empty => {
                const EPOCH: u64 = 1;
                let too_big = |_| ConfigError::Capacity {
                    capacity: self.policy.capacity,
                    max: PayloadPolicy::MAX_CAPACITY,
                };
                let mut end = Compressor::new(
                    self.policy.clone(),
                    KeyedBlake3::new([0; 32]),
                    WholePacket,
                    EPOCH,
                )
                .map_err(too_big)?;
                end.receive(Message::ResetDone { epoch: EPOCH })
                    .expect("the compressor expects this answer to its first epoch");
                empty.insert(end)
            }
        };
        Ok(matches!(end.compress(payload), Sent::Token(_)))
    }
}

impl Run for PayloadRun {
    fn batch(&mut self, view: &View<'_>) -> Result<(), ConfigError> {
        for packet in view.batch.packets().iter().filter(|packet| packet.len > 0) {
            if self.is_token(packet.direction, view.batch.payload(packet))? {
                self.tally.add(packet, u64::from(packet.len) - TOKEN);
            }
        }
        Ok(())
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn memory(&self) -> u64 {
        self.ends.iter().flatten().map(|end| end.dictionary().memory() as u64).sum()
    }
}

/// Chunk-match, with a table for each direction. Every chunk counts as acknowledged once its packet
/// was seen. As max-match, it refers to earlier packets only and samples all content alike.
pub(crate) struct ChunkRun {
    form: ChunkForm,
    sampler: SamplerKind,
    window: usize,
    period: usize,
    cache: Sizes,
    charge: Charge,
    finders: [Option<Finder>; Direction::ALL.len()],
    tokens: Tokens,
    tally: Tally,
}

impl ChunkRun {
    pub(crate) fn new(
        form: ChunkForm,
        sampler: SamplerKind,
        window: usize,
        period: usize,
        cache: Sizes,
        charge: Charge,
    ) -> ChunkRun {
        ChunkRun {
            form,
            sampler,
            window,
            period,
            cache,
            charge,
            finders: [const { None }; Direction::ALL.len()],
            tokens: Tokens::default(),
            tally: Tally::default(),
        }
    }
}

impl Run for ChunkRun {
    fn batch(&mut self, view: &View<'_>) -> Result<(), ConfigError> {
        for packet in view.batch.packets().iter().filter(|packet| packet.len > 0) {
            let finder = match &mut self.finders[packet.direction.index()] {
                Some(finder) => finder,
                empty => {
                    let matcher = MatcherKind::ChunkMatch { form: self.form };
                    let cache =
                        self.cache.of(packet.direction).max(oncewire_codec::DEFAULT_BLOCK as u64);
                    let builder =
                        Encoder::builder().cache(cache).window(self.window).period(self.period);
                    let builder = builder
                        .sampler(self.sampler.clone())
                        .search(FamilySearch::new(matcher).earlier_blocks(true));
                    let builder = builder.table_entries(cache / self.period as u64 * 2);
                    empty.insert(builder.build_halves()?.0)
                }
            };
            finder
                .find(view.batch.payload(packet), &mut self.tokens)
                .expect("payloads are shorter than a block");
            finder.acknowledge(self.tokens.offset() + u64::from(packet.len));
            self.tally.add(packet, u64::from(self.charge.saved(self.tokens.matches())));
        }
        Ok(())
    }

    fn tally(&self) -> &Tally {
        &self.tally
    }

    fn memory(&self) -> u64 {
        self.finders.iter().flatten().map(|finder| finder.memory() as u64).sum()
    }
}
