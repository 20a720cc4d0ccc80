//! The counters of a session.

use crate::metric::Metrics;
use crate::metrics;

metrics! {
    /// Counters of one end of a session, in the order of REPORT.
    pub struct Counters {
        /// Bytes of applications that were encoded.
        sent_bytes: Counter, Bytes;
        /// Bytes that applications consumed.
        received_bytes: Counter, Bytes;
        /// Bytes written to transports, before encryption.
        wire_sent_bytes: Counter, Bytes;
        /// Bytes read from transports, after decryption.
        wire_received_bytes: Counter, Bytes;
        /// Blocks encoded.
        blocks: Counter, Count;
        /// Bytes sent as references to the log.
        matched_bytes: Counter, Bytes;
        /// Blocks that looked incompressible, such as compressed or encrypted content.
        incompressible_blocks: Counter, Count;
        /// Bytes of blocks sent again, literally or in a new epoch, after a lost transport or a
        /// failure.
        repeated_bytes: Counter, Bytes;
        /// Blocks decoded.
        received_blocks: Counter, Count;
        /// Flows opened by this end's applications.
        flows_opened: Counter, Count;
        /// Flows opened by the peer.
        flows_accepted: Counter, Count;
        /// Flows reset, by either end.
        flows_reset: Counter, Count;
        /// Flows of the peer refused because too many were open or memory was short.
        flows_refused: Counter, Count;
        /// Flows open now.
        flows: Gauge, Count;
        /// Transports that completed the handshake.
        transports: Counter, Count;
        /// Times that a lane resumed on a new transport.
        resumes: Counter, Count;
        /// Empty logs that this end began to send with.
        epochs: Counter, Count;
        /// 1 if this end's encoder continued the log of an earlier session.
        warm_starts: Counter, Count;
        /// Frames that failed to decode.
        failures: Counter, Count;
        /// Times that encoding waited for the span.
        span_stalls: Counter, Count;
        /// Times that a flow waited for credit.
        credit_stalls: Counter, Count;
        /// Times that a lane waited for content of another lane.
        lane_waits: Counter, Count;
        /// End of this end's sending log now, in bytes since the epoch began.
        log_end: Gauge, Bytes;
        /// Bytes of this end's sending log that are not acknowledged now.
        log_unacknowledged: Gauge, Bytes;
        /// Size of this end's sending log now, in bytes.
        log_capacity: Gauge, Bytes;
        /// Acknowledged offset of the receiving log now.
        received_low: Gauge, Bytes;
        /// Bytes that wait for applications to read them now.
        delivery_waiting_bytes: Gauge, Bytes;
        /// Bytes of applications that wait to be sent now.
        send_waiting_bytes: Gauge, Bytes;
        /// Memory in use now: logs, tables, queues, in bytes.
        memory_bytes: Gauge, Bytes;
        /// Smoothed round-trip time now, in microseconds.
        rtt_us: Gauge, Microseconds;
        /// Flows on which this end sent more than its log holds.
        large_flows: Counter, Count;
        /// Bytes of applications that this end sent on flows larger than its log.
        large_flow_bytes: Counter, Bytes;
        /// Bytes of padding written to transports; they count as bytes written, too.
        padding_bytes: Counter, Bytes;
        /// Bytes of deflate streams and zstd blocks that the encoder opened.
        opened_bytes: Counter, Bytes;
        /// Bytes of opened deflate streams and zstd blocks that were found in the log as tokens only.
        token_bytes: Counter, Bytes;
        /// Isolation domains that this end remembers now.
        domains: Gauge, Count;
        /// Flows whose owner is unknown: what they carry is not shared with any other.
        unowned_flows: Counter, Count;
        /// Isolation domains that were forgotten, because there were too many names: what they had
        /// sent is not found any more.
        forgotten_domains: Counter, Count;
        /// Bytes of deflate streams and zstd blocks that the encoder did not open, because opening what
        /// came before took much work and saved little.
        declined_bytes: Counter, Bytes;
        /// Bytes of content that went out while compressed content was not looked into, because sending
        /// it was faster.
        unopened_bytes: Counter, Bytes;
        /// Bytes sent literally on flows whose protocol encrypts them: TLS, SSH.
        encrypted_bytes: Counter, Bytes;
        /// Bytes sent literally that looked incompressible, such as compressed content, on other flows.
        incompressible_bytes: Counter, Bytes;
        /// Bytes sent literally in blocks too small to be reduced.
        small_bytes: Counter, Bytes;
        /// Bytes that both ends read from disk, so that what was sent could refer to them.
        recalled_bytes: Counter, Bytes;
        /// Stretches of content that this end could not read from disk.
        lost_recalls: Counter, Count;
        /// Bytes of content that were coded at level 1, because this end was slower than the link.
        hurried_bytes: Counter, Bytes;
        /// Stretches of content that lie on disk, but were sent, because that was expected to be faster.
        outrun_recalls: Counter, Count;
    }
}

impl Counters {
    pub(crate) fn write(&self) -> Vec<u8> {
        self.values().into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// `None` if the body is not a list of numbers of 8 bytes. Skips counters of later versions.
    pub(crate) fn read(body: &[u8]) -> Option<Counters> {
        let (numbers, rest) = body.as_chunks::<8>();
        rest.is_empty()
            .then(|| Counters::from_values(numbers.iter().copied().map(u64::from_le_bytes)))
    }

    /// Without the counters that a REPORT and what answers it change, and those that change only
    /// together with others: what remains is a reason for a REPORT when it changes.
    pub(crate) fn reasons(self) -> Counters {
        Counters {
            wire_sent_bytes: 0,
            wire_received_bytes: 0,
            padding_bytes: 0,
            rtt_us: 0,
            // Each try to send while the span is used up counts, also that of a REPORT.
            span_stalls: 0,
            delivery_waiting_bytes: 0,
            memory_bytes: 0,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_read_as_written_and_may_have_other_lengths() {
        let counters =
            Counters { sent_bytes: 1 << 40, outrun_recalls: 7, flows: 3, ..Counters::default() };
        let wire = counters.write();
        assert_eq!(Counters::read(&wire), Some(counters));
        let mut longer = wire.clone();
        longer.extend_from_slice(&[1; 24]);
        assert_eq!(Counters::read(&longer), Some(counters));
        assert_eq!(
            Counters::read(&wire[..wire.len() - 8]),
            Some(Counters { outrun_recalls: 0, ..counters })
        );
        assert_eq!(Counters::read(&wire[..wire.len() - 1]), None);
    }

    #[test]
    fn the_length_of_a_report_does_not_depend_on_the_counters() {
        let most = Counters { sent_bytes: u64::MAX, log_end: 1 << 63, ..Counters::default() };
        assert_eq!(most.write().len(), Counters::default().write().len());
        assert_eq!(Counters::read(&most.write()), Some(most));
    }
}
