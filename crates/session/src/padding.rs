//! PAD: hides the exact size of what is sent.

use crate::limits::{LEAST_PAD, MAX_BODY};
use crate::message::Message;

/// The size that `len` bytes are padded to: a power of two, at least [`LEAST_PAD`] and less than
/// `most`; beyond that, a multiple of `most`.
fn bucket(len: usize, most: usize) -> usize {
    let power = len.next_power_of_two().max(LEAST_PAD as usize);
    if power < most { power } else { len.next_multiple_of(most) }
}

/// How many bytes of PAD follow `len` bytes: at most `most + 1`, and at most `len + 2` from
/// [`LEAST_PAD`] on.
fn padding(len: usize, most: usize) -> usize {
    let padding = bucket(len, most) - len;
    // No PAD is that short.
    if padding == 1 { bucket(len + 2, most) - len } else { padding }
}

/// Appends PADs to `out` so that what follows `start` takes one of few sizes. Returns their bytes.
pub(crate) fn pad(start: usize, most: u32, out: &mut Vec<u8>) -> usize {
    let all = padding(out.len() - start, most as usize);
    let end = out.len() + all;
    while out.len() < end {
        let len = match end - out.len() {
            rest @ ..=129 => rest - 2,
            // A body of 127 bytes would leave 1, of 128 would take 131.
            130 => 126,
            rest if rest <= MAX_BODY => rest - 3,
            // What is left is no short rest, for which there may be no PAD.
            _ => MAX_BODY / 2,
        };
        Message::Pad(&[0; MAX_BODY][..len]).write(out);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MOST_PAD;

    #[test]
    fn anything_is_padded_exactly_and_bounded() {
        for most in [64, 65, 100, 128, 1000, 1024, 4096, 10_007, MOST_PAD] {
            let mut sizes = std::collections::BTreeSet::new();
            for len in (1..9000).chain(65_000..66_000) {
                let mut out = vec![7; 10 + len];
                let padding = pad(10, most, &mut out);
                assert_eq!(out.len(), 10 + len + padding, "{len} to {most}");
                assert!(padding <= 1 + most as usize, "{len} to {most}");
                assert!(padding <= len.max(LEAST_PAD as usize) + 2, "{len} to {most}");
                let mut pads = &out[10 + len..];
                while !pads.is_empty() {
                    let message = Message::take(&mut pads).unwrap();
                    assert!(matches!(message, Some(Message::Pad(_))), "{message:?}");
                }
                sizes.insert(out.len() - 10);
            }
            let powers = (6..16).filter(|power| 1 << power < most).count();
            assert!(sizes.len() <= powers + 66_100_usize.div_ceil(most as usize), "{sizes:?}");
        }
    }
}
