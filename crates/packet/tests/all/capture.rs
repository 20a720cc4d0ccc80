//! Capture files of every kind: byte orders, resolutions, versions, compression, and files that end
//! early or are no captures.

use std::io::{self, Read, Write};

use oncewire_packet::{CaptureError, CaptureReader, Compression, Format, LinkType, Nanos};

/// Writes numbers in one byte order.
#[derive(Clone, Copy)]
struct Order(bool);

impl Order {
    fn n16(self, n: u16) -> [u8; 2] {
        if self.0 { n.to_be_bytes() } else { n.to_le_bytes() }
    }

    fn n32(self, n: u32) -> [u8; 4] {
        if self.0 { n.to_be_bytes() } else { n.to_le_bytes() }
    }

    fn n64(self, n: i64) -> [u8; 8] {
        if self.0 { n.to_be_bytes() } else { n.to_le_bytes() }
    }

    fn pcap(self, magic: u32, minor: u16, link: u32) -> Vec<u8> {
        [
            &self.n32(magic)[..],
            &self.n16(2),
            &self.n16(minor),
            &[0; 8],
            &self.n32(65535),
            &self.n32(link),
        ]
        .concat()
    }

    fn record(self, words: [u32; 4], more: usize, data: &[u8]) -> Vec<u8> {
        [&words.map(|n| self.n32(n)).concat(), &vec![0; more], data].concat()
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let padded = body.len().next_multiple_of(4);
        let total = self.n32(padded as u32 + 12);
        [&self.n32(kind)[..], &total, body, &vec![0; padded - body.len()], &total].concat()
    }

    fn section(self) -> Vec<u8> {
        let body = [&self.n32(0x1a2b_3c4d)[..], &self.n16(1), &self.n16(0), &[0xff; 8]].concat();
        self.block(0x0a0d_0d0a, &body)
    }

    fn interface(self, link: u16, snaplen: u32, options: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = [&self.n16(link)[..], &[0, 0], &self.n32(snaplen)].concat();
        for (code, value) in options {
            body.extend([self.n16(*code), self.n16(value.len() as u16)].concat());
            body.extend(*value);
            body.resize(body.len().next_multiple_of(4), 0);
        }
        self.block(1, &body)
    }

    fn enhanced(self, interface: u32, ticks: u64, wire: u32, data: &[u8]) -> Vec<u8> {
        let words = [interface, (ticks >> 32) as u32, ticks as u32, data.len() as u32, wire];
        let comment = [&self.n16(1)[..], &self.n16(3), b"abc\0", &[0; 4]].concat();
        let pad = vec![0; data.len().next_multiple_of(4) - data.len()];
        self.block(6, &[&words.map(|n| self.n32(n)).concat(), data, &pad, &comment].concat())
    }
}

type Owned = (Nanos, LinkType, u32, Vec<u8>);

/// All records, and how it ended.
fn read(file: impl Read) -> (Vec<Owned>, Option<CaptureError>) {
    let mut records = Vec::new();
    let mut reader = match CaptureReader::new(file) {
        Ok(reader) => reader,
        Err(e) => return (records, Some(e)),
    };
    let end = loop {
        match reader.next() {
            Some(Ok(r)) => records.push((r.time, r.link, r.wire_len, r.data.to_vec())),
            Some(Err(e)) => break Some(e),
            None => break None,
        }
    };
    assert!(reader.next().is_none());
    (records, end)
}

fn good(file: impl Read) -> Vec<Owned> {
    match read(file) {
        (records, None) => records,
        (_, Some(e)) => panic!("{e}"),
    }
}

const SECOND: Nanos = 1_000_000_000;

fn small_pcap() -> Vec<u8> {
    let order = Order(false);
    let mut file = order.pcap(0xa1b2_c3d4, 4, 1);
    file.extend(order.record([5, 6, 3, 70], 0, b"abc"));
    file.extend(order.record([5, 7, 0, 0], 0, b""));
    file.extend(order.record([9, 8, 4, 4], 0, b"defg"));
    file
}

fn small_pcapng() -> Vec<u8> {
    let order = Order(true);
    [
        order.section(),
        order.interface(1, 0, &[]),
        order.enhanced(0, 5_000_006, 70, b"abc"),
        order.block(5, &[0; 100]),
        order.enhanced(0, 9_000_008, 4, b"defg"),
    ]
    .concat()
}

#[test]
fn pcap_in_both_orders_and_resolutions() {
    for order in [Order(false), Order(true)] {
        for (magic, more, nanos) in
            [(0xa1b2_c3d4, 0, 6000), (0xa1b2_3c4d, 0, 6), (0xa1b2_cd34, 8, 6000)]
        {
            // The upper half of the link type: frame check sequences of 4 bytes.
            let mut file = order.pcap(magic, 4, 0x2400_0071);
            file.extend(order.record([u32::MAX, 6, 3, 70], more, b"abc"));
            file.extend(order.record([1, 6, 4, 2], more, b"defg"));
            let first = Nanos::from(u32::MAX) * SECOND + nanos;
            let link = LinkType::LINUX_SLL;
            // What was captured was on the wire, whatever the file says.
            let expected =
                [(first, link, 70, b"abc".to_vec()), (SECOND + nanos, link, 4, b"defg".to_vec())];
            assert_eq!(good(&file[..]), expected);
        }
    }
}

#[test]
fn old_pcap_has_its_lengths_the_other_way_round() {
    let order = Order(false);
    for (minor, lengths) in [(2, [70, 3]), (3, [70, 3]), (3, [3, 70]), (4, [3, 70])] {
        let mut file = order.pcap(0xa1b2_c3d4, minor, 1);
        file.extend(order.record([0, 0, lengths[0], lengths[1]], 0, b"abc"));
        assert_eq!(good(&file[..]), [(0, LinkType::ETHERNET, 70, b"abc".to_vec())]);
    }
}

#[test]
fn pcapng_sections_interfaces_and_resolutions() {
    let mut file = Vec::new();
    let mut expected = Vec::new();
    for order in [Order(true), Order(false)] {
        let offset = order.n64(1000);
        file.extend(order.section());
        file.extend(order.interface(1, 0, &[(2, b"eth0")]));
        file.extend(order.interface(101, 0, &[(9, &[9])]));
        file.extend(order.interface(113, 0, &[(9, &[0x80 | 10]), (14, &offset)]));
        file.extend(order.interface(276, 0, &[(9, &[0]), (14, &order.n64(-1)), (0, &[])]));
        file.extend(order.interface(0, 0, &[(9, &[12])]));
        file.extend(order.block(0x0bad, b"unknown blocks are skipped"));
        file.extend(order.enhanced(0, 1_700_000_000_000_001, 60, b"abcde"));
        file.extend(order.enhanced(1, 1_700_000_000_000_000_001, 60, b""));
        file.extend(order.enhanced(2, 1024 + 512, 60, b"x"));
        file.extend(order.enhanced(3, 7, 60, b"yy"));
        file.extend(order.enhanced(4, 7_000_000_005_999, 60, b"zzzz"));
        expected.extend([
            (1_700_000_000 * SECOND + 1000, LinkType::ETHERNET, 60, b"abcde".to_vec()),
            (1_700_000_000 * SECOND + 1, LinkType::RAW, 60, vec![]),
            (1001 * SECOND + SECOND / 2, LinkType::LINUX_SLL, 60, b"x".to_vec()),
            (6 * SECOND, LinkType::LINUX_SLL2, 60, b"yy".to_vec()),
            (7 * SECOND + 5, LinkType::NULL, 60, b"zzzz".to_vec()),
        ]);
    }
    assert_eq!(good(&file[..]), expected);
}

#[test]
fn pcapng_simple_and_obsolete_packets() {
    for order in [Order(true), Order(false)] {
        let obsolete = [
            &order.n16(0)[..],
            &order.n16(9),
            &[0, 5_000_006, 3, 60].map(|n| order.n32(n)).concat(),
            b"abc\0",
        ]
        .concat();
        let file = [
            order.section(),
            order.interface(1, 4, &[]),
            order.block(2, &obsolete),
            order.block(3, &[&order.n32(60)[..], b"cut!"].concat()),
            order.block(3, &[&order.n32(2)[..], b"hi"].concat()),
        ]
        .concat();
        // The time of a Simple Packet Block is that of the packet before.
        let time = 5 * SECOND + 6000;
        let expected = [(60, b"abc".to_vec()), (60, b"cut!".to_vec()), (2, b"hi".to_vec())];
        assert_eq!(
            good(&file[..]),
            expected.map(|(wire, data)| (time, LinkType::ETHERNET, wire, data))
        );
    }
}

#[test]
fn times_beyond_nanoseconds_are_the_last() {
    let order = Order(false);
    let file = [order.section(), order.interface(1, 0, &[]), order.enhanced(0, u64::MAX, 1, b"a")]
        .concat();
    assert_eq!(good(&file[..])[0].0, Nanos::MAX);
}

/// A file truncated anywhere yields all complete records, then an error unless it ends between
/// records.
#[test]
fn cut_files() {
    for (file, header) in [(small_pcap(), 24), (small_pcapng(), 28)] {
        let all = good(&file[..]);
        for len in header..file.len() {
            let mut reader = CaptureReader::new(&file[..len]).unwrap();
            let mut n = 0;
            let mut begins = reader.position();
            loop {
                match reader.next() {
                    Some(Ok(record)) => {
                        assert_eq!(record.data, all[n].3);
                        n += 1;
                    }
                    Some(Err(CaptureError::Cut { at, .. })) => {
                        assert!(at >= begins && at < len as u64, "cut at {len} is told as {at}");
                        break;
                    }
                    Some(Err(e)) => panic!("cut at {len}: {e}"),
                    None => {
                        assert_eq!(reader.position(), len as u64);
                        break;
                    }
                }
                begins = reader.position();
            }
        }
    }
}

#[test]
fn damaged_files() {
    let order = Order(false);
    let head = [order.section(), order.interface(1, 0, &[])].concat();
    let with = |block: Vec<u8>| [head.clone(), block].concat();
    let mut unequal = order.block(6, &[0; 20]);
    *unequal.last_mut().unwrap() = 1;
    let mut unequal_unknown = order.block(77, &[0; 20]);
    *unequal_unknown.last_mut().unwrap() = 1;
    let mut long = order.pcap(0xa1b2_c3d4, 4, 1);
    long.extend(order.record([0, 0, (16 << 20) + 1, 60], 0, b"abc"));
    let cases =
        [
            (long, 24),
            (with(unequal), head.len()),
            (with(unequal_unknown), head.len()),
            (with(order.n32(6).repeat(2)), head.len()),
            (with(order.enhanced(1, 0, 1, b"a")), head.len()),
            (with(order.block(6, &[0; 19])), head.len() + 32),
            (
                with(order.block(
                    6,
                    &[[0; 12].as_slice(), &[9, 0, 0, 0, 9, 0, 0, 0, 1, 2, 3, 4]].concat(),
                )),
                head.len(),
            ),
            (with(order.block(3, &[9, 0, 0, 0, 1, 2, 3, 4])), head.len()),
            (with(order.interface(1, 0, &[(9, &[20])])), head.len()),
            (with(order.interface(1, 0, &[(9, &[0x80 | 64])])), head.len()),
            ([order.section(), order.enhanced(0, 0, 1, b"a")].concat(), 28),
            (
                order
                    .pcap(0xa1b2_c3d4, 4, 1)
                    .iter()
                    .enumerate()
                    .map(|(i, b)| if i == 4 { 9 } else { *b })
                    .collect(),
                4,
            ),
        ];
    for (i, (file, at)) in cases.into_iter().enumerate() {
        match (i, read(&file[..]).1) {
            // The 19 bytes are padded to a whole, empty packet; nothing is wrong.
            (5, None) => {}
            (_, Some(CaptureError::Malformed { at: found, .. })) => {
                assert_eq!(found, at as u64, "case {i}")
            }
            (_, end) => panic!("case {i}: {end:?}"),
        }
    }
}

#[test]
fn no_captures() {
    let cases: [(&[u8], &str); 8] = [
        (b"", "is empty"),
        (b"\xd4", "too short"),
        (b"snoop\0\0\0\0\0\0\x02\0\0\0\x04", "snoop"),
        (b"12:00:00.000000 IP 10.0.0.1.80 > 10.0.0.2", "text"),
        (b"PK\x03\x04aaaaaaaaaaaa", "zip"),
        (b"BZh91AY&SYaaaaaaaa", "bzip2"),
        (b"\x04\x22\x4d\x18aaaaaaaaaaaa", "lz4"),
        (b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0", "no known magic number"),
    ];
    for (file, expected) in cases {
        match read(file).1 {
            Some(e @ CaptureError::NotACapture { .. }) => {
                assert!(e.to_string().contains(expected), "{e}")
            }
            end => panic!("{expected}: {end:?}"),
        }
    }
    assert!(matches!(read(&small_pcap()[..10]).1, Some(CaptureError::Cut { at: 0, .. })));
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zstd(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(zstd_safe::compress_bound(content.len()));
    zstd_safe::compress(&mut out, content, 3).unwrap();
    out
}

fn xz(content: &[u8]) -> Vec<u8> {
    let mut writer =
        lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(6)).unwrap();
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

/// Gives few bytes at a time, and now and then an interruption.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.1 += 1;
        if self.1.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let n = buf.len().min(1 + self.1 % 7);
        self.0.read(&mut buf[..n])
    }
}

#[test]
fn compressed_files() {
    let file = small_pcap();
    let expected = good(&file[..]);
    assert_eq!(good(Slow(&file, 0)), expected);
    for compression in [Compression::Gzip, Compression::Zstd, Compression::Xz] {
        let compress = |content: &[u8]| match compression {
            Compression::None => content.to_vec(),
            Compression::Gzip => gzip(content),
            Compression::Zstd => zstd(content),
            Compression::Xz => xz(content),
        };
        let whole = compress(&file);
        let parts = [compress(&file[..50]), compress(&[]), compress(&file[50..])].concat();
        for stream in [whole, parts] {
            let mut reader = CaptureReader::new(&stream[..]).unwrap();
            assert_eq!((reader.compression(), reader.format()), (compression, Format::Pcap));
            while reader.next().transpose().unwrap().is_some() {}
            assert_eq!(reader.position(), file.len() as u64);
            assert_eq!(reader.compressed_position(), stream.len() as u64);
            assert_eq!(good(&stream[..]), expected, "{compression:?}");
            assert_eq!(good(Slow(&stream, 0)), expected, "{compression:?}");
            for len in 8..stream.len() {
                let (records, end) = read(&stream[..len]);
                assert!(expected.starts_with(&records));
                // Even between two streams: the content is then cut.
                match end {
                    Some(CaptureError::Cut { .. }) => {}
                    // What the xz decoder calls a cut in the first bytes of a second stream.
                    Some(CaptureError::Compressed { what, .. })
                        if what.contains("incomplete XZ magic") => {}
                    end => panic!("{compression:?} cut at {len}: {end:?}"),
                }
            }
        }
        let damaged = [&compress(&file[..50]), &[7; 40][..]].concat();
        assert!(
            matches!(
                read(&damaged[..]).1,
                Some(CaptureError::Compressed { .. } | CaptureError::Cut { .. })
            ),
            "{compression:?}"
        );
        assert!(
            matches!(
                read(&compress(&compress(&file))[..]).1,
                Some(CaptureError::NotACapture { .. })
            ),
            "{compression:?}"
        );
    }
    // A skippable frame first, as pzstd writes.
    let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4][..], &zstd(&file)].concat();
    assert_eq!(good(&skippable[..]), expected);
}

/// A window that we do not grant is an error before the memory is there.
#[test]
fn large_windows() {
    // RFC 8878 section 3.1.1.1: no checksum, no content size, window of 2^31 bytes; one raw block.
    let zstd = [0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3, 1 | 8, 0, 0, b'a'];
    assert!(matches!(read(&zstd[..]).1, Some(CaptureError::Compressed { .. })));
    // The dictionary size of LZMA2 is in the block header; CRC32 behind it.
    let mut options = lzma_rust2::XzOptions::with_preset(0);
    options.lzma_options.dict_size = 256 << 20;
    let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    writer.write_all(&small_pcap()).unwrap();
    let xz = writer.finish().unwrap();
    assert!(matches!(read(&xz[..]).1, Some(CaptureError::Compressed { .. })));
}

#[test]
fn errors_of_the_file_are_its_own() {
    struct Broken<'a>(&'a [u8]);
    impl Read for Broken<'_> {
        fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                Err(io::ErrorKind::ConnectionReset.into())
            } else {
                self.0.read(buf)
            }
        }
    }
    let file = small_pcap();
    for stream in [
        file[..30].to_vec(),
        gzip(&file)[..40].to_vec(),
        zstd(&file)[..40].to_vec(),
        xz(&file)[..40].to_vec(),
    ] {
        match read(Broken(&stream)).1 {
            Some(CaptureError::Io(e)) => assert_eq!(e.kind(), io::ErrorKind::ConnectionReset),
            end => panic!("{end:?}"),
        }
    }
    assert!(matches!(read(Broken(&[])).1, Some(CaptureError::Io(_))));
}

/// Records larger than the window of the buffer, and more content than it.
#[test]
fn large_files() {
    let order = Order(false);
    let mut file = order.pcap(0xa1b2_3c4d, 4, 1);
    let mut expected = Vec::new();
    for i in 0..400u32 {
        let len = if i == 200 { 1_000_000 } else { 3000 + i };
        let data = vec![i as u8; len as usize];
        file.extend(order.record([i, 0, len, len], 0, &data));
        expected.push((Nanos::from(i) * SECOND, LinkType::ETHERNET, len, data));
    }
    assert_eq!(good(&file[..]), expected);
    assert_eq!(good(&gzip(&file)[..]), expected);
    assert_eq!(good(&zstd(&file)[..]), expected);
    assert_eq!(good(&xz(&file)[..]), expected);
}
