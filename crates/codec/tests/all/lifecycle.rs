//! Round trips with every matcher, table, policy and effort, while both ends change between blocks.

use crate::common::config;
use crate::common::content::{History, Piece, piece};
use crate::common::params::{Params, max_block, new_content, params};
use oncewire_codec::{CachePolicy, ChecksumSeed, Decoded, Decoder, Encoder};
use oncewire_family::MatcherKind;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Block { pieces: Vec<Piece>, context: usize, fate: Fate },
    Prime(Vec<Piece>),
    Effort(usize),
    Period(usize),
    Acknowledge,
    Rewind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Arrives,
    /// Corrupt, and replaced by a repair if there is one.
    Repaired,
    /// Lost without a repair, so a rewind is necessary.
    Lost,
}

fn step() -> impl Strategy<Value = Step> {
    let pieces = || proptest::collection::vec(piece(), 0..5);
    let fate =
        prop_oneof![12 => Just(Fate::Arrives), 1 => Just(Fate::Repaired), 1 => Just(Fate::Lost)];
    prop_oneof![
        12 => (pieces(), 0usize..4, fate).prop_map(|(pieces, context, fate)| Step::Block { pieces, context, fate }),
        1 => pieces().prop_map(Step::Prime),
        2 => (0usize..20).prop_map(Step::Effort),
        1 => (4usize..=1024).prop_map(Step::Period),
        4 => Just(Step::Acknowledge),
        2 => Just(Step::Rewind),
    ]
}

struct Link {
    params: Params,
    encoder: Encoder,
    decoder: Decoder,
    epoch: u64,
    /// Blocks were lost since the last rewind.
    broken: bool,
}

impl Link {
    fn new(params: Params) -> Link {
        let (encoder, decoder) = (params.encoder(), params.decoder());
        Link { params, encoder, decoder, epoch: 0, broken: false }
    }

    fn rewind(&mut self) {
        self.epoch += 1;
        let seed = ChecksumSeed { session: 9, epoch: self.epoch };
        if self.encoder.rewind(self.decoder.acknowledged(), seed).is_ok() {
            self.decoder.rewind(seed);
        } else {
            // As in a session, both start over with empty logs.
            self.params.seed = seed;
            (self.encoder, self.decoder) = (self.params.encoder(), self.params.decoder());
        }
        self.broken = false;
        assert_eq!(self.encoder.end(), self.decoder.acknowledged());
    }

    fn send(&mut self, block: &[u8], context: usize, fate: Fate) {
        let mut frame = Vec::new();
        self.encoder.encode_frame(block, context).unwrap().append_to(&mut frame);
        // A log of new content only may have nothing to repair with.
        if fate == Fate::Repaired && self.params.policy == CachePolicy::All {
            let (offset, mut repair) = (self.encoder.end() - block.len() as u64, Vec::new());
            if self.encoder.repair(offset, block.len(), &mut repair).is_ok() {
                *frame.last_mut().unwrap() ^= 1;
                let answer = self.decoder.decode(&frame);
                assert!(self.broken || answer.is_err(), "{answer:?}");
                self.encoder.reset_context(context).unwrap();
                frame = repair;
            }
        }
        if fate == Fate::Lost {
            self.broken = true;
            return;
        }
        match self.decoder.decode(&frame) {
            Ok(Decoded::Block { content, .. }) => assert!(content == block, "wrong bytes"),
            other => assert!(self.broken, "{other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn blocks_decode_whatever_happens_between_them(
        params in params(max_block()),
        policy in prop_oneof![2 => Just(CachePolicy::All), 1 => new_content()],
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let chunks = matches!(params.matcher, MatcherKind::ChunkMatch { .. });
        let policy = if chunks { CachePolicy::All } else { policy };
        let span = if policy == CachePolicy::All { params.span } else { 0 };
        let efforts = params.encoder_builder().ladder().unwrap().efforts().to_vec();
        let mut link = Link::new(Params { policy, span, ..params });
        let mut history = History::default();
        for step in steps {
            let mut block = |pieces: &[Piece]| history.block(pieces, link.params.max_block, link.params.cache);
            match step {
                Step::Block { pieces, context, fate } => {
                    let block = block(&pieces);
                    link.send(&block, context % link.params.contexts, fate);
                }
                Step::Prime(pieces) if !link.broken => {
                    let content = block(&pieces);
                    link.encoder.prime(&content).unwrap();
                    link.decoder.prime(&content);
                }
                Step::Prime(_) => {}
                Step::Effort(at) => link.encoder.set_effort(efforts[at % efforts.len()]),
                Step::Period(period) => link.encoder.set_period(period).unwrap(),
                Step::Acknowledge => link.encoder.acknowledge(link.decoder.acknowledged()),
                Step::Rewind => link.rewind(),
            }
            if !link.broken {
                prop_assert_eq!(link.encoder.end(), link.decoder.acknowledged());
            }
        }
    }
}
