//! Packs that the document forbids, and where their frames are.

use super::*;

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
