//! Peers whose TLS does not support raw public keys: OpenSSL, with a self-signed certificate.

use crate::hostile::{answer, bytes, hello};
use crate::pair::{LIMIT, Plan, client, until};
use oncewire_net::keys::{AuthorizedPeers, Peer, PublicKey};
use oncewire_net::serve;
use oncewire_session::Answer;
use oncewire_testkit::need_tool;
use oncewire_testkit::servers::{Running, free_port, wait_for_port};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;

/// The files of a key and its certificate, and the public key.
struct Files {
    dir: TempDir,
    public: PublicKey,
}

fn run(program: &Path, args: &[&str]) -> Vec<u8> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

impl Files {
    fn new(openssl: &Path) -> Files {
        let dir = TempDir::new().unwrap();
        let [key, certificate] =
            ["key.pem", "cert.pem"].map(|name| dir.path().join(name).to_str().unwrap().to_string());
        run(openssl, &["genpkey", "-algorithm", "ed25519", "-out", &key]);
        // Valid for a day, with a name that nobody checks.
        run(
            openssl,
            &[
                "req",
                "-x509",
                "-new",
                "-key",
                &key,
                "-subj",
                "/CN=stranger.example",
                "-days",
                "1",
                "-out",
                &certificate,
            ],
        );
        let spki = run(openssl, &["pkey", "-in", &key, "-pubout", "-outform", "DER"]);
        Files { dir, public: PublicKey::from_spki(&spki).unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn peers(&self) -> AuthorizedPeers {
        AuthorizedPeers::new([Peer::from(self.public)])
    }

    fn args(&self, command: &mut Command, role: &str) {
        command.args([role, "-quiet", "-tls1_3", "-alpn", "oncewire/1"]);
        command.arg("-cert").arg(self.path("cert.pem")).arg("-key").arg(self.path("key.pem"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openssl_as_a_client_gets_a_session() {
    let openssl = need_tool!("openssl");
    let (known, unknown) = (Files::new(&openssl), Files::new(&openssl));
    let mut plan = Plan::new();
    plan.serve.endpoint.peers = known.peers();
    let server = serve(plan.serve).await.unwrap();
    for (files, expected) in [(&known, Some(Answer::Welcome)), (&unknown, None)] {
        let mut command = Command::new(&openssl);
        files.args(&mut command, "s_client");
        command.arg("-connect").arg(server.addresses()[0].to_string());
        let mut command = tokio::process::Command::from(command);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        // A refused client may be gone already.
        let _ = stdin.write_all(&bytes(&hello(7))).await;
        let _ = stdin.flush().await;
        assert_eq!(answer(&mut stdout).await.map(|hello| hello.answer), expected);
    }
    let status = server.status();
    assert_eq!((status.sessions.len(), status.refused_transports), (1, 1));
    assert_eq!(status.sessions[0].peer, known.public.to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn openssl_as_a_server_gets_a_hello() {
    let openssl = need_tool!("openssl");
    let files = Files::new(&openssl);
    let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
    let mut command = Command::new(&openssl);
    files.args(&mut command, "s_server");
    // The server requires a certificate, and accepts any.
    command.args(["-Verify", "1", "-accept", &address.to_string()]);
    let heard = files.path("heard");
    command
        .stdin(Stdio::piped())
        .stdout(std::fs::File::create(&heard).unwrap())
        .stderr(Stdio::null());
    let _server = Running::start(&mut command).unwrap();
    wait_for_port(address, LIMIT).unwrap();
    let mut config = Plan::new().connect;
    config.endpoint.peers = files.peers();
    let client = client(config, address).await;
    // The hello's magic number arrives once the client has switched to a certificate.
    until("it says hello", || {
        std::fs::read(&heard).unwrap().windows(4).any(|bytes| bytes == b"ONCE")
    })
    .await;
    assert_eq!(client.status().sessions[0].peer, files.public.to_string());
}

#[test]
fn the_document_names_the_suites_and_groups() {
    let document = include_str!("../../../../docs/PROTOCOL.md");
    let secret = oncewire_net::keys::SecretKey::generate().unwrap();
    let config = oncewire_net::tls::server_config(&secret, &AuthorizedPeers::new([])).unwrap();
    let provider = config.crypto_provider();
    let of = |suite: String| format!("`{}`", suite.replace("TLS13_", "TLS_"));
    let suites: Vec<_> = provider
        .cipher_suites
        .iter()
        .map(|suite| format!("{:?}", suite.suite()))
        .filter(|name| name.starts_with("TLS13"))
        .map(of)
        .collect();
    let groups: Vec<_> = provider
        .kx_groups
        .iter()
        .map(|group| of(format!("{:?}", group.name()).to_lowercase()))
        .collect();
    let list = format!("{}; {}.", suites.join(", "), groups.join(", "));
    assert!(document.contains(&list), "docs/PROTOCOL.md does not say: {list}");
}
