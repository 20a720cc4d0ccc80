//! HTTPS of named services, with programs that are not everywhere: each test is skipped where its
//! program is not installed.

use crate::browser::{Browser, SCREENS};
use crate::https_clients::{Site, clean};
use crate::https_support::{Certificates, Nginx, curl, fetched, forward, service, tunnel};
use crate::support::{PATIENCE, Tunnel, assert_same, finish, succeed, text, wait_until};
use oncewire_testkit::servers::{Running, free_port, incompressible, tool, wait_for_port};
use oncewire_testkit::{need_tool, skip};
use serde_json::json;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Starts a server that listens at this port of loopback.
fn server(command: &mut Command, port: u16) -> Running {
    let running = Running::start(command.stdout(Stdio::null()).stderr(Stdio::null())).unwrap();
    wait_for_port(SocketAddr::from(([127, 0, 0, 1], port)), PATIENCE).unwrap();
    running
}

/// Checks that everything was opened, and costs little again.
fn assert_cheap(tunnel: &Tunnel, first: u64, second: u64) {
    assert!(first > 300_000 && second < first / 10, "{first} bytes, then {second}");
    let status = service(&tunnel.connect, 0);
    assert!(status["opened"].as_u64() >= Some(2), "{status:#}");
    assert_eq!(status["passed"], json!({}), "{status:#}");
}

/// Makes a package, what the registry says of it, and a project that depends on it.
const NPM: &str = "
import base64, hashlib, io, json, sys, tarfile
content = open('content', 'rb').read()
with tarfile.open('thing-1.0.0.tgz', 'w:gz') as tarball:
    for name, data in (('package.json', b'{\"name\":\"thing\",\"version\":\"1.0.0\"}'), ('content', content)):
        entry = tarfile.TarInfo('package/' + name)
        entry.size = len(data)
        tarball.addfile(entry, io.BytesIO(data))
sum = 'sha512-' + base64.b64encode(hashlib.sha512(open('thing-1.0.0.tgz', 'rb').read()).digest()).decode()
url = f'https://localhost:{sys.argv[1]}/thing-1.0.0.tgz'
own = {'name': 'own', 'version': '1.0.0', 'dependencies': {'thing': '1.0.0'}}
open('package.json', 'w').write(json.dumps(own))
packages = {'': own, 'node_modules/thing': {'version': '1.0.0', 'resolved': url, 'integrity': sum}}
lock = {'name': 'own', 'version': '1.0.0', 'lockfileVersion': 3, 'requires': True, 'packages': packages}
open('package-lock.json', 'w').write(json.dumps(lock))
";

#[test]
fn npm_ci_installs_twice_and_pays_once() {
    let (python, _) = (need_tool!("python3"), need_tool!("openssl"));
    let npm = need_tool!("npm");
    let site = Site::start(&python, |_| {});
    std::fs::write(site.dir.path().join("content"), incompressible(5, 400_000)).unwrap();
    let port = site.port.to_string();
    succeed(Command::new(&python).current_dir(site.dir.path()).args(["-c", NPM, &port]));
    let projects = TempDir::new().unwrap();
    site.twice(|name| {
        let home = projects.path().join(name);
        std::fs::create_dir(&home).unwrap();
        for file in ["package.json", "package-lock.json"] {
            std::fs::copy(site.dir.path().join(file), home.join(file)).unwrap();
        }
        let mut command = clean(npm.to_str().unwrap(), &home);
        command.current_dir(&home).args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
        command.args(["--no-update-notifier", "--https-proxy", &site.proxy()]);
        command.args([
            "--noproxy",
            "none.invalid",
            "--cafile",
            &site.certificates.path("site.crt"),
        ]);
        command.args(["--registry", &format!("https://localhost:{}/", site.port)]);
        succeed(&mut command);
        let got = std::fs::read(home.join("node_modules/thing/content")).unwrap();
        assert_same(&got, &incompressible(5, 400_000), name);
    });
}

/// Makes images of two layers as OCI layouts: 1.0, and 1.1 with the same first layer.
const IMAGES: &str = "
import gzip, hashlib, io, json, os, tarfile
content = open('content', 'rb').read()
def layer(name, data):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode='w') as tar:
        entry = tarfile.TarInfo(name)
        entry.size = len(data)
        tar.addfile(entry, io.BytesIO(data))
    return made.getvalue()
for tag, last in (('1.0', b'one'), ('1.1', content[:300000] + b'next')):
    os.makedirs(f'{tag}/blobs/sha256')
    def blob(kind, data):
        sum = hashlib.sha256(data).hexdigest()
        open(f'{tag}/blobs/sha256/{sum}', 'wb').write(data)
        return {'mediaType': 'application/vnd.oci.image.' + kind, 'size': len(data), 'digest': 'sha256:' + sum}
    layers = [layer('base', content), layer('app', last)]
    sums = ['sha256:' + hashlib.sha256(one).hexdigest() for one in layers]
    config = {'architecture': 'amd64', 'os': 'linux', 'config': {}, 'rootfs': {'type': 'layers', 'diff_ids': sums}}
    manifest = {
        'schemaVersion': 2, 'config': blob('config.v1+json', json.dumps(config).encode()),
        'layers': [blob('layer.v1.tar+gzip', gzip.compress(one, mtime=0)) for one in layers],
    }
    index = {'schemaVersion': 2, 'manifests': [blob('manifest.v1+json', json.dumps(manifest).encode())]}
    open(f'{tag}/index.json', 'w').write(json.dumps(index))
    open(f'{tag}/oci-layout', 'w').write('{\"imageLayoutVersion\": \"1.0.0\"}')
";

#[test]
fn skopeo_pulls_an_image_twice_and_pays_once() {
    let (python, _) = (need_tool!("python3"), need_tool!("openssl"));
    let (registry, _) = (need_tool!("docker-registry"), need_tool!("skopeo"));
    let (certificates, dir, port) =
        (Certificates::new(), TempDir::new().unwrap(), free_port().unwrap());
    std::fs::write(dir.path().join("content"), incompressible(6, 400_000)).unwrap();
    succeed(Command::new(python).current_dir(dir.path()).args(["-c", IMAGES]));
    let config = format!(
        "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{port}\n  tls:\n    certificate: {}\n    key: {}\n",
        dir.path().join("storage").display(),
        certificates.path("good.crt"),
        certificates.path("good.key"),
    );
    std::fs::write(dir.path().join("config.yml"), config).unwrap();
    let mut command = Command::new(registry);
    let _registry = server(command.arg("serve").arg(dir.path().join("config.yml")), port);
    for ca in ["origins", "site"] {
        std::fs::create_dir(dir.path().join(ca)).unwrap();
        let bundle = dir.path().join(ca).join("ca.crt");
        std::fs::copy(certificates.path(&format!("{ca}.crt")), bundle).unwrap();
    }
    let copy = |ca: &str, from: &str, to: &str| {
        let mut command = clean("skopeo", dir.path());
        command.current_dir(dir.path()).args(["--insecure-policy", "copy", "-q"]);
        let end = if from.starts_with("docker") { "--src-cert-dir" } else { "--dest-cert-dir" };
        succeed(command.args([end, ca, from, to]));
    };
    for tag in ["1.0", "1.1"] {
        let at = format!("docker://localhost:{port}/thing:{tag}");
        copy("origins", &format!("oci:{tag}:"), &at);
    }
    // Go's programs use no proxy for localhost.
    let tunnel = forward(&certificates, port);
    let pull = |tag: &str, to: &str| {
        let from = format!("docker://localhost:{}/thing:{tag}", tunnel.way(0).port());
        tunnel.cost(|| copy("site", &from, &format!("dir:{to}"))).1
    };
    let (first, second, next) = (pull("1.0", "a"), pull("1.0", "b"), pull("1.1", "c"));
    assert_cheap(&tunnel, first, second);
    // Another layer of the same content, compressed with other content around.
    assert!(next < first / 10, "{first} bytes, and {next} for the next tag");
    let files = |name: &str| {
        let all = std::fs::read_dir(dir.path().join(name)).unwrap();
        let mut all: Vec<_> = all.map(|entry| entry.unwrap().path()).collect();
        all.sort();
        all.into_iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>()
    };
    assert!(files("a") == files("b") && files("a").len() >= 4);
}

/// Makes a module as a proxy of modules has it.
const MODULE: &str = "
import os, zipfile
at = 'example.com/thing/@v/'
os.makedirs(at)
open(at + 'list', 'w').write('v1.0.0\\n')
open(at + 'v1.0.0.info', 'w').write('{\"Version\":\"v1.0.0\",\"Time\":\"2026-01-01T00:00:00Z\"}')
open(at + 'v1.0.0.mod', 'w').write('module example.com/thing\\n')
with zipfile.ZipFile(at + 'v1.0.0.zip', 'w') as made:
    made.writestr('example.com/thing@v1.0.0/go.mod', 'module example.com/thing\\n')
    made.write('content', 'example.com/thing@v1.0.0/content')
";

#[test]
fn go_downloads_a_module_twice_and_pays_once() {
    let (python, _) = (need_tool!("python3"), need_tool!("openssl"));
    let go = need_tool!("go");
    let site = Site::start(&python, |dir| {
        std::fs::write(dir.join("content"), incompressible(7, 400_000)).unwrap();
        succeed(Command::new(&python).current_dir(dir).args(["-c", MODULE]));
    });
    // Go's programs use no proxy for localhost.
    let tunnel = forward(&site.certificates, site.port);
    let home = TempDir::new().unwrap();
    let download = |name: &str| {
        let at = home.path().join(name);
        std::fs::create_dir(&at).unwrap();
        let mut command = clean(go.to_str().unwrap(), &at);
        command.current_dir(&at).env("GOPROXY", format!("https://{}", name_at(&tunnel)));
        command.env("GOMODCACHE", at.join("cache")).env("GOPATH", &at).env("GONOSUMDB", "*");
        command.env("GOFLAGS", "-modcacherw").env("GOTOOLCHAIN", "local").env("GOENV", "off");
        command.env("SSL_CERT_FILE", site.certificates.path("site.crt"));
        succeed(command.args(["mod", "download", "example.com/thing@v1.0.0"]));
        let got = at.join("cache/example.com/thing@v1.0.0/content");
        assert_same(&std::fs::read(got).unwrap(), &incompressible(7, 400_000), name);
    };
    let [((), first), ((), second)] = ["one", "two"].map(|name| tunnel.cost(|| download(name)));
    assert_cheap(&tunnel, first, second);
}

/// `localhost` at the tunnel's first forward.
fn name_at(tunnel: &Tunnel) -> String {
    format!("localhost:{}", tunnel.way(0).port())
}

/// A Python that has the module grpc.
fn python_with_grpc() -> Option<PathBuf> {
    let all = tool("python3").into_iter().chain([PathBuf::from("/usr/bin/python3")]);
    all.into_iter().find(|python| {
        let output = Command::new(python).args(["-c", "import grpc"]).output();
        output.is_ok_and(|output| output.status.success())
    })
}

const GRPC_SERVER: &str = "
import concurrent.futures, grpc, sys
content = open(sys.argv[4], 'rb').read()
class Handler(grpc.GenericRpcHandler):
    def service(self, call):
        if call.method == '/thing/Get':
            return grpc.unary_unary_rpc_method_handler(lambda request, context: content[int(request):])
        if call.method == '/thing/Echo':
            return grpc.stream_stream_rpc_method_handler(lambda requests, context: requests)
server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
server.add_generic_rpc_handlers((Handler(),))
key, certificate = (open(name, 'rb').read() for name in (sys.argv[3], sys.argv[2]))
server.add_secure_port('127.0.0.1:' + sys.argv[1], grpc.ssl_server_credentials([(key, certificate)]))
server.start()
server.wait_for_termination()
";

/// Two calls at once on one connection, both ways on a third, and an error with its status.
const GRPC_CLIENT: &str = "
import grpc, sys
content = open(sys.argv[3], 'rb').read()
trust = grpc.ssl_channel_credentials(open(sys.argv[2], 'rb').read())
with grpc.secure_channel(sys.argv[1], trust) as channel:
    get = channel.unary_unary('/thing/Get')
    calls = [get.future(str(start).encode()) for start in (0, 1000)]
    assert [call.result() for call in calls] == [content, content[1000:]]
    messages = [content[:size] for size in (0, 1, 5, 100000)]
    assert list(channel.stream_stream('/thing/Echo')(iter(messages))) == messages
    try:
        channel.unary_unary('/thing/None')(b'')
    except grpc.RpcError as error:
        print(error.code().name)
";

#[test]
fn grpc_calls_cost_little_again() {
    let (_, Some(python)) = (need_tool!("openssl"), python_with_grpc()) else {
        skip!("no Python has grpc");
    };
    let (certificates, port) = (Certificates::new(), free_port().unwrap());
    std::fs::write(certificates.path("content"), incompressible(8, 400_000)).unwrap();
    let mut command = Command::new(&python);
    command.args(["-c", GRPC_SERVER, &port.to_string(), &certificates.path("good.crt")]);
    command.args([certificates.path("good.key"), certificates.path("content")]);
    let _server = server(&mut command, port);
    let tunnel = forward(&certificates, port);
    let call = || {
        let mut command = Command::new(&python);
        command.env_remove("https_proxy").env("no_proxy", "*").args(["-c", GRPC_CLIENT]);
        command.args([name_at(&tunnel), certificates.path("site.crt")]);
        let said = succeed(command.arg(certificates.path("content")));
        assert_eq!(String::from_utf8(said).unwrap(), "UNIMPLEMENTED\n");
    };
    let [((), first), ((), second)] = [(); 2].map(|()| tunnel.cost(call));
    assert_cheap(&tunnel, first, second);
}

const JAVA: &str = r#"
import java.net.URI;
import java.net.http.*;
import java.nio.file.Path;
class Get {
    public static void main(String[] args) throws Exception {
        var client = HttpClient.newHttpClient();
        var request = HttpRequest.newBuilder(URI.create(args[0])).build();
        var response = client.send(request, HttpResponse.BodyHandlers.ofFile(Path.of(args[1])));
        System.out.println(response.version() + " " + response.statusCode());
    }
}
"#;

#[test]
fn java_fetches_twice_and_pays_once() {
    let (nginx, _, java) = (need_tool!("nginx"), need_tool!("openssl"), need_tool!("java"));
    let (keytool, _) = (need_tool!("keytool"), need_tool!("javac"));
    let (certificates, content) = (Certificates::new(), incompressible(9, 400_000));
    let nginx = Nginx::start(&nginx, &certificates, "");
    nginx.publish("file", &content);
    let (store, source) = (certificates.path("trust"), certificates.path("Get.java"));
    std::fs::write(&source, JAVA).unwrap();
    let site = certificates.path("site.crt");
    succeed(Command::new(keytool).args([
        "-importcert",
        "-noprompt",
        "-alias",
        "site",
        "-storepass",
        "secret",
        "-keystore",
        &store,
        "-file",
        &site,
    ]));
    let tunnel = forward(&certificates, nginx.port);
    let fetch = |name: &str| {
        let mut command = Command::new(&java);
        command.arg(format!("-Djavax.net.ssl.trustStore={store}"));
        command.arg("-Djavax.net.ssl.trustStorePassword=secret").arg(&source);
        command.args([format!("https://{}/file", name_at(&tunnel)), certificates.path(name)]);
        assert_eq!(text_of(succeed(&mut command)), "HTTP_2 200\n");
        assert_same(&std::fs::read(certificates.path(name)).unwrap(), &content, name);
    };
    let [((), first), ((), second)] = ["one", "two"].map(|name| tunnel.cost(|| fetch(name)));
    assert_cheap(&tunnel, first, second);
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

/// The hash of the public key in a certificate, as pins have it.
fn pin(certificate: &str) -> String {
    let script = format!(
        "openssl x509 -in {certificate} -noout -pubkey | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | openssl base64"
    );
    text_of(succeed(Command::new("sh").args(["-c", &script]))).trim().to_owned()
}

#[test]
fn a_browser_loads_pages_by_http_2_and_talks_by_websocket() {
    let (python, nginx) = (need_tool!("python3"), need_tool!("nginx"));
    let _ = need_tool!("openssl");
    let site = Site::start(&python, |_| {});
    let nginx = Nginx::start(&nginx, &site.certificates, "");
    let content = incompressible(10, 400_000);
    nginx.publish("data", &content);
    nginx.publish("page.html", b"<!DOCTYPE html><title>a page</title><p>text");
    let tunnel = tunnel(&site.certificates, &[nginx.port, site.port]);
    // Whose certificate it was is checked below; `openssl_verifies_the_chain` checks chains.
    let proxy = format!("--proxy-server=http://{}", tunnel.way(0));
    let more = ["--ignore-certificate-errors", &proxy, "--proxy-bypass-list=<-loopback>"];
    let Some(mut browser) = Browser::start_with(&more) else {
        skip!("there is no chromium, chromium-browser or google-chrome");
    };
    let page = format!("https://localhost:{}/page.html", nginx.port);
    let load = "fetch('data', {cache: 'no-store'}).then(got => got.arrayBuffer()).then(got => got.byteLength)";
    let mut costs = [0; 2];
    for cost in &mut costs {
        *cost = tunnel
            .cost(|| {
                browser.open_at(&page, SCREENS[0]);
                assert_eq!(browser.evaluate("document.title"), "a page");
                assert_eq!(browser.evaluate(load), content.len());
            })
            .1;
    }
    let issuer = browser.events.iter().find_map(|event| {
        event["params"]["response"]["securityDetails"]["issuer"].as_str().map(str::to_owned)
    });
    let subject = ["x509", "-noout", "-subject", "-in", &site.certificates.path("site.crt")];
    let subject = text_of(succeed(Command::new("openssl").args(subject)));
    assert!(subject.trim().ends_with(&issuer.expect("an issuer")), "{subject}");
    let by = "performance.getEntriesByType('navigation')[0].nextHopProtocol";
    assert_eq!(browser.evaluate(by), "h2");
    assert!(costs[0] > 400_000 && costs[1] < 40_000, "{costs:?}");
    let talk = format!(
        "new Promise((done, fail) => {{
            const socket = new WebSocket('wss://localhost:{}/chat'), got = [];
            socket.onopen = () => {{ socket.send('one'); socket.send('x'.repeat(5000)); }};
            socket.onmessage = one => {{ got.push(one.data.length); if (got.length === 2) socket.close(); }};
            socket.onclose = one => done([...got, one.wasClean]);
        }})",
        site.port
    );
    assert_eq!(browser.evaluate(&talk), json!([3, 5000, true]));
    for at in [0, 1] {
        let status = service(&tunnel.connect, at);
        assert!(status["opened"].as_u64() >= Some(1), "{status:#}");
        assert_eq!(status["passed"], json!({}), "{status:#}");
    }
}

#[test]
fn a_client_that_pins_passes_from_its_fourth_connection() {
    let (nginx, _, _) = (need_tool!("nginx"), need_tool!("curl"), need_tool!("openssl"));
    let certificates = Certificates::new();
    let nginx = Nginx::start(&nginx, &certificates, "");
    nginx.publish("file", b"content");
    let tunnel = tunnel(&certificates, &[nginx.port]);
    let [site, origins] = ["site.crt", "origins.crt"].map(|name| certificates.path(name));
    let both = [&site, &origins].map(|file| std::fs::read(file).unwrap()).concat();
    std::fs::write(certificates.path("both.crt"), both).unwrap();
    let (url, own) = (
        format!("https://localhost:{}/file", nginx.port),
        format!("sha256//{}", pin(&certificates.path("good.crt"))),
    );
    let get =
        || curl(&tunnel, "http", &certificates.path("both.crt"), &["--pinnedpubkey", &own, &url]);
    for n in 1..=3 {
        // curl's status for a key that is not the pinned one.
        let refused = get();
        assert_eq!(refused.status.code(), Some(90), "{n}: {}", text(&refused));
    }
    wait_until("the refusals count", || service(&tunnel.connect, 0)["refused_by_clients"] == 1);
    assert_eq!(fetched(get()), b"content");
    let status = service(&tunnel.connect, 0);
    assert_eq!(status["passed"], json!({"client_refused_certificate": 1}), "{status:#}");
}

#[test]
fn openssl_verifies_the_chain_and_agrees_on_a_protocol() {
    let (nginx, openssl) = (need_tool!("nginx"), need_tool!("openssl"));
    let certificates = Certificates::new();
    let nginx = Nginx::start(&nginx, &certificates, "");
    nginx.publish("file", b"content");
    let tunnel = forward(&certificates, nginx.port);
    let address = tunnel.way(0).to_string();
    for (version, protocol) in [("-tls1_3", "h2"), ("-tls1_2", "h2"), ("-tls1_3", "http/1.1")] {
        let mut command = Command::new(&openssl);
        command.args(["s_client", "-connect", &address, "-servername", "localhost", version]);
        command.args(["-verify_return_error", "-verify_hostname", "localhost", "-x509_strict"]);
        let output =
            finish(command.args(["-CAfile", &certificates.path("site.crt"), "-alpn", protocol]));
        let said = text(&output);
        assert!(said.contains("Verify return code: 0 (ok)"), "{version}: {said}");
        assert!(said.contains(&format!("ALPN protocol: {protocol}")), "{version}: {said}");
    }
    assert_eq!(service(&tunnel.connect, 0)["opened"], 3);
}

/// Fetches a file twice by each version of HTTP, from whichever server listens at this port.
fn fetch_from(certificates: &Certificates, port: u16, content: &[u8]) {
    let tunnel = tunnel(certificates, &[port]);
    let url = format!("https://localhost:{port}/file");
    let get = |version: &str| {
        let (got, cost) = tunnel.cost(|| {
            fetched(curl(&tunnel, "http", &certificates.path("site.crt"), &[version, &url]))
        });
        assert_same(&got, content, version);
        cost
    };
    let (first, second, third) = (get("--http2"), get("--http2"), get("--http1.1"));
    assert_cheap(&tunnel, first, second.max(third));
}

#[test]
fn haproxy_is_an_origin() {
    let (haproxy, _, _) = (need_tool!("haproxy"), need_tool!("curl"), need_tool!("openssl"));
    let (certificates, port, content) =
        (Certificates::new(), free_port().unwrap(), incompressible(11, 400_000));
    std::fs::write(certificates.path("file"), &content).unwrap();
    let both = ["good.crt", "good.key"].map(|name| std::fs::read(certificates.path(name)).unwrap());
    std::fs::write(certificates.path("both.pem"), both.concat()).unwrap();
    // A response from a file must fit into a buffer.
    let config = format!(
        "global\n  tune.bufsize 1000000\ndefaults\n  mode http\n  timeout client 30s\n  timeout connect 5s\n  timeout server 30s\nfrontend all\n  bind 127.0.0.1:{port} ssl crt {} alpn h2,http/1.1\n  http-request return status 200 content-type application/octet-stream file {}\n",
        certificates.path("both.pem"),
        certificates.path("file"),
    );
    std::fs::write(certificates.path("haproxy.cfg"), config).unwrap();
    let mut command = Command::new(haproxy);
    let _origin = server(command.args(["-db", "-f", &certificates.path("haproxy.cfg")]), port);
    fetch_from(&certificates, port, &content);
}

#[test]
fn caddy_is_an_origin() {
    let (caddy, _, _) = (need_tool!("caddy"), need_tool!("curl"), need_tool!("openssl"));
    let (certificates, port, content) =
        (Certificates::new(), free_port().unwrap(), incompressible(12, 400_000));
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("file"), &content).unwrap();
    let config = dir.path().join("Caddyfile");
    let mut file = std::fs::File::create(&config).unwrap();
    write!(
        file,
        "{{\n admin off\n auto_https off\n}}\nhttps://localhost:{port} {{\n bind 127.0.0.1\n tls {} {}\n root * {}\n file_server\n}}\n",
        certificates.path("good.crt"),
        certificates.path("good.key"),
        dir.path().display(),
    )
    .unwrap();
    let mut command = clean(caddy.to_str().unwrap(), dir.path());
    command.args(["run", "--adapter", "caddyfile", "--config"]);
    let _origin = server(command.arg(&config), port);
    fetch_from(&certificates, port, &content);
}
