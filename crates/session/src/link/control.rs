//! Messages on the control stream of a link: `docs/LINK.md` has the same layouts.

use super::terms::{ContextTerms, LogTerms, MAX_CONTEXTS, MAX_PARTS};
use oncewire_codec::datagram::{MAX_CODES, MAX_PREFIX};
use oncewire_codec::varint;

/// The version of the link's protocol.
pub const VERSION: u64 = 1;
/// Longest message in bytes, with type and length.
pub const MAX_MESSAGE: usize = 4096;

const HELLO: u64 = 1;
const READY: u64 = 2;
const LOG: u64 = 3;
const LOG_READY: u64 = 4;
const CONTEXT: u64 = 5;
const CONTEXT_READY: u64 = 6;
const CONTEXT_DROP: u64 = 7;
const CLOSE: u64 = 9;

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Control {
    /// The first message of each end.
    Hello(LinkHello),
    /// The client has the server's HELLO and opens its datagrams. From now on the server sends under
    /// the keys of this connection.
    Ready,
    /// The sender begins a content log for what it sends.
    Log(LogTerms),
    /// The sender has made the log of this number for what it receives.
    LogReady(u64),
    /// The sender has made a frozen context for what it sends.
    Context(ContextTerms),
    /// The sender has taken a context, or refuses it.
    ContextReady {
        /// The number of the log that has its prefix.
        log: u64,
        /// The number of the context.
        number: u8,
        /// False if the prefix is not in the log, or is another one.
        is_taken: bool,
    },
    /// The sender uses a context no more.
    ContextDrop {
        /// The number of its log.
        log: u64,
        /// The number of the context.
        number: u8,
    },
    /// The sender ends the link.
    Close {
        /// 0: the sender stops. Others are reserved.
        code: u64,
        /// For people; at most 256 bytes.
        text: String,
    },
}

/// What each end says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkHello {
    /// The sender's version; 1 now.
    pub version: u64,
    /// Names the counters and logs that the sender holds of the other end, from an earlier
    /// connection; zeros for none. They go on if both ends name the same ones.
    pub association: [u8; 16],
    /// The index of the sender's keys: the other end writes it into each datagram. Below 2^24.
    pub index: u32,
    /// Whether the sender has instructions for AES. If both have, AES-256-GCM is used, otherwise
    /// ChaCha20-Poly1305.
    pub aes: bool,
    /// Longest sealed datagram that the sender accepts, in bytes.
    pub largest_datagram: u64,
    /// Capacity of the content log that the sender can keep, in bytes. 0: none.
    pub log_capacity: u64,
    /// How far back the sender accepts content that was reordered, in bytes. 0: none.
    pub reorder_window: u64,
}

/// Bytes that are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// A message is too long.
    #[error("a control message of {len} bytes, more than {MAX_MESSAGE}")]
    TooLong {
        /// Its length.
        len: u64,
    },
    /// A message of a type that this version does not know.
    #[error("a control message of unknown type {kind}")]
    Kind {
        /// Its type.
        kind: u64,
    },
    /// A message with a field that is missing or impossible.
    #[error("a control message with an invalid {field}")]
    Field {
        /// The field.
        field: &'static str,
    },
    /// The peer speaks another version.
    #[error("the peer speaks version {version} of the link's protocol, this end version {VERSION}")]
    Version {
        /// Its version.
        version: u64,
    },
}

impl Control {
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut body = Vec::new();
        let kind = match self {
            Control::Hello(hello) => {
                varint::put(&mut body, hello.version);
                body.extend_from_slice(&hello.association);
                body.extend_from_slice(&hello.index.to_le_bytes()[..3]);
                body.push(u8::from(hello.aes));
                varint::put(&mut body, hello.largest_datagram);
                varint::put(&mut body, hello.log_capacity);
                varint::put(&mut body, hello.reorder_window);
                HELLO
            }
            Control::Ready => READY,
            Control::Log(terms) => {
                for value in [terms.id, terms.capacity, terms.reorder, terms.first] {
                    varint::put(&mut body, value);
                }
                body.extend_from_slice(&terms.seed.to_le_bytes());
                LOG
            }
            Control::LogReady(id) => {
                varint::put(&mut body, *id);
                LOG_READY
            }
            Control::Context(terms) => {
                terms.write(&mut body);
                CONTEXT
            }
            Control::ContextReady { log, number, is_taken } => {
                varint::put(&mut body, *log);
                body.extend_from_slice(&[*number, u8::from(*is_taken)]);
                CONTEXT_READY
            }
            Control::ContextDrop { log, number } => {
                varint::put(&mut body, *log);
                body.push(*number);
                CONTEXT_DROP
            }
            Control::Close { code, text } => {
                varint::put(&mut body, *code);
                body.extend_from_slice(&text.as_bytes()[..text.len().min(256)]);
                CLOSE
            }
        };
        varint::put(out, kind);
        varint::put(out, body.len() as u64);
        out.extend_from_slice(&body);
    }

    /// Reads a message from the front of `input`, and returns its length, too; `None` if more bytes
    /// are needed, of at most [`MAX_MESSAGE`].
    ///
    /// # Errors
    /// [`ControlError`]: the connection is of no further use.
    pub fn read(input: &[u8]) -> Result<Option<(Control, usize)>, ControlError> {
        let mut rest = input;
        let mut number = |field| match varint::take(&mut rest) {
            Ok(number) => Ok(Some(number)),
            Err(varint::Stop::Short) => Ok(None),
            Err(varint::Stop::Malformed) => Err(ControlError::Field { field }),
        };
        let Some(kind) = number("type")? else { return Ok(None) };
        if !matches!(kind, HELLO..=CONTEXT_DROP | CLOSE) {
            return Err(ControlError::Kind { kind });
        }
        let Some(len) = number("length")? else { return Ok(None) };
        let before = input.len() - rest.len();
        if len > (MAX_MESSAGE - before) as u64 {
            return Err(ControlError::TooLong { len });
        }
        let Some(body) = rest.get(..len as usize) else { return Ok(None) };
        let message = match kind {
            HELLO => Control::Hello(hello(body)?),
            READY => Control::Ready,
            LOG => Control::Log(log(body)?),
            LOG_READY => Control::LogReady(field(&mut { body }, "number")?),
            CONTEXT => Control::Context(context(body)?),
            CONTEXT_READY => {
                let (log, number, rest) = numbers(body)?;
                let taken = rest.first().ok_or(ControlError::Field { field: "answer" })?;
                Control::ContextReady { log, number, is_taken: *taken == 1 }
            }
            CONTEXT_DROP => {
                let (log, number, _) = numbers(body)?;
                Control::ContextDrop { log, number }
            }
            _ => {
                let mut text = body;
                let code =
                    varint::take(&mut text).map_err(|_| ControlError::Field { field: "code" })?;
                let text = String::from_utf8_lossy(&text[..text.len().min(256)]).into_owned();
                Control::Close { code, text }
            }
        };
        Ok(Some((message, before + body.len())))
    }
}

fn field(body: &mut &[u8], field: &'static str) -> Result<u64, ControlError> {
    varint::take(body).map_err(|_| ControlError::Field { field })
}

/// Later versions may add fields at the end.
fn log(mut body: &[u8]) -> Result<LogTerms, ControlError> {
    let body = &mut body;
    let (id, capacity) = (field(body, "number")?, field(body, "capacity")?);
    let (reorder, first) = (field(body, "reorder window")?, field(body, "counter")?);
    let Some(&seed) = body.first_chunk() else { return Err(ControlError::Field { field: "seed" }) };
    Ok(LogTerms { id, capacity, reorder, first, seed: u64::from_le_bytes(seed) })
}

/// The numbers of a log and of a context, and what follows them.
fn numbers(mut body: &[u8]) -> Result<(u64, u8, &[u8]), ControlError> {
    let log = field(&mut body, "number")?;
    match body.split_first() {
        Some((&number, rest)) if (1..=MAX_CONTEXTS).contains(&number) => Ok((log, number, rest)),
        _ => Err(ControlError::Field { field: "number of a context" }),
    }
}

fn context(body: &[u8]) -> Result<ContextTerms, ControlError> {
    let (log, number, rest) = numbers(body)?;
    let Some((checksum, mut rest)) = rest.split_first_chunk() else {
        return Err(ControlError::Field { field: "checksum" });
    };
    let len = field(&mut rest, "length of codes")?;
    let codes = usize::try_from(len).ok().filter(|&len| len <= MAX_CODES);
    let Some((codes, mut rest)) = codes.and_then(|len| rest.split_at_checked(len)) else {
        return Err(ControlError::Field { field: "length of codes" });
    };
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (start, len) = (field(&mut rest, "part")?, field(&mut rest, "part")?);
        let is_possible = len > 0 && len <= MAX_PREFIX as u64 && start < 1 << 62;
        if !is_possible || parts.len() == MAX_PARTS {
            return Err(ControlError::Field { field: "part" });
        }
        parts.push(start..start + len);
    }
    let (checksum, codes) = (u64::from_le_bytes(*checksum), codes.to_vec());
    Ok(ContextTerms { log, number, checksum, codes, parts })
}

/// Later versions may add fields at the end and bits to the flags.
fn hello(mut body: &[u8]) -> Result<LinkHello, ControlError> {
    let version = field(&mut body, "version")?;
    if version != VERSION {
        return Err(ControlError::Version { version });
    }
    let Some((&association, rest)) = body.split_first_chunk::<16>() else {
        return Err(ControlError::Field { field: "association" });
    };
    let Some((&[i0, i1, i2, flags], mut rest)) = rest.split_first_chunk::<4>() else {
        return Err(ControlError::Field { field: "index" });
    };
    Ok(LinkHello {
        version,
        association,
        index: u32::from_le_bytes([i0, i1, i2, 0]),
        aes: flags & 1 != 0,
        largest_datagram: field(&mut rest, "largest datagram")?,
        log_capacity: field(&mut rest, "log capacity")?,
        reorder_window: field(&mut rest, "reorder window")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_message() -> impl Strategy<Value = Control> {
        let hello = (any::<[u8; 16]>(), 0u32..1 << 24, any::<bool>(), 0u64..1 << 60, 0u64..1 << 60)
            .prop_map(|(association, index, aes, log_capacity, reorder_window)| {
                Control::Hello(LinkHello {
                    version: VERSION,
                    association,
                    index,
                    aes,
                    largest_datagram: log_capacity / 2,
                    log_capacity,
                    reorder_window,
                })
            });
        let close =
            (0u64..1000, "[a-z ]{0,200}").prop_map(|(code, text)| Control::Close { code, text });
        let log = (0u64..1 << 62, 0u64..1 << 40, 0u64..1 << 60, any::<u64>()).prop_map(
            |(id, capacity, first, seed)| {
                Control::Log(LogTerms { id, capacity, reorder: capacity / 3, first, seed })
            },
        );
        let ready = (0u64..1 << 62).prop_map(Control::LogReady);
        let part =
            (0u64..1 << 62, 1..=MAX_PREFIX as u64).prop_map(|(start, len)| start..start + len);
        let context = (
            (0u64..1 << 62, 1..=MAX_CONTEXTS, any::<u64>()),
            proptest::collection::vec(any::<u8>(), 0..=MAX_CODES),
            proptest::collection::vec(part, 0..=MAX_PARTS),
        );
        let context = context.prop_map(|((log, number, checksum), codes, parts)| {
            Control::Context(ContextTerms { log, number, checksum, codes, parts })
        });
        let answer = (0u64..1 << 62, 1..=MAX_CONTEXTS, any::<bool>())
            .prop_map(|(log, number, is_taken)| Control::ContextReady { log, number, is_taken });
        let gone = (0u64..1 << 62, 1..=MAX_CONTEXTS)
            .prop_map(|(log, number)| Control::ContextDrop { log, number });
        prop_oneof![hello, Just(Control::Ready), log, ready, context, answer, gone, close]
    }

    proptest! {
        #[test]
        fn messages_round_trip(messages in proptest::collection::vec(any_message(), 1..5)) {
            let mut wire = Vec::new();
            for message in &messages {
                message.write(&mut wire);
            }
            let mut rest = &wire[..];
            for message in messages {
                let (read, len) = Control::read(rest).unwrap().unwrap();
                prop_assert_eq!(read, message);
                for cut in (0..len).step_by(1 + len / 300) {
                    prop_assert_eq!(Control::read(&rest[..cut]), Ok(None));
                }
                rest = &rest[len..];
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn any_bytes_are_a_message_or_an_error(input in proptest::collection::vec(any::<u8>(), 0..60), kind in 0u8..11) {
            let _ = Control::read(&input);
            let _ = Control::read(&[&[kind, input.len() as u8], &input[..]].concat());
        }
    }

    #[test]
    fn other_versions_types_and_lengths_are_errors() {
        assert_eq!(Control::read(&[1, 1, 2]), Err(ControlError::Version { version: 2 }));
        assert_eq!(Control::read(&[8]), Err(ControlError::Kind { kind: 8 }));
        assert_eq!(Control::read(&[3, 1, 1]), Err(ControlError::Field { field: "capacity" }));
        assert_eq!(Control::read(&[4, 0]), Err(ControlError::Field { field: "number" }));
        assert_eq!(Control::read(&[9, 0xff, 0x1f]), Err(ControlError::TooLong { len: 4095 }));
        // Numbers 1 to 8; parts of at least a byte, in pairs.
        for number in [0, 9] {
            let error = ControlError::Field { field: "number of a context" };
            assert_eq!(Control::read(&[7, 2, 1, number]), Err(error));
        }
        let start = [5, 13, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for end in [[7, 0], [7, 0x80]] {
            let error = ControlError::Field { field: "part" };
            assert_eq!(Control::read(&[&start[..], &end].concat()), Err(error));
        }
        assert_eq!(Control::read(&[1, 1, 1]), Err(ControlError::Field { field: "association" }));
    }
}
