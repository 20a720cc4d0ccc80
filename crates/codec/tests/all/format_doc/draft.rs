//! Frames with arbitrary fields, valid or not.

use super::{free, second_parameters};
use crate::common::params::Params;
use oncewire_codec::Decoder;
use oncewire_second::format as second;

/// The fields of a frame, written without checks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) flags: u8,
    pub(crate) block_len: u64,
    /// With bit 7 of the flags.
    pub(crate) width: Option<u8>,
    pub(crate) explicit: Option<(u64, u64)>,
    pub(crate) context: Option<u64>,
    /// As in the frame: distances back from the offset.
    pub(crate) hull: Option<(u64, u64)>,
    pub(crate) descriptors: Option<Vec<u8>>,
    /// Of coded descriptors.
    pub(crate) in_columns: bool,
    pub(crate) literals: Vec<u8>,
    pub(crate) checksum: u64,
    /// Bytes of the body after which the checksum follows, before all fields are written.
    pub(crate) cut: Option<usize>,
    /// The index of a varint to write with a superfluous final byte.
    pub(crate) overlong: Option<usize>,
}

impl Draft {
    /// The fields, each with the bytes that it takes; 0 stands for a varint.
    pub(crate) fn fields(&self) -> Vec<(u64, usize)> {
        let mut fields = vec![(self.block_len, 0)];
        let size = |bytes| if self.width.is_some() { bytes } else { 0 };
        let position = usize::from(self.width.unwrap_or(0)).div_ceil(8);
        fields.extend(self.width.map(|width| (width.into(), 1)));
        if let Some((offset, padding)) = self.explicit {
            fields.extend([(offset, size(8)), (padding, size(2))]);
        }
        fields.extend(self.context.map(|context| (context, size(1))));
        if let Some((start, end)) = self.hull {
            fields.extend([(start, position), (end, position)]);
        }
        let stated = |section: &Vec<u8>| match self.flags & 3 {
            2 => 2 * section.len() as u64 + u64::from(self.in_columns),
            _ => section.len() as u64,
        };
        fields.extend(self.descriptors.iter().map(|section| (stated(section), 0)));
        fields
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for (i, (field, bytes)) in self.fields().into_iter().enumerate() {
            free::put_position(&mut body, field, bytes);
            if self.overlong == Some(i) {
                *body.last_mut().unwrap() |= 128;
                body.push(0);
            }
        }
        body.extend_from_slice(self.descriptors.as_deref().unwrap_or_default());
        body.extend_from_slice(&self.literals);
        body.truncate(self.cut.unwrap_or(usize::MAX));
        body.extend_from_slice(&self.checksum.to_le_bytes());
        let mut out = vec![self.flags];
        free::put(&mut out, body.len() as u64);
        out.extend_from_slice(&body);
        out
    }
}

pub(crate) fn decoders(params: &Params) -> (Decoder, second::Decoder) {
    (params.decoder(), second::Decoder::new(second_parameters(params)))
}
