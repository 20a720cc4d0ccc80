//! HTTPS of named services, between real programs.

use crate::https_support::{
    Certificates, Nginx, curl, fetched, opening, python_server, s_server, service, tunnel,
};
use crate::support::{
    ONCEWIRE, Plan, application, assert_same, finish, oncewire, origin, succeed, text, wait_until,
};
use oncewire_testkit::need_tool;
use oncewire_testkit::servers::{Running, incompressible};
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

#[test]
fn a_named_service_costs_little_again_by_http_1_and_2_and_each_listener() {
    let (nginx, _, _) = (need_tool!("nginx"), need_tool!("curl"), need_tool!("openssl"));
    let certificates = Certificates::new();
    let nginx = Nginx::start(&nginx, &certificates, "");
    let content = incompressible(41, 600_000);
    nginx.publish("file", &content);
    let tunnel = tunnel(&certificates, &[nginx.port]);
    let (url, site) =
        (format!("https://localhost:{}/file", nginx.port), certificates.path("site.crt"));
    let get = |scheme: &str, version: &str| {
        let (got, cost) = tunnel.cost(|| fetched(curl(&tunnel, scheme, &site, &[version, &url])));
        assert_same(&got, &content, version);
        cost
    };
    let first = get("http", "--http1.1");
    assert!(first > 600_000, "{first}");
    for (scheme, version) in [("http", "--http2"), ("socks5h", "--http2"), ("socks5h", "--http1.1")]
    {
        let again = get(scheme, version);
        assert!(again < first / 10, "{scheme} {version}: {again} of {first} bytes");
    }
    let told = curl(
        &tunnel,
        "http",
        &site,
        &["--http2", "-o", "/dev/null", "-w", "%{http_version} %{ssl_verify_result}", &url],
    );
    assert_eq!(fetched(told), b"2 0");
    let status = service(&tunnel.connect, 0);
    assert_eq!(
        (&status["opened"], &status["passed"]),
        (&5.into(), &serde_json::json!({})),
        "{status:#}"
    );
    let count = |name: &str| status[name].as_u64().unwrap();
    assert!(count("content_received_bytes") > 5 * 600_000, "{status:#}");
    assert!(count("wire_received_bytes") < 800_000, "{status:#}");
    let shown = text(&oncewire([
        "status".as_ref(),
        "--socket".as_ref(),
        tunnel.connect.socket.as_os_str(),
    ]));
    assert!(shown.contains(&format!("localhost:{}", nginx.port)), "{shown}");
    // A client that does not trust the site's CA gets nothing, and from then on passes untouched.
    let own = certificates.path("origins.crt");
    let refused = curl(&tunnel, "http", &own, &[&url]);
    assert_eq!(refused.status.code(), Some(60), "{}", text(&refused));
    wait_until("the refusal counts", || service(&tunnel.connect, 0)["refused_by_clients"] == 1);
    let (got, cost) = tunnel.cost(|| fetched(curl(&tunnel, "http", &own, &[&url])));
    assert_same(&got, &content, "passed through");
    assert!(cost > 600_000, "{cost}");
    let status = service(&tunnel.connect, 0);
    assert_eq!(status["passed"]["client_refused_certificate"], 1, "{status:#}");
    assert_eq!(status["clients_passed"], 1, "{status:#}");
    assert!(tunnel.connect.said().contains("a client refuses the certificate"));
}

#[test]
fn broken_origins_fail_and_say_why() {
    let (_, _) = (need_tool!("curl"), need_tool!("openssl"));
    let certificates = Certificates::new();
    let path = |name: &str| certificates.path(name);
    certificates.sign("expired", "localhost", "-1");
    certificates.sign("other", "other.localhost", "30");
    certificates.self_sign("self", "localhost");
    let of = |name: &str| {
        [
            "-cert".to_owned(),
            path(&format!("{name}.crt")),
            "-key".to_owned(),
            path(&format!("{name}.key")),
        ]
    };
    let start = |name: &str, more: &[&str]| {
        let args = of(name);
        s_server(&[&args.each_ref().map(String::as_str)[..], more].concat())
    };
    // What an origin is, the reason, and curl's status and words for the alert.
    let origins = [
        (start("expired", &[]), "origin_expired", 60, "certificate verification failed"),
        (start("other", &[]), "origin_name", 35, "unrecognized name"),
        (start("self", &[]), "origin_issuer", 35, "unknown ca"),
    ];
    let ports: Vec<_> = origins.iter().map(|((port, _), ..)| *port).collect();
    let tunnel = tunnel(&certificates, &ports);
    for (at, ((port, _), reason, code, alert)) in origins.iter().enumerate() {
        let url = format!("https://localhost:{port}/");
        // Whichever CA the client trusts, and even if it would trust anyone.
        for more in [&["--cacert", &path("origins.crt")][..], &[], &["-k"]] {
            let args = [more, &["--http1.1", &url]].concat();
            let output = curl(&tunnel, "socks5h", &path("site.crt"), &args);
            let said = text(&output).to_ascii_lowercase();
            assert_eq!(output.status.code(), Some(*code), "{reason}: {said}");
            assert!(said.contains(alert), "{reason}: {said}");
        }
        let status = service(&tunnel.connect, at);
        assert_eq!(
            (&status["ended"], &status["passed"], &status["opened"]),
            (&serde_json::json!({ *reason: 3 }), &serde_json::json!({}), &0.into()),
            "{status:#}"
        );
        assert!(status["last_problem"].is_string(), "{status:#}");
    }
    let said = tunnel.connect.said();
    assert!(said.contains("its connections end with an alert"), "{said}");
}

#[test]
fn client_certificates_decide_what_passes() {
    let (nginx, _, _) = (need_tool!("nginx"), need_tool!("curl"), need_tool!("openssl"));
    let certificates = Certificates::new();
    let path = |name: &str| certificates.path(name);
    certificates.self_sign("client", "client.example");
    // nginx asks, whatever it requires, and answers 400 to those without.
    let of = format!("ssl_client_certificate {};", path("client.crt"));
    let optional =
        Nginx::start(&nginx, &certificates, &format!("{of} ssl_verify_client optional;"));
    let inside = Nginx::start(&nginx, &certificates, &format!("{of} ssl_verify_client on;"));
    let requires = |version: &str| {
        let (certificate, key, ca) = (path("good.crt"), path("good.key"), path("client.crt"));
        s_server(&[
            "-cert",
            &certificate,
            "-key",
            &key,
            "-CAfile",
            &ca,
            "-Verify",
            "1",
            "-verify_return_error",
            version,
        ])
    };
    let (new, _running) = requires("-tls1_3");
    let (old, _old_running) = requires("-tls1_2");
    for nginx in [&optional, &inside] {
        nginx.publish("file", b"content");
    }
    let tunnel = tunnel(&certificates, &[optional.port, inside.port, new, old]);
    let get = |port: u16, ca: &str, args: &[&str]| {
        let url = format!("https://localhost:{port}/file");
        let code = ["-o", "/dev/null", "-w", "%{http_code}"];
        curl(&tunnel, "http", &path(ca), &[&code[..], args, &[&url]].concat())
    };
    let (certificate, key) = (path("client.crt"), path("client.key"));
    let own = ["--cert", certificate.as_str(), "--key", &key];
    for (at, port, without) in [(0, optional.port, b"200"), (1, inside.port, b"400")] {
        for version in ["--http1.1", "--http2"] {
            assert_eq!(fetched(get(port, "site.crt", &[version])), without, "{version}");
        }
        let status = service(&tunnel.connect, at);
        assert_eq!(
            (&status["opened"], &status["passed"]),
            (&2.into(), &serde_json::json!({})),
            "{status:#}"
        );
        // A client with a certificate fails once, and then talks to the origin itself.
        let first = get(port, "site.crt", &own);
        assert!(!first.status.success(), "{}", text(&first));
        wait_until("it is known", || service(&tunnel.connect, at)["clients_passed"] == 1);
        assert_eq!(fetched(get(port, "origins.crt", &own)), b"200");
        let status = service(&tunnel.connect, at);
        assert_eq!(status["passed"], serde_json::json!({"client_has_certificate": 1}));
    }
    for (at, port) in [(2, new), (3, old)] {
        assert!(!get(port, "origins.crt", &["--http1.1"]).status.success());
        assert_eq!(fetched(get(port, "origins.crt", &[&own[..], &["--http1.1"]].concat())), b"200");
        let status = service(&tunnel.connect, at);
        assert_eq!(
            (&status["opened"], &status["passed"]),
            (&0.into(), &serde_json::json!({"origin_client_certificate": 2})),
            "{status:#}"
        );
    }
}

#[test]
fn a_client_that_closes_after_the_handshake_passes_at_last() {
    let (_, python) = (need_tool!("openssl"), need_tool!("python3"));
    let certificates = Certificates::new();
    let (port, _running) = python_server(&python, &certificates);
    let tunnel = opening(&certificates, port).start();
    // Trusts everyone, and then compares the certificate as apps that pin do.
    let script = "
import socket, ssl, sys
context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
pinned = ssl.PEM_cert_to_DER_cert(open(sys.argv[2]).read())
raw = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
tls = context.wrap_socket(raw, server_hostname='localhost')
if sys.argv[3] == 'any' or tls.getpeercert(True) == pinned:
    tls.sendall(b'GET /whole HTTP/1.0\\r\\n\\r\\n')
    while tls.recv(65536):
        pass
    print('fetched')
else:
    print('refused')
";
    let visit = |which: &str| {
        let mut command = Command::new(&python);
        let port = tunnel.way(0).port().to_string();
        command.args(["-c", script, &port, &certificates.path("good.crt"), which]);
        String::from_utf8(succeed(&mut command)).unwrap().trim().to_owned()
    };
    let refused = || service(&tunnel.connect, 0)["refused_by_clients"].clone();
    // Two are no pattern, and a request begins the count again.
    for which in ["pinned", "pinned", "any", "pinned", "pinned"] {
        assert_eq!(visit(which), if which == "any" { "fetched" } else { "refused" });
    }
    assert_eq!(refused(), 0);
    assert_eq!(visit("pinned"), "refused");
    wait_until("the refusals count", || refused() == 1);
    assert_eq!(visit("pinned"), "fetched");
    let status = service(&tunnel.connect, 0);
    assert_eq!(status["passed"], serde_json::json!({"client_refused_certificate": 1}));
    assert!(tunnel.connect.said().contains("closes its connections right after the handshake"));
}

/// An origin that keeps what it gets and answers nothing.
fn recorder() -> (SocketAddr, Arc<Mutex<Vec<u8>>>) {
    let seen = Arc::<Mutex<Vec<u8>>>::default();
    let kept = seen.clone();
    let address = origin(move |mut stream| {
        let mut bytes = [0; 4096];
        while let Ok(len @ 1..) = stream.read(&mut bytes) {
            kept.lock().unwrap().extend_from_slice(&bytes[..len]);
        }
    });
    (address, seen)
}

#[test]
fn what_is_not_named_or_not_tls_passes_byte_by_byte() {
    let _ = need_tool!("openssl");
    let certificates = Certificates::new();
    let (address, seen) = recorder();
    let site = certificates.path("site.key");
    let tunnel = Plan::new()
        .only("localhost:*".into())
        .forward_to(&format!("localhost:{}", address.port()))
        .connect(&["--terminate", &format!("localhost:{}", address.port()), "--ca", &site])
        .start();
    // The hello of a client that wants another name.
    let mut hello = Vec::new();
    let grabber = origin_hello();
    hello.extend(grabber);
    let mut changed = hello.clone();
    let at = hello.windows(5).position(|part| part == b"other").expect("the name");
    changed[at] = 0;
    let cases = [
        hello,
        changed,
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0x16; 70_000],
        vec![0x16, 3, 1, 0, 5, 9],
    ];
    for (n, bytes) in cases.iter().enumerate() {
        seen.lock().unwrap().clear();
        let mut stream = application(tunnel.way(0));
        stream.write_all(bytes).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        wait_until("all bytes arrive", || seen.lock().unwrap().len() >= bytes.len());
        assert_same(&seen.lock().unwrap(), bytes, &format!("case {n}"));
    }
    let status = service(&tunnel.connect, 0);
    assert_eq!(status["opened"], 0, "{status:#}");
    let passed = status["passed"].as_object().unwrap();
    assert_eq!(passed.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), 5, "{status:#}");
    assert_eq!(passed["other_name"], 1, "{status:#}");
}

/// The first bytes of `openssl s_client` for the name other.example.
fn origin_hello() -> Vec<u8> {
    let (address, seen) = recorder();
    let mut command = Command::new("openssl");
    command.args(["s_client", "-servername", "other.example", "-connect", &address.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let client = Running::start(&mut command).unwrap();
    wait_until("there is a hello", || {
        let seen = seen.lock().unwrap();
        seen.len() > 5 && seen.len() >= 5 + usize::from(u16::from_be_bytes([seen[3], seen[4]]))
    });
    drop(client);
    let seen = seen.lock().unwrap();
    seen.clone()
}

#[test]
fn a_closed_connection_is_closed_and_a_truncated_one_truncated() {
    let (_, python) = (need_tool!("openssl"), need_tool!("python3"));
    let certificates = Certificates::new();
    let (port, _running) = python_server(&python, &certificates);
    let tunnel = opening(&certificates, port).start();
    // curl takes a truncated response for a whole one.
    let script = "
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
raw = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
tls = context.wrap_socket(raw, server_hostname='localhost', suppress_ragged_eofs=False)
tls.sendall(b'GET /' + sys.argv[3].encode() + b' HTTP/1.0\\r\\n\\r\\n')
got, end = 0, 'closed'
try:
    while data := tls.recv(65536):
        got += len(data)
except ssl.SSLEOFError:
    end = 'truncated'
print(got, end)
";
    let head = b"HTTP/1.0 200 OK\r\n\r\n".len();
    for (path, end) in [("whole", "closed"), ("cut", "truncated")] {
        let mut command = Command::new(&python);
        let port = tunnel.way(0).port().to_string();
        command.args(["-c", script, &port, &certificates.path("site.crt"), path]);
        let said = String::from_utf8(succeed(&mut command)).unwrap();
        assert_eq!(said, format!("{} {end}\n", head + 100_000), "{path}");
    }
    assert_eq!(service(&tunnel.connect, 0)["opened"], 2);
}

#[test]
fn other_protocols_pass_both_ways_and_clients_resume() {
    let (_, python) = (need_tool!("openssl"), need_tool!("python3"));
    let certificates = Certificates::new();
    let (port, _running) = python_server(&python, &certificates);
    let tunnel = opening(&certificates, port).start();
    let script = "
import socket, ssl, sys
context = ssl.create_default_context(cafile=sys.argv[2])
context.maximum_version = getattr(ssl.TLSVersion, sys.argv[3])
# In TLS 1.2; the server's order counts.
context.set_ciphers('ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES256-GCM-SHA384')
def talk(session):
    raw = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
    tls = context.wrap_socket(raw, server_hostname='localhost', session=session)
    tls.sendall(b'GET /echo HTTP/1.1\\r\\nUpgrade: x\\r\\n\\r\\n')
    got = b''
    while not got.endswith(b'\\r\\n\\r\\n'):
        got += tls.recv(4096)
    for n in range(50):
        frame = bytes([n]) * (n + 1)
        tls.sendall(frame)
        back = b''
        while len(back) < len(frame):
            back += tls.recv(4096)
        assert back == frame
    print(tls.cipher()[0], tls.session_reused, flush=True)
    return tls.session
talk(talk(None))
";
    for (version, name) in
        [("TLSv1_3", "TLS_AES_256_GCM_SHA384"), ("TLSv1_2", "ECDHE-ECDSA-AES256-GCM-SHA384")]
    {
        let mut command = Command::new(&python);
        command.args([
            "-c",
            script,
            &tunnel.way(0).port().to_string(),
            &certificates.path("site.crt"),
            version,
        ]);
        let said = String::from_utf8(succeed(&mut command)).unwrap();
        assert_eq!(said, format!("{name} False\n{name} True\n"));
    }
    assert_eq!(service(&tunnel.connect, 0)["opened"], 4);
}

#[test]
fn certificates_are_read_again_and_wrong_options_say_what_to_do() {
    let (_, _) = (need_tool!("curl"), need_tool!("openssl"));
    let certificates = Certificates::new();
    let path = |name: &str| certificates.path(name);
    let (port, _running) = s_server(&["-cert", &path("good.crt"), "-key", &path("good.key")]);
    let tunnel = tunnel(&certificates, &[port]);
    let url = format!("https://localhost:{port}/");
    std::fs::copy(path("site.crt"), path("before.crt")).unwrap();
    fetched(curl(&tunnel, "http", &path("before.crt"), &[&url]));
    // Another CA in the same files; curl would be remembered as one that refuses, but it trusts both.
    for file in ["site.key", "site.crt"] {
        std::fs::remove_file(path(file)).unwrap();
    }
    succeed(
        Command::new(ONCEWIRE)
            .arg("ca")
            .args([path("site.key"), path("site.crt")])
            .args(["--only", "localhost"]),
    );
    let both =
        [path("before.crt"), path("site.crt")].map(|file| std::fs::read(file).unwrap()).concat();
    std::fs::write(path("both.crt"), both).unwrap();
    wait_until("the new CA is in use", || {
        fetched(curl(&tunnel, "http", &path("both.crt"), &[&url]));
        tunnel.connect.said().contains("were read again")
    });
    fetched(curl(&tunnel, "http", &path("site.crt"), &[&url]));

    let connect = |args: &[&str]| {
        let key: PathBuf = tunnel.dir.path().join("connect.key");
        let peer = tunnel.connect_args
            [tunnel.connect_args.iter().position(|arg| arg == "--peer").unwrap() + 1]
            .clone();
        let mut command = Command::new(ONCEWIRE);
        command
            .args(["connect", "localhost:1", "--proxy", "127.0.0.1:0", "--peer", &peer, "--key"])
            .arg(key)
            .args(args);
        text(&finish(command.env_remove("XDG_RUNTIME_DIR")))
    };
    let (site, good) = (path("site.key"), path("good.key"));
    std::fs::set_permissions(&good, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    for (args, says) in [
        (&["--terminate", "localhost"][..], "--terminate needs a CA: make one with"),
        (&["--ca", &site], "it is for the services of --terminate NAMES"),
        (
            &["--terminate", "other.example", "--ca", &site],
            "may not issue certificates for other.example: it is for localhost",
        ),
        (&["--terminate", "localhost", "--ca", &good], "is no CA"),
        (&["--terminate", "localhost", "--ca", &path("none.key")], "cannot read the private key"),
        (&["--terminate", "*", "--ca", &site], "* would open every site"),
        (&["--https", "localhost=x"], "expected NAME=CERTIFICATE:KEY"),
    ] {
        let said = connect(args);
        assert!(said.contains(says), "{args:?}: {said}");
    }
}
