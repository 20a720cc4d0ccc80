//! A plan as people and programs read it. One file per format; the data is [`super::document`].

pub(crate) mod csv;
pub(crate) mod html;
mod map;
mod tables;
pub(crate) mod terminal;

#[cfg(test)]
mod browser;
#[cfg(test)]
mod sample;
