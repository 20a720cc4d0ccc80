//! Errors of solvers and of solutions.

/// Why a solver has no solution.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SolverError {
    /// A setting of the solver is out of range.
    #[error("the {what} is {value}; it must be {range}")]
    Range {
        /// Which setting.
        what: &'static str,
        /// Its value.
        value: f64,
        /// The values that are allowed, in words.
        range: &'static str,
    },
    /// The program is too large for the method.
    #[error("{what}: {size}, but the limit is {most}; {remedy}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        size: usize,
        /// The largest that the method takes.
        most: usize,
        /// What to do.
        remedy: &'static str,
    },
    /// The method failed.
    #[error("{method}: {reason}")]
    Failed {
        /// The method.
        method: &'static str,
        /// Why.
        reason: String,
    },
    /// Instances for one plan that do not have the same paths and devices.
    #[error("hour {hour} has other paths or devices than the first")]
    Hours {
        /// Number of the hour, from 0.
        hour: usize,
    },
    /// A plan for several hours with another objective, or with partial deployment.
    #[error(
        "one plan for several --traffic or --profile is for the least footprint with all decoders; leave out --objective, --deploy, --budget and --target"
    )]
    OnlyFootprint,
    /// Branch and bound found nothing within its limit.
    #[error("no placement was found within {nodes} nodes")]
    NoPlacement {
        /// Nodes searched.
        nodes: u64,
    },
    /// A solution breaks constraints, or misstates its value.
    #[error("the plan breaks {count} {}, the first: {first}", if *.count == 1 { "rule" } else { "rules" })]
    Violations {
        /// How many.
        count: usize,
        /// The first, in words.
        first: String,
    },
    /// A solution has the wrong number of shares.
    #[error("a plan of {shares} shares for {hops} hops")]
    Count {
        /// Shares given.
        shares: usize,
        /// Hops of all paths.
        hops: usize,
    },
    /// A share is infinite or not a number.
    #[error("a plan with a share of {share}")]
    Share {
        /// The share.
        share: f64,
    },
}
