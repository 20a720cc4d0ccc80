//! The files that the demo transfers: its own releases, or those named on the command line.

use crate::endpoint::Input;
use crate::failure::{Failure, Outcome};
use oncewire_codec::pack::{PackReader, PackStep};
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::PathBuf;
use std::sync::OnceLock;
use tiny_http::{Header, Response};

/// Three releases of the tz database (public domain, see `testdata/tz`), concatenated in a pack.
/// After a change of format: `cat testdata/tz/*.tar | oncewire pack -o crates/cli/assets/tz.ow`.
const RELEASES: &[u8] = include_bytes!("../../assets/tz.ow");
pub(super) const RELEASE_NAMES: [&str; 3] =
    ["tzdata-2026.3.tar", "tzdata-2026.4.tar", "tzdata-2026.5.tar"];
/// Length of each release.
const RELEASE_LEN: usize = 993_280;

/// Level of the compressed releases, as releases usually have.
const RELEASE_LEVEL: u32 = 9;

/// The releases, and after them each in gzip. They are unpacked once.
pub(super) fn releases() -> Outcome<Vec<Version>> {
    static CONTENT: OnceLock<Vec<u8>> = OnceLock::new();
    let content = match CONTENT.get() {
        Some(content) => content,
        None => {
            let content = unpacked()?;
            CONTENT.get_or_init(|| content)
        }
    };
    let built = || RELEASE_NAMES.iter().zip(content.chunks_exact(RELEASE_LEN));
    let plain = built().map(|(name, content)| Ok(Version::Built((*name).to_owned(), content)));
    let gzipped = built()
        .zip(compressed(content)?)
        .map(|((name, _), gzipped)| Ok(Version::Built(format!("{name}.gz"), gzipped)));
    plain.chain(gzipped).collect()
}

/// The releases in gzip. They are compressed once.
fn compressed(content: &[u8]) -> Outcome<impl Iterator<Item = &'static [u8]>> {
    static GZIPPED: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    let gzipped = match GZIPPED.get() {
        Some(gzipped) => gzipped,
        None => {
            let gzipped = content.chunks_exact(RELEASE_LEN).map(gzip).collect::<Outcome<_>>()?;
            GZIPPED.get_or_init(|| gzipped)
        }
    };
    Ok(gzipped.iter().map(Vec::as_slice))
}

fn gzip(content: &[u8]) -> Outcome<Vec<u8>> {
    let mut encoder =
        flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(RELEASE_LEVEL));
    io::Write::write_all(&mut encoder, content)
        .and_then(|()| encoder.finish())
        .map_err(|error| Failure::failed(format!("cannot compress the demo's data: {error}")))
}

fn unpacked() -> Outcome<Vec<u8>> {
    let broken = |why: String| {
        Failure::failed(format!("the demo's own data is broken: {why}; please report this"))
    };
    let mut reader = PackReader::new(1 << 30);
    let (mut rest, mut content) = (RELEASES, Vec::with_capacity(RELEASE_NAMES.len() * RELEASE_LEN));
    loop {
        let consumed = match reader.step(rest).map_err(|error| broken(error.to_string()))? {
            PackStep::NeedMore(_) => return Err(broken("it ends early".into())),
            PackStep::Header { consumed } => consumed,
            PackStep::Block { content: block, consumed } => {
                content.extend_from_slice(block);
                consumed
            }
            PackStep::End { .. } => return Ok(content),
        };
        rest = &rest[consumed..];
    }
}

/// A file to transfer.
pub(super) enum Version {
    /// One of the demo's own.
    Built(String, &'static [u8]),
    File(PathBuf),
}

impl Version {
    pub(super) fn name(&self) -> String {
        match self {
            Version::Built(name, _) => name.clone(),
            // The file name distinguishes versions.
            Version::File(path) => {
                path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
            }
        }
    }

    pub(super) fn open(&self) -> Outcome<Input> {
        match self {
            Version::Built(name, content) => Ok(Input::memory(name, content)),
            Version::File(path) => Input::file(path),
        }
    }

    /// The server's response.
    pub(super) fn respond(&self) -> io::Result<Response<Box<dyn Read + Send>>> {
        let (reader, len): (Box<dyn Read + Send>, usize) = match self {
            Version::Built(_, content) => (Box::new(Cursor::new(*content)), content.len()),
            Version::File(path) => {
                let file = File::open(path)?;
                let len = file.metadata()?.len();
                (Box::new(file), usize::try_from(len).unwrap_or(usize::MAX))
            }
        };
        let headers =
            Header::from_bytes("Content-Type", "application/octet-stream").into_iter().collect();
        Ok(Response::new(200.into(), headers, reader, Some(len), None))
    }

    /// Its length.
    ///
    /// # Errors
    ///
    /// If it is not a regular file.
    pub(super) fn len(&self) -> Outcome<u64> {
        let input = self.open()?;
        input.len.ok_or_else(|| {
            Failure::usage(format!(
                "{} is not a file; the demo sends files, some of them twice",
                input.name
            ))
        })
    }
}
