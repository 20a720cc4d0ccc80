//! Real content: files and members of tar archives, read on demand.

use oncewire_kernels::random::mix;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A file, or a member of an archive.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    file: u32,
    offset: u64,
    pub(crate) len: u64,
    /// Path within the archive or directory, with `/` as the separator.
    pub(crate) name: String,
}

/// The content that the arguments name.
#[derive(Default)]
pub(crate) struct Catalog {
    files: Vec<PathBuf>,
    pub(crate) objects: Vec<Object>,
    /// Archives: the stem of the file name, and the indices of their members in the order of the
    /// archive. Versions of one product are in ascending order.
    pub(crate) archives: Vec<(String, std::ops::Range<usize>)>,
}

impl Catalog {
    /// Lists `paths`: archives by their members, directories by their files. The order of the
    /// result depends only on names.
    pub(crate) fn list(paths: &[PathBuf]) -> io::Result<Catalog> {
        let mut files = Vec::new();
        for path in paths {
            walk(path, path, &mut files)?;
        }
        files.sort_by_cached_key(|(path, _)| natural(&path.with_extension("").to_string_lossy()));
        let mut catalog = Catalog::default();
        for (path, name) in files {
            let file = catalog.files.len() as u32;
            let start = catalog.objects.len();
            if path.extension().is_some_and(|extension| extension == "tar") {
                members(&path, file, &mut catalog.objects)?;
                let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                catalog.archives.push((stem, start..catalog.objects.len()));
            } else {
                let len = fs::metadata(&path)?.len();
                catalog.objects.push(Object { file, offset: 0, len, name });
            }
            catalog.files.push(path);
        }
        Ok(catalog)
    }

    /// The first `most` bytes of an object, or all of it if it is shorter.
    pub(crate) fn read(&self, object: usize, most: u64) -> io::Result<Vec<u8>> {
        let Object { file, offset, len, .. } = self.objects[object];
        let mut file = File::open(&self.files[file as usize])?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::with_capacity(len.min(most) as usize);
        file.take(len.min(most)).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Groups of objects that are versions of one document: the same path in several archives of
    /// one product. At least two per group, oldest first.
    pub(crate) fn documents(&self) -> Vec<Vec<usize>> {
        let mut versions: BTreeMap<(String, &str), Vec<usize>> = BTreeMap::new();
        for (stem, members) in &self.archives {
            for object in members.clone() {
                // The first component of the path names the version.
                if let Some((_, path)) = self.objects[object].name.split_once('/') {
                    versions.entry((product(stem), path)).or_default().push(object);
                }
            }
        }
        versions.into_values().filter(|versions| versions.len() > 1).collect()
    }
}

/// The name of an archive without its version: `django` for `django-4.0.1`.
pub(crate) fn product(stem: &str) -> String {
    let end = stem.find(|c: char| c.is_ascii_digit()).unwrap_or(stem.len());
    stem[..end].trim_end_matches(['-', '_', '.', 'v']).to_owned()
}

/// A stable number for an object, from which its properties are derived.
pub(crate) fn identity(name: &str) -> u64 {
    name.bytes().fold(0, |hash, byte| mix(hash ^ u64::from(byte)))
}

fn walk(root: &Path, path: &Path, files: &mut Vec<(PathBuf, String)>) -> io::Result<()> {
    // Symbolic links are not followed, since a tree may have cycles.
    let kind = fs::symlink_metadata(path)?.file_type();
    if kind.is_dir() {
        for entry in fs::read_dir(path)? {
            walk(root, &entry?.path(), files)?;
        }
    } else if kind.is_file() {
        let within = path.strip_prefix(root).ok().filter(|within| !within.as_os_str().is_empty());
        let name = within.unwrap_or_else(|| path.file_name().map_or(path, Path::new));
        files.push((path.to_owned(), name.to_string_lossy().replace('\\', "/")));
    }
    Ok(())
}

/// A sort key that compares numbers in names by value: `4.0.10` after `4.0.9`, `4.0` before both.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = vec![(String::new(), 0u64)];
    let mut in_number = false;
    for c in name.chars() {
        let (text, number) = parts.last_mut().expect("there is a part");
        match c.to_digit(10) {
            Some(digit) => {
                *number = number.saturating_mul(10).saturating_add(u64::from(digit));
                in_number = true;
            }
            None if in_number => {
                parts.push((c.to_string(), 0));
                in_number = false;
            }
            None => text.push(c),
        }
    }
    parts
}

/// Appends the regular files of a tar archive (ustar and GNU; extended headers are skipped).
fn members(path: &Path, file: u32, objects: &mut Vec<Object>) -> io::Result<()> {
    let mut archive = BufReader::new(File::open(path)?);
    let (mut offset, mut header, mut long_name) = (0u64, [0u8; 512], None);
    while archive.read_exact(&mut header).is_ok() && header[0] != 0 {
        offset += 512;
        let text = |range: std::ops::Range<usize>| {
            let field = &header[range];
            let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
            String::from_utf8_lossy(&field[..end]).into_owned()
        };
        let Ok(len) = u64::from_str_radix(text(124..136).trim(), 8) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{}: not a tar archive at byte {offset}", path.display()),
            ));
        };
        let kind = header[156];
        if kind == b'L' {
            let mut name = vec![0; len.min(4096) as usize];
            archive.read_exact(&mut name)?;
            archive.seek_relative(-(name.len() as i64))?;
            long_name = Some(String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned());
        } else {
            let short = match text(345..500) {
                prefix if prefix.is_empty() || &header[257..262] != b"ustar" => text(0..100),
                prefix => format!("{prefix}/{}", text(0..100)),
            };
            let name = long_name.take().unwrap_or(short);
            if matches!(kind, b'0' | 0) {
                objects.push(Object { file, offset, len, name });
            }
        }
        let padded = len.next_multiple_of(512);
        archive.seek_relative(padded as i64)?;
        offset += padded;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Creates an empty directory for a test.
    pub(crate) fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("oncewire-day-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    pub(crate) fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = Vec::new();
        for (name, content) in members {
            let mut header = [0u8; 512];
            header[..name.len()].copy_from_slice(name.as_bytes());
            header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
            header[156] = b'0';
            header[257..262].copy_from_slice(b"ustar");
            archive.extend(header);
            archive.extend(*content);
            archive.resize(archive.len().next_multiple_of(512), 0);
        }
        archive.resize(archive.len() + 1024, 0);
        archive
    }

    #[test]
    fn archives_and_directories_are_listed_by_version() {
        let root = scratch("catalog");
        fs::create_dir(root.join("sub")).unwrap();
        fs::write(root.join("sub/page.html"), b"<html>").unwrap();
        fs::write(
            root.join("thing-1.10.tar"),
            tar(&[("thing-1.10/a", b"third"), ("thing-1.10/b", b"")]),
        )
        .unwrap();
        fs::write(root.join("thing-1.9.tar"), tar(&[("thing-1.9/a", b"second one")])).unwrap();
        fs::write(root.join("thing-1.tar"), tar(&[("thing-1/a", b"1st")])).unwrap();
        let catalog = Catalog::list(std::slice::from_ref(&root)).unwrap();
        let names: Vec<_> = catalog.archives.iter().map(|(stem, _)| &stem[..]).collect();
        assert_eq!(names, ["thing-1", "thing-1.9", "thing-1.10"]);
        let documents = catalog.documents();
        assert_eq!(documents.len(), 1);
        let versions: Vec<_> =
            documents[0].iter().map(|&version| catalog.read(version, 6).unwrap()).collect();
        assert_eq!(versions, [&b"1st"[..], b"second", b"third"]);
        assert!(
            catalog.objects.iter().any(|object| object.name == "sub/page.html" && object.len == 6)
        );
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn corrupt_archives_are_errors() {
        let root = scratch("damaged");
        fs::write(root.join("x.tar"), [b'x'; 2000]).unwrap();
        assert!(Catalog::list(std::slice::from_ref(&root)).is_err());
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn product_names_have_no_version() {
        assert_eq!(product("django-4.2.16"), "django");
        assert_eq!(product("notes"), "notes");
    }
}
