//! Reverse forwards: listeners that the server keeps for this client.

use crate::domain;
use crate::driver::{Driver, Phase};
use crate::listener::Forward;
use crate::log_limit::LogLimit;
use crate::refusal::Refusal;
use crate::request::FlowRequest;
use oncewire_session::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Pauses before a refused reverse forward is requested again double from the first to the second.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// Asks the server to listen for this client, repeatedly if it cannot, as long as the session
/// lasts.
pub(super) async fn request_listener(driver: Arc<Driver>, forward: Forward) {
    // Whose the connections are, if a rule names one; otherwise the server sees whose they are.
    let owner = forward.domain.as_ref().map(domain::named).unwrap_or_default();
    let bind = forward.bind;
    let target = FlowRequest::Listen(bind.clone()).target();
    let mut phase = driver.phase();
    let ask = async {
        let (mut pause, mut closing) = (RETRY.0, false);
        while !closing {
            if let Ok((flow, signals)) = driver.open(&target, &owner) {
                let _listening = driver.listening();
                loop {
                    match driver.with(|session| session.read(flow)) {
                        Some(Read::Data(text)) => {
                            // The server sends one line: the address.
                            if let Some(bound) = str::from_utf8(&text)
                                .ok()
                                .and_then(|line| line.trim_end().parse::<SocketAddr>().ok())
                            {
                                info!(%bound, "the server listens for this client (-R)");
                                pause = RETRY.0;
                            }
                            driver
                                .with(|session| session.consumed(flow, text.len(), Instant::now()));
                        }
                        Some(Read::Nothing) => tokio::select! {
                            () = signals.readable.notified() => {}
                            // This client drains: the server must close the listener, and then ends
                            // the flow.
                            () = driver.listeners_closed(), if !closing => {
                                closing = true;
                                driver.with(|session| session.finish(flow));
                            }
                        },
                        Some(Read::Finished | Read::Cut | Read::Gone) | None => break,
                    }
                }
                if let Some(code) = signals.reset() {
                    static REFUSED: LogLimit = LogLimit::new();
                    if let Some(suppressed) = REFUSED.pass() {
                        let why = Refusal::from_reset(code);
                        warn!(%bind, %why, suppressed, "the server refuses to listen for this client (-R); check the server's --allow-listen and whether the port is in use there; asking again");
                    }
                }
                driver.with(|session| session.finish(flow));
                driver.forget(flow);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY.1);
        }
    };
    tokio::select! {
        () = ask => {}
        _ = phase.wait_for(|phase| matches!(phase, Phase::Over(_))) => {}
    }
}
