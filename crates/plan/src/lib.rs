//! Plans redundancy elimination across a network: where to cache and decode so that each byte
//! crosses as few links as possible.
//!
//! The model is SmartRE's (Anand, *Redundancy Elimination as a Primitive*, 2012, chapter 3; Anand,
//! Sekar and Akella, SIGCOMM 2009). Ingresses encode. Devices inside the network cache a range of
//! each path's packets, selected by a hash of their headers, and decode what was encoded with them.
//! `docs/PLANNERS.md` defines every quantity.
//!
//! A front end fills in a [`Request`] with texts and settings, and presents the [`Outcome`]:
//!
//! ```
//! use oncewire_plan::{Request, Scenario, Text, Unwatched};
//!
//! let text = r#"{
//!   "name": "line",
//!   "nodes": [{"id": "a", "population": 3}, {"id": "b", "population": 2}, {"id": "c", "population": 1}],
//!   "links": [{"a": "a", "b": "b"}, {"a": "b", "b": "c"}]
//! }"#;
//! let request = Request::new(Scenario::new(Text::new("line.json", text)));
//! let outcome = oncewire_plan::run(&request, &Unwatched)?;
//! let reduction = outcome.evaluation.footprint.reduction();
//! println!("the plan cuts the bytes carried by all links by {:.1} %", 100.0 * reduction);
//! # assert!(reduction > 0.1);
//! # Ok::<(), oncewire_plan::Error>(())
//! ```
//!
//! [`emulate::run`] does the same for an emulation of the plan with packets. The steps are public,
//! too:
//!
//! | module | from | to |
//! |---|---|---|
//! | [`topology`] | text in one of six formats | [`Network`] |
//! | [`routing`], [`traffic`] | network, demands | [`path::Route`]s with volumes |
//! | [`scenario`] | all texts and settings | [`Instance`] |
//! | [`lp`] | instance | [`Solution`] |
//! | [`evaluate`](mod@evaluate) | instance, solution | what the solution is worth, without the solver's code |
//! | [`baseline`], [`placement`] | instance, a solver | other schemes; links to deploy first |
//! | [`failures`] | instance, a plan | what it does if a link or a node fails |
//! | [`verdict`] | instance, a plan's outcome | which scheme to use, at equal cost and at other loads |
//! | [`manifest`] | instance, solution | what each device needs to know |
//! | [`engine`](mod@engine) | manifests, packets | what an ingress and a node do with packets |
//! | [`emulate`](mod@emulate) | instance, manifests, packets | what happens to the packets |
//! | [`ra`] | network, classes of content | redundancy-aware routes |
//! | [`measure`] | instance, packets | volumes and a redundancy profile |
//! | [`control`] | messages of nodes | plans, and when nodes get them |
//!
//! There are no files, sockets or clocks in here. Long computations report to a [`Watch`], which
//! can cancel them.

pub mod baseline;
pub mod control;
pub mod cost;
pub mod emulate;
pub mod engine;
pub mod error;
pub mod evaluate;
pub mod failures;
mod id;
mod instance;
pub mod lp;
pub mod manifest;
pub mod measure;
pub mod network;
mod packet;
pub mod path;
pub mod placement;
pub mod profile;
mod quantity;
pub mod ra;
mod request;
pub mod routing;
pub mod scenario;
mod solution;
#[cfg(test)]
mod testing;
pub mod topology;
pub mod traffic;
pub mod verdict;
mod watch;

pub use error::{Error, Fault};
pub use id::{DeviceId, HeaderHash, LinkId, NodeId, PathId};
pub use instance::{Device, Hop, Ingress, Instance, Path, Placement, Provision};
pub use network::Network;
pub use profile::{Match, Measured, Profile, Synthetic};
pub use quantity::{BitRate, Bytes, PerSecond, Seconds};
pub use request::{
    Buy, Choice, Compare, Copies, Deploy, Deployed, EachIngress, Failures, Goal, Outcome, Request,
    Taken, run, run_each_ingress,
};
pub use scenario::{Scenario, Text};
pub use solution::{Prices, Solution, Solve, SolvedBy};
pub use watch::{Stage, Unwatched, Watch};

/// Compiles the README's examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
