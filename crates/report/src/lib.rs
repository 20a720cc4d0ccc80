//! One model for what a program reports, and presenters that show it.
//!
//! Figures, tables and charts are plain data with units ([`Table`], [`Chart`], [`Unit`]).
//! Presenters need no knowledge of individual figures: [`terminal`] writes text for a terminal or a
//! file, [`html`] one HTML file for a browser, [`csv`] RFC 4180 and [`json`] documents for
//! programs. Every number for people goes through [`format`](mod@format), every text from outside through
//! [`text::sanitize`].
//!
//! A [`Report`] has a [`Summary`] and [`Section`]s of [`Block`]s. A terminal shows less of it than
//! a browser; programs read the tables and charts themselves.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use oncewire_report::terminal::Page;
//! use oncewire_report::{Block, Cell, Report, Section, Summary, Table, Unit, html};
//!
//! let table = Table::new(
//!     "transfers",
//!     "Transfers",
//!     &[("file", Unit::Text), ("bytes", Unit::Bytes), ("saved", Unit::Share)],
//!     vec![
//!         vec!["release.tar".into(), Cell::Count(993_280), 0.895.into()],
//!         vec!["update.tar".into(), Cell::Count(4_050), Cell::None],
//!     ],
//! );
//! let report = Report {
//!     kind: "Transfers",
//!     title: "Monday".into(),
//!     summary: Summary { headline: "One of two transfers was reduced.".into(), ..Summary::default() },
//!     sections: vec![Section::new("transfers", "Transfers").with(Block::Table(table.into()))],
//!     ..Report::default()
//! };
//!
//! // Text, 80 columns wide.
//! let mut text = Vec::new();
//! Page::new(&mut text, 80, false).report(&report)?;
//! let text = String::from_utf8(text)?;
//! assert!(text.contains("file           bytes   saved"));
//! assert!(text.contains("release.tar   993 kB  89.5 %"));
//! assert!(text.contains("update.tar   4.05 kB       –"));
//!
//! // One HTML file.
//! let page = html::render(&report);
//! assert!(page.contains("993 kB</td>"));
//! # Ok(())
//! # }
//! ```
//!
//! Without the feature `presenters`, the crate is the model alone, and depends on serde only. This
//! crate depends on no other Oncewire crate.

#[cfg(feature = "presenters")]
pub mod csv;
pub mod format;
#[cfg(feature = "presenters")]
pub mod html;
#[cfg(feature = "presenters")]
pub mod json;
#[cfg(feature = "presenters")]
mod map;
mod model;
#[cfg(feature = "presenters")]
mod report;
#[cfg(feature = "presenters")]
pub mod terminal;
#[cfg(feature = "presenters")]
pub mod text;

#[cfg(feature = "presenters")]
pub use map::{Map, MapDevice, MapLink, MapNode, MapState};
pub use model::{Axis, Cell, Chart, ChartKind, Column, Figure, Series, Table, Unit};
#[cfg(feature = "presenters")]
pub use report::{Block, Breakdown, Fact, Part, Report, Section, Summary, TableView};

/// Compiles the example in the README.
#[cfg(all(doctest, feature = "presenters"))]
#[doc = include_str!("../README.md")]
pub struct Readme;
