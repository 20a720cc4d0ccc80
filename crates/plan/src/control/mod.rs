//! A controller of a network: it takes what ingresses measure, makes plans, and brings them out to
//! nodes (thesis, section 3.4, "Generating manifests" and "Consistent configurations").
//!
//! ```text
//! messages of nodes, operators, answers -> Controller::step -> messages, writes, questions
//! Question -> answer: the planner, which takes its time elsewhere -> Answer
//! ```
//!
//! [`Controller`] has no socket, no file and no clock: whoever drives it hands in the time, writes
//! what it wants written, and has questions answered. What a node does with a plan it does by itself
//! (`docs/NETWORK.md`, "New plans"): the controller hands the plan out, and sees when all are done.
//! So a controller that stops, at whatever moment, stops no packet and no plan that was handed out.

mod controller;
mod decide;
mod load;
mod message_error;
mod messages;
mod offer;
mod question;
mod record;
mod settings;
#[cfg(test)]
mod tests;
mod view;

pub use controller::{Action, Controller, Input, Reason, Refusal, Rollout};
pub use load::NodeLoad;
pub use message_error::{MAX_VERSION, MessageError};
pub use messages::{
    Carried, FORMAT, FromNode, Join, MAX_FROM_NODE, MAX_NODES, MAX_PAIRS, MAX_TO_NODE, MAX_WORD,
    NodeState, PlanRef, Report, ToNode, plain,
};
pub use offer::{Offer, OfferError, part_hash};
pub use question::{Answer, Means, Question, Rates, Worth};
pub use record::{Record, RecordError};
pub use settings::Settings;
pub use view::{LinkView, NodeView, Phase, View};
