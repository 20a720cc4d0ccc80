//! A study's results as people and programs read them. One file per format; the data is [`oncewire_trace::results`].

pub(crate) mod csv;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod matches;
pub(crate) mod terminal;

#[cfg(test)]
mod browser;
#[cfg(test)]
mod sample;
