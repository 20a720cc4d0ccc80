//! The compressor: the end that packets enter.

use super::classify::{Classifier, IpPayload};
use super::dictionary::{Dictionary, Seen};
use super::message::{Message, MessageError, RejectReason, Token};
use super::name::{KeyedBlake3, Naming};
use super::policy::{PayloadPolicy, PolicyError};

/// How a packet is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent<'a> {
    /// Unchanged.
    Plain {
        /// The packet.
        packet: &'a [u8],
        /// Whether the dictionary now holds its payload.
        remembered: bool,
    },
    /// With a name for its payload.
    Token(Token<'a>),
}

impl<'a> Sent<'a> {
    /// The message to send.
    pub fn message(&self) -> Message<'a> {
        match *self {
            Sent::Plain { packet, .. } => Message::Plain(packet),
            Sent::Token(token) => Message::Token(token),
        }
    }

    /// Bytes on the wire besides the codepoint: never more than the packet's.
    pub fn wire_len(&self) -> usize {
        self.message().wire_len()
    }
}

/// Counters of a compressor. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompressorStats {
    /// Packets given to the compressor.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of these, packets for which a token was sent.
    pub tokens: u64,
    /// Bytes of all plain packets and tokens, without codepoints.
    pub wire_bytes: u64,
    /// Packets that took no part: not classified, too short, too long.
    pub unclassified: u64,
    /// Packets whose name was illegal.
    pub illegal: u64,
    /// Tokens that came back.
    pub rejected: u64,
    /// Of these, tokens answered with the whole packet.
    pub resent: u64,
    /// Bytes of these packets.
    pub resent_bytes: u64,
    /// Epochs started.
    pub epochs: u64,
}

/// Turns packets into plain packets and tokens.
///
/// Plain packets go out, and are remembered, from the start; tokens only once the decompressor has
/// acknowledged the epoch.
#[derive(Debug)]
pub struct Compressor<N = KeyedBlake3, C = IpPayload> {
    pub(super) dictionary: Dictionary<N, C>,
    epoch: u64,
    /// Whether the decompressor has acknowledged this epoch.
    acknowledged: bool,
    /// The last reset request that was accepted.
    incarnation: Option<u64>,
    /// The packet being resent.
    packet: Vec<u8>,
    stats: CompressorStats,
}

impl<N: Naming, C: Classifier> Compressor<N, C> {
    /// An empty compressor. `epoch` must differ from those of earlier starts towards the same
    /// decompressor: a random number, or the time in nanoseconds. Later epochs count up from it.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn new(
        policy: PayloadPolicy,
        naming: N,
        classifier: C,
        epoch: u64,
    ) -> Result<Compressor<N, C>, PolicyError> {
        Ok(Compressor {
            dictionary: Dictionary::new(policy, naming, classifier)?,
            epoch,
            acknowledged: false,
            incarnation: None,
            packet: Vec::new(),
            stats: CompressorStats { epochs: 1, ..CompressorStats::default() },
        })
    }

    /// How to send the next packet. If [`Compressor::reset_due`] then returns a reset that it did
    /// not return before, send that first.
    pub fn compress<'a>(&mut self, packet: &'a [u8]) -> Sent<'a> {
        let sent = self.send(packet);
        self.stats.packets += 1;
        self.stats.bytes += packet.len() as u64;
        self.stats.wire_bytes += sent.wire_len() as u64;
        self.stats.tokens += u64::from(matches!(sent, Sent::Token(_)));
        sent
    }

    fn send<'a>(&mut self, packet: &'a [u8]) -> Sent<'a> {
        let Some(start) = self.dictionary.payload_start(packet) else {
            self.stats.unclassified += 1;
            return Sent::Plain { packet, remembered: false };
        };
        let (header, payload) = packet.split_at(start);
        let name = self.dictionary.name(payload);
        let mut seen = self.dictionary.see(name, payload, false);
        if seen == Seen::Overflow {
            self.begin_epoch();
            // In an empty dictionary nothing collides.
            seen = self.dictionary.see(name, payload, false);
        }
        let enough = self.dictionary.policy().compression.sends();
        match seen {
            Seen::Held | Seen::Remembered => {
                let sends = self.dictionary.sends(name).expect("it is held");
                if *sends >= enough && self.acknowledged {
                    let checksum = self.dictionary.policy().checksum.checksum(0, 0, packet);
                    return Sent::Token(Token { name, checksum, header });
                }
                *sends = sends.saturating_add(1);
                Sent::Plain { packet, remembered: true }
            }
            Seen::Illegal => {
                self.stats.illegal += 1;
                Sent::Plain { packet, remembered: false }
            }
            Seen::Passed | Seen::Overflow => Sent::Plain { packet, remembered: false },
        }
    }

    /// Processes a rejected token. Returns the whole packet, to be sent as [`Message::Whole`], or
    /// `None` if its payload is no longer held; then the packet is lost (section 3.2.2).
    ///
    /// A token that this compressor did not make, or that was damaged, does not match its checksum
    /// and yields `None`.
    pub fn rejected(&mut self, reason: RejectReason, token: Token<'_>) -> Option<&[u8]> {
        self.stats.rejected += 1;
        let payload = self.dictionary.get(token.name)?;
        if token.header.len() + payload.len() > self.dictionary.policy().max_packet {
            return None;
        }
        self.packet.clear();
        self.packet.extend_from_slice(token.header);
        self.packet.extend_from_slice(payload);
        if self.dictionary.policy().checksum.checksum(0, 0, &self.packet) != token.checksum {
            return None;
        }
        match reason {
            RejectReason::Unknown => {
                // The decompressor will see it now as its newest.
                self.dictionary.touch(token.name);
                *self.dictionary.sends(token.name).expect("it is held") = 1;
            }
            RejectReason::Collided => {
                if !self.dictionary.make_illegal(token.name) {
                    self.begin_epoch();
                }
            }
        }
        self.stats.resent += 1;
        self.stats.resent_bytes += self.packet.len() as u64;
        Some(&self.packet)
    }

    /// Processes a message from the decompressor. Returns the answer, if any.
    ///
    /// # Errors
    /// [`MessageError::Direction`] for a message that is not for a compressor.
    pub fn receive(&mut self, message: Message<'_>) -> Result<Option<Message<'_>>, MessageError> {
        match message {
            Message::Reject { reason, token } => {
                Ok(self.rejected(reason, token).map(Message::Whole))
            }
            Message::ResetDone { epoch } => {
                self.acknowledged |= epoch == self.epoch;
                Ok(None)
            }
            Message::ResetRequest { incarnation } => {
                if self.incarnation != Some(incarnation) {
                    self.incarnation = Some(incarnation);
                    self.begin_epoch();
                }
                Ok(self.reset_due())
            }
            Message::Plain(_) | Message::Whole(_) | Message::Token(_) | Message::Reset { .. } => {
                Err(MessageError::Direction { codepoint: message.codepoint() })
            }
        }
    }

    /// The reset that the decompressor has not acknowledged yet. Send it before anything else, and
    /// repeat it from time to time until this returns `None`: that makes it reliable.
    pub fn reset_due(&self) -> Option<Message<'static>> {
        (!self.acknowledged).then_some(Message::Reset { epoch: self.epoch })
    }

    /// Forgets everything, illegal names included, and starts a new epoch.
    pub fn begin_epoch(&mut self) {
        self.dictionary.clear();
        self.epoch = self.epoch.wrapping_add(1);
        self.acknowledged = false;
        self.stats.epochs += 1;
    }

    /// The epoch, acknowledged or not.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The payloads held.
    pub fn dictionary(&self) -> &Dictionary<N, C> {
        &self.dictionary
    }

    /// Counters since the start.
    pub fn stats(&self) -> CompressorStats {
        self.stats
    }
}
