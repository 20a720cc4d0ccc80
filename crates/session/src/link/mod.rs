//! The packet link as state machines without I/O: IP packets between two sites in sealed datagrams.
//!
//! `docs/LINK.md` specifies the bytes. A link has two halves, so that two threads can work on it:
//! the [`Sender`] turns packets and runs into batches of datagrams, the [`Receiver`] turns opened
//! datagrams into packets and runs. What one half must know of the other is plain data
//! ([`Feedback`]). Neither half has a socket, a clock, a key or a random number, and neither knows IP:
//! the driver says where the payload begins and, by a [`Layout`], where the fields of a header are; it
//! seals and opens.
//!
//! Both halves outlive the keys of a connection: counters go on when keys are renewed. They end when
//! either end has lost its own.
//!
//! The driver:
//!
//! 1. passes each packet or run to [`Sender::enqueue`] and takes batches with [`Sender::transmit`];
//! 2. asks [`Receiver::admits`] before it opens a datagram, and calls [`Receiver::receive`] after;
//! 3. moves [`Receiver::feedback`] to [`Sender::feedback`] after each batch of received datagrams;
//! 4. calls [`Sender::transmit`] again at [`Sender::deadline`], and [`Receiver::expire`] at
//!    [`Receiver::deadline`];
//! 5. tells the sender of each new connection ([`Sender::connected`]), and carries messages of both
//!    halves ([`Sender::message`], [`Receiver::log`]).
//!
//! Each direction has a content log. The sender finds what repeats, and refers to it; the receiver
//! stores what it decodes, and acknowledges a datagram once all of it is stored. A frame that lacks
//! content waits for a while, as paths reorder. Then it is rejected: the sender refers to what is
//! missing no more, and sends the frame's content whole.
//!
//! Invariants: what is delivered is what was enqueued, however datagrams are lost, reordered or
//! repeated, and whatever an end has forgotten; memory is bounded; work is proportional to bytes.

mod acks;
mod black_hole;
mod classifier;
mod contexts;
pub mod control;
mod duplicates;
mod headers;
mod in_flight;
mod inner_acks;
mod logs;
mod nodes;
mod pieces;
pub mod queue;
mod receiver;
mod record_error;
mod records;
mod rejection;
mod replay;
mod retransmissions;
mod runs;
mod sender;
mod terms;
#[cfg(test)]
mod testing;
mod waiting;

pub use acks::{Acknowledgment, LOST_AFTER, MAX_DELAY, MAX_RANGES};
pub use black_hole::SMALL_DATAGRAM;
pub use classifier::{Classifier, FIRST_BYPASS, LONGEST_BYPASS, Route, TRIAL};
pub use contexts::{TRAIN_AFTER, TrainedContext, TrainingJob};
pub use duplicates::{Duplicates, SMALL};
pub use headers::{Fields, Implied, Layout, MAX_KEPT, MAX_SLOTS, REFERENCES, write_whole_header};
pub use logs::{LEAST_LOG, LogOffer, LogRefused, LogSettings, MOST_LOG, REORDER_WINDOW};
pub use nodes::{NodeKind, NodeRecord};
pub use pieces::{MAX_INCOMPLETE, REASSEMBLY};
pub use receiver::{Receiver, ReceiverStats, Violation};
pub use record_error::RecordError;
pub use records::{MAX_PACKET, MAX_PIECES, MAX_SEGMENTS, PacketRecord, Record, Records, Segments};
pub use rejection::{MAX_LACKING, Reason, Rejection};
pub use replay::{COUNTERS, REPLAY_WINDOW, ReplayWindow};
pub use runs::{Batch, Delivered, Delivery, HEADER, TAG};
pub use sender::{Dropped, FULL_BATCH, Inbound, Policy, Sender, SenderStats};
pub use terms::{ContextTerms, LogTerms, MAX_CONTEXTS, MAX_PARTS};

/// Bytes that sealing adds to a datagram's records.
pub const SEAL: usize = HEADER + TAG;
/// Bytes that a datagram with a single full segment has beside the inner packet: the seal; head, slot,
/// control byte and header length; number, count and size of the segment; flags and offset of the
/// frame.
pub const OVERHEAD: usize = SEAL + 12;

/// What a [`Receiver`] tells the [`Sender`] of the same end.
#[derive(Debug, Default)]
pub struct Feedback {
    /// What the peer has acknowledged.
    acknowledged: Vec<Acknowledgment>,
    /// What to acknowledge.
    acknowledgment: Acknowledgment,
    /// Inner bytes received that are to be acknowledged and were not reported here before.
    bytes: u64,
    /// What the peer has rejected.
    rejected: Vec<Rejection>,
    /// What to reject.
    rejections: Vec<Rejection>,
}
