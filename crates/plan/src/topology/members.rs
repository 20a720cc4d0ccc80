//! What our JSON form says of nodes that run: keys, addresses, and the networks behind them.

use serde::Deserialize;

use super::quote;
use crate::{Error, error::TopologyError};

/// A node of a network that runs. The texts are as they are in the file: whoever uses them checks
/// them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Id of the node in the topology.
    pub id: String,
    /// Its public key.
    pub key: Option<String>,
    /// Where its neighbors reach it, `host:port`.
    pub address: Option<String>,
    /// Networks behind it: what enters there, and what leaves.
    pub prefixes: Vec<String>,
}

#[derive(Deserialize)]
struct File {
    nodes: Vec<FileNode>,
}

#[derive(Deserialize)]
struct FileNode {
    id: Id,
    #[serde(default)]
    key: Option<String>,
    #[serde(default)]
    address: Option<String>,
    #[serde(default)]
    prefixes: Vec<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Id {
    Number(i64),
    Text(String),
}

/// The nodes of a network in our JSON form ([`super::json`]), in the order of the file.
///
/// # Errors
/// Text that is not that.
pub fn members(text: &str) -> Result<Vec<Member>, Error> {
    let file: File =
        serde_json::from_str(text.trim_start_matches('\u{feff}')).map_err(|error| {
            TopologyError::Malformed(format!("not our JSON form: {}", quote(&error.to_string())))
        })?;
    let member = |node: FileNode| Member {
        id: match node.id {
            Id::Number(number) => number.to_string(),
            Id::Text(text) => text,
        },
        key: node.key,
        address: node.address,
        prefixes: node.prefixes,
    };
    Ok(file.nodes.into_iter().map(member).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_beside_the_map() {
        let text = r#"{"nodes": [{"id": 7, "key": "k", "address": "a:1", "prefixes": ["10.0.0.0/8"]}, {"id": "b"}],
            "links": [{"a": 7, "b": "b"}]}"#;
        let found = members(text).unwrap();
        let ids: Vec<&str> = found.iter().map(|member| member.id.as_str()).collect();
        let network = super::super::json(text).unwrap();
        assert!(network.nodes.iter().map(|node| node.id.as_str()).eq(ids));
        assert_eq!((found[0].key.as_deref(), found[0].prefixes.len()), (Some("k"), 1));
        assert_eq!(found[1].key, None);
        for wrong in ["", "{}", r#"{"nodes": [{"id": 1, "prefixes": "10.0.0.0/8"}]}"#] {
            assert!(members(wrong).is_err(), "{wrong}");
        }
    }
}
