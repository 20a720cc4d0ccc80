//! Egress: from a flow that the peer opens to a connection of this end, and listeners for the peer.
//!
//! The format of a flow's target, and who may send which, is in `docs/PROTOCOL.md`, section
//! "Targets".

use crate::allow::AllowList;
use crate::domain::{self, Site};
use crate::driver::{Driver, FlowSignals, OpenedFlow};
use crate::flows::FlowLine;
use crate::https::{Origins, serve_tls};
use crate::keys::AuthorizedPeers;
use crate::listener::{Bind, Forward};
use crate::log_limit::LogLimit;
use crate::pump::{pump, write_all};
use crate::refusal::Refusal;
use crate::request::FlowRequest;
use crate::sockets::{accept, dial, listen, lookup, tune_application};
use crate::target::Host;
use oncewire_session::{FlowId, OpenError, Owner, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tracing::{debug, info, warn};

/// What the peer's flows may reach from here. The default is nothing.
#[derive(Clone, Debug, Default)]
pub struct Egress {
    /// Allowed destinations (`--allow`) of peers that have no rules of their own.
    pub allow: AllowList,
    /// Listeners that the peer may request (`--allow-listen`).
    pub allow_listen: Vec<Bind>,
    /// Where connections to the listeners go that the peer keeps for this end (`-R`).
    pub reverse: Vec<Forward>,
    /// Time limit for connecting to one address.
    pub connect_timeout: Duration,
    /// How the origins of services are verified that the peer opens.
    pub origins: Origins,
}

impl Egress {
    /// Warns if the peer can reach nothing.
    pub(crate) fn warn_if_closed(&self, peers: &AuthorizedPeers) {
        if self.allow.is_empty() && self.allow_listen.is_empty() && peers.with_rules() == 0 {
            warn!(
                "peers can reach nothing through this end: allow destinations with --allow host:port, or listeners with --allow-listen"
            );
        }
    }
}

/// What one peer's flows may reach.
#[derive(Clone)]
pub(crate) struct Rules {
    pub(crate) egress: Arc<Egress>,
    /// Its own destinations, instead of those of `egress`.
    pub(crate) own: Option<Arc<AllowList>>,
}

impl Rules {
    fn allow(&self) -> &AllowList {
        self.own.as_deref().unwrap_or(&self.egress.allow)
    }
}

/// Serves a flow that the peer opened, from request to end.
pub(crate) async fn serve_flow(driver: Arc<Driver>, opened: OpenedFlow, rules: Rules) {
    let OpenedFlow { flow, target, owner } = opened;
    let Some(signals) = driver.signals(flow) else { return };
    let line = FlowLine::new(driver.label(), &owner, String::from_utf8_lossy(&target));
    let result = tokio::select! {
        result = reach(&driver, &signals, flow, &target, owner, rules.clone()) => result,
        // The peer gave the flow up.
        () = signals.gone.notified() => Ok(None),
    };
    match result {
        Ok(Some(stream)) => {
            driver.with(|session| session.accept(flow, Instant::now()));
            let how = match FlowRequest::parse(&target) {
                Some(FlowRequest::Tls(target)) => {
                    let egress = &rules.egress;
                    let origin = (target.host(), &egress.origins);
                    serve_tls(&driver, flow, &signals, stream, origin, egress.connect_timeout).await
                }
                _ => pump(&driver, flow, &signals, stream, None).await,
            };
            line.ended(&signals, how);
        }
        Ok(None) => {
            driver.forget(flow);
            line.ended(&signals, "given up by the other end");
        }
        Err(refused) => {
            driver.refused_targets.fetch_add(1, Ordering::Relaxed);
            log_refusal(&driver, &target, refused);
            match refused {
                Refusal::NotAllowed => line.denied("no rule allows it"),
                _ => line.denied(refused),
            }
            driver.with(|session| session.reset(flow, refused.reset_code()));
            driver.forget(flow);
        }
    }
}

/// Logs that a flow was refused.
fn log_refusal(driver: &Driver, target: &[u8], refused: Refusal) {
    static NOT_ALLOWED: LogLimit = LogLimit::new();
    static UNREACHABLE: LogLimit = LogLimit::new();
    let (peer, address) =
        (driver.label(), driver.path().map(|path| path.address.to_string()).unwrap_or_default());
    // A field is quoted and escaped in the log; a message is not.
    let target = String::from_utf8_lossy(target).into_owned();
    let by_rules = matches!(refused, Refusal::NotAllowed | Refusal::Guarded { .. });
    match if by_rules { &NOT_ALLOWED } else { &UNREACHABLE }.pass() {
        Some(suppressed) if matches!(refused, Refusal::Guarded { .. }) => {
            warn!(peer, address, target, why = %refused, suppressed, "connection refused: a rule allows its target, but not the address");
        }
        Some(suppressed) if by_rules => {
            warn!(
                peer,
                address,
                target,
                suppressed,
                "connection refused: no --allow, --allow-listen or rule of the peer allows its target"
            );
        }
        Some(suppressed) => {
            warn!(peer, address, target, why = %refused, suppressed, "connection refused: cannot reach its target")
        }
        None => debug!(peer, address, target, %refused, "connection refused"),
    }
}

/// Does what a flow requests. Returns the connection to the target, or `None` once a listener has
/// ended.
async fn reach(
    driver: &Arc<Driver>,
    signals: &FlowSignals,
    flow: FlowId,
    target: &[u8],
    owner: Owner,
    rules: Rules,
) -> Result<Option<TcpStream>, Refusal> {
    let request = FlowRequest::parse(target).ok_or(Refusal::NotAllowed)?;
    if let FlowRequest::Listen(bind) = request {
        if !rules.egress.allow_listen.contains(&bind) {
            return Err(Refusal::NotAllowed);
        }
        let listener = listen(&bind).await.map_err(|error| {
            warn!(peer = driver.label(), %bind, %error, "cannot listen for the peer (-R)");
            Refusal::Failed
        })?;
        let rule = domain::of_peer(owner);
        serve_listener(driver, signals, flow, &bind, rule, listener).await;
        return Ok(None);
    }
    let has_name = !matches!(&request, FlowRequest::Tcp(to) if matches!(to.host(), Host::Ip(_)));
    let permit = driver.dials.acquire(&owner).await.map_err(|_| Refusal::Failed)?;
    let connect_timeout = rules.egress.connect_timeout;
    let found = async move { find(request, &rules).await.map(|addresses| (addresses, permit)) };
    let (addresses, _permit) = if has_name {
        // A look-up continues after its flow was reset, so its permit stays with a separate task
        // until then. Otherwise a peer could start any number by opening and resetting flows.
        tokio::spawn(found).await.map_err(|_| Refusal::Failed)??
    } else {
        found.await?
    };
    let stream =
        dial(&addresses, connect_timeout).await.map_err(|error| Refusal::of_connect(&error))?;
    tune_application(&stream).map_err(|_| Refusal::Failed)?;
    Ok(Some(stream))
}

/// The addresses that a request leads to, if the rules allow it.
async fn find(request: FlowRequest, rules: &Rules) -> Result<Vec<SocketAddr>, Refusal> {
    match request {
        FlowRequest::Tcp(target) | FlowRequest::Tls(target) => rules.allow().resolve(&target).await,
        FlowRequest::From(bind) => {
            let forward = rules
                .egress
                .reverse
                .iter()
                .find(|forward| forward.bind == bind)
                .ok_or(Refusal::NotAllowed)?;
            lookup(forward.target.host(), forward.target.port())
                .await
                .map_err(|_| Refusal::NoSuchName)
        }
        FlowRequest::Listen(_) => Err(Refusal::Failed),
    }
}

/// Accepts connections for the peer until it ends the flow that requested the listener. They are
/// of the owner that the peer named, if it named one.
async fn serve_listener(
    driver: &Arc<Driver>,
    signals: &FlowSignals,
    flow: FlowId,
    bind: &Bind,
    rule: Option<Owner>,
    listener: TcpListener,
) {
    let _listening = driver.listening();
    driver.with(|session| session.accept(flow, Instant::now()));
    let bound = listener.local_addr().map(|address| address.to_string()).unwrap_or_default();
    info!(peer = driver.label(), %bound, "listening for the peer (-R)");
    if !write_all(driver, flow, signals, format!("{bound}\n").as_bytes()).await {
        return;
    }
    let target = FlowRequest::From(bind.clone()).target();
    let accept = async {
        loop {
            let stream = accept(&listener).await;
            // Before anything else: the client may close its socket at once.
            let owner =
                rule.clone().unwrap_or_else(|| domain::of_connection(Site::Server, &stream, None));
            let (driver, target) = (driver.clone(), target.clone());
            tokio::spawn(async move {
                let line = FlowLine::new(driver.label(), &owner, String::from_utf8_lossy(&target));
                match driver.open_soon(&target, &owner).await {
                    Ok((flow, signals)) => {
                        let how = pump(&driver, flow, &signals, stream, None).await;
                        line.ended(&signals, how);
                    }
                    Err(error) => {
                        log_no_flow(&error, driver.label());
                        line.denied(error);
                    }
                }
            });
        }
    };
    let ended = async {
        loop {
            match driver.with(|session| session.read(flow)) {
                Some(Read::Nothing) => signals.readable.notified().await,
                // The peer has nothing to send here: discard it.
                Some(Read::Data(chunk)) => {
                    driver.with(|session| session.consumed(flow, chunk.len(), Instant::now()));
                }
                Some(Read::Finished | Read::Cut | Read::Gone) | None => return,
            }
        }
    };
    tokio::pin!(ended);
    let has_ended = tokio::select! {
        () = accept => false,
        () = &mut ended => true,
        () = driver.listeners_closed() => false,
    };
    drop(listener);
    driver.with(|session| session.finish(flow));
    if !has_ended {
        ended.await;
    }
}

/// Logs that there is no flow for an application's connection.
pub(crate) fn log_no_flow(error: &OpenError, peer: &str) {
    static REFUSED: LogLimit = LogLimit::new();
    match REFUSED.pass() {
        Some(suppressed) => warn!(peer, %error, suppressed, "connection refused"),
        None => debug!(peer, %error, "connection refused"),
    }
}
