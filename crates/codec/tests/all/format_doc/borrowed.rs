//! Corner cases of LZ4 and of what else the document uses.

use super::*;

/// An LZ4 block as one draft's literals. The checksum covers the decoded content.
pub(crate) fn lz4_draft(section: &[u8], content: &[u8]) -> Draft {
    let (_, _, second) = laid_out();
    let checksum = second.parameters.checksum(AT, 0, content);
    Draft {
        flags: 4,
        block_len: content.len() as u64,
        literals: section.to_vec(),
        checksum,
        ..Draft::default()
    }
}

/// Positions of an LZ4 block's sequences in its output: start and end of each match, and the number
/// of final literals.
pub(crate) fn lz4_sequences(mut section: &[u8]) -> (Vec<Range<usize>>, usize) {
    fn length(section: &mut &[u8], nibble: u8) -> usize {
        let mut sum = usize::from(nibble);
        let mut goes_on = nibble == 15;
        while goes_on {
            let (&more, rest) = section.split_first().unwrap();
            (sum, *section) = (sum + usize::from(more), rest);
            goes_on = more == 255;
        }
        sum
    }
    let (mut at, mut matches) = (0, Vec::new());
    loop {
        let (&token, rest) = section.split_first().unwrap();
        section = rest;
        let literals = length(&mut section, token >> 4);
        section = &section[literals..];
        at += literals;
        if section.is_empty() {
            return (matches, literals);
        }
        section = &section[2..];
        let len = length(&mut section, token & 15) + 4;
        matches.push(at..at + len);
        at += len;
    }
}

#[test]
fn lz4_sections_end_as_its_format_says() {
    let document = document();
    let prose = document.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(prose.contains("the last five bytes are literals; and the last match begins at least 12 bytes before the end"));
    let params = Params {
        entropy: Entropy::Lz4,
        cache: 1 << 20,
        window: 64,
        period: 1024,
        ..Params::default()
    };
    let mut encoder = params.encoder();
    let (mut with_matches, mut seen) = (0, 0);
    for seed in 0..400 {
        // Repeats that reach or approach the end, with lengths around the limits of the rules.
        let pattern = text(seed, 1 + seed as usize % 40);
        let block: Vec<u8> = pattern
            .iter()
            .cycle()
            .take(24 + seed as usize % 60)
            .chain(&noise(seed, seed as usize % 7))
            .copied()
            .collect();
        let mut frame = Vec::new();
        encoder.encode(&block, &mut frame).unwrap();
        if frame[0] & 0x0f != 4 {
            continue;
        }
        let mut body = &frame[1..];
        let len = second::varint(&mut body).unwrap();
        assert_eq!(
            (len as usize, second::varint(&mut body)),
            (frame.len() - 2, Ok(block.len() as u64))
        );
        let (matches, last) = lz4_sequences(&body[..body.len() - 8]);
        seen += 1;
        if let Some(found) = matches.last() {
            with_matches += 1;
            assert!(
                last >= 5 && found.start + 12 <= block.len(),
                "{matches:?}, {last} literals, of {}",
                block.len()
            );
        }
    }
    assert!(seen > 100 && with_matches > 100, "{seen}, {with_matches}");

    // Handmade blocks. The LZ4 project's library (1.9.4) refuses all broken ones; ours refuses only
    // the one without final literals. The document allows either, since neither delivers a wrong
    // byte.
    let kept: [(&[u8], &[u8]); 3] = [
        (b"\x88abcdefgh\x08\x00\x50vwxyz", b"abcdefghabcdefghabcdvwxyz"),
        (b"\x80abcdefgh\x08\x00\x80stuvwxyz", b"abcdefghabcdstuvwxyz"),
        (b"\x00", b""),
    ];
    let broken: [(&[u8], &[u8]); 5] = [
        (b"\x84abcdefgh\x08\x00", b"abcdefghabcdefgh"),
        (b"\x88abcdefgh\x08\x00\x00", b"abcdefghabcdefghabcd"),
        (b"\x88abcdefgh\x08\x00\x40wxyz", b"abcdefghabcdefghabcdwxyz"),
        (b"\x80abcdefgh\x08\x00\x70tuvwxyz", b"abcdefghabcdtuvwxyz"),
        (b"\x82abcdefgh\x08\x00\x50vwxyz", b"abcdefghabcdefvwxyz"),
    ];
    for (section, content) in kept.into_iter().chain(broken) {
        let (_, mut first, mut second) = laid_out();
        let block = both(&mut first, &mut second, &lz4_draft(section, content).to_bytes());
        match block {
            Ok(block) => assert_eq!(block.content, content),
            Err(No::Invalid("LZ4")) => assert_eq!((section, content), broken[0]),
            Err(no) => panic!("{section:x?}: {no:?}"),
        }
    }
    // An offset of 0, which that library reads as zeros, and one before the start.
    for offset in [0, 9] {
        let section = [&b"\x88abcdefgh"[..], &[offset, 0], b"\x80stuvwxyz"].concat();
        let (_, mut first, mut second) = laid_out();
        let content = [&b"abcdefgh"[..], &[0; 12], b"stuvwxyz"].concat();
        let refused = both(&mut first, &mut second, &lz4_draft(&section, &content).to_bytes());
        assert!(matches!(refused, Err(No::Invalid(_))), "offset {offset}");
    }
}

#[test]
fn a_section_of_coded_literals_for_no_literals_is_one_byte() {
    let (_, mut first, mut second) = laid_out();
    let (mut state, rng) = (second::CodedLiterals::new(), &mut Rng::new(1));
    let mut at = AT;
    for (i, content) in
        [&b""[..], b"", b"literals at last, and more of them", b"", b"more literals at last"]
            .iter()
            .enumerate()
    {
        let literals = columns::coded_literals(&mut state, content, &mut 0, rng);
        assert_eq!(literals == [0], content.is_empty());
        let flags = if i == 0 { 0x28 } else { 0x08 };
        let checksum = second.parameters.checksum(at, 0, content);
        let draft = Draft {
            flags,
            block_len: content.len() as u64,
            literals,
            checksum,
            ..Draft::default()
        };
        assert_eq!(both(&mut first, &mut second, &draft.to_bytes()).unwrap().content, *content);
        at += content.len() as u64;
    }
}

#[test]
fn an_empty_dependency_range_is_stated_as_empty() {
    // Only repeats within the block itself.
    let block = [
        text(1, 200),
        noise(1, 9),
        text(1, 90),
        text(2, 80),
        noise(2, 9),
        text(1, 150),
        noise(3, 9),
        text(2, 70),
    ]
    .concat();
    let params = Params { cache: 65_536, window: 16, period: 4, ..Params::default() };
    let (mut encoder, (mut first, mut second)) = (params.encoder(), decoders(&params));
    let mut frame = Vec::new();
    encoder.encode(&text(7, 1000), &mut frame).unwrap();
    both(&mut first, &mut second, &frame).unwrap();
    frame.clear();
    encoder.encode(&block, &mut frame).unwrap();
    assert_eq!(frame[0] & 3, 2, "coded descriptors");
    let mut body = &frame[1..];
    let fields: Vec<u64> = (0..4).map(|_| second::varint(&mut body).unwrap()).collect();
    assert_eq!(fields[1..], [block.len() as u64, 0, 0]);
    assert!(both(&mut first, &mut second, &frame).unwrap().content == block);
    assert!(second.matches.iter().all(|m| m.source >= 1000));
}

#[test]
fn a_base_may_be_empty_or_not_needed() {
    let digest = *blake3::hash(&[]).as_bytes();
    let written: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(
        document().split_whitespace().collect::<Vec<_>>().join(" ").contains(&written.join(" "))
    );
    let content = text(1, 3000);
    let header =
        Header { cache: 1500, max_block: 500, seed: 9, base: Some(Base { len: 0, digest }) };
    let none = Header { base: None, ..header };
    let without = pack::pack(&content, &none, Encoder::builder()).unwrap();
    // The same frames after a longer header.
    let with = [&header.to_bytes(), &without[38..]].concat();
    assert_eq!(second::unpack(&with, Some(&[])).as_ref(), Ok(&content));
    assert_eq!(read_pack(&with, Some(&[])), Some(content.clone()));
    // A base that is not needed must not enter the log.
    assert!(second::unpack(&without, Some(&content)).is_err());
    let mut reader = PackReader::new(1 << 30);
    assert!(matches!(reader.step(&without), Ok(PackStep::Header { .. })));
    assert_eq!((reader.header().unwrap().base, reader.header().unwrap().base_skip()), (None, 0));
}

#[test]
fn the_checksums_in_the_document_are_right() {
    let document = document();
    let content: Vec<u8> = (0..2000u32).map(|i| (i % 251) as u8).collect();
    let session = 0x0123_4567_89ab_cdef;
    let table = document.split_once("## 9. Checksum").unwrap().1.split_once("## 10.").unwrap().0;
    let mut lengths = Vec::new();
    for cells in rows(table).filter(|cells| cells[0].parse::<usize>().is_ok()) {
        let len: usize = cells[0].parse().unwrap();
        for (cell, seed) in [(cells[1], 0), (cells[2], session)] {
            let hash = xxhash_rust::xxh3::xxh3_64_with_seed(&content[..len], seed);
            assert_eq!(cell, format!("`{hash:#018x}`"), "{len} bytes, seed {seed:#x}");
        }
        lengths.push(len);
    }
    assert!(
        lengths.contains(&240) && lengths.contains(&241) && lengths.iter().any(|&len| len > 1024)
    );
    let params = Params {
        cache: 1000,
        span: 0,
        max_block: 300,
        explicit: true,
        seed: ChecksumSeed { session, epoch: 1 },
        ..Params::default()
    };
    let (mut first, mut second) = decoders(&params);
    let (hash, checksum) = (
        second.parameters.place_hash(1000, 24, 300),
        second.parameters.checksum(1000, 24, &content[..300]),
    );
    assert!(table.contains(&format!("`{hash:#018x}` and the checksum `{checksum:#018x}`")));
    let bytes: Vec<String> =
        checksum.to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(table.contains(&format!("ends with `{}`", bytes.join(" "))));
    // A decoder accepts it at that offset: the previous generation ends 24 bytes early.
    for (offset, padding, len) in
        [(0, 0, 300u64), (300, 0, 300), (600, 0, 300), (900, 0, 76), (1000, 24, 300)]
    {
        let block = &content[..len as usize];
        let checksum = second.parameters.checksum(offset, padding, block);
        let draft =
            Draft { block_len: len, literals: block.to_vec(), checksum, ..Draft::default() };
        assert_eq!(both(&mut first, &mut second, &draft.to_bytes()).unwrap().offset, offset);
    }
}
