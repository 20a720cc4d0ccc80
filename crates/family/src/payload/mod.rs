//! Payload-match: whole packet payloads by name.
//!
//! Santos and Wetherall, *Increasing effective link bandwidth by suppressing replicated data*
//! (USENIX ATC 1998), section 3. The two ends of a link remember payloads that crossed it. When a
//! payload repeats, a *token* crosses in its place: the packet's headers and the payload's name.
//! The link may lose and reorder packets; messages are independent.
//!
//! ```text
//!  compressor                                            decompressor
//!   packet {header, X}, X is new    -- Plain ---------->  remembers X, delivers {header, X}
//!   packet {header', X}, X is held  -- Token ---------->  finds X, verifies, delivers {header', X}
//!                                                         or does not find X:
//!   finds X, verifies               <--------- Reject --  returns the token
//!                                   -- Whole ---------->  remembers X, delivers {header', X}
//!   (re)started, or too many                              its cache is of another epoch:
//!   illegal names                   -- Reset ---------->  forgets everything
//!   tokens may be sent              <------ ResetDone --
//!   starts a new epoch (as above)   <--- ResetRequest --  (re)started
//! ```
//!
//! Both ends process payloads in the same way ([`Dictionary`]): without loss or reordering they
//! hold the same payloads at the same point of the stream. A rejection reveals differences caused
//! by loss and costs one round trip.
//!
//! # Integrity
//!
//! A token carries a 64-bit checksum of the whole packet (XXH3, seeded per session,
//! [`ChecksumSeed::checksum`] at offset 0). A packet that does not match is rejected, not
//! delivered. The full comparison at the compressor (section 3.1.2) does not suffice for that: once
//! loss has made the caches differ, the decompressor can hold a payload of the same name that the
//! compressor has already evicted, and has nothing to compare with. 128-bit keyed names make this
//! as good as impossible; the checksum also holds for a weaker name, for headers, and for tokens
//! that a reset overtook. A rejection for a wrong checksum tells the compressor that the name
//! collided, and makes it illegal there too.
//!
//! Plain packets cross unchanged, protected by the checksums of the packet and of the carrier. A
//! corrupted one is remembered under the name of its corrupted content, which no token uses.
//!
//! # Messages
//!
//! The carrier distinguishes messages by a codepoint (in the paper, additional Ethernet types), so
//! that a plain packet does not grow; [`Message::wire_len`] counts the bytes after it. For carriers
//! without codepoints, [`Message::write`] puts one byte in front of every message. Integers are
//! little-endian.
//!
//! | kind | codepoint | body | wire length |
//! |---|---|---|---|
//! | Plain | 0 | the packet | as the packet |
//! | Whole | 1 | the packet; remember it whatever the inclusion policy says | as the packet |
//! | Token | 2 | name (16), checksum (8), header (the rest) | header + 24 |
//! | Reset | 3 | epoch (8) | 8 |
//! | Reject | 4 | reason (1: 0 unknown, 1 collided), body of the token | header + 25 |
//! | ResetDone | 5 | epoch (8) | 8 |
//! | ResetRequest | 6 | incarnation (8) | 8 |
//!
//! No payload below 24 bytes is remembered, so a token is never longer than its packet. Kinds 0 to
//! 3 go to the decompressor, 4 to 6 come back.

mod classify;
mod compressor;
mod decompressor;
mod dictionary;
mod message;
mod name;
mod policy;
mod sights;

#[cfg(test)]
mod simulation;

pub use classify::{Classifier, IpPayload, WholePacket};
pub use compressor::{Compressor, CompressorStats, Sent};
pub use decompressor::{Decompressor, DecompressorStats, Received};
pub use dictionary::{Dictionary, ENTRY_OVERHEAD};
pub use message::{Message, MessageError, REJECT_OVERHEAD, RejectReason, TOKEN_OVERHEAD, Token};
pub use name::{KeyedBlake3, Name, Naming};
pub use policy::{CompressionPolicy, PayloadPolicy, PolicyError, Replacement};

#[cfg(doc)]
use oncewire_codec::ChecksumSeed;
