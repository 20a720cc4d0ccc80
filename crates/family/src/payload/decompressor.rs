//! The decompressor: the end that packets leave.

use super::classify::{Classifier, IpPayload};
use super::dictionary::{Dictionary, Seen};
use super::message::{Message, MessageError, RejectReason, Token};
use super::name::{KeyedBlake3, Naming};
use super::policy::{PayloadPolicy, PolicyError};

/// The result of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received<'a> {
    /// A packet to deliver.
    Packet(&'a [u8]),
    /// A message to send back, a rejection or an acknowledged reset; nothing to deliver.
    Reply(Message<'a>),
}

/// Counters of a decompressor. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecompressorStats {
    /// Packets delivered that arrived plain, or whole after a rejection.
    pub plain: u64,
    /// Packets delivered that arrived as tokens.
    pub tokens: u64,
    /// Tokens of unknown name.
    pub unknown: u64,
    /// Tokens with an illegal name, or whose packet did not match their checksum.
    pub collided: u64,
    /// Resets accepted.
    pub resets: u64,
}

/// Turns plain packets and tokens into packets.
#[derive(Debug)]
pub struct Decompressor<N = KeyedBlake3, C = IpPayload> {
    pub(super) dictionary: Dictionary<N, C>,
    /// The current epoch; none since the last start.
    epoch: Option<u64>,
    incarnation: u64,
    /// The packet being delivered.
    packet: Vec<u8>,
    stats: DecompressorStats,
}

impl<N: Naming, C: Classifier> Decompressor<N, C> {
    /// An empty decompressor. `incarnation` must differ from those of earlier starts towards the
    /// same compressor: a random number, or the time in nanoseconds.
    ///
    /// # Errors
    /// [`PolicyError`].
    pub fn new(
        policy: PayloadPolicy,
        naming: N,
        classifier: C,
        incarnation: u64,
    ) -> Result<Decompressor<N, C>, PolicyError> {
        Ok(Decompressor {
            dictionary: Dictionary::new(policy, naming, classifier)?,
            epoch: None,
            incarnation,
            packet: Vec::new(),
            stats: DecompressorStats::default(),
        })
    }

    /// Processes a message from the compressor.
    ///
    /// # Errors
    /// [`MessageError::Direction`] for a message that is not for a decompressor.
    pub fn receive<'a>(&'a mut self, message: Message<'a>) -> Result<Received<'a>, MessageError> {
        match message {
            Message::Plain(packet) => Ok(self.plain(packet, false)),
            Message::Whole(packet) => Ok(self.plain(packet, true)),
            Message::Token(token) => Ok(self.token(token)),
            Message::Reset { epoch } => {
                // The compressor repeats a reset until it is acknowledged. Reset only once per
                // epoch.
                if self.epoch != Some(epoch) {
                    self.dictionary.clear();
                    self.epoch = Some(epoch);
                    self.stats.resets += 1;
                }
                Ok(Received::Reply(Message::ResetDone { epoch }))
            }
            Message::Reject { .. } | Message::ResetDone { .. } | Message::ResetRequest { .. } => {
                Err(MessageError::Direction { codepoint: message.codepoint() })
            }
        }
    }

    fn plain<'a>(&mut self, packet: &'a [u8], include: bool) -> Received<'a> {
        self.stats.plain += 1;
        if let Some(start) = self.dictionary.payload_start(packet) {
            let payload = &packet[start..];
            let name = self.dictionary.name(payload);
            if self.dictionary.see(name, payload, include) == Seen::Overflow {
                self.dictionary.clear();
                self.epoch = None;
                self.incarnation = self.incarnation.wrapping_add(1);
            }
        }
        Received::Packet(packet)
    }

    fn token<'a>(&'a mut self, token: Token<'a>) -> Received<'a> {
        let Some(payload) = self.dictionary.get(token.name) else {
            if self.dictionary.is_illegal(token.name) {
                return self.reject(RejectReason::Collided, token);
            }
            return self.reject(RejectReason::Unknown, token);
        };
        let policy = self.dictionary.policy();
        let fits = token.header.len() + payload.len() <= policy.max_packet;
        self.packet.clear();
        if fits {
            self.packet.extend_from_slice(token.header);
            self.packet.extend_from_slice(payload);
        }
        if !fits || policy.checksum.checksum(0, 0, &self.packet) != token.checksum {
            // The compressor finds out whether the name collided or the token was corrupted.
            return self.reject(RejectReason::Collided, token);
        }
        self.dictionary.touch(token.name);
        self.stats.tokens += 1;
        Received::Packet(&self.packet)
    }

    fn reject<'a>(&mut self, reason: RejectReason, token: Token<'a>) -> Received<'a> {
        match reason {
            RejectReason::Unknown => self.stats.unknown += 1,
            RejectReason::Collided => self.stats.collided += 1,
        }
        Received::Reply(Message::Reject { reason, token })
    }

    /// The request for a reset, until one has arrived since the start. Send it from time to time
    /// while this returns one. Without it nothing breaks (section 3.3), but tokens are rejected
    /// needlessly.
    pub fn reset_due(&self) -> Option<Message<'static>> {
        self.epoch.is_none().then_some(Message::ResetRequest { incarnation: self.incarnation })
    }

    /// The payloads held.
    pub fn dictionary(&self) -> &Dictionary<N, C> {
        &self.dictionary
    }

    /// Counters since the start.
    pub fn stats(&self) -> DecompressorStats {
        self.stats
    }
}
