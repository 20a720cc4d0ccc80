//! Waiting for sessions to finish their flows before they are closed.

use crate::driver::Driver;
use oncewire_session::Session;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a session that is ending is polled.
const POLL: Duration = Duration::from_millis(20);
/// How often one is polled that keeps a successor waiting.
const SHORT_POLL: Duration = Duration::from_millis(2);

/// Waits for at most `limit` until all sessions that were sent GO_AWAY are over, and applications
/// here have read what had arrived. Returns whether no flow is left.
///
/// The peer closes each session, once it has passed on all that it received: this end knows what
/// arrived there, not what its applications have read. A session without a transport counts as over
/// as soon as it has no flows, because no peer can close it.
pub(crate) async fn drain_all(drivers: &[Arc<Driver>], limit: Duration) -> bool {
    let until = Instant::now() + limit;
    loop {
        if drivers.iter().all(|driver| match driver.is_over() {
            true => !driver.is_delivering(),
            false => driver.open_flows() == 0 && !driver.is_up(),
        }) {
            return true;
        }
        if Instant::now() >= until {
            return drivers
                .iter()
                .all(|driver| driver.open_flows() == 0 && !driver.is_delivering());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Waits until the peers of sessions that are up know that this end opens no more flows.
pub(crate) async fn gone_away(drivers: &[Arc<Driver>]) {
    let waits = |driver: &Arc<Driver>| !driver.is_over() && driver.is_up();
    while drivers
        .iter()
        .any(|driver| waits(driver) && driver.with(|s| !s.has_gone_away()).unwrap_or(false))
    {
        tokio::time::sleep(SHORT_POLL).await;
    }
}

/// Closes a session whose peer goes away, once no application here reads or writes a flow of it, and
/// the peer has processed everything: what has arrived there, the peer delivers after the close.
pub(crate) async fn close_when_done(driver: Arc<Driver>) {
    while !driver.is_over() && (driver.flow_count() > 0 || !driver.is_acknowledged()) {
        tokio::time::sleep(POLL).await;
    }
    driver.with(Session::close);
}
