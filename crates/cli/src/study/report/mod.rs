//! Presentation of a study. The data is [`oncewire_trace::results`].

pub(crate) mod csv;
pub(crate) mod json;
pub(crate) mod matches;
pub(crate) mod present;

#[cfg(test)]
mod sample;
