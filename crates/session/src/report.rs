//! The counters of a session.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one end of a session. They only grow, except those that say "now".
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Names and values, in the order of REPORT.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            fn from_values(mut values: impl Iterator<Item = u64>) -> Counters {
                // An older peer sends fewer counters.
                Counters { $($name: values.next().unwrap_or(0),)* }
            }
        }
    };
}

counters! {
    /// Bytes of applications that were encoded.
    sent_bytes,
    /// Bytes that applications consumed.
    received_bytes,
    /// Bytes written to transports, before encryption.
    wire_sent_bytes,
    /// Bytes read from transports, after decryption.
    wire_received_bytes,
    /// Blocks encoded.
    blocks,
    /// Bytes sent as references to the log.
    matched_bytes,
    /// Blocks that looked incompressible, such as compressed or encrypted content.
    incompressible_blocks,
    /// Bytes of blocks sent again, literally or in a new epoch, after a lost transport or a
    /// failure.
    repeated_bytes,
    /// Blocks decoded.
    received_blocks,
    /// Flows opened by this end's applications.
    flows_opened,
    /// Flows opened by the peer.
    flows_accepted,
    /// Flows reset, by either end.
    flows_reset,
    /// Flows of the peer refused because too many were open or memory was short.
    flows_refused,
    /// Flows open now.
    flows,
    /// Transports that completed the handshake.
    transports,
    /// Times that a lane resumed on a new transport.
    resumes,
    /// Empty logs that this end began to send with.
    epochs,
    /// 1 if this end's encoder continued the log of an earlier session.
    warm_starts,
    /// Frames that failed to decode.
    failures,
    /// Times that encoding waited for the span.
    span_stalls,
    /// Times that a flow waited for credit.
    credit_stalls,
    /// Times that a lane waited for content of another lane.
    lane_waits,
    /// End of this end's sending log now, in bytes since the epoch began.
    log_end,
    /// Bytes of it that are not acknowledged now.
    log_unacknowledged,
    /// Size of this end's sending log now, in bytes.
    log_capacity,
    /// Acknowledged offset of the receiving log now.
    received_low,
    /// Bytes that wait for applications to read them now.
    delivery_waiting_bytes,
    /// Bytes of applications that wait to be sent now.
    send_waiting_bytes,
    /// Memory in use now: logs, tables, queues, in bytes.
    memory_bytes,
    /// Smoothed round-trip time now, in microseconds.
    rtt_us,
    /// Flows on which this end sent more than its log holds.
    large_flows,
    /// Bytes of applications that it sent on them.
    large_flow_bytes,
    /// Bytes of padding written to transports; they count as bytes written, too.
    padding_bytes,
    /// Bytes of deflate streams and zstd blocks that the encoder took apart.
    opened_bytes,
    /// Bytes of them that it found in the log as tokens only.
    token_bytes,
    /// Isolation domains that this end remembers now.
    domains,
    /// Flows whose owner is unknown: what they carry is not shared with any other.
    unowned_flows,
    /// Isolation domains that were forgotten, because there were too many names: what they had
    /// sent is not found any more.
    forgotten_domains,
    /// Bytes of deflate streams and zstd blocks that the encoder did not open, because opening what
    /// came before took much work and saved little.
    declined_bytes,
    /// Bytes of content that went out while compressed content was not looked into, because sending
    /// it was faster.
    unopened_bytes,
}

impl Counters {
    pub(crate) fn write(&self) -> Vec<u8> {
        self.list().into_iter().flat_map(|(_, value)| value.to_le_bytes()).collect()
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
            Counters { sent_bytes: 1 << 40, unopened_bytes: 7, flows: 3, ..Counters::default() };
        let wire = counters.write();
        assert_eq!(Counters::read(&wire), Some(counters));
        let mut longer = wire.clone();
        longer.extend_from_slice(&[1; 24]);
        assert_eq!(Counters::read(&longer), Some(counters));
        assert_eq!(
            Counters::read(&wire[..wire.len() - 8]),
            Some(Counters { unopened_bytes: 0, ..counters })
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
