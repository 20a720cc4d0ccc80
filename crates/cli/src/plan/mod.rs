//! `oncewire plan`.

mod document;
mod report;
