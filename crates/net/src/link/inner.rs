//! What a router does with packets that pass between networks of different kinds: MSS of SYNs,
//! packets that are too big, ECN.

use super::Shared;
use super::headers::implied;
use super::status::count;
use crate::status::DropCounters;
use oncewire_codec::Domain;
use oncewire_packet::ecn::Ecn;
use oncewire_packet::fields::Headers;
use oncewire_packet::icmp::{self, AnswerLimit, LEAST_MTU_V6};
use oncewire_packet::mss;
use oncewire_packet::offload::{self, Offered, OffloadError, VIRTIO_HEADER};
use oncewire_session::link::{Dropped, Implied, Inbound, OVERHEAD, Sender};

/// Flag of the virtio header: the transport checksum is open.
const NEEDS_CHECKSUM: u8 = 1;

/// Longest packet that is sure to fit a datagram of `sender`.
pub(super) fn largest_packet(sender: &Sender) -> u16 {
    u16::try_from(sender.largest() - OVERHEAD).unwrap_or(u16::MAX)
}

/// Reads what the device returned, and makes the MSS of a SYN fit packets of `mtu` bytes.
pub(super) fn offered(frame: &mut [u8], mtu: u16) -> Result<Offered<'_>, OffloadError> {
    // Before anything is left out of the headers.
    if let Some((virtio, packet)) = frame.split_first_chunk_mut::<VIRTIO_HEADER>()
        && let Ok(headers) = Headers::parse(packet)
    {
        mss::clamp(packet, &headers, mtu, virtio[0] & NEEDS_CHECKSUM != 0);
    }
    offload::from_device(frame)
}

/// Answers to packets that do not fit, for the device.
#[derive(Default)]
pub(super) struct Answers {
    limit: AnswerLimit,
    /// Each with its virtio header.
    pub(super) frames: Vec<Vec<u8>>,
}

/// What becomes of a packet or run that does not fit a datagram: pieces, if this end sends them, or
/// if a router had to fragment it, or may not say that the MTU is as small; otherwise an answer.
pub(super) fn too_large(
    shared: &Shared,
    drops: &DropCounters,
    sender: &mut Sender,
    offered: &Offered<'_>,
    domain: Domain,
    answers: &mut Answers,
) -> Result<(), Dropped> {
    let Offered { headers, packet, segment, .. } = *offered;
    let len = segment.map_or(packet.len(), |size| headers.total() + usize::from(size.get()));
    let is_least = headers.is_v6() && len <= LEAST_MTU_V6.into();
    if shared.config.shaping.split || is_least || icmp::may_fragment(packet, &headers) {
        return split(sender, offered, domain);
    }
    count(&drops.too_large);
    let mtu = largest_packet(sender);
    if let Some(answer) = icmp::too_big(offered, mtu)
        && answers.limit.allows(std::time::Instant::now())
    {
        answers.frames.push([&[0; VIRTIO_HEADER][..], &answer].concat());
    }
    Ok(())
}

/// Sends a packet, or each segment of a run, in pieces.
fn split(sender: &mut Sender, offered: &Offered<'_>, domain: Domain) -> Result<(), Dropped> {
    let Offered { headers, packet, left_out, open_checksum, segment } = *offered;
    let header = headers.total();
    let Some(size) = segment else {
        let (header, payload) = packet.split_at(header);
        let implied = implied(left_out);
        let packet = Inbound { header, open_checksum, implied, segment: None, payload, domain };
        return sender.enqueue_pieces(packet);
    };
    let mut result = Ok(());
    // Not a run any more: its segments have their own checksums.
    let cut = offload::segments(packet, header, (0, size, true), |frame| {
        let (header, payload) = frame[VIRTIO_HEADER..].split_at(header);
        let (open_checksum, implied) = (false, Implied::Nothing);
        let packet = Inbound { header, open_checksum, implied, segment: None, payload, domain };
        let sent = match sender.enqueue(packet) {
            Err(Dropped::TooLarge) => sender.enqueue_pieces(packet),
            sent => sent,
        };
        result = result.and(sent);
    });
    cut.map_err(|_| Dropped::Run)?;
    result
}

/// Carries congestion that the datagrams of a packet met over to the packet (RFC 6040). `packet` may
/// be in the form of a run, without an IPv4 checksum. Returns false if the packet must be dropped.
pub(super) fn carry_congestion(
    packet: &mut [u8],
    headers: &Headers,
    outer: u8,
    is_run: bool,
) -> bool {
    let inner = Ecn::of(packet);
    let Some(combined) = inner.decapsulated(Ecn::from_bits(outer)) else { return false };
    if combined != inner {
        combined.set(packet, headers, !is_run);
    }
    true
}
