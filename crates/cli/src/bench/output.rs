//! The figures as tables, as CSV and as JSON.

use super::bound::Bound;
use super::{Figures, Setting, Time};
use crate::format::count_of;
use crate::quantity::{binary, bytes};
use crate::stdout;
use oncewire_report::{Cell, Report, Section, Table, TableView, Unit};
use serde::Serialize;
use std::io;

/// The document of `--json`.
#[derive(Serialize)]
pub(super) struct Document {
    pub(super) setting: Setting,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) bounds: Vec<Bound>,
    pub(super) figures: Vec<Figures>,
}

#[derive(Clone, Copy)]
enum Clock {
    Cpu,
    Wall,
}

impl Clock {
    fn seconds(self, time: &Time) -> f64 {
        match self {
            Clock::Cpu => time.cpu_seconds,
            Clock::Wall => time.wall_seconds,
        }
    }
}

/// Bytes per second of the median run and of the best run.
fn speeds(times: &[Time], total: u64, clock: Clock) -> (f64, f64) {
    let mut seconds: Vec<f64> = times.iter().map(|time| clock.seconds(time).max(1e-9)).collect();
    seconds.sort_by(f64::total_cmp);
    let rate = |seconds: Option<&f64>| seconds.map_or(0.0, |seconds| total as f64 / seconds);
    (rate(seconds.get(seconds.len() / 2)), rate(seconds.first()))
}

/// The figures: bytes and speed of all candidates, then details of our codec.
pub(super) fn report(setting: &Setting, bounds: &[Bound], figures: &[Figures]) -> Report {
    let rows = Rows::new(setting, bounds, figures);
    let mut sections =
        vec![about(setting, &rows), rows.results(bounds, figures), rows.details(bounds, figures)];
    sections.extend(bounds.iter().map(optimal));
    sections.retain(|section| !section.blocks.is_empty());
    // Below what comes last.
    if let Some(last) = sections.pop() {
        sections.push(caches(setting, figures, last));
    }
    Report { kind: "Bench", title: files(setting), sections, ..Report::default() }
}

fn files(setting: &Setting) -> String {
    match &setting.files[..] {
        [one] => one.clone(),
        many => format!("{} files", many.len()),
    }
}

/// The size of a block.
fn size(block: usize) -> String {
    if block.is_multiple_of(1024) { binary(block as u64) } else { count_of(block as u64) }
}

fn about(setting: &Setting, rows: &Rows<'_>) -> Section {
    let block = match &rows.blocks[..] {
        [one] => format!(", blocks of {}", size(*one)),
        _ => String::new(),
    };
    Section::new("about", "About").text(format!(
        "{}, {} in memory{block}, on {} ({} kernels)",
        files(setting),
        bytes(setting.bytes),
        setting.processor,
        setting.kernels
    ))
}

/// Makes rows of tables. Those of one name are distinguished by columns of their own, where there
/// are several.
struct Rows<'a> {
    setting: &'a Setting,
    /// Sizes of blocks, ascending.
    blocks: Vec<usize>,
    by_block: bool,
    by_pass: bool,
    by_bound: bool,
}

/// Bytes per second as a cell.
fn mega(rate: f64) -> Cell {
    Cell::from(Some(rate).filter(|rate| *rate > 0.0).map(|rate| (rate / 1e6).round()))
}

fn memory(bytes: usize) -> Cell {
    if bytes == 0 { Cell::None } else { Cell::Text(binary(bytes as u64)) }
}

impl<'a> Rows<'a> {
    fn new(setting: &'a Setting, bounds: &[Bound], figures: &[Figures]) -> Rows<'a> {
        let mut blocks: Vec<usize> = figures.iter().map(|figure| figure.block_bytes).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let (by_block, by_pass) = (blocks.len() > 1, setting.passes > 1);
        Rows { setting, blocks, by_block, by_pass, by_bound: !bounds.is_empty() }
    }

    /// The first columns of every table.
    fn names(&self) -> Vec<(&'static str, Unit)> {
        let mut names = vec![("", Unit::Text)];
        names.extend(self.by_block.then_some(("block", Unit::Bytes)));
        names.extend(self.by_pass.then_some(("pass", Unit::Count)));
        names
    }

    /// The cells of these columns, for a pass.
    fn name(&self, name: &str, block: usize, number: usize) -> Vec<Cell> {
        let mut cells: Vec<Cell> = vec![if number == 0 { name } else { "" }.into()];
        cells.extend(self.by_block.then(|| Cell::Text(size(block))));
        cells.extend(self.by_pass.then_some(Cell::Count(number as u64 + 1)));
        cells
    }

    fn bound_name(&self, bound: &Bound, number: usize) -> Vec<Cell> {
        let title = format!("optimal w={}, {} bytes a match", bound.window, bound.pointer_bytes);
        self.name(&title, bound.block_bytes, number)
    }

    fn saved(&self, wire: u64) -> Cell {
        let whole = self.setting.bytes;
        if whole == 0 { Cell::None } else { stdout::savings(wire, whole).into() }
    }

    /// Bytes and speed of all candidates.
    fn results(&self, bounds: &[Bound], figures: &[Figures]) -> Section {
        let mut columns = self.names();
        columns.extend([("bytes", Unit::Count), ("saved", Unit::Share)]);
        columns.extend(self.by_bound.then_some(("of optimal", Unit::Share)));
        columns.extend([("encode MB/s", Unit::Number), ("decode MB/s", Unit::Number)]);
        let required = columns.len();
        columns.extend([
            ("memory", Unit::Bytes),
            ("encode wall MB/s", Unit::Number),
            ("encode best MB/s", Unit::Number),
            ("decode best MB/s", Unit::Number),
        ]);
        let optional = columns.len() - required;
        let whole = self.setting.bytes;
        let mut rows: Vec<Vec<Cell>> = Vec::new();
        for bound in bounds {
            for (number, pass) in bound.passes.iter().enumerate() {
                let speed = mega(whole as f64 / pass.time.cpu_seconds.max(1e-9));
                let (wire, memory) = (pass.wire_bytes, memory(bound.memory_bytes));
                let mut cells = self.bound_name(bound, number);
                cells.extend([wire.into(), self.saved(wire), 1.0.into()]);
                cells.extend([speed, Cell::None, memory, Cell::None, Cell::None, Cell::None]);
                rows.push(cells);
            }
        }
        for figure in figures {
            for (number, pass) in figure.passes.iter().enumerate() {
                let (encode, encode_best) = speeds(&pass.encode, whole, Clock::Cpu);
                let (wall, _) = speeds(&pass.encode, whole, Clock::Wall);
                let (decode, decode_best) = speeds(&pass.decode, whole, Clock::Cpu);
                let mut cells = self.name(&figure.name, figure.block_bytes, number);
                cells.extend([pass.wire_bytes.into(), self.saved(pass.wire_bytes)]);
                cells.extend(self.by_bound.then(|| Cell::from(pass.share_of_optimal)));
                cells.extend([mega(encode), mega(decode), memory(figure.encoder_memory_bytes)]);
                cells.extend([wall, encode_best, decode_best].map(mega));
                rows.push(cells);
            }
        }
        let runs = match self.setting.runs {
            1 => "one run".into(),
            runs => format!("the median of {runs} interleaved runs"),
        };
        let table = TableView::complete(Table::new("figures", "", &columns, rows));
        Section::new("figures", "Figures").table(table.optional(optional)).text(format!(
            "bytes: all headers included. MB/s: content per second of one core's CPU time, {runs}."
        ))
    }

    /// What our codec and the bounds found. Empty without either.
    fn details(&self, bounds: &[Bound], figures: &[Figures]) -> Section {
        let mut columns = self.names();
        columns.extend([
            ("matches", Unit::Count),
            ("mean bytes", Unit::Number),
            ("bytes per fingerprint", Unit::Number),
            ("encoder memory", Unit::Bytes),
        ]);
        let mut rows: Vec<Vec<Cell>> = Vec::new();
        for bound in bounds {
            for (number, pass) in bound.passes.iter().enumerate() {
                let mut cells = self.bound_name(bound, number);
                let memory = memory(bound.memory_bytes);
                cells.extend([pass.runs.into(), Cell::None, 1.0.into(), memory]);
                rows.push(cells);
            }
        }
        for figure in figures {
            for (number, pass) in figure.passes.iter().enumerate() {
                let Some(details) = &pass.details else { continue };
                let mut cells = self.name(&figure.name, figure.block_bytes, number);
                cells.extend([
                    details.matches.into(),
                    details.mean_match_bytes.map(f64::round).into(),
                    details.bytes_per_fingerprint.into(),
                    memory(figure.encoder_memory_bytes),
                ]);
                rows.push(cells);
            }
        }
        let section = Section::new("details", "Details");
        if rows.is_empty() {
            return section;
        }
        section.table(TableView::complete(Table::new("details", "", &columns, rows)))
    }
}

/// What an optimum is.
fn optimal(bound: &Bound) -> Section {
    Section::new("optimal", "Optimal").text(format!(
        "Optimal (w = {}, blocks of {}): a {} Bloom filter of every window. It reports {:.3} % of the windows of random \
         data as known ({:.3} % expected), and so appears to save {:.2} % of it. Its bytes are literals plus {} for each \
         match, without headers. It does not bound an entropy stage, or matches that are shorter than a window or cost \
         less.",
        bound.window,
        binary(bound.block_bytes as u64),
        if bound.filter == "bloom" { "plain" } else { "counting" },
        bound.false_positives_per_window * 100.0,
        bound.expected_false_positives_per_window * 100.0,
        bound.apparent_savings_of_random_data * 100.0,
        bound.pointer_bytes,
    ))
}

/// The section, and below it, whether each cache holds the data.
fn caches(setting: &Setting, figures: &[Figures], section: Section) -> Section {
    let mut caches: Vec<u64> = figures.iter().filter_map(|figure| figure.cache_bytes).collect();
    caches.sort_unstable();
    caches.dedup();
    caches.into_iter().fold(section, |section, cache| {
        let fits = if setting.bytes <= cache {
            "holds all data"
        } else {
            "smaller than the data: older repeats are missed"
        };
        section.text(format!("Cache: {}, {fits}.", binary(cache)))
    })
}

/// Name of the file that `--csv` writes.
pub(super) const CSV: &str = "figures.csv";

const COLUMNS: [&str; 18] = [
    "name",
    "block_bytes",
    "cache_bytes",
    "pass",
    "wire_bytes",
    "savings",
    "encode_cpu_median_s",
    "encode_cpu_best_s",
    "encode_wall_median_s",
    "decode_cpu_median_s",
    "decode_cpu_best_s",
    "decode_wall_median_s",
    "matches",
    "mean_match_bytes",
    "bytes_per_fingerprint",
    "encoder_memory_bytes",
    "decoder_memory_bytes",
    "share_of_optimal",
];

pub(super) fn csv<W: io::Write>(
    bounds: &[Bound],
    figures: &[Figures],
    out: &mut csv::Writer<W>,
) -> csv::Result<()> {
    out.write_record(COLUMNS)?;
    let none = String::new;
    for bound in bounds {
        for (number, pass) in bound.passes.iter().enumerate() {
            let Time { cpu_seconds, wall_seconds } = pass.time;
            let cpu = format!("{cpu_seconds:.6}");
            let row: [String; COLUMNS.len()] = [
                format!("optimal w={}", bound.window),
                bound.block_bytes.to_string(),
                bound.cache_bytes.to_string(),
                (number + 1).to_string(),
                pass.wire_bytes.to_string(),
                format!("{:.6}", pass.savings),
                cpu.clone(),
                cpu,
                format!("{wall_seconds:.6}"),
                none(),
                none(),
                none(),
                pass.runs.to_string(),
                none(),
                "1.00".into(),
                bound.memory_bytes.to_string(),
                none(),
                "1.0000".into(),
            ];
            out.write_record(row)?;
        }
    }
    for figure in figures {
        for (number, pass) in figure.passes.iter().enumerate() {
            // Seconds per pass: the inverse of the speed for one byte. Empty if nothing was
            // decoded.
            let seconds = |times: &[Time], clock| {
                let (median, best) = speeds(times, 1, clock);
                let shown = |speed: f64| {
                    if times.is_empty() { String::new() } else { format!("{:.6}", 1.0 / speed) }
                };
                (shown(median), shown(best))
            };
            let (encode, encode_best) = seconds(&pass.encode, Clock::Cpu);
            let (decode, decode_best) = seconds(&pass.decode, Clock::Cpu);
            let optional =
                |value: Option<f64>| value.map_or_else(none, |value| format!("{value:.2}"));
            let details = pass.details.as_ref();
            let row: [String; COLUMNS.len()] = [
                figure.name.clone(),
                figure.block_bytes.to_string(),
                figure.cache_bytes.map_or_else(none, |cache| cache.to_string()),
                (number + 1).to_string(),
                pass.wire_bytes.to_string(),
                format!("{:.6}", pass.savings),
                encode,
                encode_best,
                seconds(&pass.encode, Clock::Wall).0,
                decode,
                decode_best,
                seconds(&pass.decode, Clock::Wall).0,
                details.map_or_else(none, |details| details.matches.to_string()),
                optional(details.and_then(|details| details.mean_match_bytes)),
                optional(details.and_then(|details| details.bytes_per_fingerprint)),
                figure.encoder_memory_bytes.to_string(),
                figure.decoder_memory_bytes.to_string(),
                pass.share_of_optimal.map_or_else(none, |share| format!("{share:.4}")),
            ];
            out.write_record(row)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Pass;
    use super::super::bound::BoundPass;
    use super::super::candidate::Details;
    use super::*;
    use crate::terminal::{Page, columns};

    /// All columns, with names and numbers as long as possible.
    #[test]
    fn the_tables_fit_and_cut_no_number() {
        let time = Time { cpu_seconds: 1e-3, wall_seconds: 2e-3 };
        let setting = Setting {
            version: "0.1.0",
            files: vec!["a directory with a long name/and a file with a name that is even longer than that.tar".into()],
            bytes: 123_456_789_012,
            kernels: "portable",
            processor: "AMD EPYC 9V74 80-Core Processor with a name as long as such names are".into(),
            passes: 2,
            runs: 99,
        };
        let details = Details {
            matches: 1_234_567_890,
            mean_match_bytes: Some(12_345.6),
            bytes_per_fingerprint: Some(1_234.5),
            ..Details::default()
        };
        let figures = |name: &str, block: usize, details: Option<Details>| {
            let mut figures = Figures::new(name.into(), block, Some(32), Some(4 << 30));
            figures.encoder_memory_bytes = 1_070_000_000;
            let pass = Pass {
                wire_bytes: 123_456_789_013,
                encode: vec![time],
                decode: vec![time],
                share_of_optimal: Some(1.234),
                details,
                ..Pass::default()
            };
            figures.passes = vec![pass.clone(), pass];
            figures
        };
        let name = "chunk-martynov samplebyte:a/table/of/markers p=1024 w=64 coded-3 buckets:16x4x2 new-blocks:100";
        let figures =
            [figures(name, 65_536, Some(details)), figures("gzip -6 (zlib-rs), file", 1_448, None)];
        let pass = BoundPass { wire_bytes: 98_765_432_109, savings: 0.2, runs: 987_654_321, time };
        let bound = Bound {
            window: 64,
            block_bytes: 65_536,
            cache_bytes: 4 << 30,
            filter: "counting",
            pointer_bytes: 12,
            memory_bytes: 2_000_000_000,
            passes: vec![pass.clone(), pass],
            false_positives_per_window: 0.012_34,
            expected_false_positives_per_window: 0.012_35,
            apparent_savings_of_random_data: 0.01,
        };
        for bounds in [&[][..], &[bound]] {
            for width in [80, 97, 120] {
                let mut out = Vec::new();
                let report = report(&setting, bounds, &figures);
                Page::new(&mut out, width, false).answer(&report).unwrap();
                let text = String::from_utf8(out).unwrap();
                for line in text.lines() {
                    assert!(columns(line) <= width, "{width}: {line}");
                }
                let mut numbers = vec![
                    "123,456,789,013",
                    "> −0.01 %",
                    "1,234,567,890",
                    "12,346",
                    "1,235",
                    "1020.4 MiB",
                    "123,456,789",
                ];
                if !bounds.is_empty() {
                    numbers.extend(["98,765,432,109", "123.4 %", "987,654,321", "1.9 GiB"]);
                }
                for number in numbers {
                    assert!(text.contains(number), "{width}: {number} is missing:\n{text}");
                }
                assert!(text.contains("Also in --csv: "), "{text}");
            }
        }
    }

    #[test]
    fn median_and_best_are_speeds() {
        let times = [4.0, 1.0, 2.0].map(|cpu_seconds| Time { cpu_seconds, wall_seconds: 8.0 });
        assert_eq!(speeds(&times, 8, Clock::Cpu), (4.0, 8.0));
        assert_eq!(speeds(&times, 8, Clock::Wall), (1.0, 1.0));
        assert_eq!(speeds(&[], 8, Clock::Wall), (0.0, 0.0));
    }
}
