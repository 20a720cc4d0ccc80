//! The counted messages that a lane keeps until the peer has processed them.

use crate::flow::FlowId;
use crate::limits::{MAX_CONTROL, MAX_UNACKNOWLEDGED};
use crate::message::Message;
use crate::message::kind::GO_AWAY;
use crate::outgoing::log::BlockId;
use std::collections::VecDeque;

/// A counted message that the peer is not known to have processed.
#[derive(Debug)]
pub(crate) enum Counted {
    /// DATA: kept as the name of its block, which the encoder can repeat.
    Block(FlowId, BlockId),
    /// Any other message, as bytes.
    Control(Box<[u8]>),
    /// EPOCH: written from the encoder's state when it is sent.
    Epoch,
}

#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Counted messages from `acknowledged` on; the first `sent` of them were written to this
    /// transport.
    messages: VecDeque<Counted>,
    sent: usize,
    /// Bytes of [`Counted::Control`] among `messages`.
    control_bytes: usize,
    /// Bytes of PAD that were written to this transport after so many messages, ascending, and
    /// their sum. The peer may keep them until it has processed these messages.
    padding: VecDeque<(u64, usize)>,
    padding_bytes: usize,
    /// Messages that the peer has processed, and messages ever written to any transport.
    acknowledged: u64,
    written: u64,
    /// The log whose EPOCH was queued last.
    log: u64,
}

impl Outbox {
    /// A new transport: everything unacknowledged is to be sent again.
    pub(super) fn restart(&mut self) {
        self.sent = 0;
        self.padding.clear();
        self.padding_bytes = 0;
    }

    /// Bytes of PAD follow what was written.
    pub(super) fn padded(&mut self, bytes: usize) {
        let at = self.acknowledged + self.sent as u64;
        if self.sent == 0 {
            // The peer has processed everything before.
            return;
        }
        self.padding_bytes += bytes;
        match self.padding.back_mut() {
            Some((last, sum)) if *last == at => *sum += bytes,
            _ => self.padding.push_back((at, bytes)),
        }
    }

    pub(super) fn push_control(&mut self, message: &Message<'_>) {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        self.control_bytes += bytes.len();
        self.messages.push_back(Counted::Control(bytes.into()));
    }

    pub(super) fn next_unsent(&self) -> Option<&Counted> {
        self.messages.get(self.sent)
    }

    pub(super) fn reencoded(&mut self, flow: FlowId, block: BlockId) {
        self.messages[self.sent] = Counted::Block(flow, block);
    }

    pub(super) fn wrote_one(&mut self) {
        self.sent += 1;
        self.written = self.written.max(self.acknowledged + self.sent as u64);
    }

    /// A new block was written to this transport after what was. Messages that were queued while it
    /// was encoded follow it.
    pub(super) fn wrote_block(&mut self, flow: FlowId, block: BlockId) {
        self.messages.insert(self.sent, Counted::Block(flow, block));
        self.wrote_one();
    }

    /// A new block could not be written, because the transport that it was encoded for is gone.
    pub(super) fn queue_block(&mut self, flow: FlowId, block: BlockId) {
        self.messages.push_back(Counted::Block(flow, block));
    }

    pub(super) fn is_full(&self) -> bool {
        self.messages.len() >= MAX_UNACKNOWLEDGED
            || self.control_bytes + self.padding_bytes >= MAX_CONTROL
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(super) fn acknowledge(&mut self, count: u64) -> Option<Vec<Counted>> {
        let done = usize::try_from(count.checked_sub(self.acknowledged)?).ok()?;
        if done > self.messages.len() || count > self.written {
            return None;
        }
        self.acknowledged = count;
        self.sent = self.sent.saturating_sub(done);
        let done: Vec<Counted> = self.messages.drain(..done).collect();
        let len =
            |message: &Counted| if let Counted::Control(bytes) = message { bytes.len() } else { 0 };
        self.control_bytes -= done.iter().map(len).sum::<usize>();
        while let Some(&(at, bytes)) = self.padding.front()
            && at <= count
        {
            self.padding.pop_front();
            self.padding_bytes -= bytes;
        }
        Some(done)
    }

    pub(super) fn begin_log(&mut self, log: u64, first: bool) {
        self.log = log;
        if first {
            self.messages.retain(|message| !matches!(message, Counted::Epoch));
            self.messages.push_front(Counted::Epoch);
        } else {
            self.messages.push_back(Counted::Epoch);
        }
    }

    pub(super) fn log(&self) -> u64 {
        self.log
    }

    pub(super) fn has_epoch(&self) -> bool {
        self.messages.iter().any(|message| matches!(message, Counted::Epoch))
    }

    pub(super) fn has_go_away(&self) -> bool {
        self.messages.iter().any(|message| match message {
            Counted::Control(bytes) => bytes.first() == Some(&GO_AWAY),
            Counted::Block(..) | Counted::Epoch => false,
        })
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn was_used(&self) -> bool {
        self.written > 0
    }

    pub(super) fn memory(&self) -> usize {
        self.messages.len() * size_of::<Counted>() + self.padding.len() * size_of::<(u64, usize)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_counts_until_what_was_before_it_is_acknowledged() {
        let mut outbox = Outbox::default();
        outbox.padded(2 * MAX_CONTROL);
        assert!(!outbox.is_full(), "nothing is unacknowledged");
        for flow in 0..3 {
            outbox.push_control(&Message::Fin(FlowId(flow)));
            outbox.wrote_one();
            outbox.padded(MAX_CONTROL / 2);
            outbox.padded(1);
        }
        assert!(outbox.is_full());
        assert!(outbox.acknowledge(1).is_some() && outbox.is_full());
        assert!(outbox.acknowledge(2).is_some() && !outbox.is_full());
        outbox.padded(MAX_CONTROL / 2);
        assert!(outbox.is_full());
        outbox.restart();
        assert!(!outbox.is_full(), "they went with their transport");
        outbox.wrote_one();
        outbox.padded(MAX_CONTROL);
        assert!(outbox.is_full());
        assert!(outbox.acknowledge(3).is_some() && !outbox.is_full());
        assert_eq!(outbox.padding_bytes, 0);
    }

    #[test]
    fn a_count_cannot_fall_or_exceed_what_was_written() {
        let mut outbox = Outbox::default();
        for flow in 0..4 {
            outbox.push_control(&Message::Fin(FlowId(flow)));
        }
        (0..3).for_each(|_| outbox.wrote_one());
        assert!(outbox.acknowledge(4).is_none(), "the fourth was never written");
        assert_eq!(outbox.acknowledge(2).map(|done| done.len()), Some(2));
        assert!(outbox.acknowledge(1).is_none(), "less than before");

        // After a lost transport, the third is sent again and the fourth for the first time.
        outbox.restart();
        assert_eq!(
            outbox.acknowledge(3).map(|done| done.len()),
            Some(1),
            "it was written to the transport before"
        );
        assert!(outbox.next_unsent().is_some() && outbox.acknowledge(4).is_none());
        outbox.wrote_one();
        assert!(
            outbox.next_unsent().is_none() && outbox.acknowledge(4).is_some() && outbox.is_empty()
        );
        assert_eq!(outbox.control_bytes, 0);
    }
}
