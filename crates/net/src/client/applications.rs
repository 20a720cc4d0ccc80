//! Connections of applications: forwards and the proxy.

use super::Shared;
use crate::domain::{self, DomainName, Site};
use crate::driver::{Driver, FlowSignals};
use crate::egress::log_no_flow;
use crate::flows::FlowLine;
use crate::https::{Client, From, Https, TlsFlow};
use crate::log_limit::LogLimit;
use crate::proxy::{self, ProxyError, ProxyProtocol, Request};
use crate::pump::{pump, write_all};
use crate::refusal::Refusal;
use crate::request::FlowRequest;
use crate::sockets::{accept, reset_on_drop};
use crate::target::Target;
use crate::target::canonical;
use crate::unauthenticated::PendingConnections;
use oncewire_session::{FlowId, OpenError, Owner, ResetCode};
use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tracing::{debug, warn};

/// How long an application's connection waits for a session before it is refused.
const WAIT_FOR_SESSION: Duration = Duration::from_secs(10);

/// Proxy clients that may be sending a request at once. Beyond that the oldest is dropped.
const MAX_NEGOTIATING: usize = 1024;

/// The target of a proxy client that was refused before it named one.
const NO_TARGET: &str = "proxy";

/// A connection that was accepted and has no flow yet: a client that drains opens it first.
struct Accepted(Arc<Shared>);

impl Accepted {
    fn new(shared: &Arc<Shared>) -> Accepted {
        shared.accepted.send_modify(|accepted| *accepted += 1);
        Accepted(shared.clone())
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        self.0.accepted.send_modify(|accepted| *accepted -= 1);
    }
}

impl Shared {
    pub(super) async fn accept_all(
        shared: Arc<Shared>,
        listener: TcpListener,
        target: Option<Target>,
        rule: Option<DomainName>,
    ) {
        let negotiating = PendingConnections::new(MAX_NEGOTIATING);
        let mut closed = shared.closed.subscribe();
        loop {
            let stream = tokio::select! {
                stream = accept(&listener) => stream,
                _ = closed.wait_for(|closed| *closed) => return,
            };
            let accepted = Accepted::new(&shared);
            // Before anything else: the client may close its socket at once.
            let owner = domain::of_connection(Site::Client, &stream, rule.as_ref());
            let of_task = shared.clone();
            match target.clone() {
                Some(target) => drop(tokio::spawn(async move {
                    of_task.forward(stream, &target, &owner, accepted).await;
                })),
                None => {
                    let from = stream.peer_addr().map(canonical);
                    if let Ok(from) = from
                        && !shared.proxy_access.admits(from.ip())
                    {
                        let why = "its address is not one of --proxy-clients";
                        FlowLine::new(&shared.server, &owner, NO_TARGET).denied(why);
                        shared.unauthorized(from, &why);
                        reset_on_drop(&stream);
                        continue;
                    }
                    if negotiating.admit(of_task.negotiate(stream, owner, rule.clone(), accepted)) {
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

    /// Opens a flow to a target, on which the other end begins TLS if the flow says so.
    async fn open(
        &self,
        target: &Target,
        owner: &Owner,
        tls: bool,
    ) -> Result<(Arc<Driver>, FlowId, Arc<FlowSignals>), Refusal> {
        let target_of = if tls { FlowRequest::Tls } else { FlowRequest::Tcp };
        let request = target_of(target.clone()).target();
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

    async fn forward(&self, stream: TcpStream, target: &Target, owner: &Owner, accepted: Accepted) {
        let line = FlowLine::new(&self.server, owner, target);
        let service = self.https.as_ref().and_then(|https| Some((https, https.find(target)?)));
        let opened = self.open(target, owner, service.is_some()).await;
        drop(accepted);
        match opened {
            // Does not wait for the origin: what the application sends meanwhile travels with the
            // request.
            Ok((driver, flow, signals)) => {
                let how = match service {
                    None => pump(&driver, flow, &signals, stream, None).await,
                    Some((https, at)) => {
                        let tls = TlsFlow {
                            https,
                            at,
                            target,
                            from: From::of(&stream, owner),
                            driver: &driver,
                            flow,
                            signals: &signals,
                        };
                        let done = tls.carry(stream, Vec::new()).await;
                        self.carried((https, at), done, target, owner).await
                    }
                };
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

    /// After an attempt to open a connection: carries it by another flow, if it is to pass.
    async fn carried(
        &self,
        (https, at): (&Https, usize),
        done: Client,
        target: &Target,
        owner: &Owner,
    ) -> &'static str {
        let (stream, first) = match done {
            Client::Done(how) => return how,
            Client::Pass(stream, first) => (stream, first),
        };
        match self.open(target, owner, false).await {
            Ok((driver, flow, signals)) => {
                https.count(at, &signals);
                if !write_all(&driver, flow, &signals, &first).await {
                    reset_on_drop(&stream);
                    driver.forget(flow);
                    return "reset by the other end";
                }
                signals.note_carried([first.len(), 0]);
                pump(&driver, flow, &signals, stream, None).await
            }
            Err(_) => {
                reset_on_drop(&stream);
                "refused"
            }
        }
    }

    /// Reads the request of a proxy client, then hands the client to another task.
    async fn negotiate(
        self: Arc<Shared>,
        mut stream: TcpStream,
        owner: Owner,
        rule: Option<DomainName>,
        accepted: Accepted,
    ) {
        // An error means that the client is gone; later its address may be unknown.
        let Ok(from) = stream.peer_addr().map(canonical) else { return };
        let passwords = self.proxy_access.passwords.as_ref();
        let request =
            proxy::negotiate(&mut stream, passwords, proxy::MAX_HEAD, proxy::HANDSHAKE_TIME);
        match request.await {
            Ok(request) => {
                let owner = domain::of_proxy(owner, rule.as_ref(), request.user.as_deref());
                drop(tokio::spawn(
                    async move { self.proxy(stream, request, &owner, accepted).await },
                ));
            }
            Err(error) if error.is_unauthorized() => {
                FlowLine::new(&self.server, &owner, NO_TARGET).denied(&error);
                self.unauthorized(from, &error);
            }
            Err(error) => {
                FlowLine::new(&self.server, &owner, NO_TARGET).denied(&error);
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

    /// Counts and logs a client that may not use the proxy.
    fn unauthorized(&self, from: SocketAddr, why: &dyn Display) {
        self.refused_connections.fetch_add(1, Ordering::Relaxed);
        self.unauthorized_proxy_clients.fetch_add(1, Ordering::Relaxed);
        if let Some(suppressed) = self.unauthorized.pass() {
            warn!(%from, %why, suppressed, "proxy client refused");
        }
    }

    async fn proxy(
        &self,
        mut stream: TcpStream,
        request: Request,
        owner: &Owner,
        accepted: Accepted,
    ) {
        let line = FlowLine::new(&self.server, owner, &request.target);
        // A plain request is none for TLS.
        let https = self.https.as_ref().filter(|_| request.protocol != ProxyProtocol::Http);
        let service = https.and_then(|https| Some((https, https.find(&request.target)?)));
        let opened = self.open(&request.target, owner, service.is_some()).await;
        drop(accepted);
        let (driver, flow, signals) = match opened {
            Ok(opened) => opened,
            Err(refused) => {
                line.denied(refused);
                let _ = proxy::refuse(&mut stream, &request, refused).await;
                return;
            }
        };
        // The first bytes travel with the request to connect, unless they decide what it is.
        let first = if service.is_some() { &[][..] } else { &request.first };
        let first = write_all(&driver, flow, &signals, first);
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
                let accepted = proxy::accept(&mut stream, &request).await.is_ok();
                if accepted && let Some((https, at)) = service {
                    let tls = TlsFlow {
                        https,
                        at,
                        target: &request.target,
                        from: From::of(&stream, owner),
                        driver: &driver,
                        flow,
                        signals: &signals,
                    };
                    let done = tls.carry(stream, request.first).await;
                    let how = self.carried((https, at), done, &request.target, owner).await;
                    line.ended(&signals, how);
                } else if accepted {
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
