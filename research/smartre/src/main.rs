//! Repeats SmartRE's evaluation (thesis, section 3.5) and writes the results as tables of
//! tab-separated values. `scripts/smartre.sh` turns them into `docs/SMARTRE.md`.
//!
//! ```text
//! cargo run --release -p oncewire-research-smartre -- TOPOLOGIES OUT [--only SECTION,...] [--seed N] [--capture FILE]...
//! ```
//!
//! TOPOLOGIES is a directory of maps in our JSON format, with populations. `SECTIONS` lists the
//! sections; the emulated ones need a capture. Section `rules` uses all that are given, the others
//! the first.

mod agreement;
mod emulated;
mod missing;
mod planner;
mod setting;
mod stale;

use std::{
    error::Error,
    fmt::Display,
    fs::File,
    io::{BufWriter, Write},
    path::PathBuf,
    time::Instant,
};

type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;
type Section = (&'static str, fn(&Run) -> Outcome);

/// The sections, in the order in which they run.
const SECTIONS: [Section; 17] = [
    ("time", planner::time),
    ("ingresses", planner::ingresses),
    ("network", planner::network),
    ("profiles", planner::profiles),
    ("memory", planner::memory),
    ("placement", planner::placement),
    ("sweep", planner::sweep),
    ("crowds", planner::crowds),
    ("drift", planner::drift),
    ("trace", emulated::trace),
    ("stale", stale::stale),
    ("rules", emulated::rules),
    ("matches", missing::matches),
    ("networks", missing::networks),
    ("encoders", missing::encoders),
    ("gamma", agreement::gamma),
    ("larger", agreement::larger),
];

/// The arguments.
struct Run {
    topologies: PathBuf,
    out: PathBuf,
    /// The first for all sections, and further ones for `rules`.
    captures: Vec<PathBuf>,
    seed: u64,
}

/// A table of tab-separated values.
struct Table {
    file: BufWriter<File>,
}

impl Table {
    fn new(run: &Run, name: &str, columns: &[&str]) -> Outcome<Self> {
        let mut file = BufWriter::new(File::create(run.out.join(name).with_extension("tsv"))?);
        writeln!(file, "{}", columns.join("\t"))?;
        Ok(Self { file })
    }

    fn row(&mut self, fields: &[&dyn Display]) -> Outcome {
        let fields: Vec<String> = fields.iter().map(|field| field.to_string()).collect();
        Ok(writeln!(self.file, "{}", fields.join("\t"))?)
    }

    fn end(mut self) -> Outcome {
        Ok(self.file.flush()?)
    }
}

fn main() -> Outcome {
    let mut run =
        Run { topologies: PathBuf::new(), out: PathBuf::new(), captures: Vec::new(), seed: 1 };
    let mut only: Option<Vec<String>> = None;
    let mut places = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match &argument[..] {
            "--only" => only = Some(value()?.split(',').map(str::to_owned).collect()),
            "--seed" => run.seed = value()?.parse()?,
            "--capture" => run.captures.push(value()?.into()),
            option if option.starts_with("--") => {
                return Err(format!("there is no option {option}").into());
            }
            _ => places.push(PathBuf::from(argument)),
        }
    }
    let [topologies, out] = <[PathBuf; 2]>::try_from(places)
        .map_err(|_| "name the directory of topologies and that of results")?;
    (run.topologies, run.out) = (topologies, out);
    std::fs::create_dir_all(&run.out)?;
    let named = |name: &str| only.as_ref().is_none_or(|only| only.iter().any(|one| one == name));
    if let Some(unknown) =
        only.iter().flatten().find(|one| SECTIONS.iter().all(|(name, _)| name != one))
    {
        return Err(format!("there is no section {unknown}").into());
    }
    for (name, section) in SECTIONS.into_iter().filter(|(name, _)| named(name)) {
        let begin = Instant::now();
        eprintln!("{name} ...");
        section(&run).map_err(|error| format!("{name}: {error}"))?;
        eprintln!("{name}: {:.1} s", begin.elapsed().as_secs_f64());
    }
    Ok(())
}
