//! Records while a process runs.

use super::file::HistoryFile;
use super::record::Record;
use super::sampler::Sampler;
use super::{HistoryError, SECONDS, THREAD};
use crate::status::{Document, HistoryStatus};
use crate::sync::lock;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::oneshot;
use tokio::time::MissedTickBehavior;
use tracing::{error, info};

/// Time between two records.
const INTERVAL: Duration = Duration::from_secs(1);
/// Records of a transaction: what is lost if the process is killed.
const BATCH: usize = 5;
/// Records that wait for the file at most, if the disk hangs: later ones are not recorded.
const MOST_WAITING: usize = 600;
/// How long the end of a process waits for the file.
const PATIENCE: Duration = Duration::from_secs(2);

/// The last hour in memory, without peers, and the file that records go to.
pub struct History {
    shared: Arc<Shared>,
    file: Option<PathBuf>,
    to_file: Mutex<Waiting>,
}

#[derive(Default)]
struct Shared {
    recent: Mutex<VecDeque<Record>>,
    /// Why nothing is recorded to the file any more.
    failure: Mutex<Option<String>>,
}

#[derive(Default)]
struct Waiting {
    records: Vec<Record>,
    sender: Option<SyncSender<Vec<Record>>>,
    thread: Option<JoinHandle<()>>,
}

impl History {
    /// Starts to record, to a file if there is one. A file that cannot be used is reported by a line
    /// of the log and in [`History::status`]; the process works without it.
    pub fn start(file: Option<PathBuf>) -> History {
        // For those who ask where it is.
        let file = file.map(|file| std::path::absolute(&file).unwrap_or(file));
        let shared = Arc::new(Shared::default());
        let mut waiting = Waiting::default();
        if let Some(path) = file.clone() {
            let (sender, receiver) = sync_channel(MOST_WAITING / BATCH);
            let in_thread = shared.clone();
            let write = move || write(&path, &receiver, &in_thread);
            match std::thread::Builder::new().name(THREAD.into()).spawn(write) {
                Ok(thread) => {
                    waiting.thread = Some(thread);
                    waiting.sender = Some(sender);
                }
                Err(error) => *lock(&shared.failure) = Some(error.to_string()),
            }
        }
        History { shared, file, to_file: Mutex::new(waiting) }
    }

    /// Adds the record of a second.
    pub fn add(&self, record: Record) {
        let mut waiting = lock(&self.to_file);
        if let Waiting { records, sender: Some(sender), .. } = &mut *waiting {
            records.push(record.clone());
            if records.len() >= BATCH {
                // Full if the disk hangs, and closed if the file has failed.
                let _ = sender.try_send(std::mem::take(records));
            }
        }
        drop(waiting);
        self.shared.push(record);
    }

    /// What `look` makes of the records of the last hour, ascending in time and without peers.
    pub fn recent<T>(&self, look: impl FnOnce(&[Record]) -> T) -> T {
        look(lock(&self.shared.recent).make_contiguous())
    }

    /// The file and whether it is recorded to. `None` without a file.
    pub fn status(&self) -> Option<HistoryStatus> {
        let failure = lock(&self.shared.failure).clone();
        let file = self.file.as_ref()?.display().to_string();
        Some(HistoryStatus { file, recording: failure.is_none(), failure })
    }

    /// Writes what is left and closes the file. Waits for a disk that hangs, but not long.
    pub fn close(&self) {
        let mut waiting = lock(&self.to_file);
        let records = std::mem::take(&mut waiting.records);
        let Some(sender) = waiting.sender.take() else { return };
        let _ = sender.try_send(records);
        drop(sender);
        let thread = waiting.thread.take();
        drop(waiting);
        let begun = Instant::now();
        while thread.as_ref().is_some_and(|thread| !thread.is_finished())
            && begun.elapsed() < PATIENCE
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Shared {
    fn push(&self, record: Record) {
        let mut recent = lock(&self.recent);
        // With many peers, an hour of them takes much memory.
        recent.push_back(Record { peers: Vec::new(), ..record });
        if recent.len() > SECONDS {
            recent.pop_front();
        }
    }
}

/// The thread of a file.
fn write(path: &Path, records: &Receiver<Vec<Record>>, shared: &Shared) {
    let file = path.display();
    // The file was read without harm before it was opened; but redb may still panic if the disk
    // returns something else later.
    let written = catch_unwind(AssertUnwindSafe(|| -> Result<(), HistoryError> {
        let (mut open, recorded) = HistoryFile::open(path)?;
        info!(%file, minutes = recorded.minutes.len(), "recording history");
        let mut recent = lock(&shared.recent);
        let new: Vec<Record> = recent.drain(..).collect();
        let earlier = recorded.seconds.into_iter();
        recent.extend(earlier.map(|record| Record { peers: Vec::new(), ..record }));
        recent.extend(new);
        let surplus = recent.len().saturating_sub(SECONDS);
        recent.drain(..surplus);
        drop(recent);
        for batch in records {
            open.append(&batch)?;
        }
        Ok(())
    }));
    let failed = match written {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error,
        Err(_) => HistoryError::Damaged("inconsistent".into()),
    };
    let why = failed.to_string();
    error!(%file, why, "history is not recorded; traffic is not affected");
    *lock(&shared.failure) = Some(why);
}

/// A task that takes a record of a process every second.
pub(crate) struct Recording {
    history: Arc<History>,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Recording {
    pub(crate) fn start(
        history: Arc<History>,
        document: impl Fn() -> Document + Send + Sync + 'static,
    ) -> Recording {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(record(history.clone(), Arc::new(document), stopped));
        Recording { history, stop, task }
    }

    /// Takes the last record and closes the file.
    pub(crate) async fn finish(self) {
        let _ = self.stop.send(());
        let _ = tokio::time::timeout(PATIENCE, self.task).await;
        let _ = tokio::task::spawn_blocking(move || self.history.close()).await;
    }
}

async fn record(
    history: Arc<History>,
    document: Arc<dyn Fn() -> Document + Send + Sync>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut every = tokio::time::interval(INTERVAL);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    every.tick().await;
    let mut sampler = Sampler::default();
    let mut last = Instant::now();
    loop {
        let is_last = tokio::select! {
            _ = every.tick() => false,
            _ = &mut stopped => true,
        };
        let (history, document) = (history.clone(), document.clone());
        // A hub has many sessions, so not in a thread that carries their bytes.
        let taken = tokio::task::spawn_blocking(move || {
            let at = Instant::now();
            let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let seconds = at.duration_since(last).as_secs_f64().round() as u64;
            let time = time.map_or(0, |time| time.as_secs());
            history.add(sampler.sample(&document(), at, time, seconds));
            (sampler, at)
        });
        let Ok((again, at)) = taken.await else { return };
        (sampler, last) = (again, at);
        if is_last {
            return;
        }
    }
}
