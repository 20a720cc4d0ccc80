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

#[test]
fn both_decoders_refuse_what_the_document_forbids() {
    let document = document();
    let (_, table) = document.split_once("### What must be rejected\n").unwrap();
    let (table, _) = table.split_once("\n### ").unwrap();
    let clauses: Vec<&str> = rows(table).skip(2).map(|cells| cells[0]).collect();
    let refused = manifest::refused();
    for clause in &clauses {
        assert!(refused.iter().any(|line| line.clause == *clause), "no frame for {clause}");
    }
    let records = manifest::load("frames.txt");
    let before = records.iter().find(|record| record.file == manifest::REFUSED_AFTER).unwrap();
    let bytes = before.bytes();
    let params =
        Params { cache: 1000, span: 250, max_block: 200, contexts: 2, ..Params::default() };
    let mut unknown = Vec::new();
    for manifest::Refused { clause, verdict, subject: name, frame } in refused {
        assert!(clauses.contains(&&*clause), "the document has no clause {clause}");
        // Files are read with all others.
        let Some(frame) = frame else { continue };
        let [(mut first, mut second), (mut one, mut other)] = [(); 2].map(|()| {
            let ((mut first, mut second), mut at) = (decoders(&params), 0);
            for (len, _) in &before.steps {
                both(&mut first, &mut second, &bytes[at..at + len]).unwrap();
                at += len;
            }
            assert_eq!(second.low, AT);
            (first, second)
        });
        // The cause is not the checksum, which is wrong too: each frame fails for its own reason.
        assert_ne!(verdict, "error Checksum", "{name}");
        let _ = both(&mut one, &mut other, &frame);
        match first.decode(&frame) {
            Err(
                FrameError::Field { field, .. }
                | FrameError::TooLarge { field, .. }
                | FrameError::Short { section: field },
            ) if !document.contains(field) => unknown.push((name.clone(), field)),
            _ => {}
        }
        match second.decode(&frame) {
            Err(No::Invalid(reason)) => assert_ne!(reason, "checksum", "{name}"),
            Err(No::Place) => {}
            other => panic!("{name}: {other:?}"),
        }
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
