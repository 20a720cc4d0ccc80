//! `oncewire demo`.
use crate::args::DemoArgs;
use crate::failure::Outcome;
pub(crate) fn run(_: &DemoArgs) -> Outcome {
    Ok(())
}
