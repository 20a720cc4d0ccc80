//! The messages between compressor and decompressor: see the [module's](super) table.

use super::name::Name;

/// Bytes of a token besides the header: name and checksum.
pub const TOKEN_OVERHEAD: usize = Name::BYTES + 8;
/// Bytes of a rejection besides the header: the token's and the reason.
pub const REJECT_OVERHEAD: usize = TOKEN_OVERHEAD + 1;

/// A packet whose payload is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The name of the payload.
    pub name: Name,
    /// Checksum of the packet, header and payload.
    pub checksum: u64,
    /// The bytes before the payload.
    pub header: &'a [u8],
}

impl<'a> Token<'a> {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.name.0);
        out.extend_from_slice(&self.checksum.to_le_bytes());
        out.extend_from_slice(self.header);
    }

    fn parse(body: &'a [u8]) -> Result<Token<'a>, MessageError> {
        let short = MessageError::Short { len: body.len(), needed: TOKEN_OVERHEAD };
        let (name, rest) = body.split_first_chunk().ok_or(short)?;
        let (checksum, header) = rest.split_first_chunk().ok_or(short)?;
        Ok(Token { name: Name(*name), checksum: u64::from_le_bytes(*checksum), header })
    }
}

/// Why a token was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// The decompressor holds nothing of that name.
    Unknown,
    /// It holds, or held, something else of that name: the name is illegal.
    Collided,
}

/// A message of the protocol. The first four go to the decompressor, the others come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// A packet, unchanged.
    Plain(&'a [u8]),
    /// A packet, unchanged, after a rejection.
    Whole(&'a [u8]),
    /// A packet whose payload is named.
    Token(Token<'a>),
    /// Forget everything, unless this epoch is the one already begun.
    Reset {
        /// The compressor's epoch.
        epoch: u64,
    },
    /// A token that the decompressor could not resolve.
    Reject {
        /// Why.
        reason: RejectReason,
        /// The token as it came.
        token: Token<'a>,
    },
    /// The decompressor has begun an epoch.
    ResetDone {
        /// Which.
        epoch: u64,
    },
    /// The decompressor has started, or started over: a new epoch is wanted.
    ResetRequest {
        /// Tells one start from another.
        incarnation: u64,
    },
}

/// Bytes that are not a message, or a message for the other end. Nothing of it was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// There is no such codepoint.
    #[error("corrupt message: codepoint {codepoint} does not exist")]
    Codepoint {
        /// What the message says.
        codepoint: u8,
    },
    /// The message ends early.
    #[error("corrupt message: {len} bytes where at least {needed} are needed")]
    Short {
        /// Bytes there are.
        len: usize,
        /// Bytes needed.
        needed: usize,
    },
    /// The message has excess bytes.
    #[error("corrupt message: {len} bytes where {needed} are needed")]
    Long {
        /// Bytes there are.
        len: usize,
        /// Bytes needed.
        needed: usize,
    },
    /// A rejection gives no known reason.
    #[error("corrupt message: reason {reason} does not exist")]
    Reason {
        /// What the message says.
        reason: u8,
    },
    /// The message is for the other end.
    #[error(
        "protocol violation by the peer: a message of codepoint {codepoint} goes the other way"
    )]
    Direction {
        /// Its codepoint.
        codepoint: u8,
    },
}

impl<'a> Message<'a> {
    /// The number of the message's kind.
    pub fn codepoint(&self) -> u8 {
        match self {
            Message::Plain(_) => 0,
            Message::Whole(_) => 1,
            Message::Token(_) => 2,
            Message::Reset { .. } => 3,
            Message::Reject { .. } => 4,
            Message::ResetDone { .. } => 5,
            Message::ResetRequest { .. } => 6,
        }
    }

    /// Bytes on the wire besides the codepoint.
    pub fn wire_len(&self) -> usize {
        match self {
            Message::Plain(packet) | Message::Whole(packet) => packet.len(),
            Message::Token(token) => token.header.len() + TOKEN_OVERHEAD,
            Message::Reject { token, .. } => token.header.len() + REJECT_OVERHEAD,
            Message::Reset { .. } | Message::ResetDone { .. } | Message::ResetRequest { .. } => 8,
        }
    }

    /// Appends the message without its codepoint.
    pub fn write_body(&self, out: &mut Vec<u8>) {
        match self {
            Message::Plain(packet) | Message::Whole(packet) => out.extend_from_slice(packet),
            Message::Token(token) => token.write(out),
            Message::Reject { reason, token } => {
                out.push(u8::from(*reason == RejectReason::Collided));
                token.write(out);
            }
            Message::Reset { epoch: number }
            | Message::ResetDone { epoch: number }
            | Message::ResetRequest { incarnation: number } => {
                out.extend_from_slice(&number.to_le_bytes())
            }
        }
    }

    /// Appends the message with its codepoint in front, [`Message::wire_len`] + 1 bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.codepoint());
        self.write_body(out);
    }

    /// Reads a message that [`Message::write`] wrote.
    ///
    /// # Errors
    /// [`MessageError`], whatever the bytes.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, MessageError> {
        let (&codepoint, body) =
            bytes.split_first().ok_or(MessageError::Short { len: 0, needed: 1 })?;
        Message::parse_body(codepoint, body)
    }

    /// Reads a message whose codepoint came with the carrier.
    ///
    /// # Errors
    /// [`MessageError`], whatever the bytes.
    pub fn parse_body(codepoint: u8, body: &'a [u8]) -> Result<Message<'a>, MessageError> {
        Ok(match codepoint {
            0 => Message::Plain(body),
            1 => Message::Whole(body),
            2 => Message::Token(Token::parse(body)?),
            3 => Message::Reset { epoch: number(body)? },
            4 => {
                let (&reason, token) = body
                    .split_first()
                    .ok_or(MessageError::Short { len: 0, needed: REJECT_OVERHEAD })?;
                let reason = match reason {
                    0 => RejectReason::Unknown,
                    1 => RejectReason::Collided,
                    reason => return Err(MessageError::Reason { reason }),
                };
                Message::Reject { reason, token: Token::parse(token)? }
            }
            5 => Message::ResetDone { epoch: number(body)? },
            6 => Message::ResetRequest { incarnation: number(body)? },
            codepoint => return Err(MessageError::Codepoint { codepoint }),
        })
    }
}

fn number(body: &[u8]) -> Result<u64, MessageError> {
    match body.split_first_chunk() {
        None => Err(MessageError::Short { len: body.len(), needed: 8 }),
        Some((_, rest)) if !rest.is_empty() => {
            Err(MessageError::Long { len: body.len(), needed: 8 })
        }
        Some((number, _)) => Ok(u64::from_le_bytes(*number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bytes_are_as_documented() {
        let token = Token { name: Name([7; 16]), checksum: 0x0102_0304_0506_0708, header: b"head" };
        let mut bytes = Vec::new();
        Message::Reject { reason: RejectReason::Collided, token }.write(&mut bytes);
        assert_eq!(bytes, [&[4, 1][..], &[7; 16], &[8, 7, 6, 5, 4, 3, 2, 1], b"head"].concat());
        bytes.clear();
        Message::Reset { epoch: 0x0a }.write(&mut bytes);
        assert_eq!(bytes, [3, 10, 0, 0, 0, 0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn round_trip(body in proptest::collection::vec(any::<u8>(), 0..60), name: [u8; 16], number: u64, collided: bool) {
            let token = Token { name: Name(name), checksum: number, header: &body };
            let reason = if collided { RejectReason::Collided } else { RejectReason::Unknown };
            let all = [
                Message::Plain(&body),
                Message::Whole(&body),
                Message::Token(token),
                Message::Reset { epoch: number },
                Message::Reject { reason, token },
                Message::ResetDone { epoch: number },
                Message::ResetRequest { incarnation: number },
            ];
            for (codepoint, message) in all.into_iter().enumerate() {
                let mut bytes = Vec::new();
                message.write(&mut bytes);
                prop_assert_eq!(bytes.len(), message.wire_len() + 1);
                prop_assert_eq!(usize::from(message.codepoint()), codepoint);
                prop_assert_eq!(Message::parse(&bytes), Ok(message));
            }
        }

        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0u8..9], 0..60)) {
            if let Ok(message) = Message::parse(&bytes) {
                let mut again = Vec::new();
                message.write(&mut again);
                prop_assert_eq!(again, bytes);
            }
        }
    }
}
