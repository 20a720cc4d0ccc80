//! The manifest: one record per vector, one line per fact, as described in
//! `testdata/vectors/README.md`.

use oncewire_codec::CachePolicy;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

pub(crate) fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../../testdata/vectors"].iter().collect()
}

/// What a decoder must know, its input, and the expected result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// The file, relative to the directory of the vectors.
    pub(crate) file: String,
    pub(crate) story: String,
    /// Numbers by name: cache, span, block, contexts, session, epoch.
    pub(crate) numbers: Vec<(String, u64)>,
    /// The cache policy as [`policy_text`] writes it, unless it is `all`.
    pub(crate) policy: Option<String>,
    /// A file with which both ends are primed.
    pub(crate) base: Option<String>,
    /// A file with the content in order of offsets, without padding.
    pub(crate) content: Option<String>,
    /// XXH3-64 of the content and its length.
    pub(crate) digest: (u64, u64),
    /// BLAKE3 of the content.
    pub(crate) blake3: String,
    /// Encoder parameters, if the encoder wrote the vector; it must reproduce it.
    pub(crate) encoder: Option<String>,
    /// The steps: bytes examined, and the outcome.
    pub(crate) steps: Vec<(usize, String)>,
}

impl Record {
    pub(crate) fn number(&self, name: &str) -> u64 {
        let found = self.numbers.iter().find(|(found, _)| found == name);
        found.unwrap_or_else(|| panic!("{}: no {name}", self.file)).1
    }

    /// What identifies the content: XXH3-64, length, and BLAKE3.
    pub(crate) fn set_content(&mut self, content: &[u8]) {
        self.digest = (xxh3_64(content), content.len() as u64);
        self.blake3 = blake3::hash(content).to_hex().to_string();
    }

    /// Whether `content` is the expected content.
    pub(crate) fn is_content(&self, content: &[u8]) -> bool {
        let mut same = self.clone();
        same.set_content(content);
        same == *self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        read(&self.file)
    }

    fn append_to(&self, out: &mut String) {
        writeln!(out, "vector {}\nstory {}", self.file, self.story).unwrap();
        for (name, value) in &self.numbers {
            writeln!(out, "{name} {value}").unwrap();
        }
        for (name, file) in [
            ("policy", &self.policy),
            ("base", &self.base),
            ("content", &self.content),
            ("encoder", &self.encoder),
        ] {
            if let Some(file) = file {
                writeln!(out, "{name} {file}").unwrap();
            }
        }
        writeln!(out, "digest {:016x} {}\nblake3 {}", self.digest.0, self.digest.1, self.blake3)
            .unwrap();
        for (len, outcome) in &self.steps {
            writeln!(out, "step {len} {outcome}").unwrap();
        }
        out.push('\n');
    }

    fn parse(text: &str) -> Record {
        let mut record = Record::default();
        for line in text.lines() {
            let (key, value) =
                line.split_once(' ').unwrap_or_else(|| panic!("a line of the manifest: {line:?}"));
            let text = value.to_owned();
            match key {
                "vector" => record.file = text,
                "story" => record.story = text,
                "policy" => record.policy = Some(text),
                "base" => record.base = Some(text),
                "content" => record.content = Some(text),
                "encoder" => record.encoder = Some(text),
                "digest" => {
                    let (hash, len) = value.split_once(' ').unwrap();
                    record.digest = (u64::from_str_radix(hash, 16).unwrap(), len.parse().unwrap());
                }
                "blake3" => record.blake3 = text,
                "step" => {
                    let (len, outcome) = value.split_once(' ').unwrap();
                    record.steps.push((len.parse().unwrap(), outcome.to_owned()));
                }
                _ => record.numbers.push((key.to_owned(), value.parse().unwrap())),
            }
        }
        record
    }
}

/// The cache policy as a decoder must know it; `None` for `all`.
pub(crate) fn policy_text(policy: CachePolicy) -> Option<String> {
    match policy {
        CachePolicy::All => None,
        CachePolicy::NewRuns { .. } => Some("new runs".into()),
        CachePolicy::NewBlocks { below_percent } => Some(format!("new blocks {below_percent}")),
    }
}

pub(crate) fn policy_of(text: Option<&str>) -> CachePolicy {
    match text {
        None => CachePolicy::All,
        Some("new runs") => CachePolicy::NewRuns { straddle: false },
        Some(text) => {
            let percent = text
                .strip_prefix("new blocks ")
                .unwrap_or_else(|| panic!("the cache policy {text:?}"));
            CachePolicy::NewBlocks { below_percent: percent.parse().unwrap() }
        }
    }
}

/// Records of `key value` lines, each record ended by an empty line.
pub(crate) fn lines(name: &str) -> Vec<Vec<(String, String)>> {
    let text = String::from_utf8(read(name)).unwrap();
    let pair = |line: &str| {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        (key.to_owned(), value.to_owned())
    };
    text.split("\n\n")
        .filter(|record| !record.is_empty())
        .map(|record| record.lines().map(pair).collect())
        .collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

pub(crate) fn read(file: &str) -> Vec<u8> {
    let path = folder().join(file);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub(crate) fn write(file: &str, bytes: &[u8]) {
    let path = folder().join(file);
    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// A line of the table of bad frames.
pub(crate) struct Refused {
    /// The row of `docs/FORMAT.md`, section 10, that forbids it.
    pub(crate) clause: String,
    /// The outcome, as in a step.
    pub(crate) verdict: String,
    /// Its subject, or its file.
    pub(crate) subject: String,
    /// The frame, which comes after those of [`REFUSED_AFTER`]; `None` if it is in a file.
    pub(crate) frame: Option<Vec<u8>>,
}

/// What a decoder has decoded before it gets a frame of the table.
pub(crate) const REFUSED_AFTER: &str = "good/laid-out.frames";

/// The table of bad frames.
pub(crate) fn refused() -> Vec<Refused> {
    let text = String::from_utf8(read("refused.txt")).unwrap();
    let mut clause = "";
    let mut all = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(named) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            clause = named;
            continue;
        }
        let mut fields = line.split(" | ");
        let mut next = || fields.next().map(str::to_owned);
        let (verdict, subject) = (next().unwrap(), next().unwrap());
        let frame = next().map(|bytes| {
            let runs = bytes.split(' ').map(|run| match run.split_once('*') {
                Some((bytes, times)) => unhex(bytes).repeat(times.parse().unwrap()),
                None => unhex(run),
            });
            runs.flatten().collect()
        });
        all.push(Refused { clause: clause.into(), verdict, subject, frame });
    }
    all
}

/// The records of a manifest.
pub(crate) fn load(name: &str) -> Vec<Record> {
    let text = String::from_utf8(read(name)).unwrap();
    text.split("\n\n").filter(|record| record.starts_with("vector ")).map(Record::parse).collect()
}

pub(crate) fn store(name: &str, records: &[Record]) {
    let mut text = String::new();
    records.iter().for_each(|record| record.append_to(&mut text));
    write(name, text.as_bytes());
}

/// The name of an enum's variant, from its debug output.
pub(crate) fn variant(value: &impl std::fmt::Debug) -> String {
    format!("{value:?}").chars().take_while(char::is_ascii_alphanumeric).collect()
}

/// The index for people: every file, the expected result, and the identification of the content.
pub(crate) fn index(records: &[Record]) -> String {
    let mut out = String::from(
        "# All frames and packs\n\nWritten by the tests from `frames.txt` and `packs.txt`, which have all parameters; `README.md` explains both. The content is \
         what is decoded, in the\norder of its offsets and without padding; of a bad file it is what comes before the fault.\n",
    );
    for (title, folder, outcome) in [
        ("Good: must be decoded, up to the last byte", "good/", "blocks"),
        ("Bad: must be refused, or not be complete", "bad/", "last step"),
    ] {
        writeln!(out, "\n## {title}\n\n| file | {outcome} | bytes | BLAKE3 of the content | about |\n|---|---|---|---|---|")
            .unwrap();
        for record in records.iter().filter(|record| record.file.starts_with(folder)) {
            let blocks =
                record.steps.iter().filter(|(_, outcome)| outcome.starts_with("block")).count();
            let result = if folder == "good/" {
                blocks.to_string()
            } else {
                format!("`{}`", record.steps.last().unwrap().1)
            };
            let base = record
                .base
                .as_ref()
                .map_or(String::new(), |base| format!(" With the base `{base}`."));
            writeln!(
                out,
                "| `{}` | {result} | {} | `{}` | {}{base} |",
                record.file, record.digest.1, record.blake3, record.story
            )
            .unwrap();
        }
    }
    out
}
