//! Rejections: those of this end, and answers to those of the other.

use super::{CHECKSUM_WINDOW, MOST_CHECKSUMS, REPAIR_OVERHEAD, Sender};
use crate::link::in_flight::SentFrame;
use crate::link::logs::SendLog;
use crate::link::records::{self, PacketRecord, Segments};
use crate::link::rejection::{Reason, Rejection};
use std::time::Instant;

impl Sender {
    /// Writes all rejections.
    pub(super) fn reject(&mut self) {
        let mut record = Vec::new();
        for rejection in std::mem::take(&mut self.rejections) {
            record.clear();
            rejection.write(&mut record);
            if self.open.is_some() && record.len() > self.left() {
                self.close();
            }
            self.start(0);
            self.batch.bytes.extend_from_slice(&record);
            self.pushed(false);
        }
    }

    /// Answers a rejection: refers to what is missing no more, and sends the content whole.
    pub(super) fn rejected(&mut self, rejection: &Rejection, now: Instant) {
        self.sent.arrived(rejection.counter);
        self.black_hole.arrived(rejection.counter..rejection.counter + 1, self.next);
        if rejection.reason == Reason::Missing {
            self.sent.suspect();
        }
        let Some(mut log) = self.log.take() else { return };
        let mut header = std::mem::take(&mut self.header);
        let place = (rejection.counter, rejection.record);
        if let Some(frame) = self.in_flight.rejected(place, &mut header) {
            self.stats.rejected += 1;
            for range in rejection.ranges(frame.offset) {
                log.encoder.withdraw(range);
            }
            if self.repair(&mut log, &frame, &header) {
                self.stats.repaired += 1;
                self.urgent.get_or_insert(now);
            } else {
                log.encoder.withdraw(frame.range());
            }
        }
        (self.header, self.log) = (header, Some(log));
        if rejection.reason == Reason::Checksum && self.logs_differ() {
            self.begin_log();
            self.urgent.get_or_insert(now);
        }
    }

    /// Counts a rejected checksum. Returns whether there were too many of late.
    fn logs_differ(&mut self) -> bool {
        let (since, count) = &mut self.checksums;
        if self.next - (*since).min(self.next) > CHECKSUM_WINDOW {
            (*since, *count) = (self.next, 0);
        }
        *count += 1;
        *count >= MOST_CHECKSUMS
    }

    /// Sends the content of a frame again, without references, in its place in the log if it fits.
    /// Returns false if the log does not have it any more.
    fn repair(&mut self, log: &mut SendLog, sent: &SentFrame, header: &[u8]) -> bool {
        // Its packets' own field is not known here. Without one, a mark of the path costs nothing but
        // this repair.
        self.ecn = 0;
        if self.open_ecn != 0 {
            self.close();
        }
        let SentFrame { open_checksum, implied, segments, .. } = *sent;
        let mut section = std::mem::take(&mut self.section);
        section.clear();
        self.headers.write_whole(header, implied, &mut section);
        let overhead = records::packet_overhead(section.len(), segments.map(|run| run.size.get()));
        let (range, len) = (sent.range(), sent.len as usize);
        let step = segments.map_or(len, |run| run.size.get().into());
        let room = self.room - overhead.min(self.room);
        // Segments that fit a datagram in their place, or at least without one.
        let logged = room.saturating_sub(REPAIR_OVERHEAD) / step.max(1);
        let most = if logged > 0 { logged } else { room / step.max(1) };
        let mut frame = std::mem::take(&mut self.frame);
        let mut is_sent = most > 0;
        let mut from = 0;
        while is_sent && from < len {
            let to = (from + most * step).min(len);
            let part = range.start + from as u64..range.start + to as u64;
            frame.clear();
            is_sent = log.encoder.repair(part.clone(), &mut frame).is_ok();
            if !is_sent {
                break;
            }
            let segments = segments.map(|run| Segments {
                first: run.first + (from / step) as u8,
                count: (to - from).div_ceil(step) as u8,
                size: run.size,
                ends: run.ends && to == len,
            });
            let (section, payload) = (&section, &frame[..]);
            let record =
                PacketRecord { section, header, implied, open_checksum, segments, payload };
            if logged > 0 {
                if self.open.is_some() && overhead + frame.len() > self.left() {
                    self.close();
                }
                self.push_run(record, overhead, part, false);
            } else {
                let payload = &frame[REPAIR_OVERHEAD..];
                self.push(PacketRecord { payload, ..record }, overhead, None);
                log.encoder.withdraw(part);
            }
            from = to;
        }
        (self.section, self.frame) = (section, frame);
        is_sent
    }
}
