//! TLS of applications at the end that they connect to.

use super::asking::Asking;
use super::authority::{Authority, AuthorityError};
use super::hello::{self, Hello};
use super::leaves::{Issuing, Own, Terms};
use super::lines::{Answer, Opening, Reason, read_line};
use super::origin::NamedCertificate;
use super::passes::{From, Passes, RIGHT_AFTER, Why};
use super::services::{Service, Services};
use super::status::HttpsStatus;
use super::stream::{First, Heard};
use crate::driver::{Driver, FlowSignals};
use crate::log_limit::LogLimit;
use crate::pump::{pump_after, write_all};
use crate::services::Service as Carried;
use crate::sockets::reset_on_drop;
use crate::sync::lock;
use crate::target::{Host, Target};
use oncewire_session::{FlowId, ResetCode};
use rustls::sign::CertifiedKey;
use rustls::{AlertDescription, Error};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::StartHandshake;
use tracing::{debug, info, warn};

/// How long the other end may take to begin TLS with an origin.
const ANSWER_TIME: Duration = Duration::from_secs(60);
/// How long an application may take for its part of a handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(30);

/// Which services a client opens, and with which certificates.
#[derive(Clone, Debug, Default)]
pub struct HttpsSettings {
    /// Services whose certificates the CA issues.
    pub terminate: Vec<Service>,
    /// The CA: file of its key, file of its certificate.
    pub ca: Option<(PathBuf, PathBuf)>,
    /// Services with certificates of their own.
    pub own: Vec<NamedCertificate<Service>>,
}

/// Services that a client opens. All clones are the same.
#[derive(Clone)]
pub struct Https(Arc<Inner>);

struct Inner {
    services: Services,
    states: Vec<ServiceState>,
    issuing: Option<Issuing>,
    /// By the service's place; `None` for one of the CA.
    own: Vec<Option<Own>>,
    terms: Terms,
    passes: Passes,
}

#[derive(Default)]
struct ServiceState {
    opened: AtomicU64,
    passed: Mutex<BTreeMap<Why, u64>>,
    /// Connections that ended, because the origin's certificate was not accepted.
    ended: Mutex<BTreeMap<Why, u64>>,
    refused: AtomicU64,
    failed: AtomicU64,
    carried: Arc<Carried>,
    last: Mutex<Option<String>>,
}

impl fmt::Debug for Https {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let services: Vec<_> = self.0.services.iter().map(ToString::to_string).collect();
        f.debug_tuple("Https").field(&services).finish()
    }
}

impl Https {
    /// Reads the files. Of a service that is named twice, its own certificate counts.
    ///
    /// # Errors
    /// [`AuthorityError`] if a file cannot be used, or the CA may not issue certificates for a
    /// service.
    pub fn new(settings: HttpsSettings) -> Result<Https, AuthorityError> {
        let mut owns = Vec::new();
        for named in settings.own {
            owns.push(Own::new(named)?);
        }
        let all = owns.iter().map(Own::service).cloned().chain(settings.terminate.clone());
        let services = Services::new(all);
        let own: Vec<Option<Own>> = services
            .iter()
            .map(|service| {
                let at = owns.iter().position(|own| own.service() == service)?;
                Some(owns.swap_remove(at))
            })
            .collect();
        let issuing = match settings.ca {
            None => None,
            Some((key, certificate)) => Some(Issuing::new(key, certificate)?),
        };
        if let Some(issuing) = &issuing {
            issuing.authority().check(settings.terminate.iter())?;
        }
        let states = services.iter().map(|_| ServiceState::default()).collect();
        let terms = Terms::new().map_err(|_| AuthorityError::Random)?;
        Ok(Https(Arc::new(Inner {
            services,
            states,
            issuing,
            own,
            terms,
            passes: Passes::default(),
        })))
    }

    /// The services, in order.
    pub fn services(&self) -> impl ExactSizeIterator<Item = &Service> {
        self.0.services.iter()
    }

    /// The CA, if there is one.
    pub fn authority(&self) -> Option<Arc<Authority>> {
        self.0.issuing.as_ref().map(Issuing::authority)
    }

    /// The place of the service that a target belongs to.
    pub(crate) fn find(&self, target: &Target) -> Option<usize> {
        self.0.services.find(target)
    }

    /// Counts what a flow carries for the service at this place.
    pub(crate) fn count(&self, at: usize, signals: &FlowSignals) {
        signals.count_for(self.0.states[at].carried.clone());
    }

    /// What became of connections to each service.
    pub(crate) fn status(&self) -> Vec<HttpsStatus> {
        let mut clients = vec![0; self.0.states.len()];
        for (name, port) in self.0.passes.clients(Instant::now()) {
            let target = Target::new(Host::Name(name), port).ok();
            if let Some(at) = target.and_then(|target| self.find(&target)) {
                clients[at] += 1;
            }
        }
        let all = self.0.services.iter().zip(&self.0.states).enumerate();
        all.map(|(at, (service, state))| {
            let carried = state.carried.counters();
            HttpsStatus {
                name: service.to_string(),
                opened: state.opened.load(Ordering::Relaxed),
                passed: by_name(&state.passed),
                ended: by_name(&state.ended),
                refused_by_clients: state.refused.load(Ordering::Relaxed),
                failed_handshakes: state.failed.load(Ordering::Relaxed),
                clients_passed: clients[at],
                sent: carried.sent_bytes,
                received: carried.received_bytes,
                wire_sent: carried.wire_sent_bytes,
                wire_received: carried.wire_received_bytes,
                last_problem: lock(&state.last).clone(),
            }
        })
        .collect()
    }

    fn key(&self, at: usize, name: &str) -> Result<Arc<CertifiedKey>, AuthorityError> {
        match (&self.0.own[at], &self.0.issuing) {
            (Some(own), _) => Ok(own.key()),
            (None, Some(issuing)) => issuing.leaf(name),
            // Services without a certificate are refused by whoever reads the options.
            (None, None) => Err(AuthorityError::Make(rcgen::Error::CouldNotParseCertificate)),
        }
    }
}

fn by_name(counts: &Mutex<BTreeMap<Why, u64>>) -> BTreeMap<String, u64> {
    lock(counts).iter().map(|(why, &n)| (why.name(), n)).collect()
}

/// What an application wants.
enum Wish {
    Pass(Why),
    Open(Vec<Vec<u8>>),
}

/// What follows a failed attempt to open a connection.
pub(crate) enum Client {
    /// All is done; in a word or two, how it ended.
    Done(&'static str),
    /// The application's bytes so far, to be carried as they are by another flow.
    Pass(TcpStream, Vec<u8>),
}

/// A `tls:` flow at the end that opened it.
pub(crate) struct TlsFlow<'a> {
    pub(crate) https: &'a Https,
    /// The service's place.
    pub(crate) at: usize,
    pub(crate) target: &'a Target,
    pub(crate) from: From,
    pub(crate) driver: &'a Arc<Driver>,
    pub(crate) flow: FlowId,
    pub(crate) signals: &'a FlowSignals,
}

/// Whether an alert of a client means that it does not accept our certificate.
fn refuses(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    )
}

/// A client and a target of it: what it thinks of our certificate for that.
struct ClientSite {
    https: Https,
    at: usize,
    target: Target,
    from: From,
}

impl ClientSite {
    fn client(&self) -> String {
        String::from_utf8_lossy(&self.from.owner.client).into_owned()
    }

    fn name(&self) -> String {
        self.target.host().to_string()
    }

    /// The client's connections to this name are passed through from now on. Returns whether that is
    /// news.
    fn passes(&self, why: Why) -> bool {
        let (name, port) = (self.name(), self.target.port());
        self.https.0.passes.client(self.from.clone(), &name, port, why, Instant::now())
    }

    fn used(&self) {
        self.https.0.passes.used(&self.from, &self.name(), self.target.port());
    }

    /// The client has closed a connection right after the handshake. Some that expect another
    /// certificate do so without an alert.
    fn closed(&self) {
        let passes = &self.https.0.passes;
        let (name, port, now) = (self.name(), self.target.port(), Instant::now());
        if let Some(time) = passes.closed(&self.from, &name, port, now) {
            let from = self.from.clone();
            let is_news = passes.client_for(time, from, &name, port, Why::Client, now);
            let how = "it closes its connections right after the handshake";
            self.note_refusal(&how, is_news, time.as_secs() / 60);
        }
    }

    fn client_refused(&self, how: &dyn fmt::Display) {
        self.note_refusal(how, self.passes(Why::Client), 24 * 60);
    }

    fn note_refusal(&self, how: &dyn fmt::Display, is_news: bool, minutes: u64) {
        let state = &self.https.0.states[self.at];
        state.refused.fetch_add(1, Ordering::Relaxed);
        let client = self.client();
        if is_news {
            *lock(&state.last) =
                Some(format!("{}: {client} refused the certificate: {how}", self.target));
            info!(
                target = %self.target,
                client,
                %how,
                minutes,
                "a client refuses the certificate of a named service: its connections there pass untouched for this time; has it installed the CA?"
            );
        }
    }
}

/// Ends an application's connection before its handshake, with a reason.
async fn end(mut stream: TcpStream, alert: AlertDescription) {
    // A fatal alert in a record without encryption (RFC 8446, sections 5.1 and 6).
    let record = [0x15, 3, 3, 0, 2, 2, alert.into()];
    // Whoever is gone needs no reason.
    if stream.write_all(&record).await.is_ok() {
        let _ = stream.shutdown().await;
    }
}

impl TlsFlow<'_> {
    /// Carries an application's connection. `first` was read of it before.
    pub(crate) async fn carry(self, mut stream: TcpStream, first: Vec<u8>) -> Client {
        self.https.count(self.at, self.signals);
        let hello = tokio::select! {
            hello = hello::read(&mut stream, first) => hello,
            () = self.signals.gone.notified() => {
                reset_on_drop(&stream);
                return self.reset("reset by the other end");
            }
        };
        let Ok(hello) = hello else { return self.reset("given up by the application") };
        let wish = self.wish(&hello);
        let opening = match &wish {
            Wish::Pass(_) => Opening::Pass,
            Wish::Open(protocols) => Opening::Tls(protocols.clone()),
        };
        let (opening, wish) = match (opening.line(), wish) {
            (Some(line), wish) => (line, wish),
            (None, _) => (b"pass\n".to_vec(), Wish::Pass(Why::TooLong)),
        };
        if !write_all(self.driver, self.flow, self.signals, &opening).await {
            return self.reset("reset by the other end");
        }
        match wish {
            Wish::Pass(why) => {
                self.passed(why, "");
                let sent = write_all(self.driver, self.flow, self.signals, &hello.bytes).await;
                if !sent {
                    return self.reset("reset by the other end");
                }
                self.signals.note_carried([hello.bytes.len(), 0]);
                self.pump(stream, Vec::new()).await
            }
            Wish::Open(_) => self.open(stream, hello).await,
        }
    }

    fn name(&self) -> &str {
        match self.target.host() {
            Host::Name(name) => name,
            Host::Ip(_) => "",
        }
    }

    fn wish(&self, hello: &Hello) -> Wish {
        if hello.tls.is_none() {
            return Wish::Pass(Why::NotTls);
        }
        if hello.name().as_deref() != Some(self.name()) {
            return Wish::Pass(Why::OtherName);
        }
        let passes = &self.https.0.passes;
        match passes.why(&self.from, self.name(), self.target.port(), Instant::now()) {
            Some(why) => Wish::Pass(why),
            None => Wish::Open(hello.protocols()),
        }
    }

    /// TLS is begun with the origin, then with the application.
    async fn open(self, stream: TcpStream, hello: Hello) -> Client {
        let answer = tokio::select! {
            line = read_line(self.driver, self.flow, self.signals, ANSWER_TIME) => line,
            () = self.signals.gone.notified() => None,
        };
        let answer = answer.and_then(|(line, rest)| Some((Answer::parse(&line)?, rest)));
        let (protocol, asking, rest) = match answer {
            Some((Answer::Tls(protocol), rest)) => (protocol, None, rest),
            Some((Answer::Asks(protocol), rest)) => {
                (protocol, Some(Arc::<Asking>::default()), rest)
            }
            Some((Answer::No(reason, text), _)) => {
                self.origin_failed(reason, &text);
                let done = self.reset("no TLS with the origin");
                let Some(alert) = reason.alert() else {
                    return Client::Pass(stream, hello.bytes);
                };
                end(stream, alert).await;
                return done;
            }
            None => {
                reset_on_drop(&stream);
                return self.reset("reset by the other end");
            }
        };
        let Some(tls) = hello.tls else { return self.reset("no TLS") };
        let key = self.https.key(self.at, self.name());
        let terms = &self.https.0.terms;
        let config = match key.map(|key| terms.config(key, protocol, asking.clone())) {
            Ok(Ok(config)) => config,
            Ok(Err(error)) => return self.no_certificate(&error),
            Err(error) => return self.no_certificate(&error),
        };
        let handshake = StartHandshake::from_parts(*tls, stream).into_stream(config);
        let handshake = tokio::select! {
            done = tokio::time::timeout(HANDSHAKE_TIME, handshake) => done,
            () = self.signals.gone.notified() => return self.reset("reset by the other end"),
        };
        match handshake {
            Ok(Ok(stream)) => {
                self.https.0.states[self.at].opened.fetch_add(1, Ordering::Relaxed);
                let listener = self.listener();
                self.pump(Heard::new(stream.into(), listener), rest).await
            }
            Ok(Err(error)) => {
                if asking.is_some_and(|asking| asking.has_one()) {
                    self.client_certificate();
                } else {
                    self.client_failed(&error);
                }
                self.reset("no TLS with the application")
            }
            Err(_) => self.reset("no TLS with the application"),
        }
    }

    async fn pump(&self, application: impl crate::pump::Application, rest: Vec<u8>) -> Client {
        Client::Done(
            pump_after(self.driver, self.flow, self.signals, application, None, rest).await,
        )
    }

    fn reset(&self, how: &'static str) -> Client {
        self.driver.with(|session| session.reset(self.flow, ResetCode::Reset));
        self.driver.forget(self.flow);
        Client::Done(how)
    }

    fn no_certificate(&self, error: &dyn fmt::Display) -> Client {
        static FAILED: LogLimit = LogLimit::new();
        if let Some(suppressed) = FAILED.pass() {
            warn!(target = %self.target, %error, suppressed, "no certificate for a service");
        }
        *lock(&self.https.0.states[self.at].last) = Some(error.to_string());
        self.reset("no certificate")
    }

    /// Counts a connection whose bytes pass untouched.
    fn passed(&self, why: Why, text: &str) {
        let state = &self.https.0.states[self.at];
        *lock(&state.passed).entry(why).or_default() += 1;
        debug!(target = %self.target, %why, text, "a connection to a named service passes untouched");
    }

    fn origin_failed(&self, reason: Reason, text: &str) {
        static FAILED: LogLimit = LogLimit::new();
        let ends = reason.alert().is_some();
        if ends {
            let state = &self.https.0.states[self.at];
            *lock(&state.ended).entry(Why::Origin(reason)).or_default() += 1;
        } else {
            self.passed(Why::Origin(reason), text);
        }
        let (passes, now) = (&self.https.0.passes, Instant::now());
        let is_news = passes.origin_failed(self.name(), self.target.port(), reason, now);
        let separator = if text.is_empty() { "" } else { ": " };
        *lock(&self.https.0.states[self.at].last) =
            Some(format!("{}: {reason}{separator}{text}", self.target));
        if let Some(suppressed) = is_news.then(|| FAILED.pass()).flatten() {
            warn!(
                target = %self.target,
                why = %reason,
                text,
                suppressed,
                "cannot open a named service: its connections {}",
                if ends { "end with an alert, as nobody should trust this origin" } else { "pass untouched" }
            );
        }
    }

    fn site(&self) -> ClientSite {
        ClientSite {
            https: self.https.clone(),
            at: self.at,
            target: self.target.clone(),
            from: self.from.clone(),
        }
    }

    /// Judges by what an application does first whether it accepts our certificate.
    fn listener(&self) -> impl FnOnce(First) + Send + 'static {
        let (site, since) = (self.site(), Instant::now());
        move |first| match first {
            First::Content => site.used(),
            First::Alert(alert) if refuses(alert) => {
                site.client_refused(&Error::AlertReceived(alert))
            }
            First::Closed | First::Alert(_) if since.elapsed() < RIGHT_AFTER => site.closed(),
            First::Closed | First::Alert(_) => {}
        }
    }

    /// The origin asks for a certificate, and the client has one.
    fn client_certificate(&self) {
        self.https.0.states[self.at].failed.fetch_add(1, Ordering::Relaxed);
        let site = self.site();
        if site.passes(Why::ClientCertificate) {
            info!(
                target = %self.target,
                client = site.client(),
                "a client has a certificate for the origin: its connections there pass untouched for a day"
            );
        }
    }

    /// A handshake with the application has failed. If it refuses our certificate, its connections
    /// to this name are passed through from now on.
    fn client_failed(&self, error: &std::io::Error) {
        let state = &self.https.0.states[self.at];
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
        if matches!(tls, Some(Error::AlertReceived(alert)) if refuses(*alert)) {
            self.site().client_refused(error);
        } else {
            state.failed.fetch_add(1, Ordering::Relaxed);
            debug!(target = %self.target, %error, "no TLS with an application");
        }
    }
}
