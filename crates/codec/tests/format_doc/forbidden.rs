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

pub(crate) fn zstd_draft(
    literals: usize,
    window_log: u32,
    end: zstd_safe::zstd_sys::ZSTD_EndDirective,
) -> Draft {
    let section = free::zstd_section(&mut free::new_stream(1, window_log), &vec![7; literals], end);
    Draft { flags: 0x28, block_len: LEN, literals: section, ..Draft::default() }
}

pub(crate) fn refusals() -> Vec<(&'static str, Draft)> {
    use zstd_safe::zstd_sys::ZSTD_EndDirective::{ZSTD_e_end, ZSTD_e_flush};
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
        (
            "context 0 stated",
            Draft { flags: 0x68, context: Some(0), ..zstd_draft(100, 20, ZSTD_e_flush) },
        ),
        ("context N", Draft { flags: 0x68, context: Some(2), ..zstd_draft(100, 20, ZSTD_e_flush) }),
        ("context not begun", Draft { flags: 0x08, ..zstd_draft(100, 20, ZSTD_e_flush) }),
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
        ("zstd of too little", zstd_draft(99, 20, ZSTD_e_flush)),
        ("a zstd window of 2^21", zstd_draft(100, 21, ZSTD_e_flush)),
        ("a zstd frame that ends", zstd_draft(100, 20, ZSTD_e_end)),
        ("no zstd at all", Draft { literals: vec![7; 100], ..zstd_draft(100, 20, ZSTD_e_flush) }),
    ];
    let everything = Draft { flags: 0x72, explicit: Some((AT, 0)), context: Some(1), ..whole() };
    all.extend(fixed::refusals());
    for i in 0..everything.fields().len() {
        all.push(("a varint that is too long", Draft { overlong: Some(i), ..everything.clone() }));
    }
    all
}

#[test]
fn both_decoders_refuse_what_the_document_forbids() {
    let document = document();
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
                assert!(document.contains(field), "{name}: the document has no {field}");
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
        zstd_draft(100, 20, zstd_safe::zstd_sys::ZSTD_EndDirective::ZSTD_e_flush),
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
    let mut block = vec![7; LEN as usize];
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
            let found = second::Models::new()
                .read(section?, AT, LEN, draft.width.map(u32::from), &mut trace)
                .ok()?[0];
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
    let mut stream = free::new_stream(1, 20);
    let flush = zstd_safe::zstd_sys::ZSTD_EndDirective::ZSTD_e_flush;
    let mut frame = |flags: u8, low: u64, right: bool| {
        if flags & 0x20 != 0 {
            stream = free::new_stream(1, 20);
        }
        let block = text(low, 50);
        let literals = free::zstd_section(&mut stream, &block, flush);
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
        [(499u64, 500u32), ((1 << 40) + 1, 500), (0, 0), (1500, 0), (1 << 20, 65_537)]
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
    while let Ok(Scan::Frame(view)) = FrameView::scan(&pack[at..], MAX_BLOCK) {
        ranges.push(at..at + view.len());
        at += view.len();
    }
    ranges
}
