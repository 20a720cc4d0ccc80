//! Follows what a flow carries: one stream of bytes, or those of an HTTP/2 connection.

use crate::inside::follow::connection::{Connection, Next};
use crate::inside::follow::container::begins_encrypted;
use crate::inside::follow::frames::Frame;
use crate::inside::follow::opened::{Among, Opened};
use crate::inside::follow::opener::Opener;
use crate::inside::follow::passed::Passed;
use crate::inside::follow::streams::StreamCounts;
use std::ops::Range;

/// Position of a flow in what it carries.
#[derive(Debug, Default)]
pub(in crate::inside) struct Follower {
    /// Of what is not in frames of HTTP/2.
    opener: Opener,
    connection: Option<Connection>,
    /// Content of the flow was opened, or lost.
    is_begun: bool,
    counts: StreamCounts,
    /// Content of the flow that was skipped since the last block that was opened.
    passed: Option<Passed>,
}

impl Follower {
    /// Memory of a follower in bytes, at most, without those of streams: [`Opener::MEMORY`] each.
    pub(in crate::inside) const MEMORY: usize =
        size_of::<Follower>() + Opener::MEMORY + Connection::MEMORY + Passed::MEMORY;

    /// Opens the next block of the flow, which goes to `offset` in the log.
    pub(in crate::inside) fn open(&mut self, block: &[u8], offset: u64, opened: &mut Opened) {
        opened.clear(block.len());
        let mut at = 0;
        if !std::mem::replace(&mut self.is_begun, true) {
            if let Some((connection, preface)) = Connection::beginning(block) {
                (self.connection, at) = (Some(connection), preface);
            } else if begins_encrypted(block) {
                self.opener.expect_no_middles();
            }
        }
        while at < block.len() {
            let Some(connection) = &mut self.connection else {
                at = self.opener.open(block, at..block.len(), offset, opened);
                if let Some((stream, left)) = self.opener.enclosing() {
                    let opener = std::mem::take(&mut self.opener);
                    self.connection = Some(Connection::around(stream, left, opener.in_stream()));
                }
                continue;
            };
            match connection.step(&block[at..]) {
                Next::Skip(len) => at += len,
                Next::Content { len, stream } => {
                    let ended = opened.zstd.len();
                    let opener = connection.stream(stream);
                    opener.open(block, at..at + len, offset, opened);
                    opened.zstd[ended..].iter_mut().for_each(|block| block.stream = stream);
                    at += len;
                }
                Next::Lost => self.leave(),
            }
        }
    }

    /// Streams of HTTP/2 that are followed.
    pub(in crate::inside) fn streams(&self) -> usize {
        self.connection.as_ref().map_or(0, Connection::streams)
    }

    /// Whether a stream of HTTP/2 is followed.
    pub(in crate::inside) fn has_stream(&self, stream: u32) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.has(stream))
    }

    /// Drops the least recently used stream of HTTP/2, if there is any.
    pub(in crate::inside) fn drop_stream(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.drop_stream();
        }
    }

    /// What follows is not in frames, as far as is known.
    fn leave(&mut self) {
        if let Some(mut connection) = self.connection.take() {
            self.counts += connection.take_counts();
        }
    }

    /// The flow continues with content of the log that is skipped. If it equals earlier content,
    /// that ends at `source`.
    pub(in crate::inside) fn pass(&mut self, content: Range<u64>, source: Option<u64>) {
        self.passed.get_or_insert_default().push(content, source);
    }

    /// Where a block that holds the first `most` bytes of what follows in the flow ends best, if that
    /// matters: see [`Frame::cut`] and [`Connection::cut`].
    pub(in crate::inside) fn cut(&self, content: &[u8], most: usize) -> Option<usize> {
        match (&self.connection, &self.passed) {
            (None, None) => self.opener.cut(content, most),
            (Some(connection), None) => connection.cut(content, most),
            _ => None,
        }
    }

    /// Takes the content skipped since the last block that was opened.
    pub(in crate::inside) fn passed(&mut self) -> Option<Passed> {
        self.passed.take()
    }

    /// Sets the flow's position to this place of the log.
    pub(in crate::inside) fn resume(&mut self, among: Among) {
        self.lose();
        self.opener.resume(among);
    }

    /// Sets the flow's position to this place in a zstd frame.
    pub(in crate::inside) fn resume_frame(&mut self, frame: Frame) {
        self.lose();
        self.opener.resume_frame(frame);
    }

    /// The next block of the flow is not opened, and its position is forgotten.
    pub(in crate::inside) fn decline(&mut self, block: &[u8]) {
        // Only the first block of a flow says that it is encrypted.
        if !self.is_begun && begins_encrypted(block) {
            self.opener.expect_no_middles();
        }
        self.lose();
    }

    /// Forgets the flow's position.
    pub(in crate::inside) fn lose(&mut self) {
        self.leave();
        self.opener.lose();
        (self.is_begun, self.passed) = (true, None);
    }

    /// Takes the counts of streams since they were last taken.
    pub(in crate::inside) fn take_counts(&mut self) -> StreamCounts {
        let mut counts = std::mem::take(&mut self.counts);
        counts += std::mem::take(&mut self.opener.counts);
        if let Some(connection) = &mut self.connection {
            counts += connection.take_counts();
        }
        counts
    }
}
