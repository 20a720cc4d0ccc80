//! A block that is decoded without the session.
//!
//! As [`EncodeJob`](crate::EncodeJob), for what the peer sends: the session lends its decoder with
//! the input of a lane, and takes both back with the block.

use crate::flow::FlowId;
use crate::incoming::IncomingError;
use crate::queue::ByteQueue;
use oncewire_codec::{Decoded, Decoder};

/// A frame and the decoder for it, from [`Session::next_decode`](crate::Session::next_decode). Call
/// [`DecodeJob::run`] without a lock on the session, then
/// [`Session::decoded`](crate::Session::decoded). A session has at most one.
#[must_use = "the session decodes nothing until it has its decoder back"]
pub struct DecodeJob {
    pub(crate) lane: usize,
    /// Number of the lane's transport that the frame came on.
    pub(crate) transport: u64,
    pub(crate) flow: FlowId,
    /// The log that the decoder holds.
    pub(crate) log: u64,
    pub(crate) decoder: Box<Decoder>,
    /// What the lane has received and not processed: the message that begins at `from`, whose frame
    /// begins at `at`, and what follows.
    pub(crate) input: ByteQueue,
    pub(crate) from: usize,
    pub(crate) at: usize,
    pub(crate) outcome: Outcome,
}

/// What became of a frame.
pub(crate) enum Outcome {
    /// The block at `offset` of the log, and the length of its frame.
    Block {
        offset: u64,
        content: Vec<u8>,
        consumed: usize,
    },
    /// The frame needs this many more bytes.
    NeedMore(usize),
    /// The frame refers to content that will arrive on another lane.
    Waiting,
    Failed(IncomingError),
}

impl DecodeJob {
    /// Decodes the frame.
    pub fn run(&mut self) {
        let frame = self.input.bytes().get(self.at..).unwrap_or_default();
        self.outcome = match self.decoder.decode(frame) {
            Ok(Decoded::NeedMore(more)) => Outcome::NeedMore(more),
            Ok(Decoded::Missing(_)) => Outcome::Waiting,
            Ok(Decoded::Block { offset, content, consumed }) => {
                Outcome::Block { offset, content: content.to_vec(), consumed }
            }
            Err(error) => Outcome::Failed(error.into()),
        };
    }

    /// Bytes of the block; 0 before [`DecodeJob::run`], and if there is none.
    pub fn content(&self) -> usize {
        match &self.outcome {
            Outcome::Block { content, .. } => content.len(),
            _ => 0,
        }
    }
}
