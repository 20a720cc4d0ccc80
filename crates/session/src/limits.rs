//! Limits of sessions, most of which `docs/PROTOCOL.md` states. Depends on nothing.

use oncewire_codec::DEFAULT_BLOCK;

/// Most lanes of a session.
pub const MAX_LANES: usize = 8;
/// Most entropy contexts of a lane.
pub const MAX_CONTEXTS: usize = 32;
/// Most flows that [`Config::for_memory`](crate::Config::for_memory) allows at once, however much memory there is.
pub const MAX_FLOWS: u64 = 65_536;
/// Longest target of a flow, in bytes.
pub const MAX_TARGET: usize = 1024;
/// Longest client, and longest name of a client, in an [`Owner`](crate::Owner), in bytes.
pub const MAX_DOMAIN: usize = 64;
/// Longest agent text, in bytes.
pub(crate) const MAX_AGENT: usize = 64;
/// Longest body of a HELLO, REPORT or PAD, in bytes.
pub(crate) const MAX_BODY: usize = 4096;
/// Longest text of a CLOSE, or reason of a refusal, in bytes.
pub(crate) const MAX_TEXT: usize = 256;
/// Smallest size to which something is padded, in bytes.
pub const LEAST_PAD: u32 = 64;
/// Largest [`Config::pad`](crate::Config::pad), in bytes.
pub const MOST_PAD: u32 = 64 << 10;
/// Smallest content log, in bytes: its span, a quarter of it, holds several blocks.
pub const SMALLEST_LOG: u64 = 1 << 20;
/// Largest content log that a session accepts, in bytes.
pub const LARGEST_LOG: u64 = 64 << 30;
/// Bytes of a flow that may always be in flight, whatever the budget: TCP's initial window, and a
/// page more.
pub const EARLY_CREDIT: u64 = 16 << 10;
/// Initial window of a flow beyond [`EARLY_CREDIT`], if the budget has it.
pub(crate) const FIRST_WINDOW: u64 = 1 << 20;
/// Bytes of one flow that may wait to be sent.
pub(crate) const SEND_QUEUE: usize = 4 * DEFAULT_BLOCK;
/// Bytes of one flow that may wait to be sent even when the others have used up the budget.
pub(crate) const SEND_QUEUE_MIN: usize = 4 << 10;
/// A piece of this many bytes is large: its buffer is well filled, and the block is not much shorter
/// than it could be.
pub(crate) const LARGE_PIECE: usize = DEFAULT_BLOCK / 4 * 3;
/// Counted messages that may be unacknowledged on a lane.
pub(crate) const MAX_UNACKNOWLEDGED: usize = 16_384;
/// Bytes of messages other than DATA and EPOCH, and of PAD, that may be unacknowledged on a lane;
/// the last one may exceed it.
pub(crate) const MAX_CONTROL: usize = 1 << 20;
/// Bytes that may be unprocessed on a lane beyond the span: unacknowledged messages other than
/// frames, uncounted messages, and an incomplete frame.
pub(crate) const INPUT_SLACK: u64 = (MAX_CONTROL + 256 * 1024) as u64;
/// Decoded bytes after which an ACK is due at once.
pub(crate) const ACK_BYTES: u64 = 1 << 20;
/// Frames that may fail before the session ends.
pub(crate) const MAX_FAILURES: u64 = 64;
/// Blocks that must be decoded after a failure for all failures to be forgotten.
pub(crate) const FORGIVEN: u64 = 10_000;
