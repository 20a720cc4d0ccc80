//! Fields of records, frames and messages, from the front.

/// What is left of a record, frame or message.
#[derive(Clone, Copy)]
pub struct Fields<'a>(pub &'a [u8]);

/// A value, or the rule that its bytes break.
pub(super) type Parsed<T> = Result<T, &'static str>;

impl<'a> Fields<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn bytes(&mut self, count: u64) -> Parsed<&'a [u8]> {
        let count = usize::try_from(count).map_err(|_| "a length that does not fit")?;
        let (front, rest) = self.0.split_at_checked(count).ok_or("bytes missing")?;
        self.0 = rest;
        Ok(front)
    }

    pub fn byte(&mut self) -> Parsed<u8> {
        Ok(self.bytes(1)?[0])
    }

    /// A number of this many bytes, little-endian.
    pub fn number(&mut self, bytes: u64) -> Parsed<u64> {
        let bytes = self.bytes(bytes)?;
        Ok(bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
    }

    /// FORMAT.md, section 1.
    pub fn varint(&mut self) -> Parsed<u64> {
        let mut value = 0;
        for i in 0..9 {
            let byte = self.byte()?;
            value += u64::from(byte % 128) << (7 * i);
            if byte < 128 {
                return if byte == 0 && i > 0 { Err("not the shortest form") } else { Ok(value) };
            }
        }
        Err("a varint of more than 9 bytes")
    }

    /// A difference modulo 2^`bits` (section 4.5): zigzag.
    pub fn difference(&mut self, bits: u32) -> Parsed<i64> {
        let twice = self.varint()?;
        if twice >> bits != 0 {
            return Err("a difference out of range");
        }
        let half = (twice / 2) as i64;
        Ok(if twice % 2 == 1 { !half } else { half })
    }

    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}
