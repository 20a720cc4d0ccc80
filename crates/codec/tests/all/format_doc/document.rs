//! The numbers and worked examples in the document.

use super::*;

pub(crate) fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FORMAT.md");
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The text of the fenced block with this info string.
pub(crate) fn fenced<'a>(document: &'a str, info: &str) -> &'a str {
    let start = format!("\n```{info}\n");
    let (_, rest) =
        document.split_once(&start).unwrap_or_else(|| panic!("the document has no block {info}"));
    assert!(!rest.contains(&start), "two blocks {info}");
    &rest[..rest.find("```").unwrap()]
}

/// The bytes of a hex block. Text after a semicolon is a comment.
pub(crate) fn hex(fenced: &str) -> Vec<u8> {
    let bytes = fenced.lines().flat_map(|line| line.split(';').next().unwrap().split_whitespace());
    bytes.map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// The words of each line, without comments.
fn words(fenced: &str) -> Vec<String> {
    let lines = fenced.lines().map(|line| {
        line.split(';').next().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    });
    lines.collect()
}

/// The cells of all table rows.
pub(crate) fn rows(document: &str) -> impl Iterator<Item = Vec<&str>> {
    document
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
}

/// The last number in a cell: decimal, with commas, or a power of 2.
pub(crate) fn number(cell: &str) -> u64 {
    let words = cell.split_whitespace().map(|word| word.trim_end_matches([',', '.']));
    let numbers = words.filter_map(|word| match word.split_once('^') {
        Some((base, exponent)) => Some(base.parse::<u64>().ok()?.pow(exponent.parse().ok()?)),
        None => word.replace(',', "").parse().ok(),
    });
    numbers.fold(None, |_, number| Some(number)).unwrap_or_else(|| panic!("no number in {cell:?}"))
}

/// The second cell of the row whose first cell is `row`.
pub(crate) fn stated<'a>(document: &'a str, row: &str) -> &'a str {
    rows(document).find(|cells| cells[0] == row).unwrap_or_else(|| panic!("no row {row}"))[1]
}

#[test]
fn the_numbers_in_the_document_match_the_code() {
    let document = document();
    assert_eq!(number(stated(&document, "B, block limit")), oncewire_codec::MAX_BLOCK as u64);
    assert_eq!(number(stated(&document, "C, cache")), Geometry::MAX_CAPACITY);
    assert_eq!(number(stated(&document, "N, contexts")), MAX_CONTEXTS as u64);
    assert!(Geometry::new(400, 100).is_ok() && Geometry::new(400, 101).is_err());
    assert_eq!(stated(&document, "S, span"), "0 to C / 4");
    assert!(
        document
            .starts_with(&format!("# Oncewire frames and packs\n\nVersion {}.\n", pack::VERSION))
    );

    // Private constants are checked through behavior.
    let slack =
        number(stated(&document, "body beyond its block, at most").trim_end_matches(" bytes"));
    for (body, refused) in [(1000 + slack, false), (1000 + slack + 1, true)] {
        let mut frame = vec![0];
        free::put(&mut frame, body);
        assert_eq!(FrameView::scan(&frame, 1000).is_err(), refused);
    }
    let limit = number(stated(&document, "limit of stated offsets"));
    for (offset, refused) in [(limit - 1, false), (limit, true)] {
        let frame =
            Draft { flags: 0x10, explicit: Some((offset, 0)), ..Draft::default() }.to_bytes();
        assert_eq!(FrameView::scan(&frame, 1000).is_err(), refused);
    }
    let longest = number(stated(&document, "longest varint").trim_end_matches(" bytes")) as usize;
    for len in [longest, longest + 1] {
        let frame = [&vec![0xff; len][..], &[0x7f]].concat();
        // A body length that is too large, if it is valid at all.
        match FrameView::scan(&[&[0], &frame[1..]].concat(), 1000) {
            Err(FrameError::TooLarge { .. }) => assert_eq!(len, longest),
            Err(FrameError::Field { .. }) => assert_eq!(len, longest + 1),
            other => panic!("{other:?}"),
        }
    }

    let ranges = number(stated(&document, "separate ranges held, at least"));
    let params = Params { cache: 20 * ranges, span: 5 * ranges, max_block: 1, ..Params::default() };
    let (mut first, second) = decoders(&params);
    for i in 1..=ranges + 1 {
        // A byte, and a gap of one.
        let checksum = second.parameters.checksum(2 * i, 0, &[7]);
        let explicit = Some((2 * i, 0));
        let frame = Draft {
            flags: 0x10,
            block_len: 1,
            explicit,
            literals: vec![7],
            checksum,
            ..Draft::default()
        }
        .to_bytes();
        assert_eq!(first.decode(&frame).is_ok(), i <= ranges, "{i} ranges");
    }

    // The tables of the pack: fields are consecutive, and their sizes sum to what the code writes.
    let base = Base { len: 1, digest: [0; 32] };
    let header = Header { cache: 1, max_block: 1, seed: 0, base: Some(base) }.to_bytes();
    let table = |from: &str, to: &str| {
        let (_, text) = document.split_once(from).unwrap();
        let (text, _) = text.split_once(to).unwrap();
        let mut at = 0;
        for cells in
            rows(text).filter(|cells| cells.len() == 4 && cells[0].parse::<usize>().is_ok())
        {
            assert_eq!(cells[0], at.to_string(), "{cells:?}");
            at += cells[1].parse::<usize>().unwrap();
        }
        at
    };
    assert_eq!(table("### Header\n", "### Base\n") + 8, header.len());
    assert_eq!(table("### Trailer\n", "## 13."), pack::TRAILER_LEN);
    assert_eq!(pack::Summary::default().trailer()[0], 0xff);
    let without = Header { cache: 1, max_block: 1, seed: 0, base: None }.to_bytes();
    assert!(document.contains(&format!(
        "a header is {} or {} bytes long",
        without.len(),
        header.len()
    )));
    let magic: Vec<String> = pack::MAGIC.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(document.contains(&format!("| 0 | 8 | magic | `{}`", magic.join(" "))));
    assert!(document.contains(&format!("| 8 | 1 | version | {} |", pack::VERSION)));

    for cells in
        rows(document.split_once("### Varints").unwrap().1.split_once("## 2.").unwrap().0).skip(2)
    {
        let value = if cells[0] == "2^63 - 1" { (1 << 63) - 1 } else { number(cells[0]) };
        let bytes = hex(cells[1].trim_matches('`'));
        let mut written = Vec::new();
        free::put(&mut written, value);
        assert_eq!(bytes, written);
    }
}

#[test]
fn the_worked_pack_matches_the_code() {
    let document = document();
    let first = "Every byte crosses the wire once; what was there before is sent by reference.";
    assert!(document.contains(first));
    let content = format!("{first}\n{}\n{}\n", first.replace("there", "known"), "0".repeat(60));
    let packed = hex(fenced(&document, "hex pack"));
    let header = Header { cache: 65_536, max_block: 78, seed: 0x0123_4567_89ab_cdef, base: None };
    assert_eq!(read_pack(&packed, None).as_deref(), Some(content.as_bytes()));
    assert_eq!(second::unpack(&packed, None).as_deref(), Ok(content.as_bytes()));
    let builder = Encoder::builder().entropy(Entropy::None).sampler(SamplerKind::sample_byte());
    assert_eq!(pack::pack(content.as_bytes(), &header, builder).unwrap(), packed);
    let flags: Vec<u8> =
        frame_ranges(&packed, 38).into_iter().map(|range| packed[range.start]).collect();
    assert_eq!(flags, [0, 1, 1], "a raw frame and two with plain descriptors");

    let parameters = second::Parameters {
        cache: 65_536,
        span: 0,
        block_limit: 78,
        policy: second::Policy::All,
        contexts: 1,
        session: 0x0123_4567_89ab_cdef,
        epoch: 0,
    };
    assert!(document.contains(&format!("is `{:#018x}`", parameters.place_hash(78, 0, 78))));
    assert!(document.contains(&format!("{} bytes of content", content.len())));
}

#[test]
fn the_worked_coded_descriptors_match_the_code() {
    let document = document();
    let (log, block) =
        (fenced(&document, "text log").as_bytes(), fenced(&document, "text block").as_bytes());
    let frame = hex(fenced(&document, "hex coded"));
    assert!(document.contains(&format!("holds these {} bytes at offset 0", log.len())));
    assert!(document.contains(&format!(
        "three lines of {} bytes at offset {}",
        block.len(),
        log.len()
    )));

    let params = Params { cache: 65_536, window: 12, period: 4, ..Params::default() };
    let (mut encoder, mut first) = (params.encoder(), params.decoder());
    let mut second = second::Decoder::new(second_parameters(&params));
    encoder.prime(log).unwrap();
    first.prime(log);
    second.prime(log);
    let mut written = Vec::new();
    encoder.encode(block, &mut written).unwrap();
    assert_eq!(written, frame);

    second.trace = Some(Vec::new());
    assert_eq!(both(&mut first, &mut second, &frame).unwrap().content, block);
    let found: Vec<String> = second
        .matches
        .iter()
        .map(|m| format!("{} {} {} {}", m.at, m.len, m.source, m.distance))
        .collect();
    assert!(found.len() > 2);
    assert_eq!(words(fenced(&document, "text matches")), found);
    assert_eq!(words(fenced(&document, "text symbols")), second.trace.unwrap());
}

#[test]
fn the_worked_transcoded_literals_can_be_read() {
    use std::io::Read;

    let inflated = |bytes: &[u8]| {
        let mut out = String::new();
        flate2::read::DeflateDecoder::new(bytes).read_to_string(&mut out).unwrap();
        out
    };
    let document = document();
    let log = hex(fenced(&document, "hex transcoded log"));
    let lines = fenced(&document, "text log");
    assert_eq!(inflated(&log), lines);

    let (mut first, mut second) = decoders(&Params { cache: 65_536, ..Params::default() });
    first.prime(&log);
    second.prime(&log);
    second.trace = Some(Vec::new());
    let frame = hex(fenced(&document, "hex transcoded"));
    let block = both(&mut first, &mut second, &frame).unwrap();
    assert_eq!(block.consumed, frame.len());
    assert!(document.contains(&format!(
        "is {} bytes at offset {}",
        block.content.len(),
        log.len()
    )));
    let changed = [
        ("a match is", "any match is"),
        ("a literal", "one literal"),
        ("the last of", "the very last of"),
    ];
    let lines = changed.iter().fold(lines.to_owned(), |lines, (from, to)| lines.replace(from, to));
    assert_eq!(inflated(&block.content), lines);

    let (notes, symbols): (Vec<String>, Vec<String>) =
        second.trace.unwrap().into_iter().partition(|line| line.starts_with("= "));
    let (work, operations) = notes.split_last().unwrap();
    let operations: Vec<&str> = operations.iter().map(|line| &line[2..]).collect();
    assert_eq!(words(fenced(&document, "text operations")), operations);
    let written = words(fenced(&document, "text transcoded symbols"));
    let written: Vec<&str> = written
        .iter()
        .flat_map(|line| line.split(", "))
        .map(|one| one.trim_end_matches(','))
        .collect();
    assert_eq!(written, symbols);
    let work: u64 = work.trim_start_matches("= work ").parse().unwrap();
    let (thousands, units) = (work / 1000, work % 1000);
    assert!(document.contains(&format!("Its work is {thousands},{units:03} units")), "{work}");
}

#[test]
fn the_worked_frame_with_positions_of_fixed_width_can_be_read() {
    let document = document();
    let log = fenced(&document, "text log").as_bytes();
    let frame = hex(fenced(&document, "hex fixed"));
    let params = Params { cache: 65_536, ..Params::default() };
    let (mut first, mut second) = decoders(&params);
    first.prime(log);
    second.prime(log);
    let checksum = second.parameters.checksum(207, 0, &log[155..]).to_le_bytes();
    assert!(frame.ends_with(&checksum), "{checksum:02x?}");
    let block = both(&mut first, &mut second, &frame).unwrap();
    assert_eq!((block.consumed, &block.content[..]), (frame.len(), &log[155..]));
}

#[test]
fn the_worked_coded_literals_match_the_code() {
    let document = document();
    let frames = hex(fenced(&document, "hex literals"));
    let entropy = Entropy::Coded { level: 1 };
    let params = Params { cache: 65_536, window: 64, entropy, ..Params::default() };
    let (mut encoder, (mut first, mut second)) = (params.encoder(), decoders(&params));
    let (mut rest, mut written) = (&frames[..], Vec::new());
    for line in fenced(&document, "text literals").lines() {
        let block = both(&mut first, &mut second, rest).unwrap();
        assert_eq!(block.content, line.as_bytes());
        rest = &rest[block.consumed..];
        encoder.encode(line.as_bytes(), &mut written).unwrap();
    }
    assert!(rest.is_empty());
    assert_eq!(written, frames);
}
