//! Data, clocks and tables.

use cpu_time::ThreadTime;
use oncewire_codec::{Encoder, EncoderBuilder, EncoderStats, Entropy};
use std::path::PathBuf;

/// The data to measure.
pub(crate) struct Corpus {
    pub(crate) data: Vec<u8>,
    pub(crate) runs: usize,
    names: Vec<String>,
}

impl Corpus {
    pub(crate) fn read(files: &[PathBuf], runs: usize) -> std::io::Result<Corpus> {
        let mut data = Vec::new();
        for file in files {
            data.extend(std::fs::read(file)?);
        }
        let name = |file: &PathBuf| {
            file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
        };
        Ok(Corpus { data, runs: runs.max(1), names: files.iter().map(name).collect() })
    }

    pub(crate) fn description(&self) -> String {
        let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor = processor
            .lines()
            .find_map(|line| {
                Some(line.strip_prefix("model name")?.split_once(':')?.1.trim().to_string())
            })
            .unwrap_or_else(|| std::env::consts::ARCH.into());
        let names = match &self.names[..] {
            [first, .., last] => format!("{first} to {last}, {} files", self.names.len()),
            [one] => one.clone(),
            [] => String::new(),
        };
        format!(
            "{names}, {:.1} MB; {processor}; median of {} runs.",
            self.data.len() as f64 / 1e6,
            self.runs
        )
    }

    /// The first `bytes` bytes of the data.
    pub(crate) fn front(&self, bytes: usize) -> &[u8] {
        &self.data[..self.data.len().min(bytes)]
    }
}

/// The results of one setting.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) bytes: u64,
    pub(crate) wire: u64,
    /// Median CPU time.
    pub(crate) seconds: f64,
    pub(crate) stats: EncoderStats,
    pub(crate) memory: usize,
}

impl Measured {
    pub(crate) fn savings(&self) -> f64 {
        100.0 * (1.0 - self.wire as f64 / self.bytes as f64)
    }

    pub(crate) fn gbit(&self) -> f64 {
        self.bytes as f64 * 8e-9 / self.seconds
    }
}

/// Without an entropy stage; the base for all sections.
pub(crate) fn plain(cache: u64, block: usize) -> EncoderBuilder {
    Encoder::builder().cache(cache).max_block(block).entropy(Entropy::None)
}

/// Sends `data` in blocks through each setting, `runs` times in turn.
pub(crate) fn measure(
    data: &[u8],
    block: usize,
    runs: usize,
    settings: &[EncoderBuilder],
) -> Vec<Measured> {
    let mut times = vec![Vec::new(); settings.len()];
    let mut measured = vec![Measured::default(); settings.len()];
    for _ in 0..runs {
        for (i, setting) in settings.iter().enumerate() {
            let mut encoder = setting.clone().build().expect("the setting is valid");
            encoder.prefault();
            let mut wire = 0;
            let start = ThreadTime::now();
            for block in data.chunks(block) {
                wire += encoder.encode_frame(block, 0).expect("the block is within the limit").len()
                    as u64;
                encoder.acknowledge(encoder.end());
            }
            times[i].push(start.elapsed().as_secs_f64());
            let (stats, memory) = (encoder.stats(), encoder.memory().total());
            measured[i] = Measured { bytes: data.len() as u64, wire, seconds: 0.0, stats, memory };
        }
    }
    for (measured, times) in measured.iter_mut().zip(&mut times) {
        measured.seconds = median(times);
    }
    measured
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Writes a Markdown table.
pub(crate) fn table(out: &mut String, head: &[&str], rows: &[Vec<String>]) {
    let line = |out: &mut String, cells: &[String]| {
        out.push_str("| ");
        out.push_str(&cells.join(" | "));
        out.push_str(" |\n");
    };
    line(out, &head.iter().map(|cell| cell.to_string()).collect::<Vec<_>>());
    let rule: Vec<String> =
        (0..head.len()).map(|column| if column == 0 { "---" } else { "---:" }.into()).collect();
    line(out, &rule);
    for row in rows {
        line(out, row);
    }
    out.push('\n');
}

/// Replaces the text between the marks of a generated section.
pub(crate) fn replace_section(text: &str, name: &str, body: &str) -> Result<String, String> {
    let (begin, end) = (format!("<!-- generated: {name} -->\n"), format!("<!-- end: {name} -->"));
    let from = text.find(&begin).ok_or_else(|| format!("the document has no mark {begin:?}"))?
        + begin.len();
    let to = from
        + text[from..].find(&end).ok_or_else(|| format!("the document has no mark {end:?}"))?;
    Ok(format!("{}\n{}\n{}", &text[..from], body.trim_end(), &text[to..]))
}

impl Corpus {
    /// A small part of the data, measured once.
    pub(crate) fn sample(other: &Corpus) -> Corpus {
        Corpus { data: other.front(8 << 20).to_vec(), runs: 1, names: Vec::new() }
    }
}
