//! Names of samplers, tables, policies and entropy stages in options and configuration files.

use crate::failure::{Failure, Outcome};
use crate::quantity::{parse_size, size};
use oncewire_codec::{ByteSet, CachePolicy, Entropy};
use oncewire_family::{BucketShape, SamplerKind, TableKind};
use std::fmt;
use std::io::Read;
use std::iter::once;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// An entropy stage. `coded` leaves its level to `--level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntropyName {
    None,
    Lz4,
    Coded(Option<i32>),
}

impl FromStr for EntropyName {
    type Err = String;

    fn from_str(text: &str) -> Result<EntropyName, String> {
        match text {
            "none" => Ok(EntropyName::None),
            "lz4" => Ok(EntropyName::Lz4),
            "coded" => Ok(EntropyName::Coded(None)),
            "coded-1" => Ok(EntropyName::Coded(Some(1))),
            "coded-2" => Ok(EntropyName::Coded(Some(2))),
            "coded-3" => Ok(EntropyName::Coded(Some(3))),
            "zstd" => Err("the stage zstd is called coded now".into()),
            "zstd-1" | "zstd-2" | "zstd-3" => {
                Err(format!("the stage {text} is called {} now", text.replace("zstd", "coded")))
            }
            _ => Err("use none, lz4, coded, coded-1, coded-2 or coded-3".into()),
        }
    }
}

impl EntropyName {
    /// The stage, with the level of `--level` if given.
    pub(crate) fn stage(self, level: Option<i32>) -> Result<Entropy, String> {
        match (self, level) {
            (EntropyName::Coded(Some(named)), Some(level)) if named != level => Err(format!(
                "coded-{named} and level {level} contradict each other; leave one of them out"
            )),
            (EntropyName::Coded(named), _) => {
                Ok(named.or(level).map_or(Entropy::DEFAULT, |level| Entropy::Coded { level }))
            }
            (_, Some(_)) => Err("--level belongs to --entropy coded; leave one of them out".into()),
            (EntropyName::None, None) => Ok(Entropy::None),
            (EntropyName::Lz4, None) => Ok(Entropy::Lz4),
        }
    }
}

/// A sampler, or SAMPLEBYTE with the file of its table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SamplerName {
    /// A sampler without a file.
    Kind(SamplerKind),
    /// SAMPLEBYTE with a table from a file, as `oncewire train` writes it.
    Trained(PathBuf),
}

/// Every name that [`SamplerName`] accepts.
fn sampler_names() -> impl Iterator<Item = &'static str> {
    let file = |name| if name == "samplebyte" { Some("samplebyte:FILE") } else { None };
    // The default first.
    let others = SamplerKind::all().filter(|kind| *kind != SamplerKind::SampleHash);
    once(SamplerKind::SampleHash)
        .chain(others)
        .flat_map(move |kind| once(kind.name()).chain(file(kind.name())))
}

/// The names as help and errors list them.
pub(crate) fn sampler_list() -> String {
    sampler_names().collect::<Vec<_>>().join(", ")
}

impl FromStr for SamplerName {
    type Err = String;

    fn from_str(text: &str) -> Result<SamplerName, String> {
        if let Some(file) = text.strip_prefix("samplebyte:").filter(|file| !file.is_empty()) {
            return Ok(SamplerName::Trained(file.into()));
        }
        SamplerKind::named(text)
            .map(SamplerName::Kind)
            .ok_or_else(|| format!("use one of {}", sampler_list()))
    }
}

impl fmt::Display for SamplerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SamplerName::Kind(kind) => f.write_str(kind.name()),
            SamplerName::Trained(file) => write!(f, "samplebyte:{}", file.display()),
        }
    }
}

impl SamplerName {
    /// The file of its table, if any.
    pub(crate) fn file(&self) -> Option<&Path> {
        match self {
            SamplerName::Kind(_) => None,
            SamplerName::Trained(file) => Some(file),
        }
    }

    /// The sampler itself. Reads its file if it has one.
    pub(crate) fn kind(&self) -> Outcome<SamplerKind> {
        match self {
            SamplerName::Kind(kind) => Ok(kind.clone()),
            SamplerName::Trained(file) => read_table(file).map(SamplerKind::SampleByte),
        }
    }
}

/// Largest accepted table file, in bytes. 256 values with a comment each are far smaller.
const TABLE_FILE_MAX: u64 = 64 << 10;

fn read_table(file: &Path) -> Outcome<ByteSet> {
    let failed =
        |error: &std::io::Error| Failure::io("read the sampler's table", file.display(), error);
    let mut text = Vec::new();
    // The size of a device is not known in advance.
    let opened = std::fs::File::open(file).map_err(|error| failed(&error))?;
    opened.take(TABLE_FILE_MAX + 1).read_to_end(&mut text).map_err(|error| failed(&error))?;
    if text.len() as u64 > TABLE_FILE_MAX {
        let name = file.display();
        return Err(Failure::damaged(format!(
            "{name} is too large for a sampler's table; use a file written by `oncewire train`"
        )));
    }
    parse_table(&String::from_utf8_lossy(&text))
        .map_err(|reason| Failure::damaged(format!("{}, {reason}", file.display())))
}

/// Byte values from 0 to 255, one or more per line; `#` starts a comment.
fn parse_table(text: &str) -> Result<ByteSet, String> {
    let mut set = ByteSet::new();
    for (number, line) in text.lines().enumerate() {
        let values = line.split_once('#').map_or(line, |(values, _)| values);
        for value in values.split_whitespace() {
            let byte = value.parse().map_err(|_| {
                let shown: String = value.chars().take(20).collect();
                format!(
                    "line {}: \"{}\" is not a byte value from 0 to 255",
                    number + 1,
                    shown.escape_debug()
                )
            })?;
            set.insert(byte);
        }
    }
    if set.is_empty() { Err("line 1: no byte values found".into()) } else { Ok(set) }
}

/// Where fingerprints are stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TableName {
    /// In memory.
    Memory(TableKind),
    /// In a temporary file of a directory, with so many bytes of memory.
    Flash { memory: u64, directory: PathBuf },
}

impl TableName {
    pub(crate) const COMPACT: TableName = TableName::Memory(TableKind::Compact);
}

/// A fingerprint table: `compact`, `buckets`, `buckets:BxKxF`, or `flash:MEMORY:DIR`.
pub(crate) fn parse_table_name(text: &str) -> Result<TableName, String> {
    let wrong = || {
        "use compact, buckets, buckets:BxKxF (slots per bucket, hash functions, buckets per fingerprint) or flash:MEMORY:DIR".to_string()
    };
    match text {
        "compact" => return Ok(TableName::COMPACT),
        "buckets" => return Ok(TableName::Memory(TableKind::Buckets(BucketShape::default()))),
        _ => {}
    }
    if let Some(rest) = text.strip_prefix("flash:") {
        let (memory, directory) = rest.split_once(':').ok_or_else(wrong)?;
        let memory = parse_size(memory)?;
        return if directory.is_empty() {
            Err(wrong())
        } else {
            Ok(TableName::Flash { memory, directory: directory.into() })
        };
    }
    let mut parts = text.strip_prefix("buckets:").ok_or_else(wrong)?.split('x');
    let mut next = || parts.next().ok_or_else(wrong);
    let slots = next()?.parse().map_err(|_| wrong())?;
    let hashes = next()?.parse().map_err(|_| wrong())?;
    let factor = next()?.parse().map_err(|_| wrong())?;
    if parts.next().is_some() {
        Err(wrong())
    } else {
        Ok(TableName::Memory(TableKind::Buckets(BucketShape { slots, hashes, factor })))
    }
}

impl fmt::Display for TableName {
    /// What [`parse_table_name`] accepts, without the directory.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableName::Memory(TableKind::Compact) => f.write_str("compact"),
            TableName::Memory(TableKind::Buckets(BucketShape { slots, hashes, factor })) => {
                write!(f, "buckets:{slots}x{hashes}x{factor}")
            }
            TableName::Flash { memory, .. } => write!(f, "flash:{}", size(*memory)),
        }
    }
}

/// A cache policy: `all`, `new-runs`, `new-runs-apart` or `new-blocks:PERCENT`.
pub(crate) fn parse_policy(text: &str) -> Result<CachePolicy, String> {
    match text {
        "all" => Ok(CachePolicy::All),
        "new-runs" => Ok(CachePolicy::NewRuns { straddle: true }),
        "new-runs-apart" => Ok(CachePolicy::NewRuns { straddle: false }),
        _ => text
            .strip_prefix("new-blocks:")
            .and_then(|percent| percent.trim_end_matches('%').parse().ok())
            .filter(|percent| (1..=100).contains(percent))
            .map(|below_percent| CachePolicy::NewBlocks { below_percent })
            .ok_or_else(|| {
                "use all, new-runs, new-runs-apart or new-blocks:PERCENT (1 to 100)".into()
            }),
    }
}

/// The name that [`parse_policy`] accepts.
pub(crate) fn policy_name(policy: CachePolicy) -> String {
    match policy {
        CachePolicy::All => "all".into(),
        CachePolicy::NewRuns { straddle: true } => "new-runs".into(),
        CachePolicy::NewRuns { straddle: false } => "new-runs-apart".into(),
        CachePolicy::NewBlocks { below_percent } => format!("new-blocks:{below_percent}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entropy_stages_and_their_levels() {
        let stage =
            |name: &str, level| name.parse::<EntropyName>().and_then(|name| name.stage(level));
        assert_eq!(stage("none", None), Ok(Entropy::None));
        assert_eq!(stage("lz4", None), Ok(Entropy::Lz4));
        assert_eq!(stage("coded", None), Ok(Entropy::DEFAULT));
        assert_eq!(stage("coded", Some(1)), Ok(Entropy::Coded { level: 1 }));
        assert_eq!(stage("coded-1", None), stage("coded", Some(1)));
        assert_eq!(stage("coded-2", Some(2)), Ok(Entropy::Coded { level: 2 }));
        for (name, level) in [
            ("coded-2", Some(3)),
            ("none", Some(1)),
            ("lz4", Some(3)),
            ("gzip", None),
            ("coded-9", None),
            ("", None),
        ] {
            assert!(stage(name, level).is_err(), "{name} {level:?}");
        }
        for (name, now) in [("zstd", "coded"), ("zstd-1", "coded-1"), ("zstd-3", "coded-3")] {
            assert!(stage(name, None).unwrap_err().contains(&format!("{now} now")), "{name}");
        }
    }

    #[test]
    fn parsed_names_print_as_they_were_written() {
        for name in sampler_names() {
            assert_eq!(SamplerName::from_str(name).unwrap().to_string(), name);
        }
        for name in ["", "Samplebyte", "samplebyte:", "modp "] {
            assert!(SamplerName::from_str(name).unwrap_err().contains("modp"), "{name}");
        }
        for name in ["compact", "buckets:2x1x2", "buckets:8x4x0.5"] {
            assert_eq!(parse_table_name(name).unwrap().to_string(), name);
        }
        assert_eq!(parse_table_name("buckets"), parse_table_name("buckets:2x1x2"));
        for name in ["", "buckets:", "buckets:2x1", "buckets:2x1x2x3", "buckets:-1x1x1", "bucket"] {
            assert!(parse_table_name(name).is_err(), "{name}");
        }
        for name in ["all", "new-runs", "new-runs-apart", "new-blocks:50"] {
            assert_eq!(policy_name(parse_policy(name).unwrap()), name);
        }
        for name in ["", "new", "new-blocks", "new-blocks:0", "new-blocks:101", "new-blocks:x"] {
            assert!(parse_policy(name).is_err(), "{name}");
        }
    }

    #[test]
    fn tables_are_read_with_comments_and_refused_with_a_line() {
        assert_eq!(
            parse_table("# trained\n32 # space\n0 255\n\n 101\n").unwrap(),
            [0, 32, 101, 255].into_iter().collect()
        );
        assert_eq!(
            parse_table("1\n256\n").unwrap_err(),
            "line 2: \"256\" is not a byte value from 0 to 255"
        );
        assert_eq!(
            parse_table("e").unwrap_err(),
            "line 1: \"e\" is not a byte value from 0 to 255"
        );
        assert!(parse_table("# nothing\n").is_err());
        assert!(parse_table("\u{0}\u{1b}[2J").unwrap_err().contains("\\u{1b}"));
    }
}
