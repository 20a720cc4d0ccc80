//! Frames written by hand from `docs/LINK.md`, good and bad.

use super::{SEED, deal, decoder, ends};
use oncewire_codec::datagram::{Class, DatagramDecoded, DatagramDecoder, FrozenContext, Limits};
use oncewire_codec::{FrameError, Reach};

const CACHE: u64 = 70_000;

/// A name, the datagram's counter and its frame; the offset, whether it is stored, and its content.
type Good = (&'static str, u64, Vec<u8>, Option<u64>, bool, &'static [u8]);
/// A name, a frame, and whether an error is the right one.
type Bad = (&'static str, Vec<u8>, fn(&FrameError) -> bool);

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// A decoder that holds "0123456789abcdefghij" at 100..120 and 10 bytes at 65,600.
fn primed() -> DatagramDecoder {
    let mut decoder = decoder(CACHE, 0x1000);
    decoder.set_context(0, Some(&FrozenContext::built_in()));
    let frames = [
        (3, [hex("10 64 00"), b"0123456789abcdefghij".to_vec()].concat(), 100),
        (5, [hex("20 40 00 01"), b"0123456789".to_vec()].concat(), 65_600),
    ];
    for (counter, frame, at) in frames {
        match decoder.decode(counter, &frame) {
            Ok(DatagramDecoded::Content { offset, stored: true, bytes }) => {
                assert_eq!(
                    (offset, bytes.len()),
                    (Some(at), frame.len() - 3 - usize::from(at > 100))
                );
            }
            other => panic!("{other:?}"),
        }
    }
    decoder
}

/// A frame with the right checksum at its end.
fn summed(start: &str, literals: &[u8], offset: u64, content: &[u8]) -> Vec<u8> {
    [&hex(start), literals, &SEED.checksum(offset, 0, content).to_le_bytes()].concat()
}

#[test]
fn good_frames() {
    let nothing: &'static [u8] = b"";
    let cases: [Good; 16] = [
        ("no offset", 9, hex("00 61 62"), None, false, b"ab"),
        ("empty", 9, hex("00"), None, false, nothing),
        ("empty with an offset", 9, hex("10 00 00"), Some(0x1_0000 * 2), false, nothing),
        ("low bytes from the highest end on", 9, hex("10 4a 00 61"), Some(65_610), true, b"a"),
        ("low bytes that wrap", 9, hex("10 49 00 61"), Some(131_145), true, b"a"),
        ("three bytes", 9, hex("20 50 00 01 61"), Some(65_616), true, b"a"),
        ("three bytes that wrap", 9, hex("20 40 00 01 61"), Some(0x101_0040), true, b"a"),
        ("eight bytes", 9, hex("30 00 00 02 00 00 00 00 00 61"), Some(0x2_0000), true, b"a"),
        // The datagram was sent before what ended at 65,610.
        ("late, too low to be stored", 4, hex("10 78 00 61"), Some(120), false, b"a"),
        ("held already", 9, hex("30 64 00 00 00 00 00 00 00 61"), Some(100), false, b"a"),
        // Gap 1, length 4, distance 65,612 + 1 - 100.
        (
            "a match",
            9,
            summed("14 4c 00 05 01 08 e9 ff 03", b"xyz", 65_612, b"x0123yz"),
            Some(65_612),
            true,
            b"x0123yz",
        ),
        // 17 bits are three bytes.
        (
            "two matches of fixed width, of its own content, too",
            9,
            summed("1c 4c 00 0a 01 08 e9 ff 00 00 0c 01 00 00", b"x", 65_612, b"x0123333333"),
            Some(65_612),
            true,
            b"x0123333333",
        ),
        // Context 0, three literals, all columns raw, no short match.
        (
            "a context",
            9,
            summed("51 4c 00 00 03 00 00", b"abc", 65_612, b"abc"),
            Some(65_612),
            true,
            b"abc",
        ),
        (
            "a context without an offset",
            9,
            summed("41 00 02 00 00", b"ab", 0, b"ab"),
            None,
            false,
            b"ab",
        ),
        // And a short match with a distance of 3, length 4 + 1, after 3 literals.
        (
            "a context and matches",
            9,
            summed(
                "55 4c 00 00 05 01 08 e9 ff 03 08 00 01 b1 00 03",
                b"xyz",
                65_612,
                b"x0123yzxyzxy",
            ),
            Some(65_612),
            true,
            b"x0123yzxyzxy",
        ),
        (
            "a distance as before",
            9,
            summed("14 4c 00 07 00 08 e8 ff 03 01 07", b"x", 65_612, b"0123x567"),
            Some(65_612),
            true,
            b"0123x567",
        ),
    ];
    for (what, counter, frame, at, is_stored, content) in cases {
        let mut decoder = primed();
        let found = decoder.decode(counter, &frame);
        let expected = DatagramDecoded::Content { offset: at, stored: is_stored, bytes: content };
        assert_eq!(found, Ok(expected), "{what}");
    }
}

// More than 100 lines: a table of cases.
#[test]
fn bad_frames() {
    let zeros = "00 00 00 00 00 00 00 00";
    let bad = |start: &str| hex(&format!("{start} {zeros}"));
    let cases: Vec<Bad> = vec![
        ("nothing", vec![], |error| matches!(error, FrameError::Short { section: "flags" })),
        ("coded literals without a context", hex("01 61"), |error| {
            matches!(error, FrameError::Field { .. })
        }),
        ("lz4 literals", hex("02 61"), |error| matches!(error, FrameError::Field { .. })),
        ("literals 3", hex("43 00 01 61"), |error| matches!(error, FrameError::Field { .. })),
        ("a context for raw literals", hex("50 00 00 61"), |error| {
            matches!(error, FrameError::Field { field: "flags", .. })
        }),
        ("no number of a context", hex("51 4c 00"), |error| {
            matches!(error, FrameError::Short { section: "context" })
        }),
        ("a context that is not there", bad("51 4c 00 07 01 00 00 61"), |error| {
            matches!(error, FrameError::Field { field: "context", value: 7, .. })
        }),
        ("a context without a checksum", hex("51 4c 00 00 01 00 00 61"), |error| {
            matches!(error, FrameError::Short { section: "checksum" })
        }),
        ("a context and a wrong checksum", bad("51 4c 00 00 01 00 00 61"), |error| {
            matches!(error, FrameError::Checksum { offset: 65_612, len: 1 })
        }),
        ("too few coded literals", bad("51 4c 00 00 02 00 00 61"), |error| {
            matches!(error, FrameError::Short { section: "literals" })
        }),
        ("too many coded literals", bad("51 4c 00 00 01 00 00 61 62"), |error| {
            matches!(error, FrameError::Excess { section: "literals", extra: 1 })
        }),
        ("more literals than a frame may carry", bad("51 4c 00 00 81 80 04 00 00"), |error| {
            matches!(error, FrameError::TooLarge { field: "content", value: 65_537, .. })
        }),
        ("more short matches than literals", bad("51 4c 00 00 07 00 02 00 00"), |error| {
            matches!(error, FrameError::TooLarge { field: "short match count", value: 2, limit: 1 })
        }),
        ("a code of literals that is not there", bad("51 4c 00 00 01 e0 00 61"), |error| {
            matches!(error, FrameError::Field { field: "code of literals", value: 7, .. })
        }),
        ("a short match before the prefix", bad("51 4c 00 00 04 00 01 80 ff ff"), |error| {
            matches!(error, FrameError::Literals { .. })
        }),
        ("bit 7", hex("90 00 00 61"), |error| matches!(error, FrameError::Field { .. })),
        ("frozen descriptors", bad("18 4c 00 00"), |error| {
            matches!(error, FrameError::Field { field: "flags", .. })
        }),
        ("matches without an offset", bad("04 03 00 08 05"), |error| {
            matches!(error, FrameError::Field { field: "flags", .. })
        }),
        ("half an offset", hex("10 00"), |error| {
            matches!(error, FrameError::Short { section: "offset" })
        }),
        ("an offset of 2^62", hex("30 00 00 00 00 00 00 00 40"), |error| {
            matches!(error, FrameError::Field { field: "offset", .. })
        }),
        ("the highest offset and a byte", hex("30 ff ff ff ff ff ff ff 3f 61 62"), |error| {
            matches!(error, FrameError::Offset { .. })
        }),
        ("across the end of the ring", hex("20 6f 11 01 61 62"), |error| {
            matches!(error, FrameError::Offset { offset: 69_999, .. })
        }),
        ("no checksum", hex("14 4c 00 03 00 08 05 61"), |error| {
            matches!(error, FrameError::Short { section: "checksum" })
        }),
        ("descriptors beyond the end", bad("14 4c 00 04 00 08 05"), |error| {
            matches!(error, FrameError::Short { section: "descriptors" })
        }),
        ("no descriptors", bad("14 4c 00 00"), |error| {
            matches!(error, FrameError::Short { section: "descriptors" })
        }),
        ("half a descriptor", bad("14 4c 00 02 00 08"), |error| {
            matches!(error, FrameError::Short { section: "descriptors" })
        }),
        ("half a distance", bad("1c 4c 00 04 00 08 05 00"), |error| {
            matches!(error, FrameError::Short { section: "descriptors" })
        }),
        ("a long varint", bad("14 4c 00 04 80 00 08 05"), |error| {
            matches!(error, FrameError::Field { field: "descriptors", .. })
        }),
        ("the distance of no match", bad("14 4c 00 02 00 09"), |error| {
            matches!(error, FrameError::Field { field: "descriptor", .. })
        }),
        ("no length", bad("14 4c 00 03 00 00 05"), |error| {
            matches!(error, FrameError::Field { field: "descriptor", .. })
        }),
        ("no distance", bad("14 4c 00 03 00 08 00"), |error| {
            matches!(error, FrameError::Field { field: "descriptor", .. })
        }),
        ("a gap without literals", bad("14 4c 00 03 01 08 05"), |error| {
            matches!(error, FrameError::Sum { .. })
        }),
        ("below offset 0", bad("14 4c 00 05 00 08 ff ff 7f"), |error| {
            matches!(error, FrameError::Reference { .. })
        }),
        ("into its own content and before it", bad("14 4c 00 03 00 08 02"), |error| {
            matches!(error, FrameError::Reference { source_offset: 65_610, len: 4 })
        }),
        // Four bytes at 131,148 may refer to 65,248 and above.
        ("below the floor", bad("34 4c 00 02 00 00 00 00 00 05 00 08 e8 ff 07"), |error| {
            matches!(error, FrameError::Reference { source_offset: 100, len: 4 })
        }),
        ("more than a frame may carry", bad("14 4c 00 05 00 82 80 08 05"), |error| {
            matches!(error, FrameError::TooLarge { field: "content", value: 65_537, limit: 65_536 })
        }),
        ("a wrong checksum", bad("14 4c 00 05 00 08 e8 ff 03"), |error| {
            matches!(error, FrameError::Checksum { offset: 65_612, len: 4 })
        }),
    ];
    for (what, frame, expected) in cases {
        let mut decoder = primed();
        let held = decoder.held().to_vec();
        match decoder.decode(9, &frame) {
            Err(error) if expected(&error) => assert!(!error.to_string().is_empty()),
            other => panic!("{what}: {other:?}"),
        }
        assert_eq!(decoder.held(), held, "{what}");
    }
}

#[test]
fn missing_ranges_are_exact() {
    let mut decoder = primed();
    // Length 30 from 95 on: 95..100 and 120..125 are not there.
    let frame = hex("14 4c 00 05 00 3c ed ff 03 00 00 00 00 00 00 00 00");
    let missing = DatagramDecoded::Missing { offset: 65_612, ranges: &[95..100, 120..125] };
    assert_eq!(decoder.decode(9, &frame), Ok(missing));
    assert_eq!(decoder.sources().collect::<Vec<_>>(), [95..125]);
}

#[test]
fn a_frame_that_lacks_a_range_for_each_match_is_cheap_to_refuse() {
    let mut decoder = primed();
    // Matches of one byte, each from two bytes further back: descending, and none is held.
    let mut descriptors = Vec::new();
    for i in 0..4000u32 {
        let distance = 20_000 + 3 * i;
        descriptors.extend([0, 2, 0x80 | (distance & 0x7f) as u8]);
        descriptors.extend([0x80 | (distance >> 7 & 0x7f) as u8, (distance >> 14) as u8]);
    }
    assert_eq!(descriptors.len(), 20_000);
    let frame = [&hex("14 4c 00 a0 9c 01"), &descriptors[..], &[0; 8]].concat();
    match decoder.decode(9, &frame) {
        Ok(DatagramDecoded::Missing { offset: 65_612, ranges }) => assert_eq!(ranges.len(), 64),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_datagram_that_is_too_old_has_no_offset_but_content() {
    let mut decoder = primed();
    decoder.decode(9000, &hex("10 4a 00 61")).unwrap();
    let frame = hex("10 00 00 62");
    let decoded = decoder.decode(809, &frame).unwrap();
    assert!(matches!(decoded, DatagramDecoded::Content { offset: Some(131_072), .. }));
    let content = DatagramDecoded::Content { offset: None, stored: false, bytes: b"b" };
    assert_eq!(decoder.decode(808, &frame), Ok(content));
    let frame = hex("14 4c 00 05 00 08 e8 ff 03 00 00 00 00 00 00 00 00");
    assert!(matches!(decoder.decode(808, &frame), Err(FrameError::Field { field: "offset", .. })));
}

/// The worked example of `docs/LINK.md`: the encoder writes these bytes.
#[test]
fn the_encoder_writes_the_worked_example() {
    let (mut encoder, _) = ends(1 << 30, 1 << 20);
    let limits = Limits { segment: 100, room: 120, earlier: false };
    let (mut counter, policy) = (0, (Class::Unknown, Reach::Sent));
    let run: Vec<u8> = (0..100).collect();
    let first = deal(&mut encoder, &run, policy, &limits, &mut counter);
    assert_eq!(first[0].frame, [&hex("10 00 00"), &run[..]].concat());
    let again = [&run[10..90], b"!"].concat();
    let second = deal(&mut encoder, &again, policy, &limits, &mut counter);
    assert_eq!(second[0].frame, hex(EXAMPLE), "{:02x?}", second[0].frame);
    let document = include_str!("../../../../docs/LINK.md");
    assert!(document.contains(EXAMPLE));
    assert!(document.contains("51 4c 00 00 03 00 00 61 62 63"), "see `good_frames`");
    let context = FrozenContext::built_in();
    let file = [&context.codes(), context.prefix()].concat();
    let checksum = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&file));
    assert!(document.contains(&checksum), "context 0 has the checksum {checksum}");
    assert!(document.contains("of 30,169 bytes") && file.len() == 30_169);
}

const EXAMPLE: &str = "14 64 00 04 00 a0 01 5a 21 51 04 c6 ea 6a 1a 15 d0";
