//! Errors of devices.

/// What is wrong with devices.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// A size or speed is out of range.
    #[error("{what} is {value}; it must be {range}")]
    Range {
        /// Which value.
        what: String,
        /// The value.
        value: f64,
        /// The values that are allowed, in words.
        range: &'static str,
    },
    /// More devices were requested than there are.
    #[error("{asked} decoders are asked for; there are {available} links to choose from")]
    Deployment {
        /// Devices requested.
        asked: usize,
        /// Devices available.
        available: usize,
    },
    /// No choice of devices saves that much.
    #[error("{:.2} % are to be saved; all devices together save {:.2} %", 100.0 * asked, 100.0 * most)]
    Target {
        /// Share of the footprint that was asked for.
        asked: f64,
        /// Share that all devices save.
        most: f64,
    },
    /// Nothing can be saved for that money.
    #[error("the budget is too small: an encoder and a decoder cost {least} at least")]
    Budget {
        /// Price of the cheapest pair on a path.
        least: f64,
    },
    /// A device that does not exist.
    #[error("no device {name:?}")]
    Unknown {
        /// The name.
        name: String,
        /// Names of all devices, for suggestions.
        known: Vec<String>,
    },
    /// An index out of range.
    #[error("there is no {what} {index}: there are {count}")]
    Index {
        /// What the index counts.
        what: &'static str,
        /// The index.
        index: usize,
        /// How many there are.
        count: usize,
    },
}
