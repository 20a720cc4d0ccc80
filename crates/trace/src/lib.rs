//! The redundancy study: what repeats in a packet trace, where it comes from, and what redundancy
//! elimination would save.
//!
//! The study repeats published measurements on any trace: Anand's thesis (chapter 2), EndRE (NSDI
//! 2010, sections 3, 8 and 9), Santos and Wetherall (USENIX ATC 1998, section 2) and Martynov
//! (WOSP/SIPEW 2010). Its [`results`] are plain data, ready for any renderer.
//!
//! This example studies a capture in memory and reads the savings:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file: &[u8] = &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
//! use oncewire_packet::CaptureReader;
//! use oncewire_trace::{Algorithm, FigureId, Settings, Study};
//!
//! let settings = Settings {
//!     figures: [FigureId::Algorithms].into(),
//!     algorithms: vec![Algorithm::Maxp, Algorithm::Tunnel],
//!     cache: 1_000_000,
//!     ..Settings::default()
//! };
//! let mut study = Study::new(settings, None)?;
//! let mut capture = CaptureReader::new(file)?;
//! while let Some(record) = capture.next() {
//!     study.push(&record?)?;
//! }
//! let report = study.finish(vec!["example.pcap".into()], Vec::new())?;
//! println!("{} packets, {:.1} % saved", report.input.packets, 100.0 * report.verdict.savings);
//! # assert_eq!(report.input.packets, 0);
//! # Ok(())
//! # }
//! ```
//!
//! # Layers
//!
//! Each module uses only those above it in this list:
//!
//! | module | content |
//! |---|---|
//! | [`results`], [`service`], [`prefix`], `text`, `lru` | the report's data model; services by port; networks; wording of numbers |
//! | `batch` | packets in batches, the caches they enter, matches, directions |
//! | [`tcp`] | reassembly of TCP streams |
//! | `survey` | payload per direction, from a first pass |
//! | `algorithm`, [`score`] | the compared algorithms, each run over the whole trace; Martynov's score |
//! | [`figures`] | one module per figure: what it observes, its typed results, and their presentation |
//! | `settings` | what a study measures, and its limits |
//! | `study` | a pass over a trace, the verdict, the report |
//! | [`request`] | captures to a report: the survey and all passes, with progress and cancellation |

mod algorithm;
mod batch;
pub mod figures;
mod lru;
pub mod request;
pub mod results;
pub mod score;
pub mod service;
mod settings;
mod study;
mod survey;
pub mod tcp;

pub use oncewire_packet::prefix;

pub use algorithm::Algorithm;
pub use batch::{
    Batch, Cache, Cached, Caches, Charge, Direction, FlowKey, Kind, Matches, Packet, View,
};
pub use figures::{FigureId, Finding, Observer};
pub use request::{Request, Sampling};
pub use settings::Settings;
pub use study::{Found, MatchSink, Part, Study, StudyError};
pub use survey::Survey;

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
