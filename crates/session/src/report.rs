//! What a session counts.

use oncewire_codec::varint;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one end of a session. They only grow, but for those that say "now".
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Names and values, in the order in which they travel.
            pub fn list(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            fn from_values(mut values: impl Iterator<Item = u64>) -> Counters {
                // An older peer sends fewer.
                Counters { $($name: values.next().unwrap_or(0),)* }
            }
        }
    };
}

counters! {
    /// Bytes of applications taken for sending.
    sent_bytes,
    /// Bytes given to applications.
    received_bytes,
    /// Bytes written to transports: messages, before encryption.
    wire_sent_bytes,
    /// Bytes read from transports, after decryption.
    wire_received_bytes,
    /// Blocks encoded.
    blocks,
    /// Bytes that were sent as references to the log.
    matched_bytes,
    /// Blocks that looked incompressible: compressed or encrypted by the application.
    incompressible_blocks,
    /// Bytes of blocks that were sent again, literally or in a new epoch, after a lost transport or a failure.
    repeated_bytes,
    /// Blocks of received bytes.
    received_blocks,
    /// Flows opened by this end's applications.
    flows_opened,
    /// Flows opened by the peer.
    flows_accepted,
    /// Flows reset, by either end.
    flows_reset,
    /// Flows refused because there were too many.
    flows_refused,
    /// Flows open now.
    flows,
    /// Transports that came up.
    transports,
    /// Times that a transport was lost with the session going on.
    resumes,
    /// Epochs begun with an empty log for what this end sends.
    epochs,
    /// Sessions that went on with the log of an earlier one.
    warm_starts,
    /// Frames that failed to decode.
    failures,
    /// Times that the span held encoding up.
    span_stalls,
    /// Times that missing credit held a flow up.
    credit_stalls,
    /// Times that a lane waited for content of another.
    lane_waits,
    /// End of this end's sending log now, in bytes since the epoch began.
    log_end,
    /// Of it, not acknowledged now.
    log_unacknowledged,
    /// Size of this end's sending log now, in bytes.
    log_capacity,
    /// End of the contiguous part of the receiving log now.
    received_low,
    /// Bytes that wait for applications now.
    delivery_waiting_bytes,
    /// Bytes of applications that wait for lanes now.
    send_waiting_bytes,
    /// Memory in use now: logs, tables, queues.
    memory_bytes,
    /// Smoothed round-trip time now, in microseconds.
    rtt_us,
    /// Flows by which this end sent more than its log holds.
    large_flows,
    /// Bytes of applications that it sent by them.
    large_flow_bytes,
}

impl Counters {
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (_, value) in self.list() {
            varint::put(&mut out, value);
        }
        out
    }

    /// `None` if it is not a list of numbers. Counters of later versions are passed over.
    pub(crate) fn read(mut body: &[u8]) -> Option<Counters> {
        let mut values = Vec::new();
        while !body.is_empty() {
            values.push(varint::take(&mut body).ok()?);
        }
        Some(Counters::from_values(values.into_iter()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_travel_and_tolerate_other_lengths() {
        // The last one included.
        let counters = Counters { sent_bytes: 1 << 40, large_flow_bytes: 7, flows: 3, ..Counters::default() };
        let wire = counters.write();
        assert_eq!(Counters::read(&wire), Some(counters));
        let mut longer = wire.clone();
        longer.extend_from_slice(&[1, 2, 3]);
        assert_eq!(Counters::read(&longer), Some(counters));
        assert_eq!(Counters::read(&wire[..wire.len() - 1]), Some(Counters { large_flow_bytes: 0, ..counters }));
        assert_eq!(Counters::read(&[0x80]), None);
    }
}
