//! Both decoders refuse everything that the document forbids.

use super::*;

/// Nine blocks of 100 bytes, 100 bytes of padding, and a block of 150: contiguous content up to
/// 1150, in logs of 1000 bytes.
pub(crate) fn laid_out() -> (Params, Decoder, second::Decoder) {
    let seed = ChecksumSeed { session: 1, epoch: 2 };
    let params =
        Params { cache: 1000, span: 250, max_block: 200, contexts: 2, seed, ..Params::default() };
    let (mut first, mut second) = decoders(&params);
    for (i, len) in [100, 100, 100, 100, 100, 100, 100, 100, 100, 150].into_iter().enumerate() {
        let block = noise(i as u64, len);
        let o = second.parameters.place(second.low, len as u64);
        let checksum = second.parameters.checksum(o, o - second.low, &block);
        let draft = Draft { block_len: len as u64, literals: block, checksum, ..Draft::default() };
        both(&mut first, &mut second, &draft.to_bytes()).unwrap();
    }
    assert_eq!(second.low, 1150);
    (params, first, second)
}

/// A block of 100 bytes at 1150 may reference 500 and above.
pub(crate) const LEN: u64 = 100;
pub(crate) const AT: u64 = 1150;

/// Plain descriptors (gap, distance, length), written without checks.
pub(crate) fn plain(matches: &[(u64, u64, u64)]) -> Vec<u8> {
    let mut out = Vec::new();
    free::put(&mut out, matches.len() as u64);
    matches.iter().for_each(|&(gap, distance, len)| {
        [gap, distance, len].iter().for_each(|&value| free::put(&mut out, value))
    });
    out
}

/// Coded descriptors in a fresh context, written by `write`.
pub(crate) fn coded(write: impl FnOnce(&mut free::Section, &mut second::Models)) -> Vec<u8> {
    let (mut section, mut models) = (free::Section::new(), second::Models::new());
    write(&mut section, &mut models);
    section.finish()
}

/// One match of 40 bytes after 10 literals, with these symbols for the distance step and the end.
pub(crate) fn one_coded(step: usize, value: u64, to_end: usize) -> Vec<u8> {
    coded(|section, models| {
        section.number(&mut models.count, 0);
        section.number(&mut models.gap[0], 10);
        section.symbol(&mut models.step[0], step);
        let (numbers, kind) = if step < 5 { (&mut models.near, 1) } else { (&mut models.far, 2) };
        section.number(&mut numbers[usize::from(step.is_multiple_of(2))], value);
        section.symbol(&mut models.to_end, to_end);
        if to_end == 0 {
            section.number(&mut models.len[kind], 39);
        }
    })
}

pub(crate) fn plain_draft(matches: &[(u64, u64, u64)]) -> Draft {
    let matched: u64 = matches.iter().map(|m| if m.2 == 0 { LEN - m.0 } else { m.2 }).sum();
    let literals = vec![7; LEN.saturating_sub(matched) as usize];
    Draft {
        flags: 1,
        block_len: LEN,
        descriptors: Some(plain(matches)),
        literals,
        ..Draft::default()
    }
}

pub(crate) fn coded_draft(section: Vec<u8>) -> Draft {
    let hull = Some((500, 0));
    Draft {
        flags: 0x22,
        block_len: LEN,
        hull,
        descriptors: Some(section),
        literals: vec![7; 60],
        ..Draft::default()
    }
}

/// A hundred coded literals of 7, in a column of one value.
pub(crate) fn literals_draft() -> Draft {
    coded_literals_draft(&[&[0, 3, 7]])
}

pub(crate) fn coded_literals_draft(parts: &[&[u8]]) -> Draft {
    Draft { flags: 0x28, block_len: LEN, literals: parts.concat(), ..Draft::default() }
}

/// Descriptors in columns, one symbol or more bytes each, and 60 literals.
pub(crate) fn columns_draft(section: &[u8]) -> Draft {
    Draft { in_columns: true, ..coded_draft(section.to_vec()) }
}

/// The bytes of a block that may have a new code, of which the last of 17 bytes of words of one bit
/// has six bits left.
const CODE_LEN: u64 = 130;

/// As many coded literals, after a new code.
fn code_draft(parts: &[&[u8]]) -> Draft {
    Draft { block_len: CODE_LEN, ..coded_literals_draft(parts) }
}

/// A column that states a code with these lengths of words, from symbol 0 on, and nothing else.
fn new_code(lengths: &[usize]) -> Vec<u8> {
    let mut code = [0; 256];
    code[..lengths.len()].copy_from_slice(lengths);
    let mut out = vec![2];
    let models = &mut std::array::from_fn(|_| second::Model::new());
    columns::put_code(&mut out, &mut second::Column::new(), models, &code);
    out
}

/// Frames with columns, coded literals, and descriptors in columns.
// More than 100 lines: a table of cases.
fn refused_columns() -> Vec<(&'static str, Draft)> {
    let one = |section: &[u8]| columns_draft(section);
    let literals = coded_literals_draft;
    let coded = code_draft;
    let deep: Vec<usize> = (1..=11).chain([11]).collect();
    let deeper: Vec<usize> = (1..=12).chain([12]).collect();
    let sevens = |lengths: &[usize]| [&new_code(lengths)[..], &[0; 17]].concat();
    // The section of a code, changed.
    let altered = |alter: fn(&mut Vec<u8>), first_state: u64| {
        let mut code = [0; 256];
        code[..2].copy_from_slice(&[1, 1]);
        let models = &mut std::array::from_fn(|_| second::Model::new());
        let mut section = columns::code(&mut second::Column::new(), models, &code);
        section.first_state += first_state;
        let mut section = section.finish();
        alter(&mut section);
        let mut out = vec![0, 2];
        free::put(&mut out, section.len() as u64);
        [&out[..], &section, &[0; 17]].concat()
    };
    let residual = |len: u64, coded: &[u8]| {
        let models = &mut second::TranscodeModels::new();
        let section = columns::only_residual(models, len, coded);
        Draft { flags: 0x2c, ..literals(&[&section]) }
    };
    vec![
        ("columns, no match", Draft { literals: vec![7; 100], ..one(&[0]) }),
        ("columns, nothing", one(&[])),
        ("columns, more matches than bytes", one(&[101, 3, 0, 3, 108])),
        ("columns, kind 252", one(&[1, 10, 252, 100, 0, 0, 0, 0])),
        ("columns, kind 255", one(&[1, 10, 255, 100, 0, 0, 0, 0])),
        ("columns, the same distance as none", one(&[1, 10, 28])),
        ("columns, a change to 0", one(&[1, 10, 36 + 28, 0])),
        ("columns, a change below 0", one(&[1, 10, 36 + 28, 255])),
        ("columns, a change of 16 bits to 0", one(&[1, 10, 72 + 28, 0, 0])),
        ("columns, a change of 16 bits below 0", one(&[1, 10, 72 + 28, 0, 0x80])),
        ("columns, distance 0", one(&[1, 10, 136, 0, 0])),
        ("columns, distance beyond offset 0", one(&[1, 10, 136, 0x89, 0x04])),
        ("columns, below the floor", one(&[1, 10, 136, 0x95, 0x02])),
        ("columns, a distance of 40 bits", one(&[1, 10, 244, 100, 0, 0, 0, 255])),
        ("columns, position at the end", one(&[1, 100, 108, 50, 0])),
        ("columns, position beyond the end", one(&[1, 255, 136, 50, 0, 0, 0, 1])),
        ("columns, too long", Draft { literals: vec![7; 10], ..one(&[1, 10, 141, 100, 0, 90]) }),
        ("columns, a length of 2^24", one(&[1, 10, 143, 50, 0, 255, 255, 255])),
        ("columns, bytes left over", one(&[1, 10, 136, 100, 0, 0])),
        ("columns, a symbol missing", one(&[1, 10, 136, 100])),
        ("columns, extra bytes missing", one(&[1, 10, 142, 100, 0, 39])),
        (
            "columns, a literal too few",
            Draft { literals: vec![7; 59], ..one(&[1, 10, 136, 99, 0]) },
        ),
        ("columns, a coding above 3", one(&[16, 4, 0, 3, 108])),
        ("fixed width, kind 144", fixed::with_width(one(&[1, 10, 144, 100, 0, 0, 39]))),
        ("fixed width, columns, distance 0", fixed::with_width(one(&[1, 10, 136, 0, 0]))),
        ("fixed width, columns, the floor", fixed::with_width(one(&[1, 10, 136, 0x95, 0x02]))),
        ("fixed width, columns, a distance cut", fixed::with_width(one(&[1, 10, 136, 100]))),
        ("a kept code where there is none", literals(&[&[0, 1], &[0; 13]])),
        ("coding 4", literals(&[&[0, 4], &[7; 100]])),
        ("coding 255", literals(&[&[0, 255], &[7; 100]])),
        ("no literals at all", literals(&[])),
        ("no coding", literals(&[&[0]])),
        ("no value", literals(&[&[0, 3]])),
        ("a literal too few, raw in a column", literals(&[&[0, 0], &[7; 99]])),
        ("a literal too many, raw in a column", literals(&[&[0, 0], &[7; 101]])),
        ("bytes after one value", literals(&[&[0, 3, 7, 7]])),
        ("a code of one word", coded(&[&[0], &sevens(&[1])])),
        ("a code of no word", coded(&[&[0], &sevens(&[])])),
        ("a code that is not complete", coded(&[&[0], &sevens(&[1, 2])])),
        ("a code that is too full", coded(&[&[0], &sevens(&[1, 1, 1])])),
        ("a word of 12 bits", coded(&[&[0], &sevens(&deeper)])),
        ("a word of 15 bits", coded(&[&[0], &sevens(&[1, 15])])),
        ("a code of 3 bytes", coded(&[&[0, 2, 3, 0, 0, 1], &[0; 17]])),
        (
            "a code without its last byte",
            coded(&[&altered(|code| code.truncate(code.len() - 1), 0)]),
        ),
        ("a code with another byte", coded(&[&altered(|code| code.push(0), 0)])),
        ("a code with another final state", coded(&[&altered(|_| {}, 1)])),
        ("a code beyond the section", coded(&[&[0, 2, 100, 1, 2, 3, 4, 5]])),
        ("a stream cut short", coded(&[&[0], &new_code(&[1, 1]), &[0; 16]])),
        ("a stream with another byte", coded(&[&[0], &new_code(&[1, 1]), &[0; 18]])),
        ("bits after a stream", coded(&[&[0], &new_code(&[1, 1]), &[0; 16], &[1]])),
        ("the highest bit after a stream", coded(&[&[0], &new_code(&[1, 1]), &[0; 16], &[0x20]])),
        ("a word that is cut", coded(&[&[0], &new_code(&deep), &[0; 16], &[0x7f]])),
        // 40 literals remain.
        (
            "a new code for fewer than 64 symbols",
            coded(&[&[1, 0x9f, 0, 1, 71], &new_code(&[1, 1]), &[0; 5]]),
        ),
        (
            "a new code in a block of 127 bytes",
            Draft { block_len: 127, ..coded(&[&[0], &new_code(&[1, 1]), &[0; 16]]) },
        ),
        // Literals after one short match.
        ("too many short matches", literals(&[&[26, 3, 0], &[0; 110]])),
        ("a count of short matches cut", literals(&[&[0x80]])),
        ("short distance 0", literals(&[&[1, 0x90, 0, 0], &[3, 7]])),
        ("short distance beyond the first literal", literals(&[&[1, 0x90, 0, 2], &[3, 7]])),
        ("short distance of before, beyond the first literal", literals(&[&[1, 0x10], &[3, 7]])),
        ("a short match before any literal", literals(&[&[1, 0x80, 0, 1], &[3, 7]])),
        ("a run too long", literals(&[&[1, 0xf0, 0, 1, 90], &[3, 7]])),
        ("a large run too long", literals(&[&[1, 0xf0, 0, 1, 255, 255, 255, 255], &[3, 7]])),
        ("a length too long", literals(&[&[1, 0x9f, 0, 1, 82]])),
        ("a large length too long", literals(&[&[1, 0x9f, 0, 1, 255, 82, 0, 0]])),
        ("a large number cut", literals(&[&[1, 0x9f, 0, 1, 255, 81, 0]])),
        ("short matches, bytes left over", literals(&[&[1, 0x90, 0, 1], &[3, 7, 7]])),
        ("short matches, bytes missing", literals(&[&[1, 0x90, 0, 1], &[3]])),
        ("a residual, bytes left over", residual(100, &[0, 3, 7, 7])),
        ("a residual, bytes missing", residual(100, &[0, 3])),
        ("a residual, a short distance", residual(100, &[1, 0x90, 0, 2, 3, 7])),
        ("a residual of nothing that is compressed to nothing", residual(0, &[])),
    ]
}

// More than 100 lines: a table of cases.
pub(crate) fn refusals() -> Vec<(&'static str, Draft)> {
    let raw = || Draft { block_len: LEN, literals: vec![7; LEN as usize], ..Draft::default() };
    let stated =
        |offset, padding| Draft { flags: 0x10, explicit: Some((offset, padding)), ..raw() };
    let whole = || coded_draft(one_coded(5, 99, 0));
    let mut all = vec![
        ("descriptor coding 3", Draft { flags: 3, ..raw() }),
        ("literal coding 3", Draft { flags: 0x0c, ..raw() }),
        ("fresh, but no context used", Draft { flags: 0x20, ..raw() }),
        ("context, but none used", Draft { flags: 0x40, context: Some(1), ..raw() }),
        ("block above the limit", Draft { block_len: 201, literals: vec![7; 201], ..raw() }),
        ("body above the limit", Draft { literals: vec![7; 200 + 128 - 9], ..raw() }),
        ("offset of 2^62", stated(1 << 62, 0)),
        ("padding above the offset", stated(AT, AT + 1)),
        ("offset held", stated(AT - 1, 0)),
        ("beyond the span", stated(AT + 250 - LEN + 1, 0)),
        ("padding not before a generation", stated(AT + 10, 10)),
        ("context 0 stated", Draft { flags: 0x68, context: Some(0), ..literals_draft() }),
        ("context N", Draft { flags: 0x68, context: Some(2), ..literals_draft() }),
        ("context not begun", Draft { flags: 0x08, ..literals_draft() }),
        ("hull end above hull start", Draft { hull: Some((499, 500)), ..whole() }),
        ("no match", Draft { literals: vec![7; 100], ..plain_draft(&[]) }),
        (
            "count too large",
            Draft { descriptors: Some(vec![2, 10, 50, 40, 0, 0]), ..plain_draft(&[(10, 50, 40)]) },
        ),
        (
            "descriptors left over",
            Draft { descriptors: Some(vec![1, 10, 50, 40, 0]), ..plain_draft(&[(10, 50, 40)]) },
        ),
        ("no distance before", plain_draft(&[(10, 0, 40)])),
        ("position at the end", Draft { literals: vec![7; 100], ..plain_draft(&[(100, 50, 0)]) }),
        ("a match after the end", plain_draft(&[(10, 50, 90), (0, 50, 0)])),
        ("too long", plain_draft(&[(10, 50, 91)])),
        ("before offset 0", plain_draft(&[(10, AT + 11, 40)])),
        ("below the floor", plain_draft(&[(10, AT + 10 - 499, 40)])),
        ("in the padding", plain_draft(&[(10, AT + 10 - 861, 40)])),
        ("from the padding into the next generation", plain_draft(&[(10, AT + 10 - 999, 40)])),
        ("from the log into the block", plain_draft(&[(10, 49, 40)])),
        ("a literal too few", Draft { literals: vec![7; 59], ..plain_draft(&[(10, 50, 40)]) }),
        ("a literal too many", Draft { literals: vec![7; 61], ..plain_draft(&[(10, 50, 40)]) }),
        ("no state", coded_draft(vec![0, 0, 1])),
        ("distance step 7", coded_draft(one_coded(7, 99, 0))),
        ("distance 2^62", coded_draft(one_coded(5, (1 << 62) - 1, 0))),
        ("distance 2^62, aligned", coded_draft(one_coded(6, (1 << 53) - 1, 0))),
        ("distance below 0", coded_draft(one_coded(3, 0, 0))),
        ("distance beyond offset 0", coded_draft(one_coded(5, AT + 10, 0))),
        ("coded, below the floor", coded_draft(one_coded(5, AT + 10 - 499 - 1, 0))),
        ("bytes missing", {
            let mut section = one_coded(5, 99, 0);
            section.pop();
            coded_draft(section)
        }),
        ("bytes left over", {
            let mut section = one_coded(5, 99, 0);
            section.insert(section.len() / 2, 0);
            coded_draft(section)
        }),
        ("even bits left over", {
            let mut section = one_coded(5, 99, 0);
            // Three extra bits of the distance and two of the length share a byte with three more
            // bits.
            *section.last_mut().unwrap() |= 0x80;
            coded_draft(section)
        }),
        ("another final state", {
            let (mut section, mut models) = (free::Section::new(), second::Models::new());
            section.first_state += 1;
            section.number(&mut models.count, 0);
            section.number(&mut models.gap[0], 10);
            section.symbol(&mut models.step[0], 5);
            section.number(&mut models.far[0], 99);
            section.symbol(&mut models.to_end, 1);
            Draft { literals: vec![7; 10], ..coded_draft(section.finish()) }
        }),
        (
            "more matches than bytes",
            coded_draft(coded(|section, models| section.number(&mut models.count, LEN))),
        ),
        (
            "number of 63 bits",
            coded_draft(coded(|section, models| {
                for (level, s) in [(0, 15), (1, 15), (2, 15), (2, 15), (2, 3)] {
                    section.symbol(&mut models.count.length[level], s);
                }
            })),
        ),
        (
            "mantissa too large",
            coded_draft(coded(|section, models| {
                section.symbol(&mut models.count.length[0], 2);
                section.symbol(&mut models.count.mantissa[2], 2);
            })),
        ),
        (
            "distance the same as none",
            coded_draft(coded(|section, models| {
                section.number(&mut models.count, 0);
                section.number(&mut models.gap[0], 10);
                section.symbol(&mut models.step[0], 0);
                section.symbol(&mut models.to_end, 1);
            })),
        ),
        (
            "distance down to 0",
            coded_draft(coded(|section, models| {
                section.number(&mut models.count, 1);
                section.number(&mut models.gap[0], 10);
                section.symbol(&mut models.step[0], 5);
                section.number(&mut models.far[0], 99);
                section.number(&mut models.len[2], 4);
                section.number(&mut models.gap[2], 0);
                section.symbol(&mut models.step[2], 3);
                section.number(&mut models.near[0], 99);
                section.symbol(&mut models.to_end, 1);
            })),
        ),
        ("LZ4 of nothing", Draft { flags: 4, literals: Vec::new(), ..raw() }),
        (
            "LZ4 of too little",
            Draft { flags: 4, literals: lz4_flex::block::compress(&[7; 99]), ..raw() },
        ),
        (
            "LZ4 of too much",
            Draft { flags: 4, literals: lz4_flex::block::compress(&[7; 101]), ..raw() },
        ),
    ];
    let everything = Draft { flags: 0x72, explicit: Some((AT, 0)), context: Some(1), ..whole() };
    all.extend(fixed::refusals());
    all.extend(refused_columns());
    for i in 0..everything.fields().len() {
        all.push(("a varint that is too long", Draft { overlong: Some(i), ..everything.clone() }));
    }
    all
}

#[test]
fn both_decoders_refuse_what_the_document_forbids() {
    let document = document();
    let mut unknown = Vec::new();
    for (name, draft) in refusals() {
        let (_, mut first, mut second) = laid_out();
        let frame = draft.to_bytes();
        // The cause is not the checksum, which is wrong too: each draft fails for its own reason.
        match first.decode(&frame) {
            Err(FrameError::Checksum { .. }) | Ok(_) => {
                panic!("{name}: {:?}", first.decode(&frame))
            }
            Err(
                FrameError::Field { field, .. }
                | FrameError::TooLarge { field, .. }
                | FrameError::Short { section: field },
            ) => {
                if !document.contains(field) {
                    unknown.push((name, field));
                }
            }
            Err(_) => {}
        }
        match second.decode(&frame) {
            Err(No::Invalid(reason)) => assert_ne!(reason, "checksum", "{name}"),
            Err(No::Place) => {}
            other => panic!("{name}: {other:?}"),
        }
        let (_, mut first, mut second) = laid_out();
        let _ = both(&mut first, &mut second, &frame);
    }
    assert!(unknown.is_empty(), "the document has no {unknown:?}");
    // A checksum over other content.
    let (_, mut first, mut second) = laid_out();
    let draft = Draft {
        block_len: 3,
        literals: vec![1, 2, 3],
        checksum: second.parameters.checksum(AT, 1, &[1, 2, 3]),
        ..Draft::default()
    };
    assert_eq!(both(&mut first, &mut second, &draft.to_bytes()), Err(No::Invalid("checksum")));
    // A generation that is exactly full ends as well.
    let params = Params { cache: 1000, max_block: 100, ..Params::default() };
    let (mut first, mut second) = decoders(&params);
    for i in 0..11 {
        let block = noise(i, 100);
        let checksum = second.parameters.checksum(100 * i, 0, &block);
        let draft = Draft { block_len: 100, literals: block, checksum, ..Draft::default() };
        both(&mut first, &mut second, &draft.to_bytes()).unwrap();
    }
    let draft = Draft {
        block_len: 10,
        literals: Vec::new(),
        descriptors: Some(plain(&[(0, 105, 10)])),
        flags: 1,
        ..Draft::default()
    };
    assert!(matches!(both(&mut first, &mut second, &draft.to_bytes()), Err(No::Invalid(_))));
}

/// The corresponding valid frames, and deviations that a decoder need not notice.
#[test]
fn both_decoders_accept_frames_just_within_the_rules() {
    let drafts = [
        plain_draft(&[(10, 50, 40)]),
        plain_draft(&[(10, 100, 0)]),
        plain_draft(&[(10, AT + 10 - 500, 40)]),
        plain_draft(&[(10, AT + 10 - 860, 40)]),
        plain_draft(&[(10, AT + 10 - 1000, 40)]),
        plain_draft(&[(10, 10, 40)]),
        plain_draft(&[(10, 1, 40)]),
        coded_draft(one_coded(5, 99, 0)),
        coded_draft(one_coded(1, 99, 0)),
        Draft { literals: vec![7; 10], ..coded_draft(one_coded(5, 99, 1)) },
        // Need not notice: the end told by another symbol than 1, a hull that holds nothing, one
        // that holds what cannot be.
        Draft { literals: vec![7; 10], ..coded_draft(one_coded(5, 99, 2)) },
        Draft { hull: Some((0, 0)), ..coded_draft(one_coded(5, 99, 0)) },
        Draft { hull: Some((1 << 62, 0)), ..coded_draft(one_coded(5, 99, 0)) },
        literals_draft(),
        columns_draft(&[1, 10, 136, 100, 0]),
        columns_draft(&[1, 10, 136, 0x94, 0x02]),
        columns_draft(&[1, 10, 36 + 28, 127]),
        columns_draft(&[1, 10, 72 + 28, 127, 0]),
        columns_draft(&[1, 10, 172, 100, 0, 0]),
        columns_draft(&[1, 10, 208, 100, 0, 0, 0]),
        columns_draft(&[1, 10, 244, 100, 0, 0, 0, 0]),
        columns_draft(&[1, 253, 143, 100, 0, 10, 39, 0, 0]),
        fixed::with_width(columns_draft(&[1, 10, 136, 100, 0])),
        Draft { literals: vec![7; 10], ..columns_draft(&[1, 10, 141, 100, 0, 89]) },
        coded_literals_draft(&[&[0, 0], &[7; 100]]),
        coded_literals_draft(&[&[1, 0x9f, 0, 1, 80], &[7]]),
        coded_literals_draft(&[&[1, 0x9f, 0, 1, 255, 80, 0, 0], &[7]]),
        coded_literals_draft(&[&[1, 0xf0, 0, 1, 89], &[3, 7]]),
        coded_literals_draft(&[&[1, 0xf0, 0, 1, 255, 89, 0, 0], &[3, 7]]),
        // 40 literals remain.
        coded_literals_draft(&[&[1, 0x9f, 0, 1, 41], &[3, 7]]),
        Draft {
            flags: 0x2c,
            ..coded_literals_draft(&[&columns::only_residual(
                &mut second::TranscodeModels::new(),
                100,
                &[1, 0x90, 0, 1, 3, 7],
            )])
        },
        code_draft(&[&[0], &new_code(&[0, 0, 0, 0, 0, 0, 0, 1, 1]), &[0; 17]]),
        Draft {
            block_len: 128,
            ..code_draft(&[&[0], &new_code(&[0, 0, 0, 0, 0, 0, 0, 1, 1]), &[0; 16]])
        },
    ];
    for mut draft in drafts.into_iter().chain(fixed::acceptable()) {
        let (_, mut first, mut second) = laid_out();
        // The content is what the frame decodes to, taken from the decoder that reports the
        // expected content.
        let checksum =
            content_of(&second, &draft).map(|content| second.parameters.checksum(AT, 0, &content));
        draft.checksum = checksum.unwrap_or_else(|| panic!("{draft:?}"));
        assert!(both(&mut first, &mut second, &draft.to_bytes()).is_ok(), "{draft:?}");
    }
}

/// The content of a frame at [`AT`] with one match after ten literals of 7, or without a match.
pub(crate) fn content_of(decoder: &second::Decoder, draft: &Draft) -> Option<Vec<u8>> {
    let mut trace = None;
    let mut block = vec![7; draft.block_len as usize];
    let section = draft.descriptors.as_deref();
    let (at, len, distance) = match draft.flags & 3 {
        0 => return Some(block),
        1 => {
            let mut section = &section?[1..];
            let gap = second::varint(&mut section).ok()?;
            let distance = match draft.width {
                Some(_) => {
                    let (distance, rest) = section.split_first_chunk()?;
                    section = rest;
                    u16::from_le_bytes(*distance).into()
                }
                None => second::varint(&mut section).ok()?,
            };
            let len = second::varint(&mut section).ok()?;
            (gap, if len == 0 { LEN - gap } else { len }, distance)
        }
        _ => {
            let (mut models, width) = (second::Models::new(), draft.width.map(u32::from));
            let found = if draft.in_columns {
                models.read_columns(section?, AT, LEN, width, &mut second::NewCodes::of(LEN))
            } else {
                models.read(section?, AT, LEN, width, &mut trace)
            };
            let found = found.ok()?[0];
            (found.at, found.len, found.distance)
        }
    };
    for i in at..at + len {
        let source = AT + i - distance;
        block[i as usize] =
            if source < AT { decoder.byte(source)? } else { block[(source - AT) as usize] };
    }
    Some(block)
}

/// The table of section 3, with both decoders: what is kept determines where the next block goes,
/// and can be referenced.
#[test]
fn cache_policies_keep_what_the_table_says() {
    let document = document();
    let table =
        document.split_once("### What enters the log\n").unwrap().1.split_once("\n### ").unwrap().0;
    let (log, block) = (b"..abcd..fghi..", b"abcd-fghi!");
    for text in [&log[..], block] {
        assert!(table.contains(&format!("`{}`", std::str::from_utf8(text).unwrap())));
    }
    let kept_by = |policy: &str| stated(table, policy).trim_matches('`');
    let policies = [
        ("`all`", CachePolicy::All),
        ("`new runs`", CachePolicy::NewRuns { straddle: true }),
        ("`new runs`", CachePolicy::NewRuns { straddle: false }),
        ("`new blocks`, 81 percent", CachePolicy::NewBlocks { below_percent: 81 }),
        ("`new blocks`, 80 percent", CachePolicy::NewBlocks { below_percent: 80 }),
    ];
    for (name, policy) in policies {
        let kept = match kept_by(name) {
            "nothing" => &b""[..],
            kept => kept.as_bytes(),
        };
        let params = Params { cache: 1000, max_block: 200, policy, ..Params::default() };
        let (mut first, mut second) = decoders(&params);
        first.prime(log);
        second.prime(log);
        let mut send = |block: &[u8], matches: Vec<u8>, literals: &[u8]| {
            let checksum = second.parameters.checksum(second.low, 0, block);
            let (block_len, literals) = (block.len() as u64, literals.to_vec());
            let draft = Draft {
                flags: 1,
                block_len,
                descriptors: Some(matches),
                literals,
                checksum,
                ..Draft::default()
            };
            assert_eq!(both(&mut first, &mut second, &draft.to_bytes()).unwrap().content, block);
            second.low
        };
        let o = log.len() as u64;
        assert_eq!(
            send(block, plain(&[(0, 12, 4), (1, 11, 4)]), b"-!"),
            o + kept.len() as u64,
            "{name}"
        );
        // The kept content again, followed by a literal: not new.
        if !kept.is_empty() {
            let len = kept.len() as u64;
            send(&[kept, b"?"].concat(), plain(&[(0, len, len)]), b"?");
        }
        // Without matches everything is new; without bytes nothing is.
        let low = second.low;
        let raw = |low, block: &[u8]| {
            let checksum = second.parameters.checksum(low, 0, block);
            Draft {
                block_len: block.len() as u64,
                literals: block.to_vec(),
                checksum,
                ..Draft::default()
            }
            .to_bytes()
        };
        let frames = [raw(low, b"another"), raw(low + 7, b"")];
        for frame in frames {
            both(&mut first, &mut second, &frame).unwrap();
            assert_eq!(second.low, low + 7);
        }
    }
    for (percent, allowed) in [(0, false), (1, true), (100, true), (101, false)] {
        let policy = CachePolicy::NewBlocks { below_percent: percent };
        assert_eq!(
            Params { policy, ..Params::default() }.decoder_builder().build().is_ok(),
            allowed
        );
    }
    assert_eq!(
        stated(&document, "K, cache policy"),
        "`all`, `new runs`, `new blocks` below 1 to 100 percent"
    );
}

#[test]
fn contexts_are_started_lost_and_restarted() {
    let (_, mut first, mut second) = laid_out();
    let (mut state, rng) = (second::CodedLiterals::new(), &mut Rng::new(1));
    let mut frame = |flags: u8, low: u64, right: bool| {
        if flags & 0x20 != 0 {
            state = second::CodedLiterals::new();
        }
        let block = text(low, 50);
        let literals = columns::coded_literals(&mut state, &block, &mut 0, rng);
        let parameters = second::Parameters {
            cache: 1000,
            span: 250,
            block_limit: 200,
            policy: second::Policy::All,
            contexts: 2,
            session: 1,
            epoch: 2,
        };
        let checksum = parameters.checksum(low, 0, &block) ^ u64::from(!right);
        Draft {
            flags,
            block_len: 50,
            literals,
            checksum,
            context: (flags & 0x40 != 0).then_some(1),
            ..Draft::default()
        }
        .to_bytes()
    };
    let lost = Err(No::Invalid("a context that does not exist, was not begun, or is lost"));
    assert_eq!(both(&mut first, &mut second, &frame(0x48, 1150, true)), lost);
    let begun = frame(0x68, 1150, true);
    assert!(both(&mut first, &mut second, &begun).is_ok());
    // Again, out of place, without effect.
    let again =
        [&[begun[0] | 0x10, begun[1] + 3, begun[2], 0xfe, 0x08, 0x00], &begun[3..]].concat();
    assert_eq!(both(&mut first, &mut second, &again), Err(No::Place));
    assert!(both(&mut first, &mut second, &frame(0x48, 1200, true)).is_ok());
    // The other context is unaffected.
    assert_eq!(
        both(&mut first, &mut second, &frame(0x48, 1250, false)),
        Err(No::Invalid("checksum"))
    );
    assert_eq!(both(&mut first, &mut second, &frame(0x48, 1250, true)), lost);
    assert!(both(&mut first, &mut second, &frame(0x28, 1250, true)).is_ok());
    assert!(both(&mut first, &mut second, &frame(0x68, 1300, true)).is_ok());
    assert!(both(&mut first, &mut second, &frame(0x48, 1350, true)).is_ok());
}

/// Four streams, kept codes, and a column that is divided.
#[test]
fn columns_of_many_symbols_are_read_and_altered_ones_refused() {
    let params = Params { cache: 1 << 20, max_block: 40_000, ..Params::default() };
    let (mut first, mut second) = decoders(&params);
    let mut send = |flags, block: &[u8], literals: Vec<u8>| {
        let checksum = second.parameters.checksum(second.low, 0, block);
        let block_len = block.len() as u64;
        let draft = Draft { flags, block_len, literals, checksum, ..Draft::default() };
        both(&mut first, &mut second, &draft.to_bytes())
            .map(|decoded| assert!(decoded.content == block))
    };
    let refused = |answer| match answer {
        Err(No::Invalid(reason)) => assert_ne!(reason, "checksum"),
        other => panic!("{other:?}"),
    };
    // Words of one bit for 0 and 1: four streams of 65, 65, 65 and 64 symbols.
    let block: Vec<u8> = noise(1, 259).into_iter().map(|byte| byte & 1).collect();
    let mut column = second::Column::new();
    (column.0[0], column.0[1]) = (1, 1);
    let mut streams = Vec::new();
    columns::put_streams(&mut streams, &column, &block);
    assert_eq!((&streams[..6], streams.len()), (&[9, 0, 9, 0, 9, 0][..], 6 + 27 + 8));
    let code = new_code(&[1, 1]);
    let section = |streams: &[u8]| [&[0], &code[..], streams].concat();
    send(0x28, &block, section(&streams)).unwrap();
    // The code, kept; after frames in which nothing has it, and after a column of one value.
    send(0x08, &block, [&[0, 1], &streams[..]].concat()).unwrap();
    send(0x08, &[2; 100], vec![0, 3, 2]).unwrap();
    send(0x00, b"raw", b"raw".to_vec()).unwrap();
    send(0x08, &block, [&[0, 1], &streams[..]].concat()).unwrap();
    // But not in a context that is reset, also by a frame without coded literals.
    refused(send(0x28, &block, [&[0, 1], &streams[..]].concat()));
    // Each number of bytes too small or too large.
    for i in 0..3 {
        for size in [0, 8, 10, 255] {
            let mut wrong = streams.clone();
            wrong[2 * i] = size;
            refused(send(0x28, &block, section(&wrong)));
        }
    }
    // A stream with a byte more, as stated.
    let mut wrong = streams.clone();
    wrong[0] = 10;
    wrong.insert(6 + 9, 0);
    refused(send(0x28, &block, section(&wrong)));
    // A bit after each of the first three streams; the fourth fills its bytes.
    for end in [9, 18, 27] {
        let mut wrong = streams.clone();
        wrong[6 + end - 1] |= 1;
        refused(send(0x28, &block, section(&wrong)));
    }
    refused(send(0x28, &block, section(&streams[..streams.len() - 1])));
    refused(send(0x28, &block, section(&[&streams[..], &[0]].concat())));
    refused(send(0x28, &block, section(&streams[..5])));

    // Two new codes need a block of 384 bytes. 64 short matches of 4 bytes at a distance of 1, and
    // literals of 0.
    let two_codes = |literals: usize| {
        let models = &mut std::array::from_fn(|_| second::Model::new());
        let (mut of_tokens, mut of_literals) = ([0; 256], [0; 256]);
        (of_tokens[0x20], of_tokens[0x90]) = (1, 1);
        (of_literals[0], of_literals[1]) = (1, 1);
        let mut out = vec![64, 2];
        columns::put_code(&mut out, &mut second::Column::new(), models, &of_tokens);
        out.extend([0x80, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        columns::put_code(&mut out, &mut second::Column::new(), models, &of_literals);
        out.extend(vec![0; literals.div_ceil(8)]);
        out
    };
    send(0x28, &[0; 384], two_codes(128)).unwrap();
    refused(send(0x28, &[0; 383], two_codes(127)));

    // 32,768 symbols are one part. One more are parts of 16,384 and 16,385.
    send(0x28, &[5; 32_768], vec![0, 3, 5]).unwrap();
    send(0x08, &[5; 32_769], vec![0, 3, 5, 3, 5]).unwrap();
    send(0x08, &[&[5; 16_384][..], &[6; 16_385]].concat(), vec![0, 3, 5, 3, 6]).unwrap();
    // The second part keeps the code of the first.
    let block: Vec<u8> = noise(2, 32_769).into_iter().map(|byte| byte & 1).collect();
    let (mut parts, mut second_part) = (Vec::new(), Vec::new());
    columns::put_streams(&mut parts, &column, &block[..16_384]);
    columns::put_streams(&mut second_part, &column, &block[16_384..]);
    send(0x28, &block, [&[0], &code[..], &parts, &[1], &second_part].concat()).unwrap();
    refused(send(0x28, &[5; 32_769], vec![0, 3, 5]));
    refused(send(0x28, &[5; 32_768], vec![0, 3, 5, 3, 5]));

    // Short matches reach 65,535 literals back, into earlier frames, and no further. Raw ones do
    // not count.
    let old = noise(3, 35_535);
    send(0x28, &old, [&[0, 0], &old[..16_384], &[0], &old[16_384..]].concat()).unwrap();
    send(0x08, &[5; 30_000], vec![0, 3, 5]).unwrap();
    send(0x00, &[5; 1000], vec![5; 1000]).unwrap();
    send(0x08, &old[..4], vec![1, 0x80, 255, 255]).unwrap();
    // The distance of before: the next four.
    send(0x08, &old[4..8], vec![1, 0]).unwrap();
    // A reset begins anew: the distance is 8, and nothing is known.
    send(0x28, b"abcdefghabcdxyz", [&[1, 0x70, 1], &b"abcdefghxyz"[..]].concat()).unwrap();
}

#[test]
fn missing_content_is_named() {
    let (_, mut first, mut second) = laid_out();
    let draft = Draft { flags: 0x11, explicit: Some((1300, 0)), ..plain_draft(&[(10, 100, 40)]) };
    assert_eq!(
        both(&mut first, &mut second, &draft.to_bytes()),
        Err(No::Missing(std::iter::once(1210..1250).collect()))
    );
}

#[test]
fn packs_that_the_document_forbids_are_refused() {
    let content = text(1, 3000);
    let header = Header { cache: 1500, max_block: 500, seed: 9, base: None };
    let good = pack::pack(&content, &header, Encoder::builder().entropy(Entropy::None)).unwrap();
    let mut bad: Vec<Vec<u8>> = Vec::new();
    let mut alter = |range: Range<usize>, value: &[u8], fit: bool| {
        let mut pack = good.clone();
        pack.splice(range, value.iter().copied());
        if fit {
            let checksum = xxhash_rust::xxh3::xxh3_64(&pack[..30]).to_le_bytes();
            pack[30..38].copy_from_slice(&checksum);
        }
        bad.push(pack);
    };
    (0..8).for_each(|i| alter(i..i + 1, &[good[i] ^ 1], true));
    [0, 2].into_iter().for_each(|version| alter(8..9, &[version], true));
    (0..8).for_each(|bit| alter(9..10, &[1 << bit], true));
    (30..38).for_each(|i| alter(i..i + 1, &[good[i] ^ 1], false));
    for (cache, block_limit) in
        [(499u64, 500u32), ((1 << 40) + 1, 500), (0, 0), (1500, 0), (1 << 20, 262_145)]
    {
        alter(10..22, &[&cache.to_le_bytes()[..], &block_limit.to_le_bytes()].concat(), true);
    }
    // Another cache or seed shows in the checksums of the frames, at the latest when a generation
    // ends.
    alter(10..18, &1501u64.to_le_bytes(), true);
    alter(22..23, &[8], true);
    let (len, frames) = (good.len(), frame_ranges(&good, 38));
    (len - 16..len).for_each(|i| alter(i..i + 1, &[good[i] ^ 1], false));
    alter(len..len, &[0], false);
    alter(len - 17..len, &[], false);
    (1..17).for_each(|cut| alter(len - cut..len, &[], false));
    // The last frame removed, or an empty one added.
    alter(frames.last().unwrap().clone(), &[], false);
    let end = content.len() as u64;
    let checksum = second::Parameters {
        cache: 1500,
        span: 0,
        block_limit: 500,
        policy: second::Policy::All,
        contexts: 1,
        session: 9,
        epoch: 0,
    }
    .checksum(end, 0, &[]);
    let empty = Draft { checksum, ..Draft::default() };
    alter(len - 17..len - 17, &empty.to_bytes(), false);
    // A stated offset, although correct.
    let first = &good[38..];
    let body = usize::from(first[1] & 0x7f) + (usize::from(first[2]) << 7) + 2;
    let fields =
        [first[0] | 0x10, (body & 0x7f) as u8 | 0x80, (body >> 7) as u8, first[3], first[4], 0, 0];
    let stated = [&fields, &first[5..]].concat();
    alter(38..len, &stated, false);
    // A fixed width, although right.
    let body = usize::from(first[1] & 0x7f) + (usize::from(first[2]) << 7) + 1;
    let fields =
        [first[0] | 0x80, (body & 0x7f) as u8 | 0x80, (body >> 7) as u8, first[3], first[4], 11];
    let wide = [&fields, &first[5..]].concat();
    alter(38..len, &wide, false);

    assert_eq!(second::unpack(&good, None).as_ref(), Ok(&content));
    assert_eq!(read_pack(&good, None), Some(content));
    for (i, pack) in bad.iter().enumerate() {
        assert!(second::unpack(pack, None).is_err(), "bad pack {i}");
        assert!(read_pack(pack, None).is_none(), "bad pack {i}");
    }
}

/// Ranges of the frames from `at` on.
pub(crate) fn frame_ranges(pack: &[u8], mut at: usize) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    while let Ok(Scan::Frame(view)) = FrameView::scan(&pack[at..], DEFAULT_BLOCK) {
        ranges.push(at..at + view.len());
        at += view.len();
    }
    ranges
}
