//! What `session` must know of IP headers: where their fields are, and what they leave out.
//!
//! `docs/LINK.md`, section 4.5, names the same fields.

use oncewire_packet::fields::{Headers, TCP};
use oncewire_packet::offload::LeftOut;
use oncewire_session::link::{Fields, Implied};

/// Finds the fields of a header. Both ends must find the same, so a change here is one of the format.
pub(super) fn layout(header: &[u8]) -> Fields {
    let Ok(headers) = Headers::parse(header) else { return Fields::default() };
    let place = |at: usize| u8::try_from(at).ok();
    let span = |start: usize, end: usize| place(start).zip(place(end)).unwrap_or_default();
    let network = headers.network;
    let mut fields = if headers.is_v6() {
        Fields { addresses: (8, 40), ..Fields::default() }
    } else {
        Fields { addresses: (12, 20), identification: Some(4), ..Fields::default() }
    };
    if headers.transport.is_some() {
        fields.ports = span(network, network + 4);
        fields.checksum = headers.checksum_at().and_then(place);
    }
    if headers.transport.is_some() && headers.protocol == TCP {
        fields.sequence = place(network + 4);
        fields.acknowledgment = place(network + 8);
        fields.flags = place(network + 13);
        fields.window = place(network + 14);
        fields.timestamps = headers.timestamps_at(header).and_then(place);
    }
    fields
}

pub(super) fn implied(left_out: LeftOut) -> Implied {
    match left_out {
        LeftOut::Nothing => Implied::Nothing,
        LeftOut::Lengths => Implied::Lengths,
        LeftOut::LengthsAndChecksum => Implied::LengthsAndChecksum,
    }
}

pub(super) fn left_out(implied: Implied) -> LeftOut {
    match implied {
        Implied::Nothing => LeftOut::Nothing,
        Implied::Lengths => LeftOut::Lengths,
        Implied::LengthsAndChecksum => LeftOut::LengthsAndChecksum,
    }
}

#[cfg(test)]
mod tests;
