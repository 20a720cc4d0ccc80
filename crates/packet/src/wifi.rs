//! IEEE 802.11 data frames, with or without a radiotap header.

use crate::{
    Cipher, Layer, Skipped,
    cursor::Cursor,
    walk::{Next, WalkState},
};

/// Frame control (IEEE 802.11-2020 section 9.2.4.1), as a little-endian number.
const VERSION: u16 = 0x0003;
const TYPE: u16 = 0x000c;
const TYPE_DATA: u16 = 0x0008;
const NO_DATA: u16 = 0x0040;
const QOS: u16 = 0x0080;
const TO_AND_FROM_DS: u16 = 0x0300;
const MORE_FRAGMENTS: u16 = 0x0400;
const PROTECTED: u16 = 0x4000;
const HT_CONTROL: u16 = 0x8000;

/// QoS control (section 9.2.4.5): the body is an A-MSDU.
const A_MSDU: u8 = 0x80;

/// Flags of radiotap: <https://www.radiotap.org/fields/Flags.html>.
const FLAG_FCS: u8 = 0x10;
const FLAG_DATA_PAD: u8 = 0x20;
const FLAG_BAD_FCS: u8 = 0x40;

const FCS: u32 = 4;

impl WalkState {
    /// LINKTYPE_IEEE802_11_RADIOTAP, <https://www.radiotap.org>: version, pad, length, presence
    /// words, fields; little-endian.
    pub(crate) fn radiotap(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        const LAYER: Layer = Layer::Radiotap;
        self.enter(LAYER)?;
        let whole = c.data;
        let &[version, _, l0, l1] = c.take(LAYER)?;
        let len = usize::from(u16::from_le_bytes([l0, l1]));
        let rest = len.checked_sub(8).ok_or(Skipped::Malformed(LAYER))?;
        if version != 0 {
            return Err(Skipped::Malformed(LAYER));
        }
        let present = u32::from_le_bytes(*c.take(LAYER)?);
        c.skip(rest, LAYER)?;
        let header = &whole[..len];

        // Only the time, which is aligned to 8 bytes, precedes the flags.
        let mut flags = 0;
        if present & 2 != 0 {
            let words =
                header[4..].chunks_exact(4).take_while(|word| word[3] & 0x80 != 0).count() + 1;
            let fields = 4 + 4 * words;
            let at = if present & 1 != 0 { fields.next_multiple_of(8) + 8 } else { fields };
            flags = *header.get(at).ok_or(Skipped::Malformed(LAYER))?;
        }
        if flags & FLAG_BAD_FCS != 0 {
            return Err(Skipped::BadFrameCheck);
        }
        if flags & FLAG_FCS != 0 {
            c.limit(c.wire.checked_sub(FCS).ok_or(Skipped::Malformed(LAYER))?, LAYER)?;
        }
        self.frame(c, flags & FLAG_DATA_PAD != 0)
    }

    pub(crate) fn ieee80211(&mut self, c: &mut Cursor<'_>) -> Result<Next, Skipped> {
        self.frame(c, false)
    }

    /// A frame (IEEE 802.11-2020 section 9.3): frame control, duration, three addresses, sequence
    /// control, optional fourth address, QoS control and HT control. Some drivers pad the header to
    /// a multiple of four bytes (`padded`).
    fn frame(&mut self, c: &mut Cursor<'_>, padded: bool) -> Result<Next, Skipped> {
        const LAYER: Layer = Layer::Ieee80211;
        self.enter(LAYER)?;
        let &[f0, f1] = c.peek().ok_or(if c.wire < 2 {
            Skipped::Malformed(LAYER)
        } else {
            Skipped::Truncated(LAYER)
        })?;
        let control = u16::from_le_bytes([f0, f1]);
        if control & VERSION != 0 {
            return Err(Skipped::Malformed(LAYER));
        }
        if control & TYPE != TYPE_DATA || control & NO_DATA != 0 {
            return Err(Skipped::NotIp(control));
        }
        let head = c.take::<24>(LAYER)?;
        let mut len = 24;
        if control & TO_AND_FROM_DS == TO_AND_FROM_DS {
            c.skip(6, LAYER)?;
            len += 6;
        }
        let mut aggregate = false;
        if control & QOS != 0 {
            let &[qos, _] = c.take(LAYER)?;
            aggregate = qos & A_MSDU != 0;
            len += 2;
            if control & HT_CONTROL != 0 {
                c.skip(4, LAYER)?;
                len += 4;
            }
        }
        if padded {
            c.skip(usize::next_multiple_of(len, 4) - len, LAYER)?;
        }
        if control & PROTECTED != 0 {
            return Err(Skipped::Encrypted(Cipher::Ieee80211));
        }
        if control & MORE_FRAGMENTS != 0 || head[22] & 0x0f != 0 {
            return Err(Skipped::FragmentLost);
        }
        if aggregate {
            // A-MSDU subframes (section 9.3.2.2): destination, source, length, MSDU, padding. An
            // A-MSDU with one subframe is treated as a normal packet.
            let head = c.take::<14>(LAYER)?;
            let len = u32::from(u16::from_be_bytes([head[12], head[13]]));
            if len.next_multiple_of(4) + 14 < c.wire {
                return Err(Skipped::Aggregate);
            }
            c.limit(len, LAYER)?;
        }
        Ok(Next::Llc)
    }
}
