//! `oncewire study`: how redundant the traffic in packet captures is, and what Oncewire would save of it.

// The verb is not there yet; its reports are.
#[allow(dead_code, reason = "until `oncewire study` calls it")]
mod report;
