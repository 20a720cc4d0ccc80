//! Tables in buckets, the limits of redundancy, chunks and training.

use super::*;

/// How often SmartRE's table cannot store a fingerprint.
pub(super) fn buckets(_: &Corpus, _: &Path, out: &mut String) -> Result<(), Box<dyn Error>> {
    let entries = 1u64 << 20;
    let mut random = SplitMix64(1);
    let mut rows = Vec::new();
    for (slots, hashes, factor, thesis) in [
        (1, 1, 4.0, ""),
        (2, 1, 1.0, ""),
        (2, 1, 2.0, "2 %"),
        (4, 1, 1.0, ""),
        (2, 1, 4.0, ""),
        (1, 2, 2.0, ""),
        (1, 2, 4.0, "0.002 %"),
        (2, 2, 1.0, ""),
        (2, 2, 2.0, ""),
        (2, 2, 4.0, "0.002 %"),
        (4, 2, 1.0, ""),
    ] {
        let geometry = Geometry::new(entries, 0)?;
        let mut table = BucketTable::new(geometry, entries, BucketShape { slots, hashes, factor })?;
        let mut generation = |generations: u64, from: u64| {
            let before = table.dropped();
            for offset in from * entries..(from + generations) * entries {
                table.insert(&[random.next_u64()], Markers { block: offset + 1, positions: &[0] });
            }
            100.0 * (table.dropped() - before) as f64 / (generations * entries) as f64
        };
        let (filling, full) = (generation(1, 0), generation(4, 1));
        rows.push(vec![
            slots.to_string(),
            hashes.to_string(),
            factor.to_string(),
            format!("{:.0}", 8.0 * slots as f64 * factor),
            format!("{filling:.4} %"),
            format!("{full:.4} %"),
            thesis.to_string(),
        ]);
    }
    let head = ["B", "k", "f", "bytes a fingerprint", "while filling", "when full", "thesis"];
    table(out, &head, &rows);
    Ok(())
}

/// Thesis, Tables 3.2 and 3.3.
pub(super) fn limits(corpus: &Corpus, _: &Path, out: &mut String) -> Result<(), Box<dyn Error>> {
    // The authors' packet store.
    let cache = 400_000_000;
    let smartre = |builder: EncoderBuilder, most| {
        let entries = cache / PACKET as u64 * most as u64;
        builder
            .search(
                FamilySearch::new(MatcherKind::Published { max_fingerprints: Some(most) })
                    .table(TableKind::Buckets(BucketShape::default())),
            )
            .table_entries(entries)
    };
    let mut rows = Vec::new();
    let thesis = [(32, "0.71", "17.3 %"), (16, "1.17", "15.8 %"), (10, "1.3", "14.67 %")];
    for name in ["maxp", "samplebyte"] {
        let settings: Vec<_> = thesis
            .iter()
            .map(|(most, ..)| smartre(plain(cache, PACKET).sampler(sampler(name)), *most))
            .collect();
        let measured = measure(&corpus.data, PACKET, corpus.runs, &settings);
        for ((most, speed, redundancy), m) in thesis.iter().zip(&measured) {
            rows.push(vec![
                format!("{name}, F = {most}"),
                format!("{:.2}", m.gbit()),
                format!("{:.2} %", 100.0 * m.stats.matched_bytes as f64 / m.bytes as f64),
                format!("{:.2} %", m.savings()),
                speed.to_string(),
                redundancy.to_string(),
            ]);
        }
    }
    writeln!(
        out,
        "Table 3.2: at most F fingerprints a packet, p = 32, cache {} MB, SmartRE's table.\n",
        cache / 1_000_000
    )?;
    let head = [
        "",
        "Gbit/s",
        "redundancy",
        "savings",
        "thesis, Gbit/s without Click",
        "thesis, redundancy",
    ];
    table(out, &head, &rows);

    let thesis = [(1, "24.1 %"), (2, "31.6 %"), (3, "34.6 %"), (4, "34.7 %"), (5, "34.8 %")];
    let settings: Vec<_> = thesis
        .iter()
        .map(|(most, _)| {
            smartre(plain(cache, PACKET).sampler(sampler("maxp")), 16).max_matches(*most)
        })
        .collect();
    let measured = measure(&corpus.data, PACKET, corpus.runs, &settings);
    let rows: Vec<_> = thesis
        .iter()
        .zip(&measured)
        .map(|((most, redundancy), m)| {
            vec![
                most.to_string(),
                format!("{:.2} %", 100.0 * m.stats.matched_bytes as f64 / m.bytes as f64),
                format!("{:.2} %", m.savings()),
                format!("{:.2}", m.gbit()),
                redundancy.to_string(),
            ]
        })
        .collect();
    writeln!(out, "Table 3.3: at most k matches a packet, MAXP, F = 16.\n")?;
    table(out, &["k", "redundancy", "savings", "Gbit/s", "thesis, redundancy"], &rows);
    Ok(())
}

/// Chunk-match compared with max-match, with the paper's table.
pub(super) fn chunks(corpus: &Corpus, _: &Path, out: &mut String) -> Result<(), Box<dyn Error>> {
    let cache = corpus.data.len() as u64 + (1 << 20);
    let entries = cache * 38 / 100 * 3 / 64;
    let chunk = |form, name, period| {
        plain(cache, DEFAULT_BLOCK)
            .sampler(sampler(name))
            .period(period)
            .search(FamilySearch::new(MatcherKind::ChunkMatch { form }))
            .table_entries(entries)
    };
    let settings = [
        (
            "chunk, EndRE's form, SAMPLEBYTE p = 64",
            chunk(ChunkForm::StartsAtMarker, "samplebyte", 64),
        ),
        (
            "chunk, EndRE's form, SAMPLEBYTE p = 128",
            chunk(ChunkForm::StartsAtMarker, "samplebyte", 128),
        ),
        (
            "chunk, Martynov's form, SAMPLEBYTE p = 64",
            chunk(ChunkForm::EndsWithWindow, "samplebyte", 64),
        ),
        ("chunk, EndRE's form, MAXP p = 64", chunk(ChunkForm::StartsAtMarker, "maxp", 64)),
        ("chunk, EndRE's form, FastCDC p = 64", chunk(ChunkForm::StartsAtMarker, "fastcdc", 64)),
        (
            "chunk, EndRE's form, SAMPLEHASH p = 64",
            chunk(ChunkForm::StartsAtMarker, "samplehash", 64),
        ),
        (
            "max-match, published, SAMPLEBYTE p = 64",
            published(plain(cache, DEFAULT_BLOCK)).sampler(sampler("samplebyte")).period(64),
        ),
        (
            "max-match, ours, SAMPLEBYTE p = 64",
            plain(cache, DEFAULT_BLOCK).sampler(sampler("samplebyte")).period(64),
        ),
    ];
    let builders: Vec<_> = settings.iter().map(|(_, builder)| builder.clone()).collect();
    let cold = measure(&corpus.data, DEFAULT_BLOCK, corpus.runs, &builders);
    let rows: Vec<_> = settings
        .iter()
        .zip(&cold)
        .map(|((name, _), m)| {
            vec![
                name.to_string(),
                format!("{:.2}", m.gbit()),
                format!("{:.2} %", m.savings()),
                m.stats.matches.to_string(),
                format!("{:.0} %", 100.0 * m.memory as f64 / cache as f64),
            ]
        })
        .collect();
    writeln!(
        out,
        "Cache of {:.0} MiB; chunk tables of at most 38 % of it.\n",
        cache as f64 / (1 << 20) as f64
    )?;
    table(out, &["", "Gbit/s", "savings", "matches", "encoder memory, of the cache"], &rows);
    Ok(())
}

/// EndRE's training: trained on the first half of the data, applied to the second.
pub(super) fn training(corpus: &Corpus, _: &Path, out: &mut String) -> Result<(), Box<dyn Error>> {
    let (first, second) = corpus.data.split_at(corpus.data.len() / 2);
    let training = Training { cache: first.len() as u64 + (1 << 21), ..Training::default() };
    let trained = training.train(first, |_| {})?;
    let shown = |byte: u8| {
        if byte.is_ascii_graphic() && byte != b'|' && byte != b'`' {
            format!("`{}`", byte as char)
        } else {
            byte.to_string()
        }
    };
    let bytes: Vec<String> =
        trained.steps.iter().filter(|step| step.kept).map(|step| shown(step.byte)).collect();
    writeln!(out, "Trained on the first half of the data: {}.\n", bytes.join(" "))?;
    let mut tables = vec![("trained".to_string(), SamplerKind::SampleByte(trained.set))];
    tables.push(("EndRE's".into(), SamplerKind::sample_byte()));
    let mut state = 1u64;
    for number in 1..=5 {
        let mut set = ByteSet::new();
        while set.len() < 8 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            set.insert((state >> 56) as u8);
        }
        tables.push((format!("random {number}, 8 bytes"), SamplerKind::SampleByte(set)));
    }
    tables.push(("no table: SAMPLEHASH".into(), SamplerKind::SampleHash));
    let mut rows = Vec::new();
    for (name, kind) in tables {
        let savings = |data: &[u8]| -> Result<String, Box<dyn Error>> {
            Ok(format!(
                "{:.2} %",
                100.0 * (1.0 - training.wire_bytes(data, kind.clone())? as f64 / data.len() as f64)
            ))
        };
        rows.push(vec![name, savings(first)?, savings(second)?]);
    }
    table(out, &["table, p = 32", "savings on the first half", "on the second"], &rows);
    Ok(())
}
