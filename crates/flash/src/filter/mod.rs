//! Filters in memory: which incarnations may have a key.

mod sliced;

pub(crate) use sliced::{Candidates, Shape, Sliced, may_have};
