//! The figures of the study, one module each.
//!
//! A figure is made in two steps. It is computed into a typed value, such as
//! [`lengths::MatchLengths`], by an [`Observer`] or, for the figures that compare algorithms, by
//! the study. Then its `present` makes tables, charts and text of that value. Whatever needs a
//! number of a figure, such as the verdict, reads the typed value.

pub mod algorithms;
mod burstiness;
pub mod caches;
pub mod deflate;
pub mod destinations;
pub mod hits;
pub mod hosts;
pub mod http;

pub mod irreducible;
#[cfg(test)]
mod laws;
mod layout;
pub mod lengths;
pub mod locality;
pub mod origins;
pub mod periods;
pub mod protocols;
pub mod replicated;
mod sampled;
mod tally;
pub mod temporal;
pub mod top;

use crate::batch::View;
use crate::results::Figure;

/// Something that sees every packet of a trace and computes a figure.
pub trait Observer: Send {
    /// Processes the next batch.
    fn batch(&mut self, view: &View<'_>);

    /// Computes the figure at the end of the trace.
    fn finish(self: Box<Self>) -> Finding;
}

/// A computed figure.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
#[allow(clippy::large_enum_variant, reason = "a study has one value of each")]
pub enum Finding {
    Algorithms(algorithms::AlgorithmSavings),
    Periods(periods::PeriodSavings),
    Caches(caches::CacheSavings),
    Temporal(temporal::OverTime),
    Protocols(protocols::ServiceSavings),
    Http(http::HttpSavings),
    Origins(origins::MatchOrigins),
    Lengths(lengths::MatchLengths),
    Locality(locality::MatchLocality),
    Hits(hits::ChunkHits),
    Replicated(replicated::ReplicatedPackets),
    Hosts(hosts::HostSavings),
    Destinations(destinations::ChunkDestinations),
    Irreducible(irreducible::Reducibility),
    Deflate(deflate::DeflateSavings),
    Top(top::TopSavings),
}

impl Finding {
    /// The figure as tables, charts and text.
    pub fn present(&self) -> Figure {
        match self {
            Finding::Algorithms(found) => found.present(),
            Finding::Periods(found) => found.present(),
            Finding::Caches(found) => found.present(),
            Finding::Temporal(found) => found.present(),
            Finding::Protocols(found) => found.present(),
            Finding::Http(found) => found.present(),
            Finding::Origins(found) => found.present(),
            Finding::Lengths(found) => found.present(),
            Finding::Locality(found) => found.present(),
            Finding::Hits(found) => found.present(),
            Finding::Replicated(found) => found.present(),
            Finding::Hosts(found) => found.present(),
            Finding::Destinations(found) => found.present(),
            Finding::Irreducible(found) => found.present(),
            Finding::Deflate(found) => found.present(),
            Finding::Top(found) => found.present(),
        }
    }
}

/// A figure of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum FigureId {
    Algorithms = 1,
    Periods,
    Caches,
    Temporal,
    Protocols,
    Http,
    Origins,
    Lengths,
    Locality,
    Hits,
    Replicated,
    Hosts,
    Destinations,
    Irreducible,
    Deflate,
    Top,
}

impl FigureId {
    /// All figures, by number.
    pub const ALL: [FigureId; 16] = [
        FigureId::Algorithms,
        FigureId::Periods,
        FigureId::Caches,
        FigureId::Temporal,
        FigureId::Protocols,
        FigureId::Http,
        FigureId::Origins,
        FigureId::Lengths,
        FigureId::Locality,
        FigureId::Hits,
        FigureId::Replicated,
        FigureId::Hosts,
        FigureId::Destinations,
        FigureId::Irreducible,
        FigureId::Deflate,
        FigureId::Top,
    ];

    /// The default: what is asked for most, and takes little beside the runs of the verdict.
    pub const LEAN: [FigureId; 10] = [
        FigureId::Algorithms,
        FigureId::Caches,
        FigureId::Temporal,
        FigureId::Protocols,
        FigureId::Origins,
        FigureId::Lengths,
        FigureId::Locality,
        FigureId::Replicated,
        FigureId::Irreducible,
        FigureId::Top,
    ];

    /// Its number, as in `docs/STUDY.md`.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Its name, as in `--figures`, file names and links.
    pub fn name(self) -> &'static str {
        match self {
            FigureId::Algorithms => "algorithms",
            FigureId::Periods => "periods",
            FigureId::Caches => "caches",
            FigureId::Temporal => "temporal",
            FigureId::Protocols => "protocols",
            FigureId::Http => "http",
            FigureId::Origins => "origins",
            FigureId::Lengths => "lengths",
            FigureId::Locality => "locality",
            FigureId::Hits => "hits",
            FigureId::Replicated => "replicated",
            FigureId::Hosts => "hosts",
            FigureId::Destinations => "destinations",
            FigureId::Irreducible => "irreducible",
            FigureId::Deflate => "deflate",
            FigureId::Top => "top",
        }
    }

    /// The figure with that name or number.
    pub fn named(name: &str) -> Option<FigureId> {
        FigureId::ALL
            .into_iter()
            .find(|figure| figure.name() == name || figure.number().to_string() == name)
    }
}
