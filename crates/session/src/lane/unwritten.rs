//! Blocks that have left their flows and whose frames are not on the transport yet, because they are
//! written while the search for further blocks goes on.

use crate::flow::FlowId;
use crate::meter::SentBlock;
use crate::outgoing::log::BlockId;
use std::collections::VecDeque;

#[derive(Debug)]
struct Block {
    flow: FlowId,
    id: BlockId,
    /// Where it ends in the log.
    end: u64,
    /// The message, once it is written.
    message: Option<Vec<u8>>,
    sent: SentBlock,
}

/// A block whose message is written, and which is the lane's next.
pub(crate) struct Written {
    pub(crate) flow: FlowId,
    pub(crate) id: BlockId,
    pub(crate) end: u64,
    pub(crate) message: Vec<u8>,
    pub(crate) sent: SentBlock,
}

/// In the order in which they follow each other on the lane.
#[derive(Debug, Default)]
pub(super) struct Unwritten(VecDeque<Block>);

impl Unwritten {
    pub(super) fn push(&mut self, flow: FlowId, id: BlockId, end: u64, sent: SentBlock) {
        self.0.push_back(Block { flow, id, end, message: None, sent });
    }

    /// The message of a block is written.
    pub(super) fn write(&mut self, id: BlockId, message: Vec<u8>) {
        if let Some(block) = self.0.iter_mut().find(|block| block.id == id) {
            block.sent.wire = message.len() as u64;
            block.message = Some(message);
        }
    }

    /// Takes the first block, if its message is written.
    pub(super) fn take(&mut self) -> Option<Written> {
        let message = self.0.front_mut()?.message.take()?;
        let Block { flow, id, end, sent, .. } = self.0.pop_front()?;
        Some(Written { flow, id, end, message, sent })
    }

    /// Whether the first one is written.
    pub(super) fn is_ready(&self) -> bool {
        self.0.front().is_some_and(|block| block.message.is_some())
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes all blocks, which are to be sent on another transport.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = (FlowId, BlockId)> {
        self.0.drain(..).map(|block| (block.flow, block.id))
    }

    pub(super) fn memory(&self) -> usize {
        let of = |block: &Block| block.message.as_ref().map_or(0, Vec::capacity);
        self.0.iter().map(|block| size_of::<Block>() + of(block)).sum()
    }
}
