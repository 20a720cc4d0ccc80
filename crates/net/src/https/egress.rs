//! A `tls:` flow at the end that connects: what its opener says decides whether TLS is begun.

use super::lines::{Answer, Opening, read_line};
use super::origin::Origins;
use super::stream::Heard;
use crate::driver::{Driver, FlowSignals};
use crate::pump::{pump_after, write_all};
use crate::target::Host;
use oncewire_session::{FlowId, ResetCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tracing::debug;

/// How long the opener may take to say what it wants: longer than it waits for its application.
const OPENING_TIME: Duration = Duration::from_secs(60);

/// Carries a flow whose connection to `name` is there. Returns how it ended.
pub(crate) async fn serve_tls(
    driver: &Arc<Driver>,
    flow: FlowId,
    signals: &FlowSignals,
    stream: TcpStream,
    (host, origins): (&Host, &Origins),
    limit: Duration,
) -> &'static str {
    let line = tokio::select! {
        line = read_line(driver, flow, signals, OPENING_TIME) => line,
        () = signals.gone.notified() => None,
    };
    let opening = line.and_then(|(line, rest)| Some((Opening::parse(&line)?, rest)));
    let Some((opening, rest)) = opening else {
        driver.with(|session| session.reset(flow, ResetCode::Failed));
        driver.forget(flow);
        return "no opening line";
    };
    let Opening::Tls(protocols) = opening else {
        return pump_after(driver, flow, signals, stream, None, rest).await;
    };
    let name = host.to_string();
    match origins.begin(stream, &name, protocols, limit).await {
        Ok((stream, answer)) => {
            if !write_all(driver, flow, signals, &answer.line()).await {
                driver.forget(flow);
                return "reset by the other end";
            }
            pump_after(driver, flow, signals, Heard::from(stream), None, rest).await
        }
        Err((reason, text)) => {
            debug!(peer = driver.label(), name, %reason, text, "no TLS with an origin");
            write_all(driver, flow, signals, &Answer::No(reason, text).line()).await;
            driver.with(|session| session.finish(flow));
            // The opener finishes, too.
            tokio::select! {
                _ = read_line(driver, flow, signals, OPENING_TIME) => {}
                () = signals.gone.notified() => {}
            }
            driver.forget(flow);
            "no TLS"
        }
    }
}
