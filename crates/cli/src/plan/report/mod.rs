//! A plan as people and programs read it. One file per format; the data is [`super::document`].
