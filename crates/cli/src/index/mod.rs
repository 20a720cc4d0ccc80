//! `oncewire index`: an index of small keys on a flash device.

mod bench;
mod measure;
mod place;
mod re;
mod tune;

use crate::args::index::{DeviceName, IndexArgs, IndexCommand};
use crate::failure::Outcome;
use oncewire_flash::model::Costs;

pub(crate) fn run(args: &IndexArgs) -> Outcome {
    match &args.command {
        IndexCommand::Tune(args) => tune::run(args),
        IndexCommand::Bench(args) => bench::run(args),
        IndexCommand::Re(args) => re::run(args),
    }
}

fn costs(device: DeviceName) -> (&'static str, Costs) {
    match device {
        DeviceName::FlashChip => ("a published flash chip", Costs::FLASH_CHIP),
        DeviceName::IntelSsd => ("Intel X18-M", Costs::INTEL_SSD),
        DeviceName::TranscendSsd => ("Transcend TS32GSSD25", Costs::TRANSCEND_SSD),
    }
}
