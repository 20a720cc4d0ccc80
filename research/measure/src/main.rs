//! Repeats the papers' measurements of the algorithms on your files, and writes the tables
//! and plots of `docs/ALGORITHMS.md` in place:
//!
//! ```text
//! cargo run --release -p oncewire-research-measure -- [--only SECTION,...] [--runs N] [--out docs] FILES
//! ```
//!
//! Speeds are CPU time of one thread, medians of interleaved runs. Savings count every byte of
//! every frame, without an entropy stage unless a table says otherwise.
#![allow(missing_docs)]

mod plots;
mod sections;
mod support;

use std::fmt::Write;
use std::path::PathBuf;
use support::{Corpus, replace_section};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut files, mut only, mut runs, mut out) =
        (Vec::new(), Vec::new(), 5, PathBuf::from("docs"));
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match &argument[..] {
            "--only" => only = value()?.split(',').map(str::to_string).collect(),
            "--runs" => runs = value()?.parse()?,
            "--out" => out = value()?.into(),
            option if option.starts_with("--") => {
                return Err(format!("unknown option {option}").into());
            }
            file => files.push(PathBuf::from(file)),
        }
    }
    if files.is_empty() {
        return Err("list the files to measure, in the order in which they would be sent".into());
    }
    let corpus = Corpus::read(&files, runs)?;
    let document = out.join("ALGORITHMS.md");
    let mut text = std::fs::read_to_string(&document)?;
    for (name, section) in sections::ALL {
        if !only.is_empty() && !only.iter().any(|wanted| wanted == name) {
            continue;
        }
        eprintln!("{name} ...");
        let mut body = String::new();
        section(&corpus, &out.join("figures"), &mut body)?;
        let mut note = String::new();
        writeln!(note, "_{}_\n", corpus.description())?;
        text = replace_section(&text, name, &format!("{note}{body}"))?;
        // Writes section by section, so that an interrupted long run keeps its results.
        std::fs::write(&document, &text)?;
    }
    Ok(())
}
