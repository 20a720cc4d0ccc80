//! Counted content as text.

use std::{
    collections::{BTreeSet, HashMap},
    fmt::Write,
};

use super::{Content, Counted, Member};
use crate::{
    Error, Network, NodeId, Seconds,
    error::{ProfileError, quote},
    measure::{escape, unescape},
    ra::Prefix,
};

/// First line of the text form.
const TITLE: &str = "# oncewire content 1: `interval seconds`; `content from bytes`, then `to prefix copies` for each member";
/// In the place of a prefix that is not known.
const UNKNOWN: &str = "-";
/// How far a mean of copies may be below 1, by rounding.
const ROUNDING: f64 = 1e-6;

/// What identifies a member.
type Key = (NodeId, Option<Prefix>);

impl Counted {
    /// The text form; `docs/PROFILES.md`, "Profiles from packets".
    pub fn to_text(&self, network: &Network) -> String {
        let id = |node: NodeId| escape(&network.nodes[node].id);
        let mut text = format!("{TITLE}\ninterval\t{}\n", self.interval.0);
        for (ingress, content) in &self.ingresses {
            for one in content {
                let _ = write!(text, "content\t{}\t{}", id(*ingress), one.bytes);
                for member in &one.members {
                    let prefix = member.prefix.map_or(UNKNOWN.into(), |prefix| prefix.to_string());
                    let _ = write!(text, "\t{}\t{prefix}\t{}", id(member.egress), member.copies);
                }
                text.push('\n');
            }
        }
        text
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// The first invalid line: an unknown node, a duplicate, a number out of range; no interval, no
    /// content.
    pub fn parse(text: &str, network: &Network) -> Result<Self, Error> {
        let nodes: HashMap<&str, NodeId> = network
            .nodes
            .iter()
            .zip(NodeId::all())
            .map(|(node, at)| (node.id.as_str(), at))
            .collect();
        let node = |name: &str| {
            let plain = unescape(name);
            let found = nodes.get(plain.as_str()).copied();
            found.ok_or_else(|| format!("no node is called {}", quote(name)))
        };
        let mut interval = None;
        let mut ingresses: Vec<(NodeId, Vec<Content>)> = Vec::new();
        let mut places: HashMap<NodeId, usize> = HashMap::new();
        let mut seen: BTreeSet<(NodeId, Vec<Key>)> = BTreeSet::new();
        for (line, number) in text.lines().zip(1..) {
            if line.starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let fail = |reason: String| Error::from(ProfileError::Invalid { line: number, reason });
            let mut fields = line.split('\t');
            match (fields.next(), fields.next(), fields.next()) {
                (Some("interval"), Some(seconds), None) => {
                    let seconds = amount(seconds).map_err(fail)?;
                    if interval.replace(seconds).is_some() {
                        return Err(fail("a second interval".into()));
                    }
                }
                (Some("content"), Some(from), Some(bytes)) => {
                    let ingress = node(from).map_err(fail)?;
                    let bytes = amount(bytes).map_err(fail)?;
                    let members = members(fields, ingress, node).map_err(fail)?;
                    let keys = members.iter().map(|member| (member.egress, member.prefix));
                    if !seen.insert((ingress, keys.collect())) {
                        return Err(fail(
                            "the content of these members comes a second time".into(),
                        ));
                    }
                    let at = *places.entry(ingress).or_insert_with(|| {
                        ingresses.push((ingress, Vec::new()));
                        ingresses.len() - 1
                    });
                    ingresses[at].1.push(Content { bytes, members });
                }
                _ => {
                    return Err(fail(
                        "`interval seconds` or `content from bytes to prefix copies ...` is needed, with tabs between fields"
                            .into(),
                    ));
                }
            }
        }
        let missing =
            |reason: &str| Error::from(ProfileError::Invalid { line: 1, reason: reason.into() });
        let interval = interval.ok_or_else(|| missing("there is no interval in the text"))?;
        if ingresses.is_empty() {
            return Err(missing("there is no content in the text"));
        }
        ingresses.sort_by_key(|ingress| ingress.0);
        let volume: f64 = ingresses.iter().map(|(_, content)| Self::volume(content)).sum();
        if !volume.is_finite() {
            return Err(ProfileError::Overflow.into());
        }
        Ok(Self { interval: Seconds(interval), ingresses })
    }
}

fn members<'a>(
    mut fields: impl Iterator<Item = &'a str>,
    ingress: NodeId,
    node: impl Fn(&str) -> Result<NodeId, String>,
) -> Result<Box<[Member]>, String> {
    let mut members = Vec::new();
    while let Some(to) = fields.next() {
        let (Some(prefix), Some(copies)) = (fields.next(), fields.next()) else {
            return Err("each member has three fields: to, prefix, copies".into());
        };
        let egress = node(to)?;
        if egress == ingress {
            return Err(format!("content from {} to itself", quote(to)));
        }
        let prefix = match prefix {
            UNKNOWN => None,
            text => Some(text.parse::<Prefix>().map_err(|error| error.to_string())?),
        };
        let copies = amount(copies)?;
        if copies < 1.0 - ROUNDING {
            return Err(format!("{copies} copies; each member has at least one"));
        }
        members.push(Member { egress, prefix, copies });
    }
    members.sort_by_key(|member| (member.egress, member.prefix));
    let key = |member: &Member| (member.egress, member.prefix);
    if members.windows(2).any(|pair| key(&pair[0]) == key(&pair[1])) {
        return Err("a member comes a second time".into());
    }
    if members.is_empty() {
        return Err("content without a member".into());
    }
    Ok(members.into())
}

/// A number above 0.
fn amount(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
        _ => Err(format!("{} is not a number above 0", quote(text))),
    }
}
