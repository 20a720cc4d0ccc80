//! A block that is encoded without the session.
//!
//! Encoding takes up to milliseconds, and the session is behind the driver's lock. So the session
//! does not encode: it lends its encoder with a block, and takes both back with the frame, or with
//! what was found, if the frame is a [`WriteJob`](crate::WriteJob) of its own.

use crate::flow::FlowId;
use crate::message::Message;
use crate::meter::{Before, SentBlock};
use crate::recall::examined::Markers;
use oncewire_codec::{EncodeError, Encoder, Stream};

/// What a job is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task {
    pub(crate) flow: FlowId,
    pub(crate) lane: usize,
    /// Number of the lane's transport that the frame is for.
    pub(crate) transport: u64,
}

/// Whether the frame of an [`EncodeJob`] may be written by another thread than the one that searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Divides {
    /// It may not, or that is not worth it.
    No,
    /// It may.
    Can,
    /// It has to, because frames before it are being written: call [`EncodeJob::find`].
    Must,
}

/// The encoder ran out of memory or offsets, or was lost. The session cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot encode: {0}")]
pub struct EncoderFailed(String);

impl EncoderFailed {
    pub(crate) fn new(why: impl ToString) -> EncoderFailed {
        EncoderFailed(why.to_string())
    }
}

/// A block and the encoder for it, from [`Session::fill`](crate::Session::fill). Call
/// [`EncodeJob::run`] without a lock on the session, then
/// [`Session::encoded`](crate::Session::encoded); or, where that is possible and another thread is to
/// write the frame, [`EncodeJob::find`] and [`Session::found`](crate::Session::found). A session has
/// at most one.
#[must_use = "the session encodes nothing until it has its encoder back"]
pub struct EncodeJob {
    pub(crate) task: Task,
    pub(crate) log: u64,
    pub(crate) encoder: Box<Encoder>,
    pub(crate) stream: Stream,
    /// The block, and what follows it in the flow as far as the encoder wants to see that.
    pub(crate) content: Vec<u8>,
    /// Bytes of the block.
    pub(crate) len: usize,
    /// Its markers, if they are known.
    pub(crate) markers: Option<Markers>,
    pub(crate) context: usize,
    /// Reset the context first, because it served another domain.
    pub(crate) reset: bool,
    explicit: bool,
    /// Whether to look inside compressed content.
    pub(crate) opens: bool,
    /// Whether to code at level 1.
    pub(crate) hurries: bool,
    /// See [`EncodeJob::divides`].
    pub(crate) divides: Divides,
    /// [`EncodeJob::find`] was called.
    pub(crate) is_found: bool,
    pub(crate) result: Result<(), EncoderFailed>,
    /// Length of the message in bytes.
    pub(crate) written: usize,
    /// The encoder's counts before the block.
    before: Before,
}

impl EncodeJob {
    #[expect(clippy::too_many_arguments, reason = "one caller, which has each of them by name")]
    pub(crate) fn new(
        task: Task,
        log: u64,
        encoder: Box<Encoder>,
        stream: Stream,
        content: Vec<u8>,
        len: usize,
        context: usize,
        reset: bool,
        explicit: bool,
        opens: bool,
    ) -> EncodeJob {
        let result = Err(EncoderFailed::new("a block was not encoded"));
        let before = Before::of(&encoder.stats());
        EncodeJob {
            task,
            log,
            encoder,
            stream,
            content,
            len,
            markers: None,
            context,
            reset,
            explicit,
            opens,
            hurries: false,
            divides: Divides::No,
            is_found: false,
            result,
            written: 0,
            before,
        }
    }

    /// Encodes the block and appends its message to `out`.
    pub fn run(&mut self, out: &mut Vec<u8>) {
        let start = out.len();
        Message::Data(self.task.flow).write(out);
        self.result = self.encode(out).map_err(EncoderFailed::new);
        self.written = out.len() - start;
    }

    /// Does the first half of [`EncodeJob::run`]: finds what the block repeats.
    pub fn find(&mut self) {
        self.prepare();
        let found = self.encoder.find_ahead(&mut self.stream, &self.content, self.len);
        self.result = found.map_err(EncoderFailed::new);
        self.is_found = true;
    }

    /// Whether frame and search can take place on two threads.
    pub fn divides(&self) -> Divides {
        self.divides
    }

    /// Whether its literals are coded at level 1, whatever the level of the session.
    pub fn hurries(&self) -> bool {
        self.hurries
    }

    fn prepare(&mut self) {
        self.encoder.set_explicit_offsets(self.explicit);
        self.encoder.set_opening(self.opens);
        self.encoder.set_hurrying(self.hurries);
    }

    fn encode(&mut self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.prepare();
        if self.reset {
            self.encoder.reset_context(self.context)?;
        }
        self.encoder
            .encode_ahead(&mut self.stream, &self.content, self.len, self.context)?
            .append_to(out);
        Ok(())
    }

    /// Bytes of the block.
    pub fn content(&self) -> usize {
        self.len
    }

    /// Bytes of the block that were opened: see [`InsideStats::opened_bytes`](oncewire_codec::InsideStats::opened_bytes). Call it after
    /// [`EncodeJob::run`].
    pub fn opened(&self) -> u64 {
        self.encoder.stats().inside.opened_bytes - self.before.opened
    }

    /// What the block was, which was run.
    pub(crate) fn block(&self, is_encrypted: bool) -> SentBlock {
        self.before.block(&self.encoder.stats(), self.len, self.written, is_encrypted)
    }
}
