//! Handmade frames, valid or not, and the content of the vectors. Do not change anything here: the
//! vectors depend on it.

pub(crate) use crate::input::noise;
use oncewire_codec::ChecksumSeed;

/// Text like that of a log file.
pub(crate) fn text(seed: u64, len: usize) -> Vec<u8> {
    const WORDS: [&str; 32] = [
        "the ",
        "block ",
        "at ",
        "offset ",
        "is ",
        "held ",
        "by ",
        "both ",
        "ends; ",
        "a ",
        "match ",
        "of ",
        "bytes ",
        "names ",
        "it ",
        "again\n",
        "GET ",
        "/releases/",
        "index.html ",
        "HTTP/1.1\n",
        "host: ",
        "mirror.example\n",
        "200 ",
        "304 ",
        "content-length: ",
        "4096\n",
        "17 ",
        "ms\n",
        "lane ",
        "0 ",
        "1 ",
        "wire\n",
    ];
    noise(seed ^ 0x7e87, len)
        .iter()
        .flat_map(|pick| WORDS[usize::from(pick >> 3)].bytes())
        .take(len)
        .collect()
}

/// Digits without repeats of a relevant length.
pub(crate) fn digits(seed: u64, len: usize) -> Vec<u8> {
    noise(seed ^ 0xd161, len)
        .iter()
        .map(|pick| b"0123456789abcdef"[usize::from(pick >> 4)])
        .collect()
}

/// A run of `unit`.
pub(crate) fn run(unit: &[u8], len: usize) -> Vec<u8> {
    unit.iter().copied().cycle().take(len).collect()
}

/// Varints of a frame.
pub(crate) fn varints(values: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    for &value in values {
        let mut left = value;
        while left >= 0x80 {
            out.push(left as u8 | 0x80);
            left >>= 7;
        }
        out.push(left as u8);
    }
    out
}

/// Flag bits of a frame.
pub(crate) const PLAIN: u8 = 1;
pub(crate) const CODED: u8 = 2;
pub(crate) const LZ4: u8 = 4;
pub(crate) const LITERALS: u8 = 8;
pub(crate) const TRANSCODED: u8 = 12;
pub(crate) const OFFSET: u8 = 16;
pub(crate) const FRESH: u8 = 32;
pub(crate) const CONTEXT: u8 = 64;

/// A frame, field by field. Fields that the flags do not announce are omitted.
#[derive(Clone, Default)]
pub(crate) struct Hand {
    pub(crate) flags: u8,
    pub(crate) block_len: u64,
    pub(crate) explicit: (u64, u64),
    pub(crate) context: u64,
    pub(crate) hull: (u64, u64),
    pub(crate) descriptors: Vec<u8>,
    /// Of coded descriptors.
    pub(crate) in_columns: bool,
    pub(crate) literals: Vec<u8>,
    pub(crate) checksum: u64,
}

impl Hand {
    /// A raw frame of `block` at `offset`, which it does not state.
    pub(crate) fn raw(offset: u64, block: &[u8]) -> Hand {
        let checksum = ChecksumSeed::default().checksum(offset, 0, block);
        Hand {
            block_len: block.len() as u64,
            literals: block.to_vec(),
            checksum,
            ..Hand::default()
        }
    }

    /// A frame of `block` at `offset` with plain descriptors: count, then gap, distance and length
    /// of each.
    pub(crate) fn plain(offset: u64, block: &[u8], numbers: &[u64], literals: &[u8]) -> Hand {
        Hand {
            flags: PLAIN,
            descriptors: varints(numbers),
            literals: literals.to_vec(),
            ..Hand::raw(offset, block)
        }
    }

    /// The same frame, stating its offset and the padding before it.
    pub(crate) fn at(self, offset: u64, padding: u64, block: &[u8]) -> Hand {
        let checksum = ChecksumSeed::default().checksum(offset, padding, block);
        Hand { flags: self.flags | OFFSET, explicit: (offset, padding), checksum, ..self }
    }

    /// The descriptor length as the frame states it.
    pub(crate) fn descriptors_len(&self) -> u64 {
        let len = self.descriptors.len() as u64;
        if self.flags & 3 == CODED { 2 * len + u64::from(self.in_columns) } else { len }
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut body = varints(&[self.block_len]);
        if self.flags & OFFSET != 0 {
            body.extend(varints(&[self.explicit.0, self.explicit.1]));
        }
        if self.flags & CONTEXT != 0 {
            body.extend(varints(&[self.context]));
        }
        if self.flags & 3 == CODED {
            body.extend(varints(&[self.hull.0, self.hull.1]));
        }
        if self.flags & 3 != 0 {
            body.extend(varints(&[self.descriptors_len()]));
        }
        body.extend_from_slice(&self.descriptors);
        body.extend_from_slice(&self.literals);
        body.extend_from_slice(&self.checksum.to_le_bytes());
        [&[self.flags][..], &varints(&[body.len() as u64]), &body].concat()
    }
}

/// Coded literals without short matches, as they are: from 16 bytes on, a 0 says so.
pub(crate) fn plainly_coded(literals: &[u8]) -> Vec<u8> {
    let raw = if literals.len() < 16 { &[0][..] } else { &[0, 0] };
    [raw, literals].concat()
}
