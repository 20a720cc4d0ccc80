//! The second decoder reads the test vectors as another implementer would.

use super::*;

#[test]
fn the_second_decoder_agrees_with_every_vector() {
    let records = manifest::load("frames.txt");
    assert!(records.len() > 60);
    for record in records {
        let number = |name: &str| {
            record.numbers.iter().find(|(found, _)| found == name).map_or(0, |&(_, value)| value)
        };
        let policy = match manifest::policy_of(record.policy.as_deref()) {
            CachePolicy::All => second::Policy::All,
            CachePolicy::NewRuns { .. } => second::Policy::NewRuns,
            CachePolicy::NewBlocks { below_percent } => {
                second::Policy::NewBlocks(below_percent.into())
            }
        };
        let mut decoder = second::Decoder::new(second::Parameters {
            cache: number("cache"),
            span: number("span"),
            block_limit: number("block"),
            policy,
            contexts: number("contexts") as usize,
            session: number("session"),
            epoch: number("epoch"),
        });
        record.base.iter().for_each(|base| decoder.prime(&manifest::read(base)));
        let (bytes, mut blocks, mut at) = (record.bytes(), Vec::new(), 0);
        for (len, wanted) in &record.steps {
            let outcome = match decoder.decode(&bytes[at..at + len]) {
                Ok(block) => {
                    let outcome = format!("block {} {}", block.offset, block.content.len());
                    blocks.push(block);
                    outcome
                }
                Err(No::Missing(ranges)) => ranges.iter().fold("missing".into(), |line, range| {
                    format!("{line} {}-{}", range.start, range.end)
                }),
                Err(No::NeedMore) => "need".into(),
                Err(No::Place | No::Invalid(_)) => "error".into(),
            };
            // The number of bytes needed and the names of errors are up to the decoder.
            let same = if outcome.starts_with(['n', 'e']) {
                wanted.starts_with(&outcome)
            } else {
                *wanted == outcome
            };
            assert!(same, "{}: {outcome}, not {wanted}", record.file);
            at += len;
        }
        blocks.sort_by_key(|block| block.offset);
        let content: Vec<u8> = blocks.into_iter().flat_map(|block| block.content).collect();
        assert!(record.is_content(&content), "{}", record.file);
    }
    let records = manifest::load("packs.txt");
    assert!(records.len() > 20);
    for record in records {
        let base = record.base.as_deref().map(manifest::read);
        let pack = record.bytes();
        // The limit on the cache is the reader's choice.
        let cache =
            pack.get(10..18).map_or(0, |bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
        match second::unpack(&pack, base.as_deref()) {
            _ if cache > record.number("limit") => {
                assert!(record.file.starts_with("bad/"), "{}", record.file)
            }
            Ok(content) => assert!(
                record.file.starts_with("good/") && record.is_content(&content),
                "{}",
                record.file
            ),
            // It refuses packs that it cannot read to the end.
            Err(_) => assert!(record.file.starts_with("bad/"), "{}", record.file),
        }
    }
}
