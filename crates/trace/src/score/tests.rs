use super::*;
use oncewire_kernels::random::SplitMix64;

fn noise(seed: u64, len: usize) -> Vec<u8> {
    SplitMix64(seed).bytes(len)
}

fn configuration(algorithm: Algorithm, write: Write, distance: u32) -> Configuration {
    Configuration { algorithm, write, distance, layer: Layer::Buffers }
}

fn measured(
    configuration: Configuration,
    benchmark: usize,
    base: usize,
    savings: f64,
    megabits: f64,
) -> Measurement {
    let throughput = megabits * 1e6;
    Measurement {
        configuration,
        benchmark,
        base: Some(base),
        savings,
        throughput,
        mean_unit: base as f64,
        collisions: None,
    }
}

#[test]
fn ranking_of_fixed_numbers_is_as_by_hand() {
    let fast = configuration(Algorithm::Modified, Write::New, 128);
    let strong = configuration(Algorithm::Original, Write::All, 32);
    let measurements = [
        // Value: -100 ln(0.5) - 0.256 = 69.3147 - 0.256 = 69.0587.
        measured(fast, 0, 512, 0.5, 100.0),
        // -50 ln(0.25) - 3 * 0.256 = 69.3147 - 0.768 = 68.5467.
        measured(strong, 0, 512, 0.75, 50.0),
        // 0.
        measured(fast, 1, 512, 0.0, 200.0),
        // -100 ln(0.75) - 0.256 / 3 = 28.7682 - 0.0853 = 28.6829.
        measured(fast, 1, 1024, 0.25, 100.0),
        // -20 ln(0.5) - 0.256 = 13.8629 - 0.256 = 13.6069, twice.
        measured(strong, 1, 512, 0.5, 20.0),
        measured(strong, 1, 1024, 0.5, 20.0),
    ];
    let ranking = rank(&measurements, &[0.5, 0.5], 256e3);
    assert_eq!(
        ranking.iter().map(|ranked| ranked.configuration).collect::<Vec<_>>(),
        [fast, strong]
    );
    let close = |a: f64, b: f64| (a - b).abs() < 1e-3;
    // 0.5 * 69.0587 + 0.25 * 0 + 0.25 * 28.6829.
    assert!(close(ranking[0].score, 41.7001), "{:?}", ranking[0]);
    // 0.5 * 68.5467 + 0.5 * 13.6069.
    assert!(close(ranking[1].score, 41.0768), "{:?}", ranking[1]);
    assert!(close(ranking[0].savings, 0.3125) && close(ranking[1].savings, 0.625));
    assert!(close(ranking[0].throughput / 1e6, 125.0));
    // Over the range up to the fastest of each test: 99.744, 199.744 and 99.744 Mbit/s.
    assert!(close(
        ranking[1].mean_benefit,
        0.5 * 68.5467 / 99.744 + 0.25 * 13.6069 / 199.744 + 0.25 * 13.6069 / 99.744
    ));
    // 14.34 against 13.61 with all the weight on the second benchmark.
    assert!(rank(&measurements, &[0.0, 1.0], 256e3)[0].configuration == fast);
    // On links of 49 Mbit/s and more, one of 50 has next to nothing to give: 50 ln(50 / 49) - 1.
    let fast_links = rank(&measurements[..2], &[1.0], 49e6);
    assert!(
        fast_links[1].configuration == strong && close(fast_links[1].score, 0.01014),
        "{fast_links:?}"
    );
}

#[test]
fn weights_are_the_papers_for_three() {
    assert_eq!(weights(3), [0.02, 0.49, 0.49]);
    assert_eq!(weights(2), [0.5, 0.5]);
    assert!(weights(0).is_empty());
}

#[test]
fn a_file_sent_twice_saves_nearly_half() {
    // Nothing repeats in the first pass, and everything in the second, but what the distance leaves
    // at the ends of units.
    let once = noise(1, 300_000);
    let files = vec![once.clone(), once];
    let options = Options { distances: vec![32, 512], repeats: 1, ..Options::default() };
    let mut tests: Vec<Test<'_>> =
        Test::of_files(0, &files, 1).filter(|test| test.base == Some(16 << 10)).collect();
    let mut told = Vec::new();
    let score = score(vec!["random twice".into()], &mut tests, &options, &mut |done, total| {
        told.push((done, total))
    })
    .unwrap();
    assert_eq!(told.last(), Some(&(8, 8)));
    assert_eq!((score.measurements.len(), score.ranking.len(), score.dropped), (8, 8, 0));
    for measurement in &score.measurements {
        let bound = match measurement.configuration {
            // All of it but headers and a few bytes of each unit: the sizes of both passes are not
            // the same, so units begin elsewhere.
            Configuration { algorithm: Algorithm::Original, .. } => 0.495,
            // The chunks at the ends of units are lost, in either pass: a chunk around a given
            // place is twice the distance long on average (and there is the shortest of 32 bytes),
            // two of them in 16 KiB.
            Configuration { distance: 32, .. } => 0.49,
            Configuration { .. } => 0.5 * (1.0 - 2.0 * 1024.0 / 16384.0) - 0.03,
        };
        let above = if bound < 0.49 { 0.5 * (1.0 - 2.0 * 1024.0 / 16384.0) + 0.03 } else { 0.5 };
        assert!((bound..above).contains(&measurement.savings), "{measurement:?}");
        assert!(
            measurement.throughput > 0.0
                && measurement.collisions.is_none_or(|collisions| collisions == 0)
        );
    }
    let figure = score.figure();
    assert_eq!(figure.tables[0].rows.len(), 8);
    assert!(
        figure
            .tables
            .iter()
            .all(|table| table.rows.iter().all(|row| row.len() == table.columns.len()))
    );
    assert!(figure.charts.iter().all(|chart| !chart.series.is_empty() || chart.id == "sizes"));
    assert!(!figure.finding.is_empty());
}

#[test]
fn new_content_costs_a_few_bytes_a_unit() {
    let files = vec![noise(7, 200_000)];
    let options = Options { distances: vec![64], repeats: 1, ..Options::default() };
    let mut tests: Vec<Test<'_>> =
        Test::of_files(0, &files, 1).filter(|test| test.base == Some(1024)).collect();
    let score = score(vec!["noise".into()], &mut tests, &options, &mut |_, _| ()).unwrap();
    for measurement in &score.measurements {
        // Length and number of matches: 3 bytes of 1,024.
        assert!((-0.0031..-0.0028).contains(&measurement.savings), "{measurement:?}");
    }
}

/// Units that run out in later passes.
struct Shrinking(usize, usize);

impl Units for Shrinking {
    fn rewind(&mut self) {
        (self.0, self.1) = (self.0 - 1, self.0 - 1);
    }

    fn next_unit(&mut self) -> Option<&[u8]> {
        self.1 = self.1.checked_sub(1)?;
        Some(&[7; 100])
    }
}

#[test]
fn inputs_that_cannot_be_scored_are_errors() {
    let names = || vec!["x".to_owned()];
    let with = |units: &mut dyn FnMut() -> Test<'static>, options: &Options| {
        score(names(), &mut [units()], options, &mut |_, _| ())
    };
    let options = Options { max_bytes: 350, ..Options::default() };
    let shrinking = |units| move || Test::of_capture(0, Layer::Ip, Shrinking(units, 0));
    assert!(matches!(
        with(&mut shrinking(4), &options),
        Err(ScoreError::Changed { then: 300, now: 200, .. })
    ));
    assert!(matches!(
        with(&mut shrinking(6), &options),
        Err(ScoreError::TooLarge { test: 0, max: 350 })
    ));
    assert!(matches!(with(&mut shrinking(1), &options), Err(ScoreError::Empty { test: 0 })));
    let elsewhere = &mut || Test { benchmark: 1, ..shrinking(4)() };
    assert!(matches!(with(elsewhere, &options), Err(ScoreError::Options(_))));
    for broken in [
        Options { repeats: 0, ..Options::default() },
        Options { distances: vec![0], ..Options::default() },
        Options { slowest_link: 0.0, ..Options::default() },
    ] {
        assert!(matches!(with(&mut shrinking(4), &broken), Err(ScoreError::Options(_))));
    }
}
