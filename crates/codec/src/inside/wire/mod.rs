//! The part of the format: the fields of transcoded literals, and how a decoder expands them. Knows no
//! streams.

pub(in crate::inside) mod alignment;
mod clause;
pub(in crate::inside) mod columns;
pub(in crate::inside) mod pieces;
pub(crate) mod section;
pub(in crate::inside) mod sequences;
pub(in crate::inside) mod work;

#[cfg(test)]
mod tests;
