//! Frames of HTTP/2: their headers, and what is taken for one.

/// Longer frames are taken for something else. Nearly all senders stay with 16 KiB.
const MAX_FRAME: u64 = 1 << 20;
/// Shorter DATA frames do not prove a connection whose beginning was not seen.
const MIN_FRAME: u64 = 64;
/// Nor do streams with greater numbers: few connections have half a million requests.
const MOST_LIKELY: u32 = 1 << 20;
/// Types of frames: RFC 9113, section 6.
pub(in crate::inside::follow) mod kind {
    pub(in crate::inside::follow) const DATA: u8 = 0;
    pub(in crate::inside::follow) const HEADERS: u8 = 1;
    pub(in crate::inside::follow) const PRIORITY: u8 = 2;
    pub(in crate::inside::follow) const RST_STREAM: u8 = 3;
    pub(in crate::inside::follow) const SETTINGS: u8 = 4;
    pub(in crate::inside::follow) const PUSH_PROMISE: u8 = 5;
    pub(in crate::inside::follow) const PING: u8 = 6;
    pub(in crate::inside::follow) const GOAWAY: u8 = 7;
    pub(in crate::inside::follow) const WINDOW_UPDATE: u8 = 8;
    pub(in crate::inside::follow) const CONTINUATION: u8 = 9;
    /// The last type that a few later RFCs define.
    pub(in crate::inside::follow) const LAST: u8 = 0x10;
}

/// Flag of DATA frames: RFC 9113, section 6.1.
pub(in crate::inside::follow) const PADDED: u8 = 8;

/// The header of a frame: RFC 9113, section 4.1.
#[derive(Clone, Copy, Debug)]
pub(in crate::inside::follow) struct FrameHeader {
    pub(in crate::inside::follow) len: u64,
    pub(in crate::inside::follow) kind: u8,
    pub(in crate::inside::follow) flags: u8,
    pub(in crate::inside::follow) stream: u32,
}

impl FrameHeader {
    pub(in crate::inside::follow) const LEN: usize = 9;

    pub(in crate::inside::follow) fn of(
        &[a, b, c, kind, flags, s, t, u, v]: &[u8; FrameHeader::LEN],
    ) -> FrameHeader {
        let len = u64::from(u32::from_be_bytes([0, a, b, c]));
        FrameHeader { len, kind, flags, stream: u32::from_be_bytes([s, t, u, v]) & (u32::MAX >> 1) }
    }

    /// Whether a connection may have such a frame.
    pub(in crate::inside::follow) fn is_plausible(&self) -> bool {
        let on_stream = self.stream > 0;
        self.len <= MAX_FRAME
            && match self.kind {
                kind::DATA | kind::HEADERS | kind::CONTINUATION => on_stream,
                kind::PRIORITY => on_stream && self.len == 5,
                kind::RST_STREAM => on_stream && self.len == 4,
                kind::PUSH_PROMISE => on_stream && self.len >= 4,
                kind::SETTINGS => !on_stream && self.len.is_multiple_of(6),
                kind::PING => !on_stream && self.len == 8,
                kind::GOAWAY => !on_stream && self.len >= 8,
                kind::WINDOW_UPDATE => self.len == 4,
                other => other <= kind::LAST,
            }
    }
}

/// The DATA frame whose content begins after `content`, if any, as its stream and the bytes left of
/// it: the content itself begins, or a message of gRPC, which a flag and its length precede.
pub(in crate::inside::follow) fn data_before(content: &[u8]) -> Option<(u32, u64)> {
    let header = |content: &[u8]| {
        let frame = FrameHeader::of(content.last_chunk()?);
        // Streams of clients have odd numbers.
        let is_number = frame.stream % 2 == 1 && frame.stream < MOST_LIKELY;
        let fits = frame.kind == kind::DATA && frame.flags & !1 == 0 && is_number;
        (fits && (MIN_FRAME..=MAX_FRAME).contains(&frame.len)).then_some(frame)
    };
    let message = || match content.split_last_chunk::<5>() {
        Some((content, [1, ..])) => header(content).map(|frame| (frame, 5)),
        _ => None,
    };
    let (frame, used) = header(content).map(|frame| (frame, 0)).or_else(message)?;
    Some((frame.stream, frame.len - used))
}
