//! The body of the fuzz target `control`, for use in tests as well.

use std::fmt::Display;

use oncewire_plan::{
    NodeId, Unwatched,
    control::{
        Action, Controller, FORMAT, FromNode, Input, Join, NodeState, Question, Record, Settings,
        ToNode, part_hash,
    },
    manifest::{NodePart, Parts, Plan},
    topology,
};

const MAP: &str = r#"{"name": "ring", "nodes": [{"id": "A"}, {"id": "B"}, {"id": "C"}, {"id": "D"}],
    "links": [{"a": "A", "b": "B"}, {"a": "B", "b": "C"}, {"a": "C", "b": "D"}, {"a": "D", "b": "A"},
        {"a": "A", "b": "C", "weight": 1.5}]}"#;
const NODES: usize = 4;
/// Plans of an input: each takes time.
const MOST_PLANS: usize = 3;

/// The first byte says what the rest is: what a controller says to a node, what a controller has stored,
/// the part of a plan for a node, or a history of a controller, a line for each event.
pub(crate) fn run(input: &[u8]) {
    let Some((&kind, rest)) = input.split_first() else { return };
    match kind {
        b'n' => to_node(rest),
        b'r' => record(rest),
        b'p' => part(rest),
        _ => History::new().run(rest),
    }
}

/// An error is one line for people.
fn is_line(error: &dyn Display) {
    let error = error.to_string();
    assert!(!error.chars().any(char::is_control) && error.len() < 4000, "{error:?}");
}

fn to_node(input: &[u8]) {
    match ToNode::read(input) {
        Ok(message) => {
            assert_eq!(ToNode::read(&message.write()).expect("what is written is read"), message);
            if let ToNode::Offer(offer) = message {
                match offer.open(None) {
                    Ok(bytes) => part(&bytes),
                    Err(error) => is_line(&error),
                }
            }
        }
        Err(error) => is_line(&error),
    }
}

fn part(input: &[u8]) {
    match NodePart::read(input) {
        Ok(part) => {
            assert_eq!(part.write(), input, "parts have one form");
            assert!(part.device_manifest().is_ok() && part.ingress_manifest().is_ok());
        }
        Err(error) => is_line(&error),
    }
}

fn record(input: &[u8]) {
    match Record::from_json(&String::from_utf8_lossy(input)) {
        Ok(record) => {
            let again = Record::from_json(&record.to_json());
            assert_eq!(again.expect("what is written is read"), record);
        }
        Err(error) => is_line(&error),
    }
}

fn digest(plan: &Plan) -> u64 {
    xxhash_rust::xxh3::xxh3_64(plan.to_json().as_bytes())
}

/// A controller of four nodes, which say what they like.
struct History {
    now: u64,
    controller: Controller,
    stored: Option<String>,
    storing: Option<String>,
    question: Option<Box<Question>>,
    plans: usize,
}

impl History {
    fn new() -> History {
        let network = topology::json(MAP).expect("a map");
        let settings = Settings::new("net".into(), digest);
        let controller =
            Controller::new(settings, network, vec![true; NODES], Record::default(), 0);
        History { now: 0, controller, stored: None, storing: None, question: None, plans: 0 }
    }

    fn run(mut self, input: &[u8]) {
        input.split(|&byte| byte == b'\n').take(200).for_each(|line| self.line(line));
        let view = self.controller.view(self.now);
        assert_eq!(view.nodes.len(), NODES);
    }

    /// A line is a letter, for most a digit with a node, and for some more: `m` a message, `j` a node
    /// that joins as it should, `g` its connection has ended, `t` seconds, `w` written, `f` not written,
    /// `a` the planner answers, `e` it cannot, `d` drain, `u` drain no more, `p` a plan now.
    fn line(&mut self, line: &[u8]) {
        let Some((&what, rest)) = line.split_first() else { return };
        let digit = rest.first().map_or(0, |digit| usize::from(digit.wrapping_sub(b'0')));
        match what {
            b'm' => match FromNode::read(rest.get(1..).unwrap_or_default()) {
                Ok(message) => {
                    let again = FromNode::read(&message.write());
                    assert_eq!(again.expect("what is written is read"), message);
                    self.step(Input::From(digit, message));
                }
                Err(error) => is_line(&error),
            },
            b'j' if digit < NODES => {
                let join = Join {
                    format: FORMAT,
                    name: ["A", "B", "C", "D"][digit].into(),
                    network: "net".into(),
                    memory: Some(3_000_000),
                    encodings: None,
                    operations: Some(1),
                    agent: String::new(),
                    part: None,
                    state: NodeState::default(),
                };
                self.step(Input::From(digit, FromNode::Join(join)));
            }
            b'g' => self.step(Input::Gone(digit)),
            b't' => {
                self.now += digit as u64 * 1_000_000_000;
                self.step(Input::Tick);
            }
            b'w' => {
                if let Some(text) = self.storing.take() {
                    self.stored = Some(text);
                    self.step(Input::Stored);
                }
            }
            b'f' if self.storing.take().is_some() => {
                self.step(Input::NotStored("disk full".into()));
            }
            b'a' if self.plans < MOST_PLANS => self.answer(),
            b'e' if self.question.take().is_some() => {
                self.step(Input::Answered(Err("no way".into())));
            }
            b'd' | b'u' => self.step(Input::Drain(digit, what == b'd')),
            b'p' => self.step(Input::PlanNow),
            _ => {}
        }
    }

    fn answer(&mut self) {
        let Some(question) = self.question.take() else { return };
        self.plans += 1;
        let version = question.version;
        let answer = match question.answer(&Unwatched) {
            Ok(answer) => {
                assert_eq!(answer.plan.version(), version);
                assert!(answer.worth.before.is_finite() && answer.worth.saved.is_finite());
                Ok(Box::new(answer))
            }
            Err(error) => {
                is_line(&error);
                Err(error.to_string())
            }
        };
        self.step(Input::Answered(answer));
    }

    fn step(&mut self, input: Input) {
        let mut actions = Vec::new();
        self.controller.step(self.now, input, &mut actions);
        assert!(actions.len() < 50);
        for action in actions {
            match action {
                Action::Send(node, message) => {
                    assert!(node < NODES);
                    assert_eq!(ToNode::read(&message.write()).expect("it is read"), message);
                    if let ToNode::Offer(offer) = message {
                        // No node knows of what is not on disk.
                        let stored = self.stored.as_deref().expect("something is stored");
                        let stored = Record::from_json(stored).expect("a record");
                        let plan = stored.plan.expect("a plan is stored");
                        let network = topology::json(MAP).expect("a map");
                        let parts = Parts::new(&plan, digest(&plan), &network).expect("parts");
                        let part = parts.part(NodeId::new(node)).write();
                        assert_eq!(offer.hash, part_hash(&part));
                        if offer.base.is_none() {
                            assert_eq!(offer.open(None).as_ref(), Ok(&part));
                        }
                    }
                }
                Action::Close(node) => assert!(node < NODES),
                Action::Store(text) => {
                    assert!(self.storing.is_none(), "two writes at once");
                    self.storing = Some(text);
                }
                Action::Ask(question) => {
                    assert!(self.question.is_none(), "two questions at once");
                    assert!(question.version > self.controller.plan().map_or(0, Plan::version));
                    self.question = Some(question);
                }
                Action::Note(text, _) => is_line(&text),
            }
        }
    }
}

/// Seeds that reach every part.
#[cfg(test)]
pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    let mut history = History::new();
    for line in ["j0", "j1", "j2", "j3", "t1", "a"] {
        history.line(line.as_bytes());
    }
    let record = history.storing.clone().expect("a plan is written");
    history.line(b"w");
    let plan = history.controller.plan().expect("a plan").clone();
    let done = NodeState {
        current: oncewire_plan::control::PlanRef { version: 1, digest: digest(&plan) },
        settled: true,
        ..NodeState::default()
    };
    let state = String::from_utf8(FromNode::State(done).write()).expect("text");
    let report = r#"{"report":{"nanoseconds":10000000000,"volumes":[[3,10000000],[1,100]],"pairs":[[3,3,90000,9000000]],"copies":1.5,"left_out":0,"entered":9,"encoded":5}}"#;
    let joined = "hj0\nj1\nj2\nj3\nt1\na\nw\n";
    let network = topology::json(MAP).expect("a map");
    let parts = Parts::new(&plan, digest(&plan), &network).expect("parts");
    let part = parts.part(NodeId(0)).write();
    let offer = ToNode::Offer(oncewire_plan::control::Offer::new(&part, None));
    let differences = ToNode::Offer(oncewire_plan::control::Offer::new(
        &part,
        Some(&parts.part(NodeId(1)).write()),
    ));
    let seeds = vec![
        ("offer", [b"n", &offer.write()[..]].concat()),
        ("differences", [b"n", &differences.write()[..]].concat()),
        ("part", [b"p", &part[..]].concat()),
        ("accept", [b"n", &ToNode::Accept { report: 10_000, epoch: None }.write()[..]].concat()),
        ("record", format!("r{record}").into_bytes()),
        (
            "measured",
            format!("{joined}m0{state}\nm1{state}\nm2{state}\nm3{state}\nm0{report}\nt9\nt9\nt9\na\nw\nt5\n")
                .into_bytes(),
        ),
        ("drained", format!("{joined}m0{state}\nd1\nw\nt5\na\nf\nt9\nt9\nt9\nt9\na\nw\n").into_bytes()),
        (
            "down",
            format!("{joined}g3\nm0{}\nm2{}\nt3\na\nw\nt9\n",
                r#"{"state":{"current":{"version":0,"digest":0},"next":null,"waiting":null,"settled":false,"down":[3]}}"#,
                r#"{"state":{"current":{"version":9,"digest":1},"next":null,"waiting":null,"settled":false,"down":[3,9]}}"#)
                .into_bytes(),
        ),
        ("refuse", [b"n", &ToNode::Refuse { why: "another network".into() }.write()[..]].concat()),
        ("first", format!("{joined}p\na\nf\nt9\nt9\nt9\nt9\na\nw\n").into_bytes()),
        ("alone", b"hj2\nt9\nt9\na\nw\ng2\nj2\nt9\nj2\nt9\nu2\n".to_vec()),
        (
            "strange",
            br#"hm0{"join":{"format":2,"name":"A","network":"net","memory":18446744073709551615,"agent":"x","part":7,"state":{"current":{"version":18446744073709551615,"digest":0},"next":null,"waiting":null,"settled":true,"down":[]}}}
m0{"report":{"nanoseconds":100000000,"volumes":[[1,18446744073709551615],[2,1]],"pairs":[[1,1,1,18446744073709551615],[2,1,18446744073709551615,1]],"copies":1e308,"left_out":0,"entered":0,"encoded":0}}
m0{"refused":{"version":7,"why":"\u0007"}}
j1
t9
t9
a
w
p
a
e
"#
            .to_vec(),
        ),
    ];
    seeds.into_iter().map(|(name, input)| (format!("seed-{name}"), input)).collect()
}
