//! Several controllers, of which one leads: etcd says which, and keeps what the leader writes.
//!
//! ```text
//! PREFIX/leader            name of the leader, for as long as its lease lives
//! PREFIX/head              number of the record, its pieces, their hash
//! PREFIX/record/NUMBER/N   a piece of the record
//! ```
//!
//! The revision at which the leader's key was made is its epoch: it only rises. Every write is
//! conditional on that key, so whoever leads no more writes nothing. A leader stops by itself when it
//! could not renew its lease for as long as that lives, counted from when it asked.

use super::place::{ControllerStoreError, EtcdAt};
use crate::log_limit::Changes;
use etcd_client::{
    Client, Compare, CompareOp, ConnectOptions, DeleteOptions, GetOptions, PutOptions, Txn, TxnOp,
};
use oncewire_plan::control::{Record, part_hash, plain};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::warn;

/// Seconds that a lease lives without being renewed.
const LEASE: i64 = 3;
/// How often a controller that waits looks whether another leads.
const LOOK: Duration = Duration::from_millis(500);
/// How long etcd may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Attempts of a request, and the pause between them: one may go to a member of etcd that is down, or come
/// while they choose another leader of theirs. What is written twice is the same as once.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a piece: etcd takes requests of up to 1.5 MiB.
const PIECE: usize = 1 << 20;
/// Most pieces of a record that are read.
const MOST_PIECES: usize = 512;

type Failed = ControllerStoreError;

fn failed(error: etcd_client::Error) -> Failed {
    Failed::Etcd(plain(&error.to_string()))
}

async fn within<T>(
    answer: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<T, Failed> {
    let late = Failed::Etcd("it does not answer".into());
    timeout(PATIENCE, answer).await.map_err(|_| late)?.map_err(failed)
}

/// An answer to a request that may be made again.
async fn retried<T, A>(mut ask: impl FnMut() -> A) -> Result<T, Failed>
where
    A: Future<Output = Result<T, etcd_client::Error>>,
{
    for _ in 1..ATTEMPTS {
        if let Ok(answer) = within(ask()).await {
            return Ok(answer);
        }
        sleep(PAUSE).await;
    }
    within(ask()).await
}

/// The value of a key, if there is one.
async fn value(client: &Client, key: &str) -> Result<Option<Vec<u8>>, Failed> {
    let answer = retried(|| {
        let mut client = client.clone();
        async move { client.get(key, None).await }
    });
    Ok(answer.await?.kvs().first().map(|found| found.value().to_vec()))
}

async fn connect(at: &EtcdAt) -> Result<Client, Failed> {
    let options = ConnectOptions::new().with_connect_timeout(PATIENCE);
    within(Client::connect(&at.endpoints, Some(options))).await
}

/// What a leader writes with. It gives up its place when it is dropped, or a lease later.
pub(crate) struct Leader {
    client: Client,
    prefix: String,
    lease: i64,
    epoch: i64,
    written: AtomicU32,
    lost: watch::Sender<bool>,
    keeping: JoinHandle<()>,
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}

/// Waits until this controller leads. `wait` is told who leads meanwhile, and `name` is what others are
/// told.
pub(crate) async fn lead(at: &EtcdAt, name: &str, mut wait: impl FnMut(&str)) -> Leader {
    let (mut failures, mut client) = (Changes::default(), None);
    loop {
        let attempt = async {
            let client = match &client {
                Some(client) => client,
                None => client.insert(connect(at).await?),
            };
            attempt(client, at, name).await
        };
        match attempt.await {
            Ok(Ok(leader)) => return leader,
            Ok(Err(other)) => wait(&format!("{other} leads")),
            Err(error) => {
                if failures.pass(&error.to_string(), Instant::now()) {
                    warn!(%error, store = %at, "no etcd");
                }
                wait(&format!("{at}: {error}"));
            }
        }
        sleep(LOOK).await;
    }
}

/// Leads, or says who does.
async fn attempt(
    client: &Client,
    at: &EtcdAt,
    name: &str,
) -> Result<Result<Leader, String>, Failed> {
    let (key, mut asking) = (at.key("leader"), client.clone());
    if let Some(other) = value(client, &key).await? {
        return Ok(Err(plain(&String::from_utf8_lossy(&other))));
    }
    let asked = Instant::now();
    let lease = within(asking.lease_grant(LEASE, None)).await?.id();
    let is_free = Compare::create_revision(key.clone(), CompareOp::Equal, 0);
    let put = TxnOp::put(key, name, Some(PutOptions::new().with_lease(lease)));
    let answer = within(asking.txn(Txn::new().when([is_free]).and_then([put]))).await?;
    if !answer.succeeded() {
        let _ = within(asking.lease_revoke(lease)).await;
        return Ok(Err("another controller".into()));
    }
    let epoch = answer.header().map_or(0, |header| header.revision());
    let lost = watch::Sender::new(false);
    let keeping = tokio::spawn(keep(client.clone(), lease, asked, lost.clone()));
    let (client, prefix, written) = (client.clone(), at.prefix.clone(), AtomicU32::new(0));
    Ok(Ok(Leader { client, prefix, lease, epoch, written, lost, keeping }))
}

/// Renews a lease that was asked for at a time, until that fails for as long as it lives.
async fn keep(mut client: Client, lease: i64, asked: Instant, lost: watch::Sender<bool>) {
    let life = Duration::from_secs(LEASE as u64);
    let (mut until, mut pause) = (asked + life, life / 4);
    loop {
        sleep(pause.min(until.saturating_duration_since(Instant::now()))).await;
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        let asked = Instant::now();
        // The first answer is waited for.
        let renewed = timeout(left.min(life / 4), client.lease_keep_alive(lease)).await;
        let is_renewed = matches!(renewed, Ok(Ok((keeper, _))) if keeper.id() == lease);
        (until, pause) = if is_renewed { (asked + life, life / 4) } else { (until, PAUSE) };
    }
    lost.send_replace(true);
}

impl Leader {
    /// Its epoch: that of a later leader is larger.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.unsigned_abs()
    }

    /// Returns when it leads no more.
    pub(crate) async fn lost(&self) {
        let mut lost = self.lost.subscribe();
        let _ = lost.wait_for(|lost| *lost).await;
    }

    fn key(&self, name: &str) -> String {
        format!("{}/{name}", self.prefix)
    }

    /// Does this if it leads.
    async fn guarded(&self, operations: &[TxnOp]) -> Result<(), Failed> {
        let leads = Compare::create_revision(self.key("leader"), CompareOp::Equal, self.epoch);
        let transaction = Txn::new().when([leads]).and_then(operations);
        let mut attempt = 0;
        loop {
            if *self.lost.borrow() {
                return Err(Failed::Deposed);
            }
            match within(self.client.clone().txn(transaction.clone())).await {
                Ok(answer) if answer.succeeded() => return Ok(()),
                Ok(_) => {
                    self.lost.send_replace(true);
                    return Err(Failed::Deposed);
                }
                Err(error) if attempt + 1 == ATTEMPTS => return Err(error),
                Err(_) => {
                    attempt += 1;
                    sleep(PAUSE).await;
                }
            }
        }
    }

    /// Number, pieces and hash of the record that is there.
    async fn head(&self) -> Result<Option<(String, usize, u64)>, Failed> {
        let Some(head) = value(&self.client, &self.key("head")).await? else { return Ok(None) };
        let text = String::from_utf8_lossy(&head).into_owned();
        let words: Vec<&str> = text.split(' ').collect();
        let [number, pieces, hash] = words[..] else { return Err(Failed::Damaged) };
        let pieces = pieces.parse().ok().filter(|&pieces| pieces <= MOST_PIECES);
        let hash = u64::from_str_radix(hash, 16).ok();
        let (pieces, hash) = pieces.zip(hash).ok_or(Failed::Damaged)?;
        Ok(Some((number.into(), pieces, hash)))
    }

    /// What is stored. Pieces that a leader left when it stopped halfway are deleted.
    pub(crate) async fn read(&self) -> Result<Record, Failed> {
        let head = self.head().await?;
        let all = retried(|| {
            let (mut client, key) = (self.client.clone(), self.key("record/"));
            let options = GetOptions::new().with_prefix().with_keys_only();
            async move { client.get(key, Some(options)).await }
        });
        let all = all.await?;
        let number = head.as_ref().map_or("", |head| head.0.as_str());
        let ours = self.key(&format!("record/{number}/"));
        for left in all.kvs().iter().filter(|left| !left.key().starts_with(ours.as_bytes())) {
            self.guarded(&[TxnOp::delete(left.key(), None)]).await?;
        }
        let Some((_, pieces, hash)) = head else { return Ok(Record::default()) };
        let mut bytes = Vec::new();
        for piece in 0..pieces {
            let piece = value(&self.client, &format!("{ours}{piece}")).await?;
            bytes.extend_from_slice(&piece.ok_or(Failed::Damaged)?);
        }
        if part_hash(&bytes) != hash {
            return Err(Failed::Damaged);
        }
        let text = String::from_utf8(bytes).map_err(|_| Failed::Damaged)?;
        Ok(Record::from_json(&text)?)
    }

    /// Replaces what is stored, if it leads.
    pub(crate) async fn write(&self, text: &str) -> Result<(), Failed> {
        if *self.lost.borrow() {
            return Err(Failed::Deposed);
        }
        if text.len().div_ceil(PIECE) > MOST_PIECES {
            return Err(Failed::Etcd(format!("a plan of {} bytes is too large", text.len())));
        }
        let before = self.head().await?;
        let number = format!("{:x}-{:x}", self.epoch, self.written.fetch_add(1, Relaxed));
        let mut pieces = 0;
        for piece in text.as_bytes().chunks(PIECE) {
            let key = self.key(&format!("record/{number}/{pieces}"));
            self.guarded(&[TxnOp::put(key, piece, None)]).await?;
            pieces += 1;
        }
        let head = format!("{number} {pieces} {:016x}", part_hash(text.as_bytes()));
        let mut operations = vec![TxnOp::put(self.key("head"), head, None)];
        if let Some((before, ..)) = before {
            let options = DeleteOptions::new().with_prefix();
            let key = self.key(&format!("record/{before}/"));
            operations.push(TxnOp::delete(key, Some(options)));
        }
        self.guarded(&operations).await
    }

    /// Gives up its place at once.
    pub(crate) async fn resign(&self) {
        self.keeping.abort();
        self.lost.send_replace(true);
        let _ = within(self.client.clone().lease_revoke(self.lease)).await;
    }
}

#[cfg(test)]
mod tests;
