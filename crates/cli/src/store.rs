//! `oncewire store`: the caches on disk of a tunnel's end, and what packs go on from.

use crate::args::StoreCommandArgs;
use crate::args::store::{ForgetArgs, SecretArgs, ShowArgs, StoreCommand};
use crate::failure::{Failure, Outcome, without_number};
use crate::terminal::{Page, print};
use crate::tunnel::{key_failure, store_failure};
use crate::{progress, stdout};
use oncewire_flash::store::{DiskLog, LogFile, Peer, Secret, Side, Store, StoreError};
use oncewire_net::keys::{PublicKey, SecretKey};
use oncewire_net::store::StoreSecret;
use oncewire_report::{Cell, Table, Unit, format};
use serde::Serialize;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

#[derive(Debug, Serialize)]
struct Document {
    format: &'static str,
    directory: String,
    encrypted: bool,
    /// Whether what caches hold could be read: the key was given, or there is none.
    opened: bool,
    caches: Vec<Cache>,
}

#[derive(Debug, Default, Serialize)]
struct Cache {
    id: String,
    peer: Option<String>,
    /// What of the traffic with the peer: `sent` or `received`; without a peer, `packed` or `unpacked`.
    direction: Option<&'static str>,
    file_bytes: u64,
    capacity_bytes: Option<u64>,
    held_bytes: Option<u64>,
    created_seconds_ago: Option<u64>,
    written_seconds_ago: Option<u64>,
    oldest_seconds_ago: Option<u64>,
    /// Bytes of content that cannot be read; of `check` only.
    lost_bytes: Option<u64>,
    lost_ranges: Option<usize>,
    /// Why nothing of it can be read.
    problem: Option<String>,
}

pub(crate) fn run(args: &StoreCommandArgs) -> Outcome {
    match &args.command {
        StoreCommand::Show(args) => show(args),
        StoreCommand::Check(args) => check(args),
        StoreCommand::Forget(args) => forget(args),
    }
}

/// The key of a store, if one was named.
fn secret(args: &SecretArgs) -> Outcome<Option<Secret>> {
    if let Some(path) = &args.key {
        let key = SecretKey::load(path).map_err(|error| key_failure(&error))?;
        return Ok(StoreSecret::Own.secret(&key));
    }
    let Some(path) = &args.store_key else { return Ok(None) };
    match StoreSecret::load(path) {
        Ok(StoreSecret::Other(secret)) => Ok(Some(secret)),
        Ok(_) => Ok(None),
        Err(error) => Err(Failure::failed(without_number(&error))),
    }
}

fn show(args: &ShowArgs) -> Outcome {
    let secret = secret(&args.secret)?;
    let looked = Store::look(&args.dir, secret.as_ref()).map_err(|error| store_failure(&error))?;
    let document = document(&args.dir, looked, secret.is_some(), &mut |log| describe(log, None));
    if args.json {
        return stdout::json(&document);
    }
    print("--json", |page| present(&document, false, page))
}

fn check(args: &ShowArgs) -> Outcome {
    let secret = secret(&args.secret)?;
    let looked =
        Store::look_alone(&args.dir, secret.as_ref()).map_err(|error| store_failure(&error))?;
    if looked.0.is_sealed() && secret.is_none() {
        return Err(Failure::usage(
            "the caches are encrypted: pass --key FILE, the key of the end that wrote them, or --store-key FILE",
        ));
    }
    let document = document(&args.dir, looked, true, &mut |log| {
        let fill = log.fill();
        let bar = progress::bar(Some(fill.tail - fill.low));
        let lost = log.scrub(&mut |read| bar.set_position(read));
        bar.finish_and_clear();
        describe(log, Some(lost.iter().map(|lost| lost.end - lost.start).collect()))
    });
    if args.json {
        stdout::json(&document)?;
    } else {
        print("--json", |page| present(&document, true, page))?;
    }
    let is_bad = |cache: &&Cache| cache.problem.is_some() || cache.lost_bytes > Some(0);
    match document.caches.iter().filter(is_bad).count() {
        0 => Ok(()),
        bad => Err(Failure::damaged(format!(
            "{} damaged; what was lost is sent again when it is needed",
            format::counted(bad as u64, "cache")
        ))),
    }
}

/// What a log holds.
fn describe(log: &mut DiskLog, lost: Option<Vec<u64>>) -> Cache {
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs());
    let (fill, oldest) = (log.fill(), log.oldest());
    Cache {
        held_bytes: Some(fill.tail - fill.low),
        written_seconds_ago: Some(now.saturating_sub(fill.time)),
        oldest_seconds_ago: oldest.map(|oldest| now.saturating_sub(oldest)),
        lost_bytes: lost.as_ref().map(|lost| lost.iter().sum()),
        lost_ranges: lost.map(|lost| lost.len()),
        ..Cache::default()
    }
}

fn document(
    dir: &Path,
    (store, files): (Store, Vec<LogFile>),
    has_key: bool,
    describe: &mut dyn FnMut(&mut DiskLog) -> Cache,
) -> Document {
    let opened = has_key || !store.is_sealed();
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_secs());
    let mut caches = Vec::new();
    for file in files {
        let (mut cache, mut problem) = (Cache::default(), None);
        match &file.header {
            Ok(_) if !opened => {}
            Ok(_) => match store.open_log(file.name) {
                Ok(mut log) => cache = describe(&mut log),
                Err(StoreError::Log { problem: why, .. }) => problem = Some(why.to_string()),
                Err(why) => problem = Some(without_number(&why)),
            },
            Err(why) => problem = Some(why.to_string()),
        }
        let header = file.header.as_ref().ok();
        caches.push(Cache {
            id: file.name.to_string(),
            peer: header
                .filter(|header| header.peer != Peer::default())
                .map(|header| PublicKey(header.peer.0).to_string()),
            direction: header.map(|header| match (header.peer == Peer::default(), header.side) {
                (false, Side::Encoder) => "sent",
                (false, Side::Decoder) => "received",
                (true, Side::Encoder) => "packed",
                (true, Side::Decoder) => "unpacked",
            }),
            file_bytes: file.bytes,
            capacity_bytes: header.map(|header| header.shape.capacity),
            created_seconds_ago: header.map(|header| now.saturating_sub(header.created)),
            problem,
            ..cache
        });
    }
    let (directory, encrypted) = (dir.display().to_string(), store.is_sealed());
    Document { format: "oncewire-store-1", directory, encrypted, opened, caches }
}

fn age(seconds: Option<u64>) -> Cell {
    let Some(seconds) = seconds else { return "-".into() };
    let time = Duration::from_secs(seconds).as_secs();
    let text = match time {
        0..120 => format!("{time} s"),
        120..7200 => format!("{} min", time / 60),
        7200..172_800 => format!("{} h", time / 3600),
        _ => format!("{} days", time / 86_400),
    };
    text.into()
}

fn present(document: &Document, checked: bool, page: &mut Page<'_, Vec<u8>>) -> io::Result<()> {
    let caches = &document.caches;
    if caches.is_empty() {
        return page.wrapped("", &format!("{} holds no caches yet.", document.directory));
    }
    let row = |cache: &Cache| -> Vec<Cell> {
        let short = |text: &str, len: usize| text.chars().take(len).collect::<String>();
        let state = match (&cache.problem, cache.lost_bytes) {
            (Some(problem), _) => problem.clone(),
            (None, Some(0)) => "good".to_owned(),
            (None, Some(lost)) => format!("lost {}", format::bytes(lost)),
            (None, None) => String::new(),
        };
        let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "-".into(), format::bytes);
        vec![
            short(&cache.id, 8).into(),
            cache.peer.as_deref().map_or_else(|| "-".into(), |peer| short(peer, 11)).into(),
            cache.direction.unwrap_or("-").into(),
            format::bytes(cache.file_bytes).into(),
            bytes(cache.held_bytes).into(),
            age(cache.oldest_seconds_ago),
            age(cache.written_seconds_ago),
            state.into(),
        ]
    };
    let columns = ["id", "peer", "content", "file", "holds", "oldest", "written", ""];
    let table = Table::new(
        "caches",
        format!(
            "{}: {}, {}",
            document.directory,
            format::counted(caches.len() as u64, "cache"),
            if document.encrypted { "encrypted" } else { "not encrypted" }
        ),
        &columns.map(|column| (column, Unit::Text)),
        caches.iter().map(row).collect(),
    );
    page.table(&table)?;
    if !document.opened {
        page.line("")?;
        page.wrapped("", "What they hold is encrypted: --key FILE, the key of the end that wrote them, or --store-key FILE shows it.")?;
    }
    if checked && caches.iter().all(|cache| cache.lost_bytes == Some(0)) {
        page.line("")?;
        page.line("All content is readable.")?;
    }
    Ok(())
}

fn forget(args: &ForgetArgs) -> Outcome {
    let failed = |error: StoreError| store_failure(&error);
    let (store, files) = Store::look_alone(&args.dir, None).map_err(failed)?;
    let of_id: Vec<_> = files
        .iter()
        .filter(|file| !args.id.is_empty() && file.name.to_string().starts_with(&args.id))
        .collect();
    let [file] = of_id[..] else {
        let dir = args.dir.display();
        return Err(Failure::usage(match of_id.len() {
            0 => format!("{dir} has no cache {}: `oncewire store show {dir}` lists them", args.id),
            n => format!("{n} caches in {dir} begin with {}: give more digits", args.id),
        }));
    };
    store.forget(file.name).map_err(failed)?;
    let (id, bytes) = (file.name.to_string(), file.bytes);
    if args.json {
        return stdout::json(&serde_json::json!({ "forgotten": id, "file_bytes": bytes }));
    }
    stdout::text(&format!("deleted cache {id}: {} are free\n", format::bytes(bytes)))
}
