//! Frames with arbitrary fields, valid or not.

use crate::common::params::Params;
use crate::{free, second, second_parameters};
use oncewire_codec::Decoder;

/// The fields of a frame, written without checks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub(crate) flags: u8,
    pub(crate) block_len: u64,
    pub(crate) explicit: Option<(u64, u64)>,
    pub(crate) context: Option<u64>,
    /// As in the frame: distances back from the offset.
    pub(crate) hull: Option<(u64, u64)>,
    pub(crate) descriptors: Option<Vec<u8>>,
    pub(crate) literals: Vec<u8>,
    pub(crate) checksum: u64,
    /// The index of a varint to write with a superfluous final byte.
    pub(crate) overlong: Option<usize>,
}

impl Draft {
    pub(crate) fn fields(&self) -> Vec<u64> {
        let mut fields = vec![self.block_len];
        self.explicit.iter().for_each(|&(offset, padding)| fields.extend([offset, padding]));
        fields.extend(self.context);
        self.hull.iter().for_each(|&(start, end)| fields.extend([start, end]));
        fields.extend(self.descriptors.iter().map(|section| section.len() as u64));
        fields
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for (i, field) in self.fields().into_iter().enumerate() {
            free::put(&mut body, field);
            if self.overlong == Some(i) {
                *body.last_mut().unwrap() |= 128;
                body.push(0);
            }
        }
        body.extend_from_slice(self.descriptors.as_deref().unwrap_or_default());
        body.extend_from_slice(&self.literals);
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
