//! Messages of a lane: section 4 of `docs/PROTOCOL.md`.

use crate::epoch::{Epoch, Keep};
use crate::flow::FlowId;
use crate::limits::{MAX_BODY, MAX_DOMAIN, MAX_TARGET, MAX_TEXT};
use oncewire_codec::Recalled;
use oncewire_codec::varint::{self, Stop};

/// The longest prefix of a text that may be sent.
pub(crate) fn truncate(text: &str) -> &str {
    let end =
        (0..=text.len().min(MAX_TEXT)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}

pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0x01;
    pub(crate) const OPEN: u8 = 0x02;
    pub(crate) const OPENED: u8 = 0x03;
    pub(crate) const FIN: u8 = 0x04;
    pub(crate) const RESET: u8 = 0x05;
    pub(crate) const CREDIT: u8 = 0x06;
    pub(crate) const EPOCH: u8 = 0x07;
    pub(crate) const LIMIT: u8 = 0x08;
    pub(crate) const GO_AWAY: u8 = 0x09;
    pub(crate) const CUT: u8 = 0x0a;
    pub(crate) const RECALL: u8 = 0x0b;
    pub(crate) const GONE: u8 = 0x0c;
    /// Messages from here on belong to the transport that carries them and are not counted.
    pub(crate) const HELLO: u8 = 0x40;
    pub(crate) const ACK: u8 = 0x41;
    pub(crate) const PING: u8 = 0x42;
    pub(crate) const PONG: u8 = 0x43;
    pub(crate) const CLOSE: u8 = 0x44;
    pub(crate) const REPORT: u8 = 0x45;
    pub(crate) const PAD: u8 = 0x46;
    pub(crate) const PREPARE: u8 = 0x47;
    pub(crate) const PREPARED: u8 = 0x48;
}

/// Codes of CLOSE.
pub(crate) mod close {
    pub(crate) const DONE: u64 = 0;
    pub(crate) const VIOLATION: u64 = 1;
    pub(crate) const FRAME_FAILED: u64 = 2;
    pub(crate) const LOG_LOST: u64 = 3;
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// The message up to its frame.
    Data(FlowId),
    /// A target, and the client and the name of its owner.
    Open(FlowId, &'a [u8], &'a [u8], &'a [u8]),
    Opened(FlowId),
    Fin(FlowId),
    /// As FIN; the application's protocol did not say that this is the end.
    Cut(FlowId),
    Reset(FlowId, u64),
    /// The flow may carry this many bytes in total.
    Credit(FlowId, u64),
    /// An epoch begins, empty or with what the log holds below an offset; and the log's capacity.
    Epoch(Epoch, Keep, u64),
    /// The largest log that the sender's decoder accepts from now on, in bytes.
    Limit(u64),
    GoAway,
    /// A block of a flow, or of none, that both ends read from disk: where it lies in the log, where
    /// it goes now, and its length.
    Recall {
        flow: FlowId,
        from: u64,
        place: Recalled,
        len: u64,
    },
    /// The sender's decoder does not have a range of its log on disk: from, and behind.
    Gone(u64, u64),
    Hello(&'a [u8]),
    Ack(u64),
    Ping(u64),
    Pong(u64),
    Close(u64, &'a [u8]),
    Report(&'a [u8]),
    /// Hides sizes and means nothing.
    Pad(&'a [u8]),
    /// A stretch of the log will be recalled that the peer can read meanwhile: a number for it,
    /// whether an answer is wanted at once, where it begins, and its length.
    Prepare {
        id: u64,
        wants: bool,
        from: u64,
        len: u64,
    },
    /// What PREPARE named was read in so many microseconds and one more; or, 0, it cannot be.
    Prepared(u64, u64),
}

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// No message of this version begins with this byte.
    #[error("no message of this version begins with {0:#04x}")]
    Kind(u8),
    /// A number is not in its shortest form, or too large for its field.
    #[error("malformed number in a message of kind {0:#04x}")]
    Number(u8),
    /// A text or list is longer than allowed.
    #[error("{len} bytes in a message of kind {kind:#04x}: at most {max}")]
    Length {
        /// First byte of the message.
        kind: u8,
        /// The length it claims, in bytes.
        len: u64,
        /// Largest allowed.
        max: usize,
    },
}

/// Why reading stopped: the message is incomplete or invalid.
enum Halt {
    Short,
    Bad(MessageError),
}

struct Fields<'a> {
    kind: u8,
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn number(&mut self) -> Result<u64, Halt> {
        varint::take(&mut self.rest).map_err(|stop| match stop {
            Stop::Short => Halt::Short,
            Stop::Malformed => Halt::Bad(MessageError::Number(self.kind)),
        })
    }

    fn flow(&mut self) -> Result<FlowId, Halt> {
        self.number().map(FlowId)
    }

    fn fixed(&mut self) -> Result<u64, Halt> {
        let (bytes, rest) = self.rest.split_first_chunk::<8>().ok_or(Halt::Short)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*bytes))
    }

    fn short(&mut self) -> Result<u64, Halt> {
        let (bytes, rest) = self.rest.split_first_chunk::<4>().ok_or(Halt::Short)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*bytes).into())
    }

    fn bytes(&mut self, max: usize) -> Result<&'a [u8], Halt> {
        let len = self.number()?;
        if len > max as u64 {
            return Err(Halt::Bad(MessageError::Length { kind: self.kind, len, max }));
        }
        let (bytes, rest) = self.rest.split_at_checked(len as usize).ok_or(Halt::Short)?;
        self.rest = rest;
        Ok(bytes)
    }
}

impl<'a> Message<'a> {
    /// Takes a message off the front of `input`. Returns `None` and leaves `input` as it was if the
    /// message is incomplete.
    pub(crate) fn take(input: &mut &'a [u8]) -> Result<Option<Message<'a>>, MessageError> {
        let Some((&kind, rest)) = input.split_first() else { return Ok(None) };
        let mut fields = Fields { kind, rest };
        match Message::read(&mut fields) {
            Ok(message) => {
                *input = fields.rest;
                Ok(Some(message))
            }
            Err(Halt::Short) => Ok(None),
            Err(Halt::Bad(error)) => Err(error),
        }
    }

    fn read(fields: &mut Fields<'a>) -> Result<Message<'a>, Halt> {
        Ok(match fields.kind {
            kind::DATA => Message::Data(fields.flow()?),
            kind::OPEN => Message::Open(
                fields.flow()?,
                fields.bytes(MAX_TARGET)?,
                fields.bytes(MAX_DOMAIN)?,
                fields.bytes(MAX_DOMAIN)?,
            ),
            kind::OPENED => Message::Opened(fields.flow()?),
            kind::FIN => Message::Fin(fields.flow()?),
            kind::CUT => Message::Cut(fields.flow()?),
            kind::RESET => Message::Reset(fields.flow()?, fields.number()?),
            kind::CREDIT => Message::Credit(fields.flow()?, fields.number()?),
            kind::EPOCH => {
                let epoch = Epoch { log: fields.fixed()?, number: fields.number()? };
                let keep = Keep::from_number(fields.number()?);
                Message::Epoch(epoch, keep, fields.number()?)
            }
            kind::LIMIT => Message::Limit(fields.number()?),
            kind::GO_AWAY => Message::GoAway,
            kind::RECALL => {
                let (flow, from) = (FlowId(fields.number()?), fields.fixed()?);
                let (offset, padding) = (fields.fixed()?, fields.short()?);
                let (len, checksum) = (fields.short()?, fields.fixed()?);
                Message::Recall { flow, from, place: Recalled { offset, padding, checksum }, len }
            }
            kind::GONE => Message::Gone(fields.number()?, fields.number()?),
            kind::HELLO => Message::Hello(fields.bytes(MAX_BODY)?),
            kind::ACK => Message::Ack(fields.number()?),
            kind::PING => Message::Ping(fields.number()?),
            kind::PONG => Message::Pong(fields.number()?),
            kind::CLOSE => Message::Close(fields.number()?, fields.bytes(MAX_TEXT)?),
            kind::REPORT => Message::Report(fields.bytes(MAX_BODY)?),
            kind::PAD => Message::Pad(fields.bytes(MAX_BODY)?),
            kind::PREPARE => Message::Prepare {
                id: fields.number()?,
                wants: fields.number()? != 0,
                from: fields.fixed()?,
                len: fields.short()?,
            },
            kind::PREPARED => Message::Prepared(fields.number()?, fields.number()?),
            kind => return Err(Halt::Bad(MessageError::Kind(kind))),
        })
    }

    /// Appends the message to `out`; of [`Message::Data`], the part before the frame.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let number = |out: &mut Vec<u8>, value: u64| varint::put(out, value);
        let bytes = |out: &mut Vec<u8>, bytes: &[u8]| {
            varint::put(out, bytes.len() as u64);
            out.extend_from_slice(bytes);
        };
        out.push(self.kind());
        match *self {
            Message::Data(flow)
            | Message::Opened(flow)
            | Message::Fin(flow)
            | Message::Cut(flow) => number(out, flow.0),
            Message::Open(flow, target, client, name) => {
                number(out, flow.0);
                bytes(out, target);
                bytes(out, client);
                bytes(out, name);
            }
            Message::Reset(flow, value) | Message::Credit(flow, value) => {
                number(out, flow.0);
                number(out, value);
            }
            Message::Epoch(epoch, keep, capacity) => {
                out.extend_from_slice(&epoch.log.to_le_bytes());
                number(out, epoch.number);
                number(out, keep.number());
                number(out, capacity);
            }
            Message::Limit(value)
            | Message::Ack(value)
            | Message::Ping(value)
            | Message::Pong(value) => number(out, value),
            Message::GoAway => {}
            Message::Gone(from, end) | Message::Prepared(from, end) => {
                number(out, from);
                number(out, end);
            }
            Message::Prepare { id, wants, from, len } => {
                number(out, id);
                number(out, wants.into());
                out.extend_from_slice(&from.to_le_bytes());
                out.extend_from_slice(&(len as u32).to_le_bytes());
            }
            Message::Recall { flow, from, place: Recalled { offset, padding, checksum }, len } => {
                number(out, flow.0);
                out.extend_from_slice(&from.to_le_bytes());
                out.extend_from_slice(&offset.to_le_bytes());
                // Both are at most a block long.
                out.extend_from_slice(&(padding as u32).to_le_bytes());
                out.extend_from_slice(&(len as u32).to_le_bytes());
                out.extend_from_slice(&checksum.to_le_bytes());
            }
            Message::Hello(body) | Message::Report(body) | Message::Pad(body) => bytes(out, body),
            Message::Close(code, text) => {
                number(out, code);
                bytes(out, text);
            }
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Message::Data(_) => kind::DATA,
            Message::Open(..) => kind::OPEN,
            Message::Opened(_) => kind::OPENED,
            Message::Fin(_) => kind::FIN,
            Message::Cut(_) => kind::CUT,
            Message::Reset(..) => kind::RESET,
            Message::Credit(..) => kind::CREDIT,
            Message::Epoch(..) => kind::EPOCH,
            Message::Limit(_) => kind::LIMIT,
            Message::GoAway => kind::GO_AWAY,
            Message::Recall { .. } => kind::RECALL,
            Message::Gone(..) => kind::GONE,
            Message::Hello(_) => kind::HELLO,
            Message::Ack(_) => kind::ACK,
            Message::Ping(_) => kind::PING,
            Message::Pong(_) => kind::PONG,
            Message::Close(..) => kind::CLOSE,
            Message::Report(_) => kind::REPORT,
            Message::Pad(_) => kind::PAD,
            Message::Prepare { .. } => kind::PREPARE,
            Message::Prepared(..) => kind::PREPARED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_reads_as_written_and_waits_while_incomplete() {
        let flow = FlowId(300);
        let epoch = Epoch { log: u64::MAX - 5, number: 7 };
        for message in [
            Message::Data(flow),
            Message::Open(flow, b"tcp:origin:80", b"", b""),
            Message::Open(flow, b"tcp:origin:80", b"address 10.0.0.7", b"proxy alice"),
            Message::Opened(flow),
            Message::Fin(flow),
            Message::Cut(flow),
            Message::Reset(flow, 3),
            Message::Credit(flow, 1 << 40),
            Message::Epoch(epoch, Keep::Nothing, 1 << 20),
            Message::Epoch(epoch, Keep::Content(0), 1 << 20),
            Message::Epoch(epoch, Keep::Content((1 << 62) - 1), 1 << 20),
            Message::Epoch(epoch, Keep::Offset(0), 1 << 20),
            Message::Epoch(epoch, Keep::Offset((1 << 62) - 2), 1 << 20),
            Message::Limit(1 << 20),
            Message::GoAway,
            Message::Gone(1 << 40, 1 << 41),
            Message::Recall {
                flow: FlowId(300),
                from: 9,
                place: Recalled { offset: 1 << 40, padding: 3, checksum: u64::MAX },
                len: 65_536,
            },
            Message::Hello(b"body"),
            Message::Ack(1 << 33),
            Message::Ping(1),
            Message::Pong(2),
            Message::Close(4, b"why"),
            Message::Report(&[1, 2, 3]),
            Message::Pad(&[0; 200]),
            Message::Prepare { id: 300, wants: true, from: 1 << 40, len: 65_536 },
            Message::Prepared(300, 20_001),
        ] {
            let mut wire = Vec::new();
            message.write(&mut wire);
            for len in 0..wire.len() {
                let mut short = &wire[..len];
                assert_eq!(Message::take(&mut short), Ok(None), "{message:?} truncated to {len}");
                assert_eq!(short.len(), len);
            }
            wire.push(0xee);
            let mut input = &wire[..];
            assert_eq!(Message::take(&mut input), Ok(Some(message)));
            assert_eq!(input, [0xee]);
        }
    }

    #[test]
    fn invalid_messages_are_refused_before_they_are_complete() {
        assert_eq!(Message::take(&mut &[0x3f][..]), Err(MessageError::Kind(0x3f)));
        assert_eq!(
            Message::take(&mut &[kind::ACK, 0x80, 0x00][..]),
            Err(MessageError::Number(kind::ACK))
        );
        let mut long = vec![kind::OPEN, 1];
        varint::put(&mut long, 1 << 40);
        assert!(matches!(
            Message::take(&mut &long[..]),
            Err(MessageError::Length { max: MAX_TARGET, .. })
        ));
    }
}
