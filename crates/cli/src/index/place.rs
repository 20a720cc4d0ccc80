//! What the index of `bench` and `re` lies on.

use super::costs;
use crate::args::index::DeviceName;
use crate::failure::{Failure, Outcome};
use crate::quantity::binary;
use oncewire_flash::OpenError;
use oncewire_flash::device::{Chip, Device, FileDevice, Memory};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// Most bytes of a simulated device, whose content is in memory.
const MOST_IN_MEMORY: u64 = 4 << 30;

/// A device of a size.
pub(super) struct Place {
    pub(super) name: String,
    pub(super) device: Box<dyn Device>,
    /// If it is simulated.
    pub(super) chip: Option<Arc<Chip>>,
}

/// What documents say of it.
#[derive(Debug, Serialize)]
pub(super) struct PlaceFacts {
    pub(super) device: String,
    /// Whether times are those of a simulated device.
    pub(super) simulated: bool,
    pub(super) flash_bytes: u64,
}

impl Place {
    /// A simulated device, or else a temporary file in a directory. `unnamed`: the error if there
    /// is neither.
    pub(super) fn of(
        like: Option<DeviceName>,
        directory: Option<&Path>,
        flash: u64,
        unnamed: &str,
    ) -> Outcome<Place> {
        if let Some(like) = like {
            if flash > MOST_IN_MEMORY {
                return Err(Failure::usage(format!(
                    "--flash {}: a simulated device is in memory, so use {} or less",
                    binary(flash),
                    binary(MOST_IN_MEMORY)
                )));
            }
            let (name, costs) = costs(like);
            let chip = Arc::new(Chip::new(Box::new(Memory::new(flash as usize)), costs));
            let device = Box::new(chip.clone());
            return Ok(Place { name: name.to_owned(), device, chip: Some(chip) });
        }
        let Some(directory) = directory else { return Err(Failure::usage(unnamed)) };
        let device = FileDevice::temporary(directory, flash).map_err(|error| {
            Failure::io("make a temporary file in", directory.display(), &error)
        })?;
        Ok(Place { name: directory.display().to_string(), device: Box::new(device), chip: None })
    }
}

/// Options that do not fit are wrong options. `buffers`: what --flash is too small for, and what to
/// use instead.
pub(super) fn refused(error: &OpenError, memory: u64, flash: u64, buffers: &str) -> Failure {
    match error {
        OpenError::Device(error) => Failure::failed(error.to_string()),
        OpenError::Memory { least, .. } => Failure::usage(format!(
            "--memory {} is too little for --flash {}: use {} or more",
            binary(memory),
            binary(flash),
            binary(*least)
        )),
        OpenError::Geometry(_) => Failure::usage(format!(
            "--flash {} is too small for buffers of {buffers}",
            binary(flash)
        )),
        error => Failure::usage(error.to_string()),
    }
}
