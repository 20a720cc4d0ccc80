//! What the opener of a flow requests: the format of a flow's target, which `docs/PROTOCOL.md`,
//! section "Targets", describes.

use crate::listener::Bind;
use crate::target::{Host, Target};

/// What the opener of a flow requests in its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FlowRequest {
    /// Connect to this target.
    Tcp(Target),
    /// Connect to this target, and begin TLS if the flow says so.
    Tls(Target),
    /// Listen here, and open a flow for every connection.
    Listen(Bind),
    /// A connection to the listener that this peer was asked to open.
    From(Bind),
}

impl FlowRequest {
    pub(crate) fn parse(target: &[u8]) -> Option<FlowRequest> {
        let (kind, rest) = std::str::from_utf8(target).ok()?.split_once(':')?;
        match kind {
            "tcp" => rest.parse().ok().map(FlowRequest::Tcp),
            "tls" => {
                let target: Option<Target> = rest.parse().ok();
                target.filter(|target| matches!(target.host(), Host::Name(_))).map(FlowRequest::Tls)
            }
            "listen" => rest.parse().ok().map(FlowRequest::Listen),
            "from" => rest.parse().ok().map(FlowRequest::From),
            _ => None,
        }
    }

    pub(crate) fn target(&self) -> Vec<u8> {
        match self {
            FlowRequest::Tcp(target) => format!("tcp:{target}"),
            FlowRequest::Tls(target) => format!("tls:{target}"),
            FlowRequest::Listen(bind) => format!("listen:{bind}"),
            FlowRequest::From(bind) => format!("from:{bind}"),
        }
        .into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_parsed_as_written_and_nothing_else_is() {
        for request in [
            FlowRequest::Tcp("origin.example:80".parse().unwrap()),
            FlowRequest::Tcp("[2001:db8::1]:443".parse().unwrap()),
            FlowRequest::Tls("origin.example:443".parse().unwrap()),
            FlowRequest::Listen("127.0.0.1:9000".parse().unwrap()),
            FlowRequest::From("[::1]:9000".parse().unwrap()),
        ] {
            assert_eq!(FlowRequest::parse(&request.target()), Some(request));
        }
        for bad in [
            &b"udp:origin:53"[..],
            b"tcp:",
            b"tcp:origin",
            b"",
            b"tcp:a b:80",
            b"tls:127.0.0.1:443",
            b"tls:[::1]:443",
            b"\xff",
            b"listen:x:70000",
        ] {
            assert_eq!(FlowRequest::parse(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }
}
