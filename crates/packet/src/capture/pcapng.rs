//! The pcap next generation format: <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/>,
//! whose sections are cited below.

use std::io::Read;

use super::{CaptureError, Found, MAX_BLOCK, buffer::Buffer};
use crate::{LinkType, Nanos};

/// Block type of a Section Header Block, the same in either byte order (section 4.1).
pub(super) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

/// Options of an Interface Description Block (section 4.2).
const END_OF_OPTIONS: u16 = 0;
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;

/// Bytes of block type and both total lengths (section 3.1).
const FRAME: usize = 12;

/// Most interfaces in a section. Each takes 24 bytes of memory, and only 20 bytes in a hostile
/// file.
const MAX_INTERFACES: usize = 1 << 16;

/// A section: its byte order and its list of interfaces.
pub(super) struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
    /// Time of the last packet that had a time.
    last: Nanos,
}

struct Interface {
    link: LinkType,
    /// Most captured bytes of a packet; 0 means no limit.
    snaplen: u32,
    /// Ticks per second.
    units: u64,
    /// Seconds added to each time.
    offset: i64,
}

impl Section {
    /// Reads the Section Header Block at the beginning of a file.
    pub(super) fn read_first<R: Read>(buffer: &mut Buffer<R>) -> Result<Self, CaptureError> {
        let mut section = Self { big_endian: false, interfaces: Vec::new(), last: 0 };
        section.read(buffer)?;
        Ok(section)
    }

    /// Reads a Section Header Block and discards the state of the previous section.
    fn read<R: Read>(&mut self, buffer: &mut Buffer<R>) -> Result<(), CaptureError> {
        let at = buffer.position();
        let Some(&[_, _, _, _, _, _, _, _, m0, m1, m2, m3]) = buffer.peek(12)?.first_chunk() else {
            return Err(CaptureError::Cut { at, what: "section header" });
        };
        self.big_endian = match [m0, m1, m2, m3] {
            magic if u32::from_be_bytes(magic) == BYTE_ORDER_MAGIC => true,
            magic if u32::from_le_bytes(magic) == BYTE_ORDER_MAGIC => false,
            _ => {
                return Err(CaptureError::Malformed {
                    at,
                    what: "a section header without its byte-order magic",
                });
            }
        };
        self.interfaces.clear();
        let total = self.block(buffer, at)?.1;
        let body = self.body(buffer, at, total)?;
        let Some(&[_, _, _, _, v0, v1]) = body.first_chunk() else {
            return Err(CaptureError::Malformed { at, what: "a section header that is too short" });
        };
        if self.u16([v0, v1]) != 1 {
            return Err(CaptureError::Malformed {
                at,
                what: "pcapng of a major version other than 1",
            });
        }
        buffer.consume(total);
        Ok(())
    }

    #[inline]
    pub(super) fn next<R: Read>(
        &mut self,
        buffer: &mut Buffer<R>,
    ) -> Result<Option<Found>, CaptureError> {
        loop {
            let at = buffer.position();
            let head = buffer.peek(8)?;
            if head.is_empty() {
                return Ok(None);
            }
            if head.starts_with(&SECTION_HEADER) {
                self.read(buffer)?;
                continue;
            }
            let (kind, total) = self.block(buffer, at)?;
            match kind {
                INTERFACE_DESCRIPTION => {
                    if self.interfaces.len() == MAX_INTERFACES {
                        return Err(CaptureError::Malformed {
                            at,
                            what: "more than 65,536 interfaces",
                        });
                    }
                    let interface = self.interface(self.body(buffer, at, total)?);
                    self.interfaces
                        .push(interface.map_err(|what| CaptureError::Malformed { at, what })?);
                    buffer.consume(total);
                }
                ENHANCED_PACKET | SIMPLE_PACKET | OBSOLETE_PACKET => {
                    let body = self.body(buffer, at, total)?;
                    let (fixed, found) = match kind {
                        SIMPLE_PACKET => (4, self.simple(body)),
                        _ => (20, self.enhanced(body, kind == OBSOLETE_PACKET)),
                    };
                    let mut found = found.map_err(|what| CaptureError::Malformed { at, what })?;
                    self.last = found.time;
                    buffer.consume(total);
                    found.behind = total - 8 - fixed - found.len;
                    return Ok(Some(found));
                }
                _ => {
                    if !buffer.skip(total as u64 - 4)? {
                        return Err(CaptureError::Cut { at, what: "block" });
                    }
                    let Some(again) = buffer.peek(4)?.first_chunk().copied() else {
                        return Err(CaptureError::Cut { at, what: "block" });
                    };
                    if self.u32(again) as usize != total {
                        return Err(CaptureError::Malformed {
                            at,
                            what: "a block whose two lengths differ",
                        });
                    }
                    buffer.consume(4);
                }
            }
        }
    }

    /// Type and total length of the next block (section 3.1).
    #[inline]
    fn block<R: Read>(
        &self,
        buffer: &mut Buffer<R>,
        at: u64,
    ) -> Result<(u32, usize), CaptureError> {
        let Some(&[k0, k1, k2, k3, t0, t1, t2, t3]) = buffer.peek(8)?.first_chunk() else {
            return Err(CaptureError::Cut { at, what: "block header" });
        };
        let total = self.u32([t0, t1, t2, t3]) as usize;
        if total < FRAME || !total.is_multiple_of(4) {
            return Err(CaptureError::Malformed {
                at,
                what: "a block length below 12 or not a multiple of 4",
            });
        }
        Ok((self.u32([k0, k1, k2, k3]), total))
    }

    /// The body of the next block, between its two total lengths.
    #[inline]
    fn body<'b, R: Read>(
        &self,
        buffer: &'b mut Buffer<R>,
        at: u64,
        total: usize,
    ) -> Result<&'b [u8], CaptureError> {
        if total > MAX_BLOCK {
            return Err(CaptureError::Malformed { at, what: "a block of more than 16 MiB" });
        }
        let block = buffer.peek(total)?;
        if block.len() < total {
            return Err(CaptureError::Cut { at, what: "block" });
        }
        match block.split_last_chunk() {
            Some((body, again)) if self.u32(*again) as usize == total => Ok(&body[8..]),
            _ => Err(CaptureError::Malformed { at, what: "a block whose two lengths differ" }),
        }
    }

    /// Parses an Interface Description Block (section 4.2).
    fn interface(&self, body: &[u8]) -> Result<Interface, &'static str> {
        let Some((&[l0, l1, _, _, s0, s1, s2, s3], mut options)) = body.split_first_chunk() else {
            return Err("an interface description block that is too short");
        };
        let link = LinkType(self.u16([l0, l1]));
        let mut interface =
            Interface { link, snaplen: self.u32([s0, s1, s2, s3]), units: 1_000_000, offset: 0 };
        // Options (section 3.5): code, length, value padded to 4 bytes. As in libpcap, a truncated
        // list ends at the truncation.
        while let Some((&[c0, c1, n0, n1], rest)) = options.split_first_chunk() {
            let len = usize::from(self.u16([n0, n1]));
            let Some(value) = rest.get(..len) else { break };
            match (self.u16([c0, c1]), value) {
                (END_OF_OPTIONS, _) => break,
                (IF_TSRESOL, &[resolution]) => {
                    let exponent = u32::from(resolution & 0x7f);
                    let units = if resolution & 0x80 == 0 {
                        10u64.checked_pow(exponent)
                    } else {
                        1u64.checked_shl(exponent)
                    };
                    interface.units =
                        units.ok_or("a timestamp resolution that does not fit in 64 bits")?;
                }
                (IF_TSOFFSET, value) => {
                    let value = *value.first_chunk().ok_or("a time offset that is too short")?;
                    interface.offset = if self.big_endian {
                        i64::from_be_bytes(value)
                    } else {
                        i64::from_le_bytes(value)
                    };
                }
                _ => {}
            }
            options = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(interface)
    }

    /// Enhanced Packet Block (section 4.3), or the obsolete Packet Block (appendix A), which has a
    /// 16-bit interface number followed by a drop count.
    #[inline]
    fn enhanced(&self, body: &[u8], obsolete: bool) -> Result<Found, &'static str> {
        let Some((
            &[i0, i1, i2, i3, h0, h1, h2, h3, l0, l1, l2, l3, c0, c1, c2, c3, w0, w1, w2, w3],
            data,
        )) = body.split_first_chunk()
        else {
            return Err("a packet block that is too short");
        };
        let number =
            if obsolete { u32::from(self.u16([i0, i1])) } else { self.u32([i0, i1, i2, i3]) };
        let Some(interface) = self.interfaces.get(number as usize) else {
            return Err("a packet of an interface without a description");
        };
        let ticks =
            u64::from(self.u32([h0, h1, h2, h3])) << 32 | u64::from(self.u32([l0, l1, l2, l3]));
        let len = self.u32([c0, c1, c2, c3]) as usize;
        if len > data.len() {
            return Err("a packet that is longer than its block");
        }
        let wire_len = self.u32([w0, w1, w2, w3]);
        Ok(Found { time: interface.time(ticks), link: interface.link, wire_len, len, behind: 0 })
    }

    /// Simple Packet Block (section 4.4): a packet of the first interface, without a time.
    fn simple(&self, body: &[u8]) -> Result<Found, &'static str> {
        let Some((&wire_len, data)) = body.split_first_chunk() else {
            return Err("a packet block that is too short");
        };
        let Some(interface) = self.interfaces.first() else {
            return Err("a packet of an interface without a description");
        };
        let wire_len = self.u32(wire_len);
        let limit = if interface.snaplen == 0 { u32::MAX } else { interface.snaplen };
        let len = wire_len.min(limit) as usize;
        if len > data.len() {
            return Err("a packet that is longer than its block");
        }
        Ok(Found { time: self.last, link: interface.link, wire_len, len, behind: 0 })
    }

    fn u16(&self, bytes: [u8; 2]) -> u16 {
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    #[inline]
    fn u32(&self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
}

impl Interface {
    /// Converts ticks to a time. Times outside the range of [`Nanos`] are clamped.
    #[inline]
    fn time(&self, ticks: u64) -> Nanos {
        if self.offset == 0 && ticks < (1 << 53) {
            match self.units {
                1_000_000 => return ticks as Nanos * 1000,
                1_000_000_000 => return ticks as Nanos,
                _ => {}
            }
        }
        const SECOND: i128 = 1_000_000_000;
        let nanos =
            i128::from(ticks) * SECOND / i128::from(self.units) + i128::from(self.offset) * SECOND;
        nanos.clamp(i128::from(Nanos::MIN), i128::from(Nanos::MAX)) as Nanos
    }
}
