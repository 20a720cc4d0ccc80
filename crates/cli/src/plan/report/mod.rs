//! Presentation of a plan. The data is [`super::document`].

pub(crate) mod csv;
pub(crate) mod present;
mod tables;

#[cfg(test)]
mod sample;
