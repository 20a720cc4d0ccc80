//! What nodes and a controller say to each other: `docs/NETWORK.md`, "Controller".

use serde::{Deserialize, Serialize};

use super::message_error::{MAX_VERSION, MessageError};
use super::offer::{self, Offer};
use crate::measure::Counts;

/// Version of these messages.
pub const FORMAT: u32 = 2;
/// Most bytes of a message from a node.
pub const MAX_FROM_NODE: usize = 2 << 20;
/// Most bytes of a message to a node: its part of a plan.
pub const MAX_TO_NODE: usize = 64 << 20;
/// Most pairs of egresses in a report.
pub const MAX_PAIRS: usize = 8192;
/// Most egresses in a report, and most neighbors in a state.
pub const MAX_NODES: usize = 65_536;
/// Most bytes of a name, of a digest, and of a program with its version.
pub const MAX_WORD: usize = 1000;
/// Least time over which an ingress measures, in nanoseconds: rates of less say nothing.
pub(super) const LEAST_MEASURED: u64 = 100_000_000;
/// Most characters of a text that is shown to people.
const MAX_TEXT: usize = 300;

/// A plan, by its version and digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanRef {
    /// Its version; 0 for none.
    pub version: u64,
    /// Tells two plans of one version apart.
    pub digest: u64,
}

/// What a node does with plans, and which of its neighbors it does not reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeState {
    /// The plan that it carries out.
    pub current: PlanRef,
    /// The one that is being brought in.
    pub next: Option<PlanRef>,
    /// The one that comes after that.
    pub waiting: Option<PlanRef>,
    /// Whether all nodes on its paths know that its ingress uses the newest plan.
    pub settled: bool,
    /// Numbers of neighbors that it is not connected with.
    pub down: Vec<u32>,
}

impl NodeState {
    /// The newest plan that it has.
    pub fn newest(&self) -> PlanRef {
        self.waiting.or(self.next).unwrap_or(self.current)
    }

    /// Whether it carries out this plan, and no other any more.
    pub fn is_done(&self, plan: PlanRef) -> bool {
        self.current == plan && self.next.is_none() && self.waiting.is_none() && self.settled
    }
}

/// The first message of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// [`FORMAT`].
    pub format: u32,
    /// Its name in the topology.
    pub name: String,
    /// Digest of the topology, in hexadecimal digits.
    pub network: String,
    /// Bytes that it may use for packets, if they are limited.
    pub memory: Option<u64>,
    /// Packets that it can encode in a second, if it says so.
    #[serde(default)]
    pub encodings: Option<u64>,
    /// Operations that it can do in a second, if it says so: packets to cache, matches to decode.
    #[serde(default)]
    pub operations: Option<u64>,
    /// Program and version.
    pub agent: String,
    /// Hash of the newest part of a plan that it has got: the next one may come as differences from it.
    pub part: Option<u64>,
    /// Its plans.
    pub state: NodeState,
}

/// What an ingress has measured since its last report. Nodes are told by their numbers in the
/// topology.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// Time over which it counted, in nanoseconds.
    pub nanoseconds: u64,
    /// Egress, bytes.
    pub volumes: Vec<(u32, u64)>,
    /// Egress, egress of the packets that were repeated, matches, their bytes.
    pub pairs: Vec<(u32, u32, u64, u64)>,
    /// How often content was repeated before, on average.
    pub copies: f64,
    /// Bytes of matches that are not in `pairs`.
    pub left_out: u64,
    /// Bytes of packets that entered the network there.
    pub entered: u64,
    /// Bytes of these as they were sent on.
    pub encoded: u64,
}

impl Report {
    /// A report of these counts.
    pub fn new(counts: Counts, entered: u64, encoded: u64) -> Report {
        let Counts { nanoseconds, volumes, pairs, copies, left_out } = counts;
        Report { nanoseconds, volumes, pairs, copies, left_out, entered, encoded }
    }
}

/// What a node has carried since its last message of this kind. Bytes are those of packets with their
/// shims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Carried {
    /// Time over which it counted, in nanoseconds.
    pub nanoseconds: u64,
    /// Neighbor, bytes of packets that were sent to it, and what they would be without elimination.
    pub links: Vec<(u32, u64, u64)>,
    /// Bytes that it caches for paths of others.
    pub cached: u64,
    /// Bytes that its plan has for these.
    pub cache: u64,
    /// Packets that were cached, and matches that were decoded.
    pub operations: u64,
    /// Times that these were more than it can do.
    pub overloaded: u64,
}

/// A message from a node to the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum FromNode {
    /// The first one.
    Join(Join),
    /// Its plans, whenever they change, and from time to time.
    State(NodeState),
    /// What it has measured.
    Report(Report),
    /// What it has carried.
    Carried(Carried),
    /// It does not take a plan.
    Refused {
        /// Version of the plan.
        version: u64,
        /// Why.
        why: String,
    },
}

/// A message from the controller to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ToNode {
    /// The node is welcome, and answers with its state at once.
    Accept {
        /// Milliseconds between reports.
        report: u64,
        /// Of several controllers, the epoch of the one that leads.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        epoch: Option<u64>,
    },
    /// A plan to carry out: the part of it that the node needs. Of all messages, only this is no JSON.
    #[serde(skip)]
    Offer(Offer),
    /// The node is not welcome; the connection ends.
    Refuse {
        /// Why.
        why: String,
    },
}

/// Text of another program for people: one line, not long.
pub fn plain(text: &str) -> String {
    let one_line = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().take(MAX_TEXT).map(one_line).collect()
}

fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8], most: usize) -> Result<T, MessageError> {
    if bytes.len() > most {
        return Err(MessageError::TooLong { bytes: bytes.len(), most });
    }
    serde_json::from_slice(bytes)
        .map_err(|error| MessageError::Malformed(plain(&error.to_string())))
}

fn within(what: &'static str, count: usize, most: usize) -> Result<(), MessageError> {
    if count > most {
        return Err(MessageError::TooMany { what, count, most });
    }
    Ok(())
}

fn write(message: &impl Serialize) -> Vec<u8> {
    // Strings, numbers, lists and structures: JSON can represent all of it.
    serde_json::to_vec(message).unwrap_or_default()
}

impl FromNode {
    /// The message as JSON.
    pub fn write(&self) -> Vec<u8> {
        write(self)
    }

    /// A message from JSON.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn read(bytes: &[u8]) -> Result<FromNode, MessageError> {
        let message: FromNode = read(bytes, MAX_FROM_NODE)?;
        message.check()?;
        Ok(message)
    }

    /// Counts and lengths are those of a network that there can be.
    fn check(&self) -> Result<(), MessageError> {
        let state = |state: &NodeState| {
            let plans = [Some(state.current), state.next, state.waiting].into_iter().flatten();
            if let Some(plan) = plans.into_iter().find(|plan| plan.version > MAX_VERSION) {
                return Err(MessageError::Version(plan.version));
            }
            within("neighbors", state.down.len(), MAX_NODES)
        };
        match self {
            FromNode::Join(join) => {
                let words = [&join.name, &join.network, &join.agent];
                let longest = words.into_iter().map(String::len).max().unwrap_or(0);
                within("bytes of a name", longest, MAX_WORD)?;
                state(&join.state)
            }
            FromNode::State(one) => state(one),
            FromNode::Report(report) => {
                within("egresses", report.volumes.len(), MAX_NODES)?;
                within("pairs of egresses", report.pairs.len(), MAX_PAIRS)
            }
            FromNode::Carried(carried) => within("neighbors", carried.links.len(), MAX_NODES),
            FromNode::Refused { .. } => Ok(()),
        }
    }
}

impl ToNode {
    /// The message as bytes.
    pub fn write(&self) -> Vec<u8> {
        match self {
            ToNode::Offer(offer) => offer.write(),
            _ => write(self),
        }
    }

    /// A message from bytes.
    ///
    /// # Errors
    /// [`MessageError`].
    pub fn read(bytes: &[u8]) -> Result<ToNode, MessageError> {
        match bytes.first() {
            Some(&(offer::WHOLE | offer::DIFFERENCES)) if bytes.len() <= MAX_TO_NODE => {
                Ok(ToNode::Offer(Offer::read(bytes)?))
            }
            _ => read(bytes, MAX_TO_NODE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_back_as_they_were_and_others_are_errors() {
        let state = NodeState {
            current: PlanRef { version: 3, digest: u64::MAX },
            next: Some(PlanRef { version: 4, digest: 1 }),
            down: vec![2],
            ..NodeState::default()
        };
        let join = Join {
            format: FORMAT,
            name: "A\nB".into(),
            network: "00".into(),
            memory: Some(1 << 60),
            encodings: None,
            operations: None,
            agent: "oncewire".into(),
            part: Some(u64::MAX),
            state: state.clone(),
        };
        let report = Report {
            nanoseconds: 1,
            volumes: vec![(1, 2)],
            pairs: vec![(1, 2, 3, 4)],
            copies: 0.1,
            ..Report::default()
        };
        let refused = FromNode::Refused { version: 1, why: "memory".into() };
        for message in [
            FromNode::Join(join.clone()),
            FromNode::State(state),
            FromNode::Report(report),
            FromNode::Carried(Carried { links: vec![(1, 2, u64::MAX)], ..Carried::default() }),
            refused,
        ] {
            assert_eq!(FromNode::read(&message.write()).unwrap(), message);
        }
        for message in [
            ToNode::Accept { report: 1000, epoch: None },
            ToNode::Accept { report: 1000, epoch: Some(u64::MAX) },
            ToNode::Offer(Offer::new(b"part", None)),
            ToNode::Offer(Offer::new(b"part", Some(b"other"))),
            ToNode::Refuse { why: String::new() },
        ] {
            assert_eq!(ToNode::read(&message.write()).unwrap(), message);
        }
        let wrong: [&[u8]; 5] = [
            b"",
            b"{}",
            b"{\"state\":{}}",
            b"{\"refused\":{\"version\":-1,\"why\":\"\"}}",
            &[b'['; 100_000],
        ];
        for wrong in wrong {
            assert!(FromNode::read(wrong).is_err());
        }
        assert!(matches!(
            FromNode::read(&vec![b' '; MAX_FROM_NODE + 1]),
            Err(MessageError::TooLong { .. })
        ));
        let pairs = vec![(1, 2, 3, 4); MAX_PAIRS + 1];
        let volumes = vec![(1, 2); MAX_NODES + 1];
        let down = vec![1; MAX_NODES + 1];
        let links = vec![(1, 2, 3); MAX_NODES + 1];
        let current = PlanRef { version: MAX_VERSION + 1, digest: 0 };
        let far = FromNode::State(NodeState { current, ..NodeState::default() });
        assert!(matches!(FromNode::read(&far.write()), Err(MessageError::Version(_))));
        let agent = "x".repeat(MAX_WORD + 1);
        for many in [
            FromNode::Report(Report { pairs, ..Report::default() }),
            FromNode::Report(Report { volumes, ..Report::default() }),
            FromNode::State(NodeState { down, ..NodeState::default() }),
            FromNode::Carried(Carried { links, ..Carried::default() }),
            FromNode::Join(Join { agent, ..join }),
        ] {
            assert!(matches!(FromNode::read(&many.write()), Err(MessageError::TooMany { .. })));
        }
        assert_eq!(plain("a\u{1b}[1m\nb"), "a [1m b");
    }
}
