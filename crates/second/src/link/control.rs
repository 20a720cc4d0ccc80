//! Control messages as a receiver of packets sees them: section 5.

use super::fields::{Fields, Parsed};
use super::literals::Context;
use super::log::Log;
use super::{Receiver, Waiting};

/// Longest message.
const LONGEST: u64 = 4_096;

/// Numbers of contexts that are announced.
const NUMBERS: std::ops::RangeInclusive<u8> = 1..=8;

/// What a receiver answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    LogReady { number: u64 },
    ContextReady { log: u64, number: u8, is_taken: bool },
}

impl Answer {
    /// The message.
    pub fn bytes(&self) -> Vec<u8> {
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
pub fn message<'a>(stream: &mut &'a [u8]) -> Parsed<Option<(u64, &'a [u8])>> {
    let mut fields = Fields(stream);
    let kind = fields.varint();
    let len = fields.varint();
    let (Ok(kind), Ok(len)) = (kind, len) else {
        return if stream.len() < 18 { Ok(None) } else { Err("head of a message") };
    };
    let head = (stream.len() - fields.0.len()) as u64;
    if head + len > LONGEST {
        return Err("a message that is too long");
    }
    let Ok(body) = fields.bytes(len) else { return Ok(None) };
    *stream = fields.rest();
    Ok(Some((kind, body)))
}

impl Receiver {
    /// Processes a message of the other end. Errors end the connection.
    pub fn control(&mut self, kind: u64, body: &[u8]) -> Parsed<Option<Answer>> {
        let mut fields = Fields(body);
        match kind {
            3 => self.announced_log(&mut fields),
            5 => self.announced_context(&mut fields),
            7 => {
                let (log, number) = (fields.varint()?, fields.byte()?);
                if !NUMBERS.contains(&number) {
                    return Err("number of a context");
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
        if number > self.newest_log {
            self.log = None;
            self.ends.clear();
            self.waiting.retain(|_: &Waiting| false);
            let (most, longest) = self.offered;
            if capacity > most || window > longest || capacity < 1 << 20 || window > capacity / 16 {
                return Err("a log that was not offered");
            }
            self.log = Some(Log::new(number, capacity, window, counter, seed));
            self.newest_log = number;
        }
        if self.log.as_ref().is_none_or(|log| log.number != number) {
            return Ok(None);
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
            let (offset, len) = (fields.varint()?, fields.varint()?);
            if offset >= 1 << 62 || !(1..=32_768).contains(&len) {
                return Err("a part of a prefix");
            }
            parts.push((offset, len));
        }
        if !NUMBERS.contains(&number) || codes.len() > 9 * 128 || parts.len() > 256 {
            return Err("number of a context, or of its codes or parts");
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
    let mut prefix = Vec::new();
    for &(offset, len) in parts {
        let part = offset..offset + len;
        if !log.is_in_one_generation(&part) {
            return Err("a part of two generations");
        }
        prefix.extend(log.content(part).ok_or("a part that is not held")?);
    }
    Ok(prefix)
}
