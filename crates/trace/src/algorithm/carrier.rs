//! What a tunnel's own connection takes on the wire, beside the frames of its codec, and what no
//! longer crosses the wire because both ends of the tunnel end the applications' connections.

use crate::batch::{Direction, Kind, Packet};

/// Bytes of a message around a frame: its kind, and the number of the flow.
const MESSAGE: u64 = 4;
/// Bytes of the messages that open and close a flow, for each of its directions: OPEN with a target,
/// its answer, credit, FIN.
pub(super) const FLOW: u64 = 40;
/// Bytes of a record of TLS 1.3 around its content: header, type, tag (RFC 8446, section 5.2).
const RECORD: u64 = 5 + 1 + 16;
/// Most content of a record (RFC 8446, section 5.1).
const LONGEST: u64 = 1 << 14;
/// Bytes of Ethernet, IPv4, and TCP with timestamps.
const HEADERS: u64 = 14 + 20 + 32;
/// Payload of a segment on a path of 1,500 bytes.
const SEGMENT: u64 = 1500 - 20 - 32;
/// What is sent within this time, in nanoseconds, shares segments.
const JOIN: i64 = 1_000_000;

/// Most bytes of headers, with options and tunnels: what a packet has beyond them, as its capture
/// says, is not known to be headers.
const LONGEST_HEADERS: u64 = 256;

const FIN_SYN_RST: u8 = 7;

/// One direction.
#[derive(Clone, Copy, Debug, Default)]
struct Way {
    /// Segments with payload in the trace, and their payload in bytes.
    segments: u64,
    payload: u64,
    /// Of that, what was sent again.
    again: u64,
    /// Segments of the tunnel.
    own: u64,
    /// When the newest of them was begun, and the room that is left in it.
    newest: Option<(i64, u64)>,
}

/// The connection of a tunnel, and those that it replaces.
#[derive(Debug, Default)]
pub(super) struct Carrier {
    ways: [Way; Direction::ALL.len()],
}

fn reverse(direction: Direction) -> Direction {
    match direction {
        Direction::Inbound => Direction::Outbound,
        Direction::Outbound => Direction::Inbound,
        other => other,
    }
}

impl Carrier {
    /// Takes a packet of the trace, of which `again` bytes were sent before. Returns the bytes that
    /// the tunnel need not send: headers of segments, what is sent again, and acknowledgments as far
    /// as the tunnel has fewer segments to acknowledge than the trace.
    pub(super) fn replaces(&mut self, packet: &Packet, again: u64) -> u64 {
        let Kind::Tcp { flags, .. } = packet.kind else { return 0 };
        let content = u64::from(packet.len) + u64::from(packet.missing);
        let way = &mut self.ways[packet.direction.index()];
        let wire = u64::from(packet.wire);
        if content > 0 {
            way.segments += 1;
            way.payload += content;
            way.again += again;
            let headers = wire.saturating_sub(content).min(LONGEST_HEADERS);
            // Of payload that was not captured, nothing is carried, so it counts as sent as it is.
            return if packet.missing > 0 { again } else { headers + again };
        }
        let wire = wire.min(LONGEST_HEADERS);
        if flags & FIN_SYN_RST != 0 {
            return wire;
        }
        let other = &self.ways[reverse(packet.direction).index()];
        // Of a capture of one direction it is unknown what is acknowledged.
        let left = wire * other.own.min(other.segments) / other.segments.max(1);
        if other.segments == 0 { 0 } else { wire - left }
    }

    /// What is sent next shares no segment with what was sent before: the other end has answered, so
    /// a round trip lies between the two.
    pub(super) fn turns(&mut self, direction: Direction) {
        self.ways[direction.index()].newest = None;
    }

    /// Bytes on the wire of a message with `sent` bytes: as records in segments, of which as many
    /// are sent again as in the trace.
    pub(super) fn carries(&mut self, time: i64, direction: Direction, sent: u64) -> u64 {
        let way = &mut self.ways[direction.index()];
        let content = sent + MESSAGE;
        let bytes = content + RECORD * content.div_ceil(LONGEST);
        let (begun, room) = match way.newest {
            Some((begun, room)) if time.abs_diff(begun) <= JOIN as u64 => (begun, room),
            _ => (time, 0),
        };
        let segments = bytes.saturating_sub(room).div_ceil(SEGMENT);
        way.newest = Some((begun, room + segments * SEGMENT - bytes));
        way.own += segments;
        let once = bytes + segments * HEADERS;
        let first = (way.payload - way.again.min(way.payload)).max(1);
        once + (u128::from(once) * u128::from(way.again) / u128::from(first)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::testing::Made;

    /// A packet from the server, or to it, with so many bytes of payload.
    fn packet(from_server: bool, flags: u8, payload: u32) -> Packet {
        let ends = ("192.0.2.1:80", "10.0.0.1:4000");
        let (source, destination) = if from_server { ends } else { (ends.1, ends.0) };
        let mut packet = Made::tcp(source, destination).seq(0, flags).packet;
        packet.len = payload;
        packet.wire = 66 + payload;
        packet.direction = if from_server { Direction::Outbound } else { Direction::Inbound };
        packet
    }

    #[test]
    fn headers_and_connections_do_not_cross_and_acknowledgments_go_by_segments() {
        let mut carrier = Carrier::default();
        // Of one direction, nothing is known of what is acknowledged.
        assert_eq!(carrier.replaces(&packet(false, 16, 0), 0), 0);
        for _ in 0..100 {
            assert_eq!(carrier.replaces(&packet(true, 16, 1448), 0), 66);
        }
        // SYN and FIN are messages of the tunnel.
        assert_eq!(carrier.replaces(&packet(false, 2, 0), 0), 66);
        assert_eq!(carrier.replaces(&packet(false, 17, 0), 0), 66);
        // Nothing was sent: nothing is acknowledged.
        assert_eq!(carrier.replaces(&packet(false, 16, 0), 0), 66);
        // A tenth of the segments.
        let sent = 10 * SEGMENT - MESSAGE - RECORD;
        assert_eq!(carrier.carries(0, Direction::Outbound, sent), 10 * (SEGMENT + HEADERS));
        assert_eq!(carrier.replaces(&packet(false, 16, 0), 0), 66 - 6);
        // Never more acknowledgments than there were.
        carrier.carries(0, Direction::Outbound, 1000 * SEGMENT);
        assert_eq!(carrier.replaces(&packet(false, 16, 0), 0), 0);
        // What was not captured is not carried, nor known.
        let mut cut = packet(true, 16, 448);
        cut.missing = 1000;
        assert_eq!(carrier.replaces(&cut, 0), 0);
        let mut odd = packet(true, 2, 0);
        odd.wire = 70_000;
        assert_eq!(carrier.replaces(&odd, 0), LONGEST_HEADERS);
        // UDP is not carried.
        assert_eq!(carrier.replaces(&Made::udp("1.1.1.1:1", "2.2.2.2:2").packet, 0), 0);
    }

    #[test]
    fn messages_at_once_share_segments() {
        let mut carrier = Carrier::default();
        let around = MESSAGE + RECORD;
        assert_eq!(carrier.carries(0, Direction::All, 100), 100 + around + HEADERS);
        assert_eq!(carrier.carries(JOIN, Direction::All, 100), 100 + around);
        assert_eq!(carrier.carries(JOIN + 1, Direction::All, 100), 100 + around + HEADERS);
        // After an answer, nothing is shared.
        carrier.turns(Direction::All);
        assert_eq!(carrier.carries(JOIN + 1, Direction::All, 100), 100 + around + HEADERS);
        // Several records.
        let long = carrier.carries(10 * JOIN, Direction::All, 3 * LONGEST - MESSAGE);
        assert_eq!(long, 3 * (LONGEST + RECORD) + 34 * HEADERS);
    }

    #[test]
    fn losses_are_those_of_the_trace() {
        let mut carrier = Carrier::default();
        for nth in 0..100 {
            let again = if nth % 10 == 0 { 1000 } else { 0 };
            assert_eq!(carrier.replaces(&packet(true, 16, 1000), again), 66 + again);
        }
        let once = 1000 + MESSAGE + RECORD + HEADERS;
        // Of 90 segments, ten were sent twice.
        assert_eq!(carrier.carries(0, Direction::Outbound, 1000), once + once / 9);
    }
}
