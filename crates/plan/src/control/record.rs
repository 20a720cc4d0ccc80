//! What a controller keeps when it stops.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::messages::plain;
use crate::manifest::{MAX_DOCUMENT, Plan};

/// Version of the document.
const FORMAT: u32 = 1;

/// What a controller keeps: the newest plan that nodes may have, and what operators asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The plan that it has handed out, or is about to.
    pub plan: Option<Plan>,
    /// Names of nodes that are to be empty.
    pub drained: BTreeSet<String>,
}

/// A record that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// It is not such a document.
    #[error("the stored state is not a controller's: {0}")]
    Malformed(String),
    /// Another version wrote it.
    #[error("the stored state has format {0}; this program reads format {FORMAT}")]
    Format(u32),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: u32,
    plan: Option<String>,
    drained: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Head {
    format: u32,
}

impl Record {
    /// The record as JSON.
    pub fn to_json(&self) -> String {
        let document = Document {
            format: FORMAT,
            plan: self.plan.as_ref().map(Plan::to_json),
            drained: self.drained.clone(),
        };
        // Strings and numbers: JSON can represent all of it.
        serde_json::to_string(&document).unwrap_or_default()
    }

    /// A record from JSON.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn from_json(text: &str) -> Result<Record, RecordError> {
        let bad = |why: &dyn std::fmt::Display| RecordError::Malformed(plain(&why.to_string()));
        if text.len() > 2 * MAX_DOCUMENT {
            return Err(bad(&"it is too long"));
        }
        let Head { format } = serde_json::from_str(text).map_err(|error| bad(&error))?;
        if format != FORMAT {
            return Err(RecordError::Format(format));
        }
        let Document { plan, drained, .. } =
            serde_json::from_str(text).map_err(|error| bad(&error))?;
        let plan = plan.map(|plan| Plan::from_json(&plan)).transpose();
        Ok(Record { plan: plan.map_err(|error| bad(&error))?, drained })
    }
}
