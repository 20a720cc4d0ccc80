//! Checks that `docs/FORMAT.md` is correct and complete: its numbers and worked examples match the
//! code. A second decoder, written from the document alone, reads what encoders write, accepts what
//! the document allows and refuses what it forbids.

use crate::common::content::{History, Rng, noise, piece, text};
use crate::common::params::{Params, max_block, new_content, params};
use crate::common::{config_divided, place};
use document::{document, rows, stated};
use draft::{Draft, decoders};
use forbidden::{AT, laid_out};
use oncewire_codec::pack::{self, Base, Header, PackReader, PackStep};
use oncewire_codec::{
    CachePolicy, ChecksumSeed, DEFAULT_BLOCK, Decoded, Decoder, Domain, Encoder, Entropy,
    FrameError, FrameView, Geometry, MAX_CONTEXTS, Scan, Sharing, Stream, Tokens,
};
use oncewire_family::{MatcherKind, SamplerKind};
use oncewire_second::format::{self as second, No};
use packs::frame_ranges;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::ops::Range;
use written::{read_pack, with_any_policy};

mod allowed;
mod borrowed;
mod columns;
mod document;
mod draft;
mod fixed;
mod forbidden;
mod free;
#[path = "../../vectors/manifest.rs"]
#[allow(dead_code)] // Its writer has no use here.
mod manifest;
mod packs;
mod vectors;
mod written;

fn second_parameters(params: &Params) -> second::Parameters {
    second::Parameters {
        cache: params.cache,
        span: params.span,
        block_limit: params.max_block as u64,
        policy: match params.policy {
            CachePolicy::All => second::Policy::All,
            // Which content is indexed is up to the encoder.
            CachePolicy::NewRuns { .. } => second::Policy::NewRuns,
            CachePolicy::NewBlocks { below_percent } => {
                second::Policy::NewBlocks(below_percent.into())
            }
        },
        contexts: params.contexts,
        session: params.seed.session,
        epoch: params.seed.epoch,
    }
}

/// Passes a frame to both decoders, which must agree. If both find it invalid, their reasons may
/// differ.
fn both(
    first: &mut Decoder,
    second: &mut second::Decoder,
    frame: &[u8],
) -> Result<second::Block, No> {
    let answer = second.decode(frame);
    match (first.decode(frame), &answer) {
        (Ok(Decoded::Block { offset, content, consumed }), Ok(block)) => {
            assert!(content == block.content, "content differs at {offset}");
            assert_eq!((offset, consumed), (block.offset, block.consumed));
        }
        (Ok(Decoded::Missing(ranges)), Err(No::Missing(missing))) => assert_eq!(ranges, missing),
        (Ok(Decoded::NeedMore(more)), Err(No::NeedMore)) => assert!(more > 0),
        (Err(FrameError::Offset { .. }), Err(No::Place)) => {}
        // The order of checks is free.
        (Ok(Decoded::Missing(_)), Err(no)) if *no == second::NO_CONTEXT => {}
        (Err(error), Err(No::Invalid(_))) if !matches!(error, FrameError::Offset { .. }) => {}
        (first, second) => panic!("the decoders disagree: {first:?}, {second:?}"),
    }
    assert_eq!(first.acknowledged(), second.low);
    answer
}
