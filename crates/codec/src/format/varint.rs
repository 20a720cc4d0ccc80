//! Variable-length integers: seven bits a byte, least significant first, the top bit set on all but
//! the last (LEB128). At most 9 bytes, so values below 2^63, and the shortest form only.

use crate::error::FrameError;

/// Appends `value`.
///
/// # Panics
/// In debug builds, if `value` is 2^63 or more.
#[inline]
pub fn put(out: &mut Vec<u8>, mut value: u64) {
    debug_assert!(value >> 63 == 0);
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Why a varint could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The input ends inside it.
    Short,
    /// It has more than 9 bytes or a superfluous last byte of 0.
    Malformed,
}

/// Reads a varint from the front of `input`. On error `input` is unchanged.
///
/// # Errors
/// [`Stop`].
#[inline]
pub fn take(input: &mut &[u8]) -> Result<u64, Stop> {
    let mut value = 0;
    for (i, &byte) in input.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            if byte == 0 && i > 0 {
                return Err(Stop::Malformed);
            }
            *input = &input[i + 1..];
            return Ok(value);
        }
    }
    Err(if input.len() < 9 { Stop::Short } else { Stop::Malformed })
}

/// Reads a varint that is a field of a complete frame body.
pub(crate) fn field(input: &mut &[u8], field: &'static str) -> Result<u64, FrameError> {
    take(input).map_err(|stop| match stop {
        Stop::Short => FrameError::Short { section: field },
        Stop::Malformed => FrameError::Field {
            field,
            value: u64::MAX,
            allowed: "a varint of at most 9 bytes in its shortest form",
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        for shift in 0..63 {
            for value in [1u64 << shift, (1 << shift) - 1, (1 << shift) + 1] {
                let mut out = Vec::new();
                put(&mut out, value);
                out.push(99);
                let mut input = &out[..];
                assert_eq!(take(&mut input), Ok(value));
                assert_eq!(input, [99]);
                assert_eq!(take(&mut &out[..out.len() - 2]), Err(Stop::Short));
            }
        }
    }

    #[test]
    fn only_the_shortest_form_and_nine_bytes() {
        assert_eq!(take(&mut &[0x80, 0x00][..]), Err(Stop::Malformed));
        assert_eq!(take(&mut &[0xff; 10][..]), Err(Stop::Malformed));
        assert_eq!(
            take(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f][..]),
            Ok((1 << 63) - 1)
        );
        assert_eq!(take(&mut &[][..]), Err(Stop::Short));
    }
}
