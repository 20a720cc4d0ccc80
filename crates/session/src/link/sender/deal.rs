//! Packets and runs whose content enters the log, and packets in pieces.

use super::{Dropped, Inbound, LEAST_LOGGED, LEAST_ROOM, Policy, Sender};
use crate::link::classifier::Route;
use crate::link::in_flight::NewFrame;
use crate::link::logs::SendLog;
use crate::link::pieces;
use crate::link::records::{self, MAX_PACKET, PacketRecord, Segments};
use oncewire_codec::datagram::{Class, Indexing, Limits, RunTokens};
use oncewire_codec::{Domain, Reach};
use std::num::NonZeroU16;

impl Sender {
    /// Adds a packet or a run whose content enters the log. Returns false if there is none, or the
    /// packet is too small.
    pub(super) fn enqueue_logged(
        &mut self,
        packet: PacketRecord<'_>,
        segment: Option<NonZeroU16>,
        domain: Domain,
    ) -> bool {
        let (flow, is_encrypted) = self.flow;
        if is_encrypted {
            // Its next packets may not show it.
            self.classifier.recognized(flow);
        }
        let is_current = self.log.as_ref().is_some_and(|log| log.is_current);
        if !is_current || packet.payload.len() < LEAST_LOGGED {
            return false;
        }
        if self.classifier.route(flow, packet.payload) == Route::Bypass {
            self.stats.bypassed_bytes += packet.payload.len() as u64;
            return false;
        }
        let Some(mut log) = self.log.take() else { return false };
        let reach = self.reach(&packet);
        // What is in flight would hide an older copy that the receiver is known to have.
        let is_acked = matches!(self.policy, Policy::Acked | Policy::TcpAcked);
        let is_late = is_acked || self.sent.loses();
        log.encoder.set_indexing(match is_late {
            true => Indexing::Acknowledged,
            false => Indexing::Immediate,
        });
        log.encoder.enter(domain);
        let context = log.contexts.choose(domain, self.next_counter());
        log.encoder.use_context(Some(context));
        let mut tokens = std::mem::take(&mut self.tokens);
        let searched = log.encoder.search(packet.payload, Class::Unknown, reach, &mut tokens);
        if searched.is_ok() {
            self.classifier.found(flow, tokens.found());
            if self.policy == Policy::TcpAcked
                && let Some(sequence) = self.sequence(packet.header)
            {
                self.inner_acks.sent(flow, sequence, &tokens.range());
            }
            self.deal(&mut log, &tokens, packet, segment);
        }
        (self.tokens, self.log) = (tokens, Some(log));
        if searched.is_err() {
            // The offsets have come to their end.
            self.begin_log();
        }
        searched.is_ok()
    }

    /// What a packet or run may refer to.
    fn reach(&mut self, packet: &PacketRecord<'_>) -> Reach {
        if matches!(self.policy, Policy::Acked | Policy::TcpAcked) {
            return Reach::Acknowledged;
        }
        let sequence = self.sequence(packet.header);
        let is_repeat = self.retransmissions.is_repeat(self.flow.0, sequence, packet.payload);
        if is_repeat || self.policy == Policy::Auto && self.sent.loses() {
            Reach::Acknowledged
        } else {
            Reach::Sent
        }
    }

    /// The sequence number in a header of TCP.
    fn sequence(&self, header: &[u8]) -> Option<u32> {
        let at = (self.layout)(header).sequence?;
        let bytes = header.get(usize::from(at)..)?.first_chunk()?;
        Some(u32::from_be_bytes(*bytes))
    }

    /// Deals a run that was searched to datagrams.
    fn deal(
        &mut self,
        log: &mut SendLog,
        tokens: &RunTokens,
        packet: PacketRecord<'_>,
        segment: Option<NonZeroU16>,
    ) {
        let PacketRecord { section, payload, .. } = packet;
        let overhead = records::packet_overhead(section.len(), segment.map(NonZeroU16::get));
        let step = segment.map_or(payload.len(), |size| size.get().into());
        // Only where the run reaches what is in flight, and was sent once.
        let earlier = matches!(self.policy, Policy::Auto | Policy::Immediate);
        let limits = |room: usize| Limits { segment: step, room, earlier };
        let start = tokens.range().start;
        let mut from = 0;
        while from < payload.len() {
            // What fits the rest of the open datagram goes there, if it is all that is left.
            let mut room = self.left().saturating_sub(overhead);
            let mut to = log.encoder.fit(tokens, from, &limits(room));
            if self.open.is_some() && to < payload.len() {
                self.close();
                room = self.room - overhead;
                to = log.encoder.fit(tokens, from, &limits(room));
            }
            let segments = |to: usize| {
                segment.map(|size| Segments {
                    first: (from / step) as u8,
                    count: (to - from).div_ceil(step) as u8,
                    size,
                    ends: to == payload.len(),
                })
            };
            if to == from {
                // A frame is larger than the content, which fits without.
                to = (from + step).min(payload.len());
                let (segments, payload) = (segments(to), &payload[from..to]);
                self.push(PacketRecord { segments, payload, ..packet }, overhead, None);
                log.encoder.withdraw(start + from as u64..start + to as u64);
            } else {
                let mut frame = std::mem::take(&mut self.frame);
                frame.clear();
                let depends =
                    log.encoder.write(tokens, payload, from..to, &limits(room), &mut frame);
                let segments = segments(to);
                let record = PacketRecord { segments, payload: &frame, ..packet };
                let range = start + from as u64..start + to as u64;
                log.written(range.clone());
                self.push_run(record, overhead, range, depends);
                self.stats.logged_bytes += (to - from) as u64;
                self.stats.frame_bytes += frame.len() as u64;
                self.frame = frame;
            }
            from = to;
        }
    }

    /// Adds a record with a frame of content in `range` of the log. It fits the open datagram, or an
    /// empty one if none is open.
    pub(super) fn push_run(
        &mut self,
        record: PacketRecord<'_>,
        overhead: usize,
        range: std::ops::Range<u64>,
        depends: bool,
    ) {
        self.start(self.ecn);
        self.headers.sent(self.next_counter());
        self.stats.section_bytes += record.section.len() as u64;
        self.in_flight.push(NewFrame {
            place: (self.next_counter(), self.records),
            range,
            header: record.header,
            open_checksum: record.open_checksum,
            implied: record.implied,
            segments: record.segments,
            depends: depends || self.headers.refers(),
        });
        let last = overhead + record.payload.len() + LEAST_ROOM > self.left();
        record.write_run(last, &mut self.batch.bytes);
        self.pushed(last);
    }

    /// Adds a packet that [`Sender::enqueue`] finds too large, in pieces, and without the log. Runs
    /// have none: cut them into packets first.
    ///
    /// # Errors
    /// [`Dropped`]; nothing was added.
    pub fn enqueue_pieces(&mut self, packet: Inbound<'_>) -> Result<(), Dropped> {
        let Inbound { header, open_checksum, implied, segment, payload, .. } = packet;
        if segment.is_some() {
            return Err(Dropped::Run);
        }
        if header.len() + payload.len() > MAX_PACKET {
            return Err(Dropped::TooLarge);
        }
        let (mut section, mut record) = (Vec::new(), Vec::new());
        self.headers.write_whole(header, implied, &mut section);
        let section = &section[..];
        PacketRecord { section, header, implied, open_checksum, segments: None, payload }
            .write(true, &mut record);
        let pieces = pieces::cut(&record, self.room).ok_or(Dropped::TooLarge)?;
        // Consecutive datagrams: each piece but the last fills one.
        self.close();
        for (number, is_last, bytes) in pieces {
            self.start(self.ecn);
            let len = records::PIECE_OVERHEAD + 2 + bytes.len();
            let last = len + LEAST_ROOM > self.left();
            records::write_piece(number, is_last, bytes, last, &mut self.batch.bytes);
            self.pushed(last);
        }
        self.stats.packets += 1;
        self.stats.inner_bytes += (header.len() + payload.len()) as u64;
        self.stats.header_bytes += header.len() as u64;
        self.stats.section_bytes += section.len() as u64;
        Ok(())
    }
}
