//! The figures as a table, as CSV, as JSON.

use super::bound::Bound;
use super::{Figures, Pass, Setting, Time};
use crate::quantity::{binary, bytes, savings};
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;
use std::fmt::Write;

/// The whole report.
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

/// Bytes per second in the median and the best of the runs.
fn speeds(times: &[Time], total: u64, clock: Clock) -> (f64, f64) {
    let mut seconds: Vec<f64> = times.iter().map(|time| clock.seconds(time).max(1e-9)).collect();
    seconds.sort_by(f64::total_cmp);
    let rate = |seconds: Option<&f64>| seconds.map_or(0.0, |seconds| total as f64 / seconds);
    (rate(seconds.get(seconds.len() / 2)), rate(seconds.first()))
}

pub(super) fn table(setting: &Setting, bounds: &[Bound], figures: &[Figures]) -> String {
    let mut out = String::new();
    let files = match &setting.files[..] {
        [one] => one.clone(),
        many => format!("{} files", many.len()),
    };
    let _ = writeln!(out, "{files}, {} in memory, on {} ({} kernels)", bytes(setting.bytes), setting.processor, setting.kernels);
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    let mut header = vec!["", "block"];
    if setting.passes > 1 {
        header.push("pass");
    }
    header.extend(["bytes", "savings"]);
    if !bounds.is_empty() {
        header.push("of optimal");
    }
    header.extend(["encode MB/s", "(best)", "wall", "decode MB/s", "(best)", "matches", "mean", "B/fp", "memory"]);
    table.set_header(header.iter().map(Cell::new));
    for bound in bounds {
        for (number, pass) in bound.passes.iter().enumerate() {
            let name = format!("optimal w={}, {} bytes a match", bound.window, bound.pointer_bytes);
            let mut row = vec![if number == 0 { name } else { String::new() }, binary(bound.block_bytes as u64)];
            if setting.passes > 1 {
                row.push((number + 1).to_string());
            }
            row.extend([pass.wire_bytes.to_string(), savings(pass.wire_bytes, setting.bytes), "100.0 %".into()]);
            row.push(format!("{:.0}", setting.bytes as f64 / pass.time.cpu_seconds.max(1e-9) / 1e6));
            row.extend((0..4).map(|_| "-".to_string()));
            row.extend([pass.runs.to_string(), "-".into(), "1.0".into(), binary(bound.memory_bytes as u64)]);
            table.add_row(row);
        }
    }
    for figure in figures {
        for (number, pass) in figure.passes.iter().enumerate() {
            let mut row = vec![if number == 0 { figure.name.clone() } else { String::new() }, binary(figure.block_bytes as u64)];
            if setting.passes > 1 {
                row.push((number + 1).to_string());
            }
            row.extend(cells(setting, !bounds.is_empty(), figure, pass));
            table.add_row(row);
        }
    }
    for column in 1..header.len() {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let _ = writeln!(out, "{table}");
    let _ = writeln!(
        out,
        "Speeds are millions of bytes of content per second of one core's CPU time, median and best of {} interleaved runs; \"wall\" \
         is the encoder's\nmedian by the clock. Bytes count all headers. B/fp: content per fingerprint where markers were sought. Memory is \
         the encoder's.",
        setting.runs
    );
    for bound in bounds {
        let _ = writeln!(
            out,
            "Optimal (w = {}, blocks of {}): a {} Bloom filter of every window; it takes {:.3} % of the windows of random data for known \
             ({:.3} % expected),\nwhich then seems to save {:.2} %. Its bytes are literals and {} for each match, without headers. What an entropy stage saves, and \
             our matches\nthat are shorter than a window or cost less, are not bounded by it.",
            bound.window,
            binary(bound.block_bytes as u64),
            if bound.filter == "bloom" { "plain" } else { "counting" },
            bound.false_positives_per_window * 100.0,
            bound.expected_false_positives_per_window * 100.0,
            bound.apparent_savings_of_random_data * 100.0,
            bound.pointer_bytes,
        );
    }
    let mut caches: Vec<u64> = figures.iter().filter_map(|figure| figure.cache_bytes).collect();
    caches.sort_unstable();
    caches.dedup();
    for cache in caches {
        let fits =
            if setting.bytes <= cache { "holds all data" } else { "holds less than the data: a repeat finds only what is left" };
        let _ = writeln!(out, "Content log: {}, {fits}.", binary(cache));
    }
    out
}

fn cells(setting: &Setting, with_bound: bool, figure: &Figures, pass: &Pass) -> Vec<String> {
    let mega = |rate: f64| if rate > 0.0 { format!("{:.0}", rate / 1e6) } else { "-".to_string() };
    let (encode, encode_best) = speeds(&pass.encode, setting.bytes, Clock::Cpu);
    let (wall, _) = speeds(&pass.encode, setting.bytes, Clock::Wall);
    let (decode, decode_best) = speeds(&pass.decode, setting.bytes, Clock::Cpu);
    let dash = || "-".to_string();
    let one_digit = |value: Option<f64>| value.map_or_else(dash, |value| format!("{value:.1}"));
    let details = pass.details.as_ref();
    let mut cells = vec![pass.wire_bytes.to_string(), savings(pass.wire_bytes, setting.bytes)];
    if with_bound {
        cells.push(pass.share_of_optimal.map_or_else(dash, |share| format!("{:.1} %", share * 100.0)));
    }
    cells.extend([
        mega(encode),
        mega(encode_best),
        mega(wall),
        mega(decode),
        mega(decode_best),
        details.map_or_else(dash, |details| details.matches.to_string()),
        details.map_or_else(dash, |details| details.mean_match_bytes.map_or_else(dash, |mean| format!("{mean:.0}"))),
        one_digit(details.and_then(|details| details.bytes_per_fingerprint)),
        if figure.encoder_memory_bytes == 0 { dash() } else { binary(figure.encoder_memory_bytes as u64) },
    ]);
    cells
}

pub(super) fn csv(bounds: &[Bound], figures: &[Figures]) -> String {
    let mut out = String::from(
        "name,block_bytes,cache_bytes,pass,wire_bytes,savings,encode_cpu_median_s,encode_cpu_best_s,encode_wall_median_s,\
         decode_cpu_median_s,decode_cpu_best_s,decode_wall_median_s,matches,mean_match_bytes,bytes_per_fingerprint,\
         encoder_memory_bytes,decoder_memory_bytes,share_of_optimal\n",
    );
    for bound in bounds {
        for (number, pass) in bound.passes.iter().enumerate() {
            let Bound { window, block_bytes, cache_bytes, memory_bytes, .. } = bound;
            let (wire, savings, runs) = (pass.wire_bytes, pass.savings, pass.runs);
            let Time { cpu_seconds: seconds, wall_seconds: wall } = pass.time;
            let pass = number + 1;
            let _ = writeln!(
                out,
                "\"optimal w={window}\",{block_bytes},{cache_bytes},{pass},{wire},{savings:.6},{seconds:.6},{seconds:.6},{wall:.6},,,,{runs},,1.00,\
                 {memory_bytes},,1.0000"
            );
        }
    }
    for figure in figures {
        for (number, pass) in figure.passes.iter().enumerate() {
            // Seconds per pass: speeds of one byte, turned over. None where nothing was decoded.
            let seconds = |times: &[Time], clock| {
                let (median, best) = speeds(times, 1, clock);
                let shown = |speed: f64| if times.is_empty() { String::new() } else { format!("{:.6}", 1.0 / speed) };
                (shown(median), shown(best))
            };
            let (encode, encode_best) = seconds(&pass.encode, Clock::Cpu);
            let (decode, decode_best) = seconds(&pass.decode, Clock::Cpu);
            let optional = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
            let details = pass.details.as_ref();
            let _ = writeln!(
                out,
                "\"{}\",{},{},{},{},{:.6},{encode},{encode_best},{},{decode},{decode_best},{},{},{},{},{},{},{}",
                // It may hold the name of a file.
                figure.name.replace('"', "\"\""),
                figure.block_bytes,
                figure.cache_bytes.map_or_else(String::new, |cache| cache.to_string()),
                number + 1,
                pass.wire_bytes,
                pass.savings,
                seconds(&pass.encode, Clock::Wall).0,
                seconds(&pass.decode, Clock::Wall).0,
                details.map_or_else(String::new, |details| details.matches.to_string()),
                optional(details.and_then(|details| details.mean_match_bytes)),
                optional(details.and_then(|details| details.bytes_per_fingerprint)),
                figure.encoder_memory_bytes,
                figure.decoder_memory_bytes,
                pass.share_of_optimal.map_or_else(String::new, |share| format!("{share:.4}")),
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_and_best_are_speeds() {
        let times = [4.0, 1.0, 2.0].map(|cpu_seconds| Time { cpu_seconds, wall_seconds: 8.0 });
        assert_eq!(speeds(&times, 8, Clock::Cpu), (4.0, 8.0));
        assert_eq!(speeds(&times, 8, Clock::Wall), (1.0, 1.0));
        assert_eq!(speeds(&[], 8, Clock::Wall), (0.0, 0.0));
    }
}
