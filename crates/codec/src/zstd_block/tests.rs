use super::*;

/// Calls `each` with the content of every compressed block of a frame, and whether a frame begins.
fn blocks<'a>(mut frame: &'a [u8], mut each: impl FnMut(&'a [u8], bool)) {
    while frame.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let descriptor = frame[4];
        let single = descriptor >> 5 & 1 == 1;
        let size = [usize::from(single), 2, 4, 8][usize::from(descriptor >> 6)];
        let mut at = 5 + usize::from(!single) + [0, 1, 2, 4][usize::from(descriptor & 3)] + size;
        let mut is_first = true;
        loop {
            let head = number(&frame[at..at + 3]);
            at += 3;
            let len = if head >> 1 & 3 == 1 { 1 } else { head >> 3 };
            if head >> 1 & 3 == 2 {
                each(&frame[at..at + len], std::mem::take(&mut is_first));
            }
            at += len;
            if head & 1 == 1 {
                break;
            }
        }
        if descriptor & 4 != 0 {
            at += 4;
        }
        frame = &frame[at..];
    }
}

/// Takes every block of frames apart and puts it together again. Returns how many there were.
fn check(frames: &[u8]) -> usize {
    let (mut tables, mut others) = (Tables::default(), Tables::default());
    let mut count = 0;
    blocks(frames, |block, is_first| {
        if is_first {
            (tables, others) = (Tables::default(), Tables::default());
        }
        let (mut literals, mut sequences) = (Vec::new(), Vec::new());
        let (_, heads) = unpack(block, &mut tables, ALL, &mut literals, &mut sequences).unwrap();
        let heads = heads.concat();
        let mut rest = &heads[..];
        let packer = Packer::read(&mut rest, &mut others, &mut 0).unwrap();
        assert!(rest.is_empty());
        assert_eq!((packer.literals(), packer.sequences()), (literals.len(), sequences.len()));
        let mut back = Vec::new();
        packer.pack(&others, &literals, &sequences, &mut back).unwrap();
        assert!(back == block, "other block");
        count += 1;
    });
    count
}

fn compressed(content: &[u8], level: i32) -> Vec<u8> {
    let mut out = vec![0; zstd_safe::compress_bound(content.len())];
    let len = zstd_safe::compress(&mut out[..], content, level).unwrap();
    out.truncate(len);
    out
}

/// Words and numbers, some of them again and again.
fn content(seed: u64, len: usize, words: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let words: Vec<String> =
        (0..words).map(|_| (0..random.usize(1..9)).map(|_| random.lowercase()).collect()).collect();
    let mut out = Vec::new();
    while out.len() < len {
        if random.u8(..) < 8 {
            out.extend(random.u32(..).to_string().bytes());
        }
        // A few words far more often than others.
        let nth = random.usize(..words.len()) * random.usize(..words.len()) / words.len();
        out.extend_from_slice(words[nth].as_bytes());
        out.push(b' ');
    }
    out
}

#[test]
fn a_code_has_a_word_of_the_most_bits() {
    // Weights stated directly, in four bits each: one of 1, so that the other is 1, too; one of 2.
    let (code, described) = Code::read(&[128, 0x1f]).unwrap();
    assert_eq!((code.entries(), described), (2, 2));
    assert_eq!(Code::read(&[128, 0x20]).unwrap_err(), Stop);
}

#[test]
fn blocks_of_every_level_come_back() {
    for (seed, words) in [(1, 30), (2, 1000), (3, 40_000)] {
        let content = content(seed, 400_000, words);
        for level in [-100, -3, 1, 2, 3, 4, 5, 6, 8, 11, 13, 16, 18, 19, 22] {
            let blocks = check(&compressed(&content, level));
            assert!(blocks > 2 || level < 0, "{words} words, level {level}: {blocks}");
        }
    }
}

#[test]
fn small_blocks_come_back() {
    let content = content(4, 20_000, 100);
    let blocks: usize =
        (20..2000).step_by(7).map(|len| check(&compressed(&content[len..2 * len], 3))).sum();
    assert!(blocks > 200, "{blocks}");
}

#[test]
fn damaged_blocks_are_refused_or_stand_for_something() {
    let mut random = fastrand::Rng::with_seed(5);
    for (nth, level) in [1, 3, 19].into_iter().cycle().take(300).enumerate() {
        let frame = compressed(&content(nth as u64, 5000, 200), level);
        blocks(&frame, |block, _| {
            let mut block = block.to_vec();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..block.len().min(200));
                block[at] ^= 1 << random.u8(..8);
            }
            block.truncate(random.usize(block.len() / 2..=block.len()));
            let mut tables = Tables::default();
            let (mut literals, mut sequences) = (Vec::new(), Vec::new());
            let read = unpack(&block, &mut tables, ALL, &mut literals, &mut sequences);
            let Ok((_, heads)) = read else { return };
            let heads = heads.concat();
            let packer = Packer::read(&mut &heads[..], &mut Tables::default(), &mut 0).unwrap();
            let mut back = Vec::new();
            // A different block may have the same content, and be longer than the head says.
            let _ = packer.pack(&tables, &literals, &sequences, &mut back);
        });
    }
}

#[test]
fn tables_of_others_are_needed() {
    // A block with literals under the code of the block before, and one with its tables.
    let frame = compressed(&content(6, 700_000, 300), 1);
    let mut inherited = 0;
    blocks(&frame, |block, _| {
        let mut tables = Tables::default();
        let (mut literals, mut sequences) = (Vec::new(), Vec::new());
        let uses = pass(block, &mut tables).unwrap();
        if uses.inherits.contains(&true) {
            inherited += 1;
            let mut none = Tables::default();
            assert!(unpack(block, &mut none, ALL, &mut literals, &mut sequences).is_err());
        }
    });
    assert!(inherited > 0);
}

#[test]
fn the_front_of_a_block_is_recognized() {
    let content = content(5, 300_000, 40_000);
    for level in [1, 3, 9, 19] {
        let mut recognized = 0;
        blocks(&compressed(&content, level), |block, _| {
            let mut work = 0;
            let uses = Outline::read(block).unwrap().uses;
            let is_front = may_begin(block, block.len(), &mut work);
            assert!(is_front || !uses.describes[0], "level {level}");
            if !is_front {
                return;
            }
            recognized += 1;
            assert!((500..500 + 33_000 / 4).contains(&work), "{work}");
            // It may end before the first stream does, but not before the sizes of streams.
            assert!(may_begin(&block[..block.len() / 8], block.len(), &mut work));
            assert!(!may_begin(&block[..20], block.len(), &mut work));
            // Its sizes fit no other length, and no other place.
            assert!(!may_begin(block, block.len() / 4, &mut work));
            assert!(!may_begin(&block[1..], block.len(), &mut work));
            // Literals of other lengths do not end with the first stream.
            let mut other = block.to_vec();
            other[120..160].fill(0x5a);
            assert!(!may_begin(&other, block.len(), &mut work));
        });
        assert!(recognized > 0, "level {level}");
    }
}
