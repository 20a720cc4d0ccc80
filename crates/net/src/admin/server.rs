//! HTTP on the admin address.

use super::page::price;
use super::{Admin, Page, Pages, Site, Token, View, exposition};
use crate::history::History;
use crate::status::Document;
use crate::unauthenticated::PendingConnections;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Connections at once. Beyond that the oldest is dropped.
const MOST_CONNECTIONS: usize = 64;
/// How long a request's head may take.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// How long a connection may take, which carries one request.
const CONNECTION_TIME: Duration = Duration::from_secs(30);
/// Largest head of a request, in bytes.
const LARGEST_HEAD: usize = 16 << 10;
/// Most header fields of a request.
const MOST_HEADERS: usize = 64;
/// How long the answer to a wrong token takes, so that guessing is slow.
const WRONG_TOKEN: Duration = Duration::from_millis(500);
/// After a failure to accept, such as for lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// What the path names.
const PATHS: &str = "This is the admin address of Oncewire. It answers:

/         a page for browsers
/metrics  metrics for Prometheus
/status   the state as JSON, as `oncewire status --json` shows it
";

/// A bound admin address, which answers once it runs.
pub(crate) struct AdminServer {
    listener: TcpListener,
    address: SocketAddr,
    token: Option<Token>,
}

impl AdminServer {
    /// # Errors
    /// The system's, such as an address in use.
    pub(crate) async fn bind(admin: &Admin) -> io::Result<AdminServer> {
        let listener = TcpListener::bind(admin.listen).await?;
        let address = listener.local_addr()?;
        Ok(AdminServer { listener, address, token: admin.token.clone() })
    }

    /// The address it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers requests, for ever.
    pub(crate) async fn run(self, source: impl Source) {
        let state = Arc::new(State {
            token: self.token,
            source: Arc::new(source),
            work: Arc::new(Semaphore::new(1)),
        });
        let connections = PendingConnections::new(MOST_CONNECTIONS);
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let state = state.clone();
            connections.admit(async move {
                let service = service_fn(move |request| {
                    let state = state.clone();
                    async move { Ok::<_, Infallible>(state.answer(&request).await) }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEAD_TIME)
                    .max_buf_size(LARGEST_HEAD)
                    .max_headers(MOST_HEADERS)
                    .keep_alive(false)
                    .serve_connection(TokioIo::new(stream), service);
                // What goes wrong with a connection concerns its client, which sees it.
                let _ = tokio::time::timeout(CONNECTION_TIME, connection).await;
            });
        }
    }
}

/// What requests are answered from. `None` if the state of the process is not known.
pub(crate) trait Source: Send + Sync + 'static {
    /// The page for browsers.
    fn page(&self) -> Option<Page>;
    /// New data for it, with the price that the request has.
    fn update(&self, price: Option<&str>) -> Option<String>;
    /// Metrics for Prometheus.
    fn metrics(&self) -> Option<String>;
    /// The state as JSON.
    fn status(&self) -> Option<String>;
}

/// The source of a process whose state is a `T`.
pub(crate) struct Watched<S, T> {
    /// The state of the process.
    pub(crate) state: S,
    /// Writes it for browsers and programs.
    pub(crate) site: Site<T>,
    /// Writes it for Prometheus.
    pub(crate) metrics: fn(&T) -> String,
}

impl<S: Fn() -> Option<T> + Send + Sync + 'static, T: 'static> Source for Watched<S, T> {
    fn page(&self) -> Option<Page> {
        (self.state)().as_ref().map(self.site.page)
    }

    fn update(&self, _price: Option<&str>) -> Option<String> {
        (self.state)().as_ref().map(self.site.update)
    }

    fn metrics(&self) -> Option<String> {
        (self.state)().as_ref().map(self.metrics)
    }

    fn status(&self) -> Option<String> {
        (self.state)().as_ref().map(self.site.status)
    }
}

/// The source of a tunnel or a link.
pub(crate) struct Answers<D> {
    /// The state of the process.
    pub(crate) document: D,
    /// Writes it as JSON.
    pub(crate) render: fn(&Document) -> String,
    pub(crate) history: Arc<History>,
    pub(crate) pages: Pages,
}

impl<D: Fn() -> Document + Send + Sync + 'static> Source for Answers<D> {
    fn page(&self) -> Option<Page> {
        let document = (self.document)();
        Some((self.pages.page)(&View { document: &document, history: &self.history, price: None }))
    }

    fn update(&self, price: Option<&str>) -> Option<String> {
        let document = (self.document)();
        Some((self.pages.update)(&View { document: &document, history: &self.history, price }))
    }

    fn metrics(&self) -> Option<String> {
        Some(exposition(&(self.document)()))
    }

    fn status(&self) -> Option<String> {
        Some((self.render)(&(self.document)()))
    }
}

struct State {
    token: Option<Token>,
    source: Arc<dyn Source>,
    /// For what makes one answer: others wait, so that requests take one thread at most.
    work: Arc<Semaphore>,
}

impl State {
    async fn answer(self: &Arc<Self>, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let text = "text/plain; charset=utf-8";
        if let Err(status) = self.permit(request) {
            if status == StatusCode::UNAUTHORIZED
                && request.headers().contains_key(header::AUTHORIZATION)
            {
                tokio::time::sleep(WRONG_TOKEN).await;
            }
            let why = status.canonical_reason().unwrap_or_default();
            return response(status, text, format!("{why}\n"));
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return response(StatusCode::METHOD_NOT_ALLOWED, text, "Only GET and HEAD\n".into());
        }
        match request.uri().path() {
            "/" => page(self.made(|source| source.page()).await),
            "/update" => {
                let price = price(request.uri().query().unwrap_or_default());
                let made = self.made(move |source| source.update(price.as_deref()));
                answer(made.await, "application/json")
            }
            "/metrics" => {
                let made = self.made(|source| source.metrics()).await;
                answer(made, "text/plain; version=0.0.4; charset=utf-8")
            }
            "/status" => answer(self.made(|source| source.status()).await, "application/json"),
            _ => response(StatusCode::NOT_FOUND, text, format!("Not found. {PATHS}")),
        }
    }

    /// Makes an answer of the state on another thread: a hub has many sessions.
    async fn made<T: Send + 'static>(
        self: &Arc<Self>,
        make: impl FnOnce(&dyn Source) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let state = self.clone();
        // Nobody may be waiting any more when the answer is made: the permit stays with the work.
        let permit = self.work.clone().acquire_owned().await.ok()?;
        let made = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            make(&*state.source)
        });
        made.await.ok().flatten()
    }

    /// Whether the request may be answered.
    fn permit(&self, request: &Request<Incoming>) -> Result<(), StatusCode> {
        let header = |name: HeaderName| request.headers().get(name).map(HeaderValue::as_bytes);
        match &self.token {
            Some(token) => header(header::AUTHORIZATION)
                .is_some_and(|shown| token.is_shown(shown))
                .then_some(())
                .ok_or(StatusCode::UNAUTHORIZED),
            // A name that another site made to point here is not a loopback name.
            None => header(header::HOST)
                .is_some_and(is_loopback)
                .then_some(())
                .ok_or(StatusCode::MISDIRECTED_REQUEST),
        }
    }
}

/// Whether a `Host` is `localhost` or a loopback address, with any port.
fn is_loopback(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

fn answer(text: Option<String>, kind: &'static str) -> Response<Full<Bytes>> {
    match text {
        Some(text) => response(StatusCode::OK, kind, text),
        None => response(StatusCode::INTERNAL_SERVER_ERROR, "text/plain", "Failed\n".into()),
    }
}

fn page(made: Option<Page>) -> Response<Full<Bytes>> {
    let Some(Page { html, policy }) = made else { return answer(None, "") };
    let mut response = response(StatusCode::OK, "text/html; charset=utf-8", html);
    // A policy that is no header's value leaves the one that admits nothing.
    if let Ok(policy) = HeaderValue::from_str(&format!("{policy}; frame-ancestors 'none'")) {
        response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
    }
    response
}

fn response(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, kind);
    set(header::CACHE_CONTROL, "no-store");
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::X_FRAME_OPTIONS, "DENY");
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'");
    if status == StatusCode::UNAUTHORIZED {
        set(header::WWW_AUTHENTICATE, "Basic realm=\"Oncewire\", charset=\"UTF-8\"");
    }
    if status == StatusCode::METHOD_NOT_ALLOWED {
        set(header::ALLOW, "GET, HEAD");
    }
    response
}
