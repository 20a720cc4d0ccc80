//! Control messages as a receiver of packets sees them: section 5.

use super::fields::{Fields, Parsed};
use super::literals::Context;
use super::log::Log;
use super::{Receiver, Waiting};

/// Longest message.
const LONGEST: u64 = 4_096;

/// What a receiver answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    LogReady { number: u64 },
    ContextReady { log: u64, number: u8, is_taken: bool },
}

impl Answer {
    /// The message.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let varint = |out: &mut Vec<u8>, mut value: u64| {
            while value >= 128 {
                out.push(value as u8 | 128);
                value >>= 7;
            }
            out.push(value as u8);
        };
        let mut body = Vec::new();
        let kind = match *self {
            Answer::LogReady { number } => {
                varint(&mut body, number);
                4
            }
            Answer::ContextReady { log, number, is_taken } => {
                varint(&mut body, log);
                body.extend([number, is_taken.into()]);
                6
            }
        };
        [&[kind, body.len() as u8], &body[..]].concat()
    }
}

/// Type and body of a message, which is removed from the front of a stream. `None` if it is not
/// there as a whole.
pub(crate) fn message<'a>(stream: &mut &'a [u8]) -> Parsed<Option<(u64, &'a [u8])>> {
    let mut fields = Fields(stream);
    let Ok((kind, len)) = fields.varint().and_then(|kind| Ok((kind, fields.varint()?))) else {
        return if stream.len() < 18 { Ok(None) } else { Err("head of a message") };
    };
    if len > LONGEST {
        return Err("a message that is too long");
    }
    let Ok(body) = fields.bytes(len) else { return Ok(None) };
    *stream = fields.rest();
    Ok(Some((kind, body)))
}

impl Receiver {
    /// Processes a message of the other end. Errors end the connection.
    pub(crate) fn control(&mut self, kind: u64, body: &[u8]) -> Parsed<Option<Answer>> {
        let mut fields = Fields(body);
        match kind {
            3 => self.announced_log(&mut fields),
            5 => self.announced_context(&mut fields),
            7 => {
                let (log, number) = (fields.varint()?, fields.byte()?);
                if !fields.is_empty() {
                    return Err("bytes left over");
                }
                if let Some(own) = self.log.as_mut().filter(|own| own.number == log) {
                    own.contexts.remove(&number);
                }
                Ok(None)
            }
            // What a sender of packets processes, or the connection.
            1 | 2 | 4 | 6 | 9 => Ok(None),
            _ => Err("an unknown message"),
        }
    }

    /// LOG.
    fn announced_log(&mut self, fields: &mut Fields<'_>) -> Parsed<Option<Answer>> {
        let (number, capacity, window, counter) =
            (fields.varint()?, fields.varint()?, fields.varint()?, fields.varint()?);
        let seed = fields.number(8)?;
        if capacity > self.offered.0
            || window > self.offered.1
            || capacity < 1 << 20
            || window > capacity / 16
            || number == 0
        {
            return Err("a log that was not offered");
        }
        let own = self.log.as_ref().map_or(0, |log| log.number);
        if number < own {
            return Ok(None);
        }
        if number > own {
            self.log = Some(Log::new(number, capacity, window, counter, seed));
            self.ends.clear();
            self.waiting.retain(|_: &Waiting| false);
        }
        Ok(Some(Answer::LogReady { number }))
    }

    /// CONTEXT.
    fn announced_context(&mut self, fields: &mut Fields<'_>) -> Parsed<Option<Answer>> {
        let (log, number, checksum) = (fields.varint()?, fields.byte()?, fields.number(8)?);
        let len = fields.varint()?;
        let codes = fields.bytes(len)?;
        let mut parts = Vec::new();
        while !fields.is_empty() {
            parts.push((fields.varint()?, fields.varint()?));
        }
        if !(1..=8).contains(&number) {
            return Err("number of a context");
        }
        let Some(own) = self.log.as_mut().filter(|own| own.number == log) else { return Ok(None) };
        own.contexts.remove(&number);
        let context = prefix(own, &parts).and_then(|prefix| {
            if own.checksum(0, &prefix) == checksum {
                Context::new(codes, prefix)
            } else {
                Err("checksum of a prefix")
            }
        });
        let is_taken = context.is_ok();
        if let Ok(context) = context {
            own.contexts.insert(number, context);
        }
        Ok(Some(Answer::ContextReady { log, number, is_taken }))
    }
}

fn prefix(log: &Log, parts: &[(u64, u64)]) -> Parsed<Vec<u8>> {
    if parts.len() > 256 {
        return Err("number of parts");
    }
    let mut prefix = Vec::new();
    for &(offset, len) in parts {
        let part = offset..offset.checked_add(len).ok_or("a part beyond all offsets")?;
        if !log.is_in_one_generation(&part) || len > 32_768 {
            return Err("a part of two generations");
        }
        prefix.extend(log.content(part).ok_or("a part that is not held")?);
    }
    Ok(prefix)
}
