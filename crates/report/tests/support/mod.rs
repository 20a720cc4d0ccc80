//! Sample reports and a browser, for tests and for the example `pictures`.

#![allow(dead_code, missing_docs, unreachable_pub)]

pub mod browser;
pub mod reports;
