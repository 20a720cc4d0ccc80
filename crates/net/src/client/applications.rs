//! Connections of applications: forwards and the proxy.

use super::Shared;
use crate::domain::{self, DomainName, Site};
use crate::driver::{Driver, FlowSignals};
use crate::egress::{FlowRequest, log_no_flow};
use crate::flows::FlowLine;
use crate::log_limit::LogLimit;
use crate::proxy::{self, ProxyError, Request};
use crate::pump::{pump, write_all};
use crate::refusal::Refusal;
use crate::sockets::{accept, reset_on_drop};
use crate::target::Target;
use crate::target::canonical;
use crate::unauthenticated::PendingConnections;
use oncewire_session::{FlowId, OpenError, Owner, ResetCode};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tracing::{debug, warn};

/// How long an application's connection waits for a session before it is refused.
const WAIT_FOR_SESSION: Duration = Duration::from_secs(10);

/// Proxy clients that may be sending a request at once. Beyond that the oldest is dropped.
const MAX_NEGOTIATING: usize = 1024;

impl Shared {
    pub(super) async fn accept_all(
        shared: Arc<Shared>,
        listener: TcpListener,
        target: Option<Target>,
        rule: Option<DomainName>,
    ) {
        let negotiating = PendingConnections::new(MAX_NEGOTIATING);
        let mut stop = shared.stop.subscribe();
        loop {
            let stream = tokio::select! {
                stream = accept(&listener) => stream,
                _ = stop.wait_for(|stop| *stop) => return,
            };
            // Before anything else: the client may close its socket at once.
            let owner = domain::of_connection(Site::Client, &stream, rule.as_ref());
            let of_task = shared.clone();
            match target.clone() {
                Some(target) => drop(tokio::spawn(async move {
                    of_task.forward(stream, &target, &owner).await;
                })),
                None => {
                    if negotiating.admit(of_task.negotiate(stream, owner, rule.clone())) {
                        shared.displaced_proxy_clients.fetch_add(1, Ordering::Relaxed);
                        if let Some(suppressed) = shared.displaced.pass() {
                            warn!(
                                most = MAX_NEGOTIATING,
                                suppressed,
                                "too many proxy clients have not sent a request; dropped the oldest"
                            );
                        }
                    }
                }
            }
        }
    }

    /// Opens a flow to a target.
    async fn open(
        &self,
        target: &Target,
        owner: &Owner,
    ) -> Result<(Arc<Driver>, FlowId, Arc<FlowSignals>), Refusal> {
        let request = FlowRequest::Tcp(target.clone()).target();
        let until = Instant::now() + WAIT_FOR_SESSION;
        let error = loop {
            let Some(driver) = self.session(until.saturating_duration_since(Instant::now())).await
            else {
                break OpenError::NotEstablished;
            };
            match driver.open_soon(&request, owner).await {
                Ok((flow, signals)) => return Ok((driver, flow, signals)),
                // The server has just started to drain, or the session has just ended: try the next
                // one.
                Err(OpenError::GoingAway | OpenError::NotEstablished) if Instant::now() < until => {
                    let mut current = self.current.subscribe();
                    let other = |now: &Option<Arc<Driver>>| {
                        now.as_ref().is_none_or(|now| !Arc::ptr_eq(now, &driver))
                    };
                    let wait = until.saturating_duration_since(Instant::now());
                    if tokio::time::timeout(wait, current.wait_for(other)).await.is_err() {
                        break OpenError::NotEstablished;
                    }
                }
                Err(error) => break error,
            }
        };
        self.refused_connections.fetch_add(1, Ordering::Relaxed);
        if error == OpenError::NotEstablished {
            static NO_SESSION: LogLimit = LogLimit::new();
            if let Some(suppressed) = NO_SESSION.pass() {
                let why = self.last_failure().map(|error| error.to_string());
                warn!(server = %self.server, %target, why, suppressed, "connection refused: no session with the server");
            }
            return Err(Refusal::NoSession);
        }
        log_no_flow(&error, &self.server.to_string());
        Err(if matches!(error, OpenError::TooMany(_) | OpenError::NoCredit) {
            Refusal::Busy
        } else {
            Refusal::Failed
        })
    }

    async fn forward(&self, stream: TcpStream, target: &Target, owner: &Owner) {
        let line = FlowLine::new(&self.server, owner, target);
        match self.open(target, owner).await {
            // Does not wait for the origin: what the application sends meanwhile travels with the
            // request.
            Ok((driver, flow, signals)) => {
                let how = pump(&driver, flow, &signals, stream, None).await;
                if let Some(Err(code)) = signals.answer() {
                    let refused = Refusal::from_reset(code);
                    log_refusal(target, refused);
                    line.denied(refused);
                } else {
                    line.ended(&signals, how);
                }
            }
            Err(refused) => {
                reset_on_drop(&stream);
                line.denied(refused);
            }
        }
    }

    /// Reads the request of a proxy client, then hands the client to another task.
    async fn negotiate(
        self: Arc<Shared>,
        mut stream: TcpStream,
        owner: Owner,
        rule: Option<DomainName>,
    ) {
        // An error means that the client is gone; later its address may be unknown.
        let Ok(from) = stream.peer_addr().map(canonical) else { return };
        match proxy::negotiate(&mut stream, proxy::MAX_HEAD, proxy::HANDSHAKE_TIME).await {
            Ok(request) => {
                let owner = domain::of_proxy(owner, rule.as_ref(), request.user.as_deref());
                drop(tokio::spawn(async move { self.proxy(stream, request, &owner).await }));
            }
            Err(error) => {
                self.refused_connections.fetch_add(1, Ordering::Relaxed);
                if let ProxyError::Socks4 = error {
                    self.socks4_clients.fetch_add(1, Ordering::Relaxed);
                    if let Some(suppressed) = self.socks4.pass() {
                        warn!(%from, suppressed, "{error}");
                    }
                }
                debug!(%from, %error, "proxy client refused");
            }
        }
    }

    async fn proxy(&self, mut stream: TcpStream, request: Request, owner: &Owner) {
        let line = FlowLine::new(&self.server, owner, &request.target);
        let (driver, flow, signals) = match self.open(&request.target, owner).await {
            Ok(opened) => opened,
            Err(refused) => {
                line.denied(refused);
                let _ = proxy::refuse(&mut stream, &request, refused).await;
                return;
            }
        };
        // The first bytes travel with the request to connect.
        let first = write_all(&driver, flow, &signals, &request.first);
        let answer = async {
            loop {
                if let Some(answer) = signals.answer() {
                    return answer;
                }
                signals.answered.notified().await;
            }
        };
        let (_, answer) = tokio::join!(first, answer);
        match answer {
            Ok(()) => {
                if proxy::accept(&mut stream, &request).await.is_ok() {
                    let how = pump(&driver, flow, &signals, stream, request.rest).await;
                    line.ended(&signals, how);
                } else {
                    driver.with(|session| session.reset(flow, ResetCode::Reset));
                    driver.forget(flow);
                    line.ended(&signals, "given up by the application");
                }
            }
            Err(code) => {
                let refused = Refusal::from_reset(code);
                log_refusal(&request.target, refused);
                line.denied(refused);
                let _ = proxy::refuse(&mut stream, &request, refused).await;
                driver.forget(flow);
            }
        }
    }
}

/// Logs that the other end refused a flow. Its rules are for people to change; what an origin does
/// is for applications.
fn log_refusal(target: &Target, refused: Refusal) {
    static REFUSED: LogLimit = LogLimit::new();
    let by_rules = matches!(refused, Refusal::NotAllowed | Refusal::Guarded { .. });
    match by_rules.then(|| REFUSED.pass()).flatten() {
        Some(suppressed) => {
            warn!(%target, why = %refused, suppressed, "connection refused by the other end");
        }
        None => debug!(%target, why = %refused, "connection refused by the other end"),
    }
}
