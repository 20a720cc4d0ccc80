//! The queue before the encoder (`--rate`), and spares of small datagrams (`--duplicate`).

use oncewire_packet::ecn::Ecn;
use oncewire_packet::fields::Headers;
use oncewire_packet::offload::{self, LeftOut, Offered};
use oncewire_session::link::MAX_SEGMENTS;
use oncewire_session::link::queue::{
    FairQueues, QueueConfig, QueueStats, TARGET, TokenBucket, Waiting,
};
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU16;
use std::time::Instant;

/// A packet or run that waits, in the form of [`Offered`].
pub(super) struct QueuedPacket {
    pub(super) peer: usize,
    headers: Headers,
    packet: Vec<u8>,
    left_out: LeftOut,
    open_checksum: bool,
    segment: Option<NonZeroU16>,
    ecn: Ecn,
}

impl QueuedPacket {
    pub(super) fn offered(&self) -> Offered<'_> {
        Offered {
            headers: self.headers,
            packet: &self.packet,
            left_out: self.left_out,
            open_checksum: self.open_checksum,
            segment: self.segment,
        }
    }
}

impl Waiting for QueuedPacket {
    fn bytes(&self) -> usize {
        self.packet.len()
    }

    fn drop_first(&mut self) -> bool {
        let Some(size) = self.segment else { return false };
        let start = self.headers.total();
        let first = start + usize::from(size.get());
        if self.packet.len() <= first {
            return false;
        }
        let mut header = Vec::new();
        offload::header_of_part(&self.offered(), 1, size, true, &mut header);
        self.packet.drain(start..first);
        self.packet[..start].copy_from_slice(&header);
        true
    }

    fn mark(&mut self) -> bool {
        if self.ecn == Ecn::NotEct {
            return false;
        }
        let has_checksum = self.left_out == LeftOut::Nothing;
        Ecn::Ce.set(&mut self.packet, &self.headers, has_checksum);
        self.ecn = Ecn::Ce;
        true
    }
}

/// Packets that wait for a path of known rate.
pub(super) struct Shaper {
    queues: FairQueues<QueuedPacket>,
    bucket: TokenBucket,
    /// Of flows, with a secret that outsiders do not know (RFC 8290 section 4.1.2).
    hash: RandomState,
    /// Most payload of a run, so that it takes no longer than [`TARGET`].
    cut: usize,
    part: Vec<u8>,
}

impl Shaper {
    /// For `rate` bytes per second, and datagrams of up to `datagram` bytes.
    pub(super) fn new(rate: u64, datagram: usize, now: Instant) -> Shaper {
        Shaper {
            queues: FairQueues::new(QueueConfig::flows(rate, datagram)),
            bucket: TokenBucket::new(rate, datagram, now),
            hash: RandomState::new(),
            cut: (rate as f64 * TARGET.as_secs_f64()) as usize,
            part: Vec::new(),
        }
    }

    /// Adds what the device returned for a peer. Runs are cut.
    pub(super) fn push(&mut self, peer: usize, offered: &Offered<'_>, now: Instant) {
        let Offered { headers, packet, left_out, open_checksum, segment } = *offered;
        let ports = headers.transport.map(|transport| (transport.source, transport.destination));
        let flow = (headers.source, headers.destination, headers.protocol, ports);
        let class = self.hash.hash_one(flow);
        let ecn = Ecn::of(packet);
        let queued =
            |packet| QueuedPacket { peer, headers, packet, left_out, open_checksum, segment, ecn };
        let Some(size) = segment else {
            return self.queues.push(class, queued(packet.to_vec()), now);
        };
        let payload = &packet[headers.total()..];
        let each = (self.cut / usize::from(size.get())).clamp(1, MAX_SEGMENTS);
        let parts = payload.len().div_ceil(each * usize::from(size.get())).max(1);
        for part in 0..parts {
            let from = part * each * usize::from(size.get());
            let to = (from + each * usize::from(size.get())).min(payload.len());
            offload::header_of_part(offered, part * each, size, part + 1 == parts, &mut self.part);
            let packet = [&self.part[..], &payload[from..to]].concat();
            self.queues.push(class, queued(packet), now);
        }
    }

    /// The next packet, if the path has room for more than `batched` bytes.
    pub(super) fn pop(&mut self, batched: usize, now: Instant) -> Option<QueuedPacket> {
        (self.bucket.available(now) > batched).then(|| self.queues.pop(now)).flatten()
    }

    /// Counts what was sent on the path.
    pub(super) fn charge(&mut self, bytes: usize) {
        self.bucket.charge(bytes);
    }

    /// When a packet may be sent.
    pub(super) fn deadline(&self, now: Instant) -> Option<Instant> {
        (!self.queues.is_empty()).then(|| self.bucket.deadline().unwrap_or(now))
    }

    pub(super) fn stats(&self) -> QueueStats {
        self.queues.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oncewire_packet::offload::VIRTIO_HEADER;
    use std::time::Duration;

    /// A run of 5 segments of TCP with ECT(0) as a device returns it: the last is shorter.
    fn run() -> Vec<u8> {
        let payload = 4 * 1000 + 300;
        let mut frame = vec![1, 1, 40, 0, 232, 3, 20, 0, 16, 0];
        let len = (40 + payload as u16).to_be_bytes();
        frame.extend([
            0x45, 2, len[0], len[1], 0, 7, 0x40, 0, 64, 6, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1,
        ]);
        frame.extend([0, 80, 1, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0x50, 0x18, 1, 1, 0, 0, 0, 0]);
        frame.extend((0..payload).map(|at| (at / 7) as u8));
        frame
    }

    fn segments(queued: &[QueuedPacket]) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        for queued in queued {
            let (size, header) = (queued.segment.unwrap(), queued.headers.total());
            let keep = |frame: &[u8]| packets.push(frame[VIRTIO_HEADER..].to_vec());
            // A part without the run's last segment has no PSH, which `header_of_part` sees to.
            offload::segments(&queued.packet, header, (0, size, true), keep).unwrap();
        }
        packets
    }

    fn queued(rate: u64) -> Vec<QueuedPacket> {
        let (mut frame, now) = (run(), Instant::now());
        let offered = offload::from_device(&mut frame).unwrap();
        let mut shaper = Shaper::new(rate, 1452, now);
        shaper.push(3, &offered, now);
        let all: Vec<_> = std::iter::from_fn(|| shaper.pop(0, now)).collect();
        assert!(shaper.queues.is_empty() && all.iter().all(|queued| queued.peer == 3));
        all
    }

    /// Whatever it is cut into, the segments are the same.
    #[test]
    fn a_run_is_cut_to_five_milliseconds() {
        let whole = queued(1 << 30);
        let parts = queued(400_000);
        assert_eq!((whole.len(), parts.len()), (1, 3));
        assert!(parts.iter().all(|part| part.packet.len() <= 40 + 2000));
        assert_eq!(segments(&whole), segments(&parts));
        assert_eq!(segments(&whole).len(), 5);
    }

    #[test]
    fn a_drop_takes_the_first_segment_and_a_mark_stays() {
        let expected = segments(&queued(1 << 30));
        let mut whole = queued(1 << 30);
        for left in (1..5).rev() {
            assert!(whole[0].drop_first());
            assert_eq!(segments(&whole), expected[5 - left..]);
        }
        assert!(!whole[0].drop_first());
        let mut marked = queued(1 << 30);
        assert!(marked[0].mark());
        for packet in segments(&marked) {
            assert_eq!(packet[1], 3);
            let headers = Headers::parse(&packet).unwrap();
            let sum = oncewire_packet::checksum::Sum::default().plus(&packet[..headers.network]);
            assert_eq!(sum.checksum(), 0);
        }
    }

    #[test]
    fn what_is_sent_is_charged() {
        let (mut frame, now) = (run(), Instant::now());
        let offered = offload::from_device(&mut frame).unwrap();
        let mut shaper = Shaper::new(1_000_000, 1000, now);
        shaper.push(0, &offered, now);
        assert_eq!(shaper.deadline(now), Some(now));
        assert!(shaper.pop(5000, now).is_none(), "the batch takes all that may be sent");
        shaper.charge(6000);
        assert!(shaper.pop(0, now).is_none());
        let due = shaper.deadline(now).unwrap();
        assert!(due > now && due < now + Duration::from_millis(2));
        assert!(shaper.pop(0, due + Duration::from_micros(1)).is_some());
        assert_eq!(shaper.deadline(now), None);
    }
}
