//! A manifest for each device and each ingress, as files.

use crate::failure::{Failure, Outcome};
use crate::output::{Destination, Output};
use oncewire_plan::manifest::Plan;
use std::fs;
use std::io;
use std::path::Path;

/// Most characters of a name in a file's name.
const NAME_MAX: usize = 60;

/// Makes the directory, or checks that nothing is in it: no file is ever written over.
///
/// # Errors
///
/// If it is not a directory, has anything in it, or cannot be made.
pub(super) fn prepare(directory: &Path) -> Outcome {
    match fs::read_dir(directory) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(Failure::usage(format!(
                "--manifests-dir {}: there are files in it, and none is written over; name a new or empty directory",
                directory.display()
            ))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::create_dir_all(directory)
            .map_err(|error| Failure::io("make the directory", directory.display(), &error)),
        Err(error) => Err(Failure::io("use the directory", directory.display(), &error)),
    }
}

/// Writes the manifests. The numbers in the names are those of devices and ingresses in the plan.
///
/// # Errors
///
/// If a file is there by now, or cannot be written.
pub(super) fn write(plan: &Plan, directory: &Path) -> Outcome<Vec<Output>> {
    let devices = plan.device_manifests();
    let devices = devices.iter().map(|one| {
        (format!("device-{}-{}.json", one.device().index(), plain(one.name())), one.to_json())
    });
    let ingresses = plan.ingress_manifests();
    let ingresses = ingresses.iter().map(|one| {
        let slice = if one.slice() == 0 { String::new() } else { format!("-{}", one.slice()) };
        let name = format!("ingress-{}-{}{slice}.json", one.ingress(), plain(one.name()));
        (name, one.to_json())
    });
    let mut written = Vec::new();
    for (name, text) in devices.chain(ingresses) {
        let place = directory.join(&name);
        if fs::symlink_metadata(&place).is_ok() {
            let what = "has appeared since the start; name a new or empty directory";
            return Err(Failure::failed(format!("{}: {what}", place.display())));
        }
        let mut file = Destination::within(directory, &name)?.open()?;
        file.write(text.as_bytes())?;
        written.push(file);
    }
    Ok(written)
}

/// A name as part of a file's name: letters, digits, `.` and `_`, and `-` for all others.
fn plain(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_');
    let replaced: String = name.chars().map(|c| if allowed(c) { c } else { '-' }).collect();
    let parts: Vec<&str> = replaced.split('-').filter(|part| !part.is_empty()).collect();
    parts.join("-").chars().take(NAME_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_directory() {
        for (name, expected) in [
            ("a -> b", "a-b"),
            ("../../etc/passwd", "..-..-etc-passwd"),
            ("New+York,+NY236", "New-York-NY236"),
            ("Zürich\u{1b}", "Z-rich"),
            ("", ""),
        ] {
            assert_eq!(plain(name), expected);
        }
        assert_eq!(plain(&"x".repeat(200)).len(), NAME_MAX);
    }

    #[test]
    fn only_new_and_empty_directories() {
        let place = tempfile::tempdir().unwrap();
        let (new, file) = (place.path().join("a/b"), place.path().join("file"));
        prepare(&new).unwrap();
        prepare(&new).unwrap();
        fs::write(&file, "kept").unwrap();
        assert!(prepare(&file).is_err());
        assert!(prepare(place.path()).is_err());
        assert_eq!(fs::read(&file).unwrap(), b"kept");
    }
}
