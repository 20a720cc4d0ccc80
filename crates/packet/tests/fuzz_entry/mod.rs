//! What the fuzz target `capture` does, so that tests can do it as well.

use oncewire_packet::{CaptureReader, Dissector, Limits, LinkType, Nanos, Record};

/// First byte: which link type the rest is a sequence of records of, or, beyond the link types,
/// that the rest is a file.
///
/// A record is a length (two bytes, big-endian), how many more bytes were on the wire (one byte,
/// times 4), and its bytes.
///
/// # Panics
/// When a byte or a packet is not accounted for.
pub(crate) fn run(input: &[u8]) {
    let Some((&kind, input)) = input.split_first() else { return };
    // Small limits, so that a short input reaches them.
    let limits = Limits { fragment_bytes: 4096, fragment_datagrams: 3, ..Limits::default() };
    let mut account = Account { dissector: Dissector::new(limits), packets: 0, wire: 0, used: 0 };
    if let Some(&link) = LinkType::SUPPORTED.get(usize::from(kind)) {
        let mut rest = input;
        let mut time = 0;
        while let Some((&[l0, l1, more], tail)) = rest.split_first_chunk() {
            let len = usize::from(u16::from_be_bytes([l0, l1])).min(tail.len());
            let (data, tail) = tail.split_at(len);
            account.record(&Record {
                time,
                link,
                wire_len: (len + usize::from(more) * 4) as u32,
                data,
            });
            time += Nanos::from(more) << 28;
            rest = tail;
        }
    } else {
        let Ok(mut reader) = CaptureReader::new(input) else { return };
        while let Some(record) = reader.next() {
            let Ok(record) = record else { break };
            account.record(&record);
        }
        assert!(reader.next().is_none(), "a record after the end");
    }
    account.finish();
}

struct Account {
    dissector: Dissector,
    packets: u64,
    wire: u64,
    used: u64,
}

impl Account {
    fn record(&mut self, record: &Record<'_>) {
        let record = &record.unsliced();
        self.packets += 1;
        self.wire += u64::from(record.wire_len);
        if let Ok(packet) = self.dissector.dissect(record) {
            let sum = u64::from(packet.headers)
                + packet.payload.len() as u64
                + u64::from(packet.missing)
                + u64::from(packet.trailer);
            assert_eq!(sum, packet.wire_len);
            assert!(packet.fragments > 0 || packet.wire_len == u64::from(record.wire_len));
            self.used += packet.wire_len;
        }
        let counters = self.dissector.counters();
        assert_eq!(counters.total.packets, self.packets);
        assert_eq!(counters.total.bytes, self.wire);
        assert_eq!(counters.used.bytes, self.used);
        assert_eq!(
            counters.used.packets + counters.held.packets + counters.skipped().packets,
            self.packets
        );
        assert_eq!(counters.used.bytes + counters.held.bytes + counters.skipped().bytes, self.wire);
    }

    fn finish(mut self) {
        let counters = self.dissector.finish();
        assert_eq!(counters.held.packets, 0);
        assert_eq!(counters.used.bytes + counters.skipped().bytes, self.wire);
        assert_eq!(counters.used.packets + counters.skipped().packets, self.packets);
    }
}
