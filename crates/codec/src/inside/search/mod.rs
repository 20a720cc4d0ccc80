//! The search: which tokens and sequences of a block the log has, and the plan of its literals.

pub(in crate::inside) mod bends;
pub(in crate::inside) mod copies;
pub(in crate::inside) mod find;
pub(in crate::inside) mod index;
pub(in crate::inside) mod literals;
pub(in crate::inside) mod names;
pub(in crate::inside) mod plan;
pub(in crate::inside) mod rolling;
#[cfg(test)]
mod tests;
pub(in crate::inside) mod tokens;
pub(in crate::inside) mod worth;
pub(in crate::inside) mod zstd;
