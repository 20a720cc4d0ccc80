//! Errors: one enum per area, with the names and numbers in the variants. Each displays as one line
//! for an operator.

mod device;
mod emulation;
mod manifest;
mod path;
mod profile;
mod route;
mod route_file;
mod solver;
mod topology;
mod traffic;

use std::fmt;

pub use device::DeviceError;
pub use emulation::{EmulationError, Mismatch, RouteFault};
pub use manifest::{
    Document, ManifestError, ManifestErrorKind, NameFault, PathFault, Unfit, Violation,
};
pub use path::PathError;
pub use profile::ProfileError;
pub use route::RouteError;
pub use route_file::RouteFileError;
pub use solver::SolverError;
pub use topology::TopologyError;
pub use traffic::TrafficError;

/// Why there is no plan or no emulation.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A topology is invalid, or a transformation does not fit it.
    #[error("topology: {0}")]
    Topology(#[from] TopologyError),
    /// Demands, populations or volumes are invalid.
    #[error("traffic: {0}")]
    Traffic(#[from] TrafficError),
    /// Paths are invalid.
    #[error("paths: {0}")]
    Paths(#[from] PathError),
    /// A redundancy profile is invalid.
    #[error("redundancy profile: {0}")]
    Profile(#[from] ProfileError),
    /// Sizes, speeds or places of devices are invalid.
    #[error("devices: {0}")]
    Devices(#[from] DeviceError),
    /// The program has no solution, or this solver finds none.
    #[error("solver: {0}")]
    Solver(#[from] SolverError),
    /// Redundancy-aware routes are not possible as asked for.
    #[error("routes: {0}")]
    Routes(#[from] RouteError),
    /// A document of routes is corrupt, or for another map.
    #[error("routes: {0}")]
    RouteFile(#[from] RouteFileError),
    /// A plan or a manifest is out of date, for something else, corrupt or impossible.
    #[error("manifest: {0}")]
    Manifest(#[from] ManifestError),
    /// The emulation cannot continue, or a packet left the network with other content than it
    /// entered with.
    #[error("emulation: {0}")]
    Emulation(#[from] EmulationError),
    /// An input text is invalid.
    #[error("{name}: {error}")]
    Input {
        /// Name of the text.
        name: String,
        /// What is wrong with it.
        error: Box<Error>,
    },
    /// A request does not fit an input text, which may itself be valid.
    #[error("{name}: {error}")]
    Unsuitable {
        /// Name of the text.
        name: String,
        /// What does not fit.
        error: Box<Error>,
    },
    /// The [`crate::Watch`] cancelled the computation.
    #[error("interrupted")]
    Stopped,
}

/// Who can fix an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The caller: a setting is out of range, or does not fit the network.
    Request,
    /// Whoever wrote the input text.
    Input,
    /// Nobody outside: the computation failed.
    Computation,
    /// Nobody: the computation was cancelled.
    Interrupted,
}

impl Error {
    /// Attributes an error to an invalid input text. Cancellations and failed computations keep
    /// their [`Fault`].
    pub fn in_input(self, name: &str) -> Self {
        match self {
            Self::Stopped => Self::Stopped,
            error => Self::Input { name: name.to_owned(), error: Box::new(error) },
        }
    }

    /// Attributes an error to a request that an input text cannot meet.
    pub fn about_input(self, name: &str) -> Self {
        match self {
            Self::Stopped => Self::Stopped,
            error => Self::Unsuitable { name: name.to_owned(), error: Box::new(error) },
        }
    }

    /// The error without the names of inputs around it.
    pub fn root(&self) -> &Self {
        match self {
            Self::Input { error, .. } | Self::Unsuitable { error, .. } => error.root(),
            error => error,
        }
    }

    /// Who can fix it.
    pub fn fault(&self) -> Fault {
        match (self, self.root()) {
            (_, Self::Stopped) => Fault::Interrupted,
            (_, Self::Emulation(error)) => error.fault(),
            (_, Self::Solver(_)) => Fault::Computation,
            (Self::Input { .. }, _) => Fault::Input,
            _ => Fault::Request,
        }
    }
}

/// Text from an input for an error: on one line, without control characters, at most 80 characters.
pub(crate) fn quote(text: &str) -> String {
    let mut short: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    if text.chars().nth(80).is_some() {
        short.push_str("...");
    }
    format!("{short:.300}")
}

/// An error at a place of a topology.
pub(crate) fn invalid(place: impl fmt::Display, reason: impl fmt::Display) -> Error {
    TopologyError::Invalid { place: place.to_string(), reason: reason.to_string() }.into()
}
