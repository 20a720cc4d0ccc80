//! To come.
#![allow(missing_docs)]
fn main() {}
