//! Sample reports, in every format and in a browser. One binary: each takes time to link.
#![allow(missing_docs)]

mod live;
mod pages;
mod reports;
#[path = "../support/mod.rs"]
mod support;
