//! Decoders written from `docs/FORMAT.md` and `docs/LINK.md` alone: simple, slow, and as strict as
//! the documents. The tests of `codec` and `session` pass everything to both, and both must agree.
//!
//! - `format`: frames.
//! - `link`: the receiver of the packet link.
//!
//! The crate depends on no other one of ours, so nothing that a document leaves out can come from
//! the code that the document describes. Times and errors are plain numbers and strings.

#![expect(
    missing_docs,
    reason = "names are those of the documents' sections, which each module names"
)]

pub mod format;
pub mod link;
