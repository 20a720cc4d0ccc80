//! Packets that were cut before they were captured, as packet brokers and mirror ports cut them: the
//! capture says that it has all of them, and only their IP header says that there was more.

use crate::{Record, checksum::Sum, cursor::Cursor, walk::Next, walk::WalkState};

/// Most headers before the outermost IP header.
const MOST_HEADERS: usize = 12;

/// Longer than any packet: no length of a link layer is too long.
const NO_END: u32 = 1 << 24;

impl<'a> Record<'a> {
    /// The record with the length on the wire that its outermost IP header states, if the capture
    /// claims to have all of it and has less. Otherwise the record as it is.
    ///
    /// An IPv4 header counts if its checksum is right or, before checksum offload, 0; a jumbogram
    /// does not. Trailers of a link layer, of which nothing is known, are not added.
    pub fn unsliced(&self) -> Record<'a> {
        let captured = self.data.len() as u64;
        if u64::from(self.wire_len) > captured {
            return *self;
        }
        match stated(self) {
            Some(stated) if u64::from(stated) > captured => Record { wire_len: stated, ..*self },
            _ => *self,
        }
    }
}

/// Bytes up to the end of the outermost IP packet, by its header.
fn stated(record: &Record<'_>) -> Option<u32> {
    let mut cursor = Cursor::new(record.data, NO_END.max(record.data.len() as u32), 0);
    let mut state = WalkState::new();
    let mut next = Next::Link(record.link);
    for _ in 0..MOST_HEADERS {
        let len = match next {
            Next::Ipv4 => length_v4(cursor.data),
            Next::Ipv6 => length_v6(cursor.data),
            _ => {
                next = state.link_layer(&mut cursor, next).ok()?;
                continue;
            }
        };
        return u32::try_from(cursor.position).ok()?.checked_add(len?);
    }
    None
}

fn length_v4(data: &[u8]) -> Option<u32> {
    let header = usize::from(data.first()? & 0x0f) * 4;
    let header = data.get(..header).filter(|header| header.len() >= 20 && data[0] >> 4 == 4)?;
    let is_right = Sum::default().plus(header).folded() == 0xffff;
    let len = u32::from(u16::from_be_bytes([header[2], header[3]]));
    (is_right || header[10..12] == [0, 0]).then_some(len)
}

fn length_v6(data: &[u8]) -> Option<u32> {
    let header = data.first_chunk::<40>().filter(|header| header[0] >> 4 == 6)?;
    let len = u32::from(u16::from_be_bytes([header[4], header[5]]));
    (len > 0).then_some(40 + len)
}
