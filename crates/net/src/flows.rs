//! A line of the log for each flow that ends or is denied.
//!
//! These events have a target of their own, [`TARGET`], and no limit of their rate, so a program that
//! wants none of them filters that target: then they cost nothing.

use crate::driver::FlowSignals;
use oncewire_session::Owner;
use std::fmt::Display;
use std::time::Instant;
use tracing::{Level, enabled, info};

/// The target of these events.
pub const TARGET: &str = "oncewire_net::flows";

struct About {
    peer: String,
    client: String,
    target: String,
    begun: Instant,
}

/// What is known of a flow when it begins. `None` if nobody wants its line.
pub(crate) struct FlowLine(Option<About>);

impl FlowLine {
    /// `client` is whose the flow is, `target` what was asked for.
    pub(crate) fn new(peer: impl Display, client: &Owner, target: impl Display) -> FlowLine {
        FlowLine(enabled!(target: TARGET, Level::INFO).then(|| {
            let (of, name) =
                (String::from_utf8_lossy(&client.client), String::from_utf8_lossy(&client.name));
            About {
                peer: peer.to_string(),
                client: if name.is_empty() { of.into_owned() } else { format!("{of}/{name}") },
                target: target.to_string(),
                begun: Instant::now(),
            }
        }))
    }

    /// The flow is over: `how` says in what way.
    pub(crate) fn ended(self, signals: &FlowSignals, how: &'static str) {
        let Some(About { peer, client, target, begun }) = self.0 else { return };
        let seconds = begun.elapsed().as_secs_f64();
        let ([sent, received], [wire_sent, wire_received]) = (signals.carried(), signals.on_wire());
        info!(
            target: TARGET,
            peer, client, target, sent, received, wire_sent, wire_received, seconds, how, "flow ended"
        );
    }

    /// The flow was not carried.
    pub(crate) fn denied(self, why: impl Display) {
        let Some(About { peer, client, target, .. }) = self.0 else { return };
        info!(target: TARGET, peer, client, target, why = %why, "flow denied");
    }
}
