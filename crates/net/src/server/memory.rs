//! How the sessions of a server share its memory.

use super::{KeptLogs, Sessions, Shared};
use crate::driver::Driver;
use oncewire_session::{Config, SMALLEST_LOG, Session};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tracing::{debug, info, warn};

/// Number of peers that each get a share of the memory for themselves.
const SHARES: usize = 16;

/// A session idle for longer gives up its logs before others do.
const IDLE: Duration = Duration::from_secs(10);

/// A session idle for longer gives up its logs whole where sessions at work have no memory left.
/// They are not in use: a block is encoded and acknowledged within a few round trips.
const PAUSE: Duration = Duration::from_millis(50);

/// How soon to look again for sessions that can give up their logs.
const AGAIN: Duration = Duration::from_millis(20);

/// Memory of a session without logs, in bytes: transports with their TLS, tasks, and what names it.
/// `docs/PERFORMANCE.md`, "A hub of 500 peers", has what it was when measured.
const QUIET: u64 = 256 << 10;

/// Kept logs of a peer absent for longer make room for sessions that can use more.
const AWAY: Duration = Duration::from_secs(60);

/// The part of `memory` for logs, tables and entropy contexts. Credit and queues have separate
/// budgets.
pub(super) fn log_memory(memory: u64) -> u64 {
    memory / 16 * 13
}

/// The part of the memory for logs, as a divisor, within which sessions get more than one entropy
/// context for each lane.
const RICH: u64 = 4;

impl Shared {
    /// What all sessions need with the smallest logs: all may be active at once, however idle most
    /// are now.
    fn committed(&self, sessions: &Sessions) -> u64 {
        sessions.values().filter_map(|driver| driver.with(|session| session.least_memory())).sum()
    }

    /// Whether one more session fits beside those at work, if need be with the smallest logs. Others
    /// give up theirs.
    pub(super) fn fits_another(&self, sessions: &Sessions) -> bool {
        let least = |driver: &Arc<Driver>| Share::of(driver).map_or(0, |share| share.claim());
        let memory = sessions.values().map(least).fold(self.least(1), u64::saturating_add);
        let quiet = QUIET.saturating_mul(sessions.len() as u64);
        sessions.is_empty()
            || (sessions.len() < self.max_sessions && memory + quiet <= self.log_memory())
    }

    /// Entropy contexts for each lane of one more session: as many as configured while sessions are
    /// few, then fewer.
    pub(super) fn contexts(&self, sessions: &Sessions) -> usize {
        let (committed, most) = (self.committed(sessions), self.log_memory() / RICH);
        let fits = |&contexts: &usize| committed.saturating_add(self.least(contexts)) <= most;
        (2..=self.config.contexts).rev().find(fits).unwrap_or(1)
    }

    fn least(&self, contexts: usize) -> u64 {
        Config { contexts, ..Config::clone(&self.config) }.least_memory()
    }

    /// Size of the logs for one more session, in bytes. Each of up to [`SHARES`] peers has an equal
    /// share, whoever comes first. With more authorized peers shares stay that size, since most
    /// peers are idle most of the time, until active sessions leave less; then `rebalance` takes
    /// memory back from idle ones.
    pub(super) fn share(&self, sessions: &Sessions) -> u64 {
        let peers = self.endpoint.peers.len().max(sessions.len() + 1).clamp(1, SHARES) as u64;
        let taken: u64 = sessions
            .values()
            .filter_map(|driver| driver.with(|session| session.promised_memory()))
            .sum();
        self.config
            .log_within((self.log_memory() / peers).min(self.log_memory().saturating_sub(taken)))
    }

    fn log_memory(&self) -> u64 {
        log_memory(self.endpoint.memory)
    }

    /// Keeps the sum of all sessions within the memory, and lets small logs grow when there is
    /// room. It runs when something changes: an idle server does nothing.
    pub(super) async fn rebalance(shared: Arc<Shared>) {
        while !shared.stopped.load(Ordering::Relaxed) {
            let again = async {
                match shared.rebalance_once() {
                    Some(wait) => tokio::time::sleep(wait).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = again => {}
                () = shared.memory_changed.notified() => {}
            }
        }
    }

    /// Returns when to run again though nothing changes: when logs of absent peers may make room
    /// for a session that can use more, or sessions may give up theirs that could not now.
    fn rebalance_once(&self) -> Option<Duration> {
        let sessions: Vec<_> = self.lock_sessions().values().cloned().collect();
        let limit = self.log_memory();
        let mut active: Vec<_> = sessions.iter().filter_map(Share::of).collect();
        let mut kept = self.lock_kept();
        if active.iter().any(Share::wants_more) {
            kept.retain(|kept| kept.since.elapsed() < AWAY);
        }
        // The number of shares is a power of two, so that not every new peer costs all others their
        // logs.
        let share = self
            .config
            .log_within(limit / (active.len() + kept.len()).max(1).next_power_of_two() as u64);
        let (kept_sum, excess) = self.shrink(&mut active, &mut kept, limit, share);
        if excess > 0 && self.make_room(&mut active, excess) > 0 {
            return Some(AGAIN);
        }
        self.grow(&mut active, limit.saturating_sub(kept_sum));
        let next = kept.iter().map(|kept| AWAY.saturating_sub(kept.since.elapsed())).min();
        next.filter(|_| active.iter().any(Share::wants_more))
    }

    /// Takes memory from logs of absent peers, then from idle sessions, then from the largest,
    /// until all fit and sessions whose full logs are at most half of a fair `share` can have that
    /// share. Returns the bytes left in logs of absent peers, and how many are still too much.
    fn shrink(
        &self,
        active: &mut [Share],
        kept: &mut Vec<KeptLogs>,
        limit: u64,
        share: u64,
    ) -> (u64, u64) {
        // Counts what logs may come to hold, not what they hold: then it would be too late.
        let mut sum: u64 = active.iter().map(Share::expected).sum();
        let starving = active.iter().filter(|one| one.wants_more() && one.log <= share / 2);
        let claimed: u64 = starving.map(|one| one.at(share) - one.expected()).sum();
        let mut kept_sum: u64 = kept.iter().map(|kept| kept.logs.memory()).sum();
        while sum + kept_sum > limit && !kept.is_empty() {
            kept_sum -= kept.remove(0).logs.memory();
        }
        sum += kept_sum + claimed;
        active.sort_by_key(|one| {
            std::cmp::Reverse((one.idle.as_secs().min(60) / 10, one.expected()))
        });
        for one in active {
            let size = if one.idle > IDLE { SMALLEST_LOG } else { share };
            if sum <= limit {
                break;
            }
            if one.log.min(one.limit) > size {
                let before = one.expected();
                one.restart(size, &self.shrunk, "smaller, because other sessions need memory");
                sum = sum.saturating_sub(before - one.expected());
            }
        }
        (kept_sum, sum.saturating_sub(limit + claimed))
    }

    /// Where even the smallest logs of all sessions that carried something are too much by `excess`
    /// bytes, those give theirs up that carry nothing now, the longest idle first. Returns the bytes
    /// that are still too much. If too many are at work at once, the newest session ends.
    fn make_room(&self, active: &mut [Share], mut excess: u64) -> u64 {
        active.sort_by_key(|one| std::cmp::Reverse(one.idle));
        for one in active.iter().filter(|one| one.idle > PAUSE && one.expected() > 0) {
            if excess == 0 {
                return 0;
            }
            if one.release() {
                self.shrunk.fetch_add(1, Ordering::Relaxed);
                excess = excess.saturating_sub(one.expected());
            }
        }
        let at_work = active.iter().map(Share::claim).fold(0, u64::saturating_add);
        if at_work > self.log_memory()
            && let Some(newest) =
                active.iter().filter(|one| one.claim() > 0).max_by_key(|one| one.driver.born)
        {
            if let Some(suppressed) = self.overload.pass() {
                warn!(
                    peer = newest.driver.label(),
                    suppressed, "closing this peer's session: too many peers at once for --memory"
                );
            }
            newest.driver.with(Session::close);
        }
        excess
    }

    /// Gives free memory to sessions whose logs are full, the smallest first.
    fn grow(&self, active: &mut [Share], limit: u64) {
        let taken: u64 = active.iter().map(|one| one.memory).sum();
        let mut free = limit.saturating_sub(taken);
        let mut growing: Vec<_> = active.iter_mut().filter(|one| one.wants_more()).collect();
        growing.sort_by_key(|one| one.log);
        let mut left = growing.len() as u64;
        for one in growing {
            let size = self
                .config
                .log_within(one.memory + free / left)
                .min(one.wanted)
                .min(self.config.log);
            left -= 1;
            if size / 2 < one.log || size <= one.limit {
                continue;
            }
            one.restart(size, &self.grown, "larger, because it was full and memory is free");
            free = free.saturating_sub(one.at(size).saturating_sub(one.memory));
        }
    }
}

/// The memory of a session.
struct Share {
    driver: Arc<Driver>,
    /// Time since an application used it.
    idle: Duration,
    /// Bytes that it may come to use with its current limit.
    memory: u64,
    /// Its larger log, in bytes.
    log: u64,
    /// The limit of its logs, in bytes.
    limit: u64,
    /// Largest log that would be of use, in bytes; 0 if it needs no larger one.
    wanted: u64,
    /// Least memory while it is at work, in bytes.
    least: u64,
    /// It has given up its logs, as far as it is up to this end.
    is_releasing: bool,
    /// Something is in flight, so that it cannot give them up, however long no application has
    /// stirred: a slow link, or a peer that acknowledges nothing.
    is_in_flight: bool,
}

impl Share {
    /// `None` for a session that uses no memory.
    fn of(driver: &Arc<Driver>) -> Option<Share> {
        driver.with(|session| {
            let (memory, log) = (session.promised_memory(), session.largest_log());
            let (limit, wanted) = (session.log_limit(), session.wanted_log());
            (memory > 0).then(|| Share {
                driver: driver.clone(),
                idle: driver.idle_for(),
                memory,
                log,
                limit,
                wanted,
                least: session.least_memory(),
                is_releasing: session.is_releasing(),
                is_in_flight: !session.can_release_logs(),
            })
        })?
    }

    /// Bytes that it would use with logs of `size` bytes.
    fn at(&self, size: u64) -> u64 {
        // In 128 bits: on a hub, logs of several GiB overflow 64.
        let scaled = u128::from(self.memory) * u128::from(size) / u128::from(self.log.max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }

    /// Whether it could use a larger log now.
    fn wants_more(&self) -> bool {
        self.wanted > 0 && self.idle <= IDLE
    }

    /// Least memory, in bytes, if it is at work: otherwise it can give up its logs.
    fn claim(&self) -> u64 {
        let is_at_work = self.idle <= PAUSE || self.is_in_flight;
        if is_at_work && !self.is_releasing { self.least } else { 0 }
    }

    /// Gives up its logs, unless something is in flight. Returns whether it does.
    fn release(&self) -> bool {
        let released = self.driver.with(|session| session.release_logs(Instant::now()));
        debug!(peer = self.driver.label(), ?released, "this peer's cache begins anew");
        released.unwrap_or(false)
    }

    /// Bytes that it uses once its logs are within the limit.
    fn expected(&self) -> u64 {
        if self.is_releasing {
            return 0;
        }
        if self.limit < self.log { self.at(self.limit) } else { self.memory }
    }

    /// Limits its logs to `size` bytes: they restart empty. Counts and logs that.
    fn restart(&mut self, size: u64, count: &AtomicU64, how: &str) {
        self.limit = size;
        // Cannot fail: `log_within` gives sizes in range.
        self.driver.with(|session| session.set_log_limit(size, Instant::now()).ok());
        count.fetch_add(1, Ordering::Relaxed);
        info!(
            peer = self.driver.label(),
            cache = size,
            was = self.log,
            "restarting this peer's cache {how}"
        );
    }
}
