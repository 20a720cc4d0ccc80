//! Frames that are written while the encoder searches further blocks.

use super::Outgoing;
use super::log::{BlockId, SentLog};
use crate::encode_job::{EncoderFailed, Task};
use crate::meter::SentBlock;
use crate::write_job::WriteJob;
use oncewire_codec::FrameWriter;
use std::collections::VecDeque;

/// Most blocks of all lanes between search and transport: what the memory of a session has room for
/// ([`notes_memory`](crate::config::notes_memory)).
pub(crate) const MOST_WRITING: usize = 4;

/// What of an [`EncodeJob`](crate::EncodeJob) its frame is written from.
pub(super) struct FoundJob {
    pub(super) task: Task,
    pub(super) content: Vec<u8>,
    pub(super) len: usize,
    pub(super) context: usize,
    pub(super) reset: bool,
    pub(super) opened: u64,
    pub(super) opens: bool,
}

/// The second half of a log's encoder while that is apart.
#[derive(Default)]
pub(super) struct Writing {
    /// The writer, while neither the encoder nor a job has it.
    writer: Option<Box<FrameWriter>>,
    /// Its number, of those that left an encoder; 0 for none.
    generation: u64,
    /// A job has it.
    is_out: bool,
    /// What it is to write.
    queue: VecDeque<WriteJob>,
}

impl Writing {
    fn is_idle(&self) -> bool {
        !self.is_out && self.queue.is_empty()
    }

    /// Memory of what waits, in bytes.
    pub(super) fn memory(&self) -> usize {
        let of =
            |job: &WriteJob| job.content.capacity() + job.message.capacity() + job.tokens.memory();
        self.queue.iter().map(of).sum()
    }
}

impl Outgoing {
    /// Whether a frame is being written, or waits for that.
    pub(crate) fn is_writing(&self) -> bool {
        self.log.as_ref().is_some_and(|log| !log.writing.is_idle())
    }

    /// Whether the block that was searched last had many literals to code.
    pub(crate) fn writes_much(&self) -> bool {
        self.writes_much
    }

    /// The block of `job` is in the log: queues its frame.
    pub(super) fn queue_frame(&mut self, job: FoundJob, block: BlockId, sent: SentBlock) {
        let tokens = self.spare_tokens.pop().unwrap_or_default();
        let message = self.spare_messages.pop().unwrap_or_default();
        let generation = self.generations + 1;
        let Some(SentLog { encoder: Some(encoder), writing, .. }) = &mut self.log else { return };
        if let Some(writer) = encoder.take_writer() {
            self.generations = generation;
            (writing.writer, writing.generation) = (Some(writer), generation);
        }
        let FoundJob { task, content, len, context, reset, opened, opens } = job;
        let result = Err(EncoderFailed::new("a frame was not written"));
        writing.queue.push_back(WriteJob {
            task,
            block,
            sent,
            opened,
            opens,
            generation: writing.generation,
            writer: None,
            tokens: encoder.take_tokens(tokens),
            content,
            len,
            context,
            reset,
            message,
            result,
        });
    }

    /// The next frame to write, unless one is being written.
    pub(crate) fn next_write(&mut self) -> Option<WriteJob> {
        let writing = &mut self.log.as_mut()?.writing;
        let writer = writing.writer.take_if(|_| !writing.queue.is_empty())?;
        let mut job = writing.queue.pop_front()?;
        job.writer = Some(writer);
        writing.is_out = true;
        Some(job)
    }

    /// Takes back what [`Outgoing::next_write`] lent. Returns the message.
    pub(crate) fn take_written(&mut self, job: WriteJob) -> Result<Vec<u8>, EncoderFailed> {
        let WriteJob { generation, writer, tokens, content, message, result, .. } = job;
        self.keep_spare(content);
        if self.spare_tokens.len() < MOST_WRITING {
            self.spare_tokens.push(tokens);
        }
        if let Some(log) = self.log.as_mut().filter(|log| log.writing.generation == generation) {
            log.writing.writer = writer;
            log.writing.is_out = false;
            // So that its memory is known again.
            log.join();
            self.apply_resets();
        }
        result.map(|()| message)
    }

    /// Keeps the buffer of a message for the next one.
    pub(crate) fn keep_message(&mut self, message: Vec<u8>) {
        if self.spare_messages.len() < MOST_WRITING {
            self.spare_messages.push(message);
        }
    }

    /// Resets a lane's entropy contexts, because its transport is new.
    pub(crate) fn reset_contexts(&mut self, lane: usize) {
        let Some(log) = &mut self.log else { return };
        log.join();
        let mut contexts = self.pool.of_lane(lane);
        if !contexts.all(|context| log.reset_context(context)) && !self.resets.contains(&lane) {
            self.resets.push(lane);
        }
    }

    /// Resets what had to wait for the encoder or its writer.
    pub(super) fn apply_resets(&mut self) {
        let resets = std::mem::take(&mut self.resets);
        resets.into_iter().for_each(|lane| self.reset_contexts(lane));
    }
}

impl SentLog {
    /// Joins the halves of the encoder, if it is here and nothing is being written.
    pub(super) fn join(&mut self) {
        if self.writing.is_idle()
            && let Some(encoder) = &mut self.encoder
            && let Some(writer) = self.writing.writer.take()
        {
            encoder.return_writer(writer);
        }
    }

    /// Gives up what is being written. The encoder gets another writer.
    pub(super) fn stop_writing(&mut self) {
        self.join();
        self.writing = Writing::default();
        if let Some(encoder) = self.encoder.as_mut().filter(|encoder| !encoder.has_writer()) {
            encoder.renew_writer();
        }
    }

    /// Resets an entropy context. Returns `false` if the writer is not here.
    pub(super) fn reset_context(&mut self, context: usize) -> bool {
        // Cannot fail otherwise: there are as many contexts as the pool has.
        let encoder = self.encoder.as_mut().filter(|encoder| encoder.has_writer());
        if let Some(encoder) = encoder {
            let _ = encoder.reset_context(context);
            return true;
        }
        let writer = self.writing.writer.as_mut();
        writer.is_some_and(|writer| writer.reset_context(context).is_ok())
    }
}
