//! A frame that is written while the search for the next ones goes on.
//!
//! The second half of an [`EncodeJob`](crate::EncodeJob), for a driver with another thread.

use crate::encode_job::{EncoderFailed, Task};
use crate::message::Message;
use crate::meter::SentBlock;
use crate::outgoing::log::BlockId;
use oncewire_codec::{FrameWriter, Tokens};

/// A block whose repeats were found, and what writes its frame, from
/// [`Session::next_write`](crate::Session::next_write). Call [`WriteJob::run`] without a lock on the
/// session, then [`Session::written`](crate::Session::written). A session has at most one.
#[must_use = "the session writes no other frame until it has its writer back"]
pub struct WriteJob {
    pub(crate) task: Task,
    pub(crate) block: BlockId,
    /// What it was; the length of its message is not known yet.
    pub(crate) sent: SentBlock,
    /// Bytes of it that were opened.
    pub(crate) opened: u64,
    /// It was to be opened.
    pub(crate) opens: bool,
    /// Which of a session's writers has its entropy context.
    pub(crate) generation: u64,
    pub(crate) writer: Option<Box<FrameWriter>>,
    pub(crate) tokens: Tokens,
    pub(crate) content: Vec<u8>,
    /// Bytes of the block, which `content` begins with.
    pub(crate) len: usize,
    pub(crate) context: usize,
    /// Reset the context first.
    pub(crate) reset: bool,
    /// The message, once it is written.
    pub(crate) message: Vec<u8>,
    pub(crate) result: Result<(), EncoderFailed>,
}

impl WriteJob {
    /// Writes the block's message.
    pub fn run(&mut self) {
        self.result = self.write();
    }

    fn write(&mut self) -> Result<(), EncoderFailed> {
        self.message.clear();
        Message::Data(self.task.flow).write(&mut self.message);
        let missing = || EncoderFailed::new("it is lent");
        let writer = self.writer.as_mut().ok_or_else(missing)?;
        if self.reset {
            writer.reset_context(self.context).map_err(EncoderFailed::new)?;
        }
        let block = self.content.get(..self.len).unwrap_or_default();
        let frame = writer.write(&self.tokens, block, self.context).map_err(EncoderFailed::new)?;
        frame.append_to(&mut self.message);
        Ok(())
    }
}
