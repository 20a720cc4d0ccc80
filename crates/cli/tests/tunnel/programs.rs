//! Real servers and clients on both sides of the tunnel: bytes arrive unchanged, and repeats cost
//! little.
//!
//! One file, because it is a list of programs.

use crate::support::*;
use oncewire_testkit::servers::{
    Running, free_port, incompressible, text_like, tool, wait_for_port,
};
use oncewire_testkit::{need_tool, skip};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A directory that servers running as other users can enter, too.
fn open_dir() -> TempDir {
    let dir = TempDir::new().unwrap();
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    dir
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Starts a server and waits until it listens.
#[track_caller]
fn server(command: &mut Command, at: SocketAddr, log: &Path) -> Running {
    let [out, err] =
        [(); 2].map(|()| std::fs::File::options().append(true).create(true).open(log).unwrap());
    let running = Running::start(command.stdin(Stdio::null()).stdout(out).stderr(err)).unwrap();
    if let Err(error) = wait_for_port(at, PATIENCE) {
        panic!("{error}: {}", std::fs::read_to_string(log).unwrap_or_default());
    }
    running
}

fn is_root() -> bool {
    succeed(Command::new("id").arg("-u")).starts_with(b"0\n")
}

// ---- HTTP
// ------------------------------------------------------------------------------------------------------------------------

/// nginx with files to download and a directory for uploads: HTTP/1.1 on the first address, HTTP/2
/// without TLS on the second.
struct Nginx {
    dir: TempDir,
    addresses: [SocketAddr; 2],
    _running: Running,
}

impl Nginx {
    fn start(program: PathBuf, addresses: [SocketAddr; 2]) -> Nginx {
        let dir = open_dir();
        let path = dir.path().display();
        std::fs::create_dir(dir.path().join("www")).unwrap();
        std::fs::create_dir(dir.path().join("www/up")).unwrap();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {path}/{name};\n"))
            .concat();
        let [one, two] = addresses;
        let text = format!(
            "daemon off; master_process off; pid {path}/pid; error_log {path}/error.log warn;
            events {{ worker_connections 256; }}
            http {{
              access_log off; client_max_body_size 100m; default_type application/octet-stream; {temporary}
              server {{
                listen {one}; listen {two} http2; root {path}/www;
                location /up/ {{ dav_methods PUT DELETE; }}
                location /gz/ {{ alias {path}/www/; gzip on; gzip_types *; gzip_min_length 1; }}
              }}
            }}\n"
        );
        let config = dir.path().join("nginx.conf");
        std::fs::write(&config, text).unwrap();
        let log = dir.path().join("nginx.log");
        let mut command = Command::new(program);
        let running = server(
            command.arg("-e").arg(&log).arg("-c").arg(&config).arg("-p").arg(dir.path()),
            one,
            &log,
        );
        Nginx { dir, addresses, _running: running }
    }

    fn publish(&self, name: &str, content: &[u8]) {
        let file = self.dir.path().join("www").join(name);
        std::fs::write(&file, content).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    }

    fn uploaded(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.dir.path().join("www/up").join(name)).expect("it arrived")
    }
}

fn nginx_ports() -> [SocketAddr; 2] {
    [(); 2].map(|()| local(free_port().unwrap()))
}

/// What curl prints.
#[track_caller]
fn curl(args: &[&str]) -> Vec<u8> {
    succeed(Command::new("curl").args(["-sS", "--fail", "--noproxy", "*", "-m", "25"]).args(args))
}

#[test]
fn http_files_ranges_and_compressed_chunks_arrive_and_cost_little_again() {
    let (nginx, _) = (need_tool!("nginx"), need_tool!("curl"));
    let nginx = Nginx::start(nginx, nginx_ports());
    let (random, prose) = (incompressible(60, 3_000_000), text_like(61, 3_000_000));
    nginx.publish("random", &random);
    nginx.publish("prose", &prose);
    let tunnel = Plan::new().to(nginx.addresses[0]).to(nginx.addresses[1]).start();
    let url = |way: usize, name: &str| format!("http://{}/{name}", tunnel.way(way));
    for (version, way) in [("--http1.1", 0), ("--http2-prior-knowledge", 1)] {
        for (name, content) in [("random", &random), ("prose", &prose)] {
            let fetch = || assert_same(&curl(&[version, &url(way, name)]), content, name);
            let ((), first) = tunnel.cost(fetch);
            let ((), second) = tunnel.cost(fetch);
            eprintln!("{version} {name}: {first} bytes on the wire, then {second}");
            assert!(first <= content.len() as u64 * 101 / 100 + 10_000, "{first}");
            // HTTP/2 divides files into frames of 8 to 16 KiB.
            assert!(second * 20 <= content.len() as u64, "{second}");
        }
        let (range, cost) =
            tunnel.cost(|| curl(&[version, "-r", "1000000-1999999", &url(way, "random")]));
        assert_same(&range, &random[1_000_000..2_000_000], "a range");
        eprintln!("{version} a range of 1 MB of what was sent: {cost} bytes on the wire");
        // HTTP/2 frames divide the range differently from the whole file; random bytes are sampled
        // about once in a thousand.
        assert!(
            cost <= if way == 0 { 10_000 } else { 80_000 },
            "a range of what was sent costs {cost}"
        );
        let several = curl(&[version, "-r", "5-9,100-104", &url(way, "prose")]);
        for part in [&prose[5..10], &prose[100..105]] {
            assert!(several.windows(5).any(|window| window == part));
        }
        assert_same(
            &curl(&[version, "--compressed", &url(way, "gz/prose")]),
            &prose,
            "compressed on the way",
        );
        if way == 0 {
            // Curl 7.88 cannot reuse a connection that it started with HTTP/2.
            let names: Vec<String> = (0..20).map(|n| url(way, &format!("random?{n}"))).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let args =
                [&[version, "--parallel", "--parallel-max", "20", "-r", "0-99999"], &names[..]]
                    .concat();
            assert_eq!(curl(&args).len(), 20 * 100_000);
        }
    }
}

#[test]
fn http_uploads_arrive_with_a_length_in_chunks_and_after_a_100_continue() {
    let (nginx, _) = (need_tool!("nginx"), need_tool!("curl"));
    let nginx = Nginx::start(nginx, nginx_ports());
    let content = incompressible(62, 2_000_000);
    let file = nginx.dir.path().join("content");
    std::fs::write(&file, &content).unwrap();
    let file = file.to_str().unwrap();
    let tunnel = Plan::new().to(nginx.addresses[0]).to(nginx.addresses[1]).start();
    let url = |way: usize, name: &str| format!("http://{}/up/{name}", tunnel.way(way));
    let cases: [(&str, usize, &[&str]); 4] = [
        ("length", 0, &["--http1.1", "-H", "Expect:"]),
        ("chunks", 0, &["--http1.1", "-H", "Expect:", "-H", "Transfer-Encoding: chunked"]),
        (
            "expect",
            0,
            &["--http1.1", "-v", "-H", "Expect: 100-continue", "--expect100-timeout", "20"],
        ),
        ("two", 1, &["--http2-prior-knowledge"]),
    ];
    for (name, way, args) in cases {
        let url = url(way, name);
        let command = || {
            let mut command = Command::new("curl");
            command
                .args(["-sS", "--fail", "--noproxy", "*", "-m", "25"])
                .args(args)
                .args(["-T", file, &url]);
            finish(&mut command)
        };
        let (output, cost) = tunnel.cost(command);
        assert!(output.status.success(), "{name}: {}", text(&output));
        assert_same(&nginx.uploaded(name), &content, name);
        assert!(name != "expect" || text(&output).contains("100 Continue"), "{}", text(&output));
        if name != "length" {
            // The same content, whatever its encoding.
            assert!(cost * 10 <= content.len() as u64, "{name} costs {cost}");
        }
    }
}

#[test]
fn http_works_through_the_proxy_with_socks_and_with_connect() {
    let (nginx, _) = (need_tool!("nginx"), need_tool!("curl"));
    let nginx = Nginx::start(nginx, nginx_ports());
    let content = incompressible(63, 500_000);
    nginx.publish("file", &content);
    let tunnel = Plan::new().connect(&["--proxy", "0"]).start();
    let (proxy, url) = (tunnel.way(0), format!("http://{}/file", nginx.addresses[0]));
    for args in [
        vec!["-x".into(), format!("socks5h://{proxy}")],
        vec!["-x".into(), format!("http://{proxy}")],
        vec!["-p".into(), "-x".into(), format!("http://{proxy}")],
    ] {
        let mut command = Command::new("curl");
        command.args(["-sS", "--fail", "--noproxy", "", "-m", "25"]).args(&args).arg(&url);
        assert_same(&succeed(&mut command), &content, &args.join(" "));
    }
    assert_eq!(tunnel.connect.counter("flows_opened"), 3);
}

#[test]
fn everything_works_over_ipv6() {
    let (nginx, _) = (need_tool!("nginx"), need_tool!("curl"));
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        skip!("this machine has no IPv6");
    }
    let addresses = nginx_ports().map(|v4| SocketAddr::from((Ipv6Addr::LOCALHOST, v4.port())));
    let nginx = Nginx::start(nginx, addresses);
    let content = incompressible(64, 1_000_000);
    nginx.publish("file", &content);
    let tunnel = Plan::new().over_ipv6(nginx.addresses[0]).start();
    assert!(tunnel.serve.listening[0].is_ipv6() && tunnel.way(0).is_ipv6());
    let fetch = || {
        assert_same(
            &curl(&["-g", &format!("http://{}/file", tunnel.way(0))]),
            &content,
            "over IPv6",
        )
    };
    fetch();
    let ((), second) = tunnel.cost(fetch);
    assert!(second <= 20_000, "{second}");
}

#[test]
fn an_upgraded_connection_carries_data_both_ways_at_any_time() {
    // An origin that accepts an upgrade to another protocol; it then echoes each line at once.
    let origin = origin(|mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|len| len > 2) {
            line.clear();
        }
        let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: lines\r\nConnection: Upgrade\r\n\r\nhello\n";
        let _ = stream.write_all(head.as_bytes());
        line.clear();
        while reader.read_line(&mut line).is_ok_and(|len| len > 0) {
            let _ = stream.write_all(line.to_uppercase().as_bytes());
            line.clear();
        }
    });
    let tunnel = Plan::new().connect(&["--proxy", "0"]).to(origin).start();
    let request = |target: &str| {
        format!(
            "GET {target} HTTP/1.1\r\nHost: {origin}\r\nConnection: Upgrade\r\nUpgrade: lines\r\n\r\n"
        )
    };
    let connect = format!("CONNECT {origin} HTTP/1.1\r\nHost: {origin}\r\n\r\n");
    // Through a forward, and with CONNECT, as browsers do.
    for (way, connect) in [(0, None), (1, Some(connect))] {
        let mut stream = application(tunnel.way(way));
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let head = |reader: &mut BufReader<TcpStream>| {
            let mut text = String::new();
            while !text.ends_with("\r\n\r\n") {
                assert_ne!(reader.read_line(&mut text).expect("a head"), 0, "{text}");
            }
            text
        };
        if let Some(connect) = connect {
            stream.write_all(connect.as_bytes()).unwrap();
            assert!(head(&mut reader).starts_with("HTTP/1.1 200 "));
        }
        stream.write_all(request("/chat").as_bytes()).unwrap();
        let answer = head(&mut reader);
        assert!(
            answer.starts_with("HTTP/1.1 101 ") && answer.contains("Upgrade: lines"),
            "{answer}"
        );
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert_eq!(line, "hello\n");
        for n in 0..50 {
            stream.write_all(format!("line {n}\n").as_bytes()).unwrap();
            line.clear();
            reader.read_line(&mut line).unwrap();
            assert_eq!(line, format!("LINE {n}\n"));
        }
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}

// ---- Version control, files
// ------------------------------------------------------------------------------------------------------

/// git without the user's configuration.
fn git(dir: &Path, args: &[&str]) -> Vec<u8> {
    let mut command = Command::new("git");
    command.current_dir(dir).args([
        "-c",
        "user.name=test",
        "-c",
        "user.email=test@test.invalid",
        "-c",
        "protocol.version=2",
    ]);
    command
        .args(args)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0");
    succeed(&mut command)
}

#[test]
fn git_clones_fetches_and_pushes() {
    let _ = need_tool!("git");
    let dir = open_dir();
    let path = dir.path();
    let daemon = String::from_utf8(git(path, &["--exec-path"])).unwrap();
    let daemon = Path::new(daemon.trim()).join("git-daemon");
    if !daemon.exists() {
        skip!("git daemon is not installed");
    }
    let work = path.join("work");
    git(path, &["init", "-q", "-b", "main", "work"]);
    for (name, content) in
        [("text", text_like(70, 1_500_000)), ("random", incompressible(71, 1_500_000))]
    {
        std::fs::write(work.join(name), content).unwrap();
    }
    git(&work, &["add", "."]);
    git(&work, &["commit", "-q", "-m", "first"]);
    git(path, &["clone", "-q", "--bare", "work", "depot.git"]);
    let at = local(free_port().unwrap());
    let mut command = Command::new(daemon);
    command.args(["--reuseaddr", "--export-all", "--enable=receive-pack", "--listen=127.0.0.1"]);
    command
        .arg(format!("--port={}", at.port()))
        .arg(format!("--base-path={}", path.display()))
        .arg(path);
    let _running = server(&mut command, at, &path.join("daemon.log"));
    let tunnel = Plan::new().to(at).start();
    let url = format!("git://{}/depot.git", tunnel.way(0));
    let ((), first) = tunnel.cost(|| drop(git(path, &["clone", "-q", &url, "one"])));
    let ((), second) = tunnel.cost(|| drop(git(path, &["clone", "-q", &url, "two"])));
    eprintln!("git clone: {first} bytes on the wire, then {second}");
    assert!(second * 5 <= first, "{second} of {first}");
    for name in ["text", "random"] {
        assert_same(
            &std::fs::read(path.join("two").join(name)).unwrap(),
            &std::fs::read(work.join(name)).unwrap(),
            name,
        );
    }
    let news = incompressible(72, 800_000);
    std::fs::write(path.join("one/news"), &news).unwrap();
    git(&path.join("one"), &["add", "."]);
    git(&path.join("one"), &["commit", "-q", "-m", "second"]);
    git(&path.join("one"), &["push", "-q", "origin", "main"]);
    git(&path.join("two"), &["pull", "-q", "--ff-only"]);
    assert_same(&std::fs::read(path.join("two/news")).unwrap(), &news, "pulled");
    git(&path.join("depot.git"), &["fsck", "--strict", "--no-progress"]);
}

#[test]
fn rsync_copies_trees_both_ways() {
    let rsync = need_tool!("rsync");
    let dir = open_dir();
    let path = dir.path();
    let source = path.join("source");
    std::fs::create_dir_all(source.join("below")).unwrap();
    for n in 0..30 {
        let content =
            if n % 2 == 0 { incompressible(80 + n, 60_000) } else { text_like(80 + n, 90_000) };
        std::fs::write(
            source.join(if n % 3 == 0 { format!("below/{n}") } else { n.to_string() }),
            content,
        )
        .unwrap();
    }
    std::fs::create_dir(path.join("target")).unwrap();
    let at = local(free_port().unwrap());
    let account = if is_root() { "uid = 0\ngid = 0\n" } else { "" };
    let config = format!(
        "use chroot = no\nmunge symlinks = no\nread only = no\n{account}[source]\npath = {0}/source\n[target]\npath = {0}/target\n",
        path.display()
    );
    std::fs::write(path.join("rsyncd.conf"), config).unwrap();
    let mut command = Command::new(&rsync);
    command.args([
        "--daemon",
        "--no-detach",
        "--address=127.0.0.1",
        &format!("--port={}", at.port()),
    ]);
    command.arg(format!("--config={}", path.join("rsyncd.conf").display()));
    let _running = server(&mut command, at, &path.join("rsync.log"));
    let tunnel = Plan::new().to(at).start();
    let url = |module: &str| format!("rsync://{}/{module}/", tunnel.way(0));
    let copy = |from: &str, to: &str| drop(succeed(Command::new(&rsync).args(["-a", from, to])));
    let same = |to: &Path| {
        let output = finish(Command::new("diff").arg("-r").arg(&source).arg(to));
        assert!(output.status.success(), "{}", text(&output));
    };
    let (one, two) = (path.join("one"), path.join("two"));
    let ((), first) = tunnel.cost(|| copy(&url("source"), one.to_str().unwrap()));
    let ((), second) = tunnel.cost(|| copy(&url("source"), two.to_str().unwrap()));
    eprintln!("rsync of a tree: {first} bytes on the wire, then {second}");
    same(&one);
    same(&two);
    assert!(second * 5 <= first, "{second} of {first}");
    copy(&format!("{}/", source.display()), &url("target"));
    same(&path.join("target"));
}

#[test]
fn scp_copies_both_ways() {
    let (sshd, scp, keygen) = (need_tool!("sshd"), need_tool!("scp"), need_tool!("ssh-keygen"));
    let dir = open_dir();
    let path = dir.path();
    for name in ["host", "user"] {
        succeed(
            Command::new(&keygen)
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(path.join(name)),
        );
    }
    if is_root() {
        // Debian's sshd requires this directory, and creates it only when started as a service.
        std::fs::create_dir_all("/run/sshd").unwrap();
    }
    let at = local(free_port().unwrap());
    let config = format!(
        "ListenAddress {at}\nHostKey {0}/host\nAuthorizedKeysFile {0}/user.pub\nPidFile none\nStrictModes no\nUsePAM no\n\
         PermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nSubsystem sftp internal-sftp\n",
        path.display()
    );
    std::fs::write(path.join("sshd_config"), config).unwrap();
    let mut command = Command::new(sshd);
    let _running = server(
        command.args(["-D", "-e", "-f"]).arg(path.join("sshd_config")),
        at,
        &path.join("sshd.log"),
    );
    let content = incompressible(90, 3_000_000);
    std::fs::write(path.join("content"), &content).unwrap();
    let tunnel = Plan::new().to(at).start();
    let user = String::from_utf8(succeed(Command::new("id").arg("-un"))).unwrap();
    let remote = |name: &str| format!("{}@127.0.0.1:{}/{name}", user.trim(), path.display());
    let copy = |from: &str, to: &str| {
        let mut command = Command::new(&scp);
        command.args([
            "-q",
            "-F",
            "none",
            "-o",
            "StrictHostKeyChecking=no",
            "-o",
            "UserKnownHostsFile=/dev/null",
            "-o",
            "LogLevel=ERROR",
        ]);
        command.arg("-i").arg(path.join("user")).arg("-P").arg(tunnel.way(0).port().to_string());
        let output = finish(command.args(["-o", "BatchMode=yes", from, to]));
        let log = std::fs::read_to_string(path.join("sshd.log")).unwrap_or_default();
        assert!(output.status.success(), "{}{log}", text(&output));
    };
    // Each transfer is encrypted differently, so nothing is saved and little is added.
    let ((), cost) = tunnel.cost(|| copy(&remote("content"), path.join("down").to_str().unwrap()));
    assert_same(&std::fs::read(path.join("down")).unwrap(), &content, "down");
    eprintln!("scp of 3 MB: {cost} bytes on the wire");
    assert!(cost <= content.len() as u64 * 103 / 100 + 30_000, "{cost}");
    copy(path.join("content").to_str().unwrap(), &remote("up"));
    assert_same(&std::fs::read(path.join("up")).unwrap(), &content, "up");
}

// ---- Databases
// -------------------------------------------------------------------------------------------------------------------

#[test]
fn postgresql_dumps_and_restores() {
    let (initdb, postgres, psql, dump) =
        (need_tool!("initdb"), need_tool!("postgres"), need_tool!("psql"), need_tool!("pg_dump"));
    let dir = open_dir();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    // The server refuses to run as root.
    let as_owner = |program: &Path| {
        let mut command = Command::new(program);
        if is_root() {
            command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(program);
        }
        command.current_dir("/");
        command
    };
    if is_root() {
        if tool("runuser").is_none() || !finish(Command::new("id").arg("postgres")).status.success()
        {
            skip!("PostgreSQL's server does not run as root, and there is no account for it");
        }
        succeed(Command::new("chown").arg("postgres").arg(&data));
    }
    succeed(
        as_owner(&initdb)
            .args(["-A", "trust", "-U", "tester", "-N", "--no-locale", "-E", "UTF8", "-D"])
            .arg(&data),
    );
    let at = local(free_port().unwrap());
    let mut command = as_owner(&postgres);
    command
        .args(["-h", "127.0.0.1", "-k", "", "-F", "-p", &at.port().to_string(), "-D"])
        .arg(&data);
    let running = server(&mut command, at, &dir.path().join("postgres.log"));
    let tunnel = Plan::new().to(at).start();
    let client = |program: &Path| {
        let mut command = Command::new(program);
        command.args(["-h", "127.0.0.1", "-p", &tunnel.way(0).port().to_string(), "-U", "tester"]);
        command.env("PGCONNECT_TIMEOUT", "20").env("PGSSLMODE", "disable");
        command
    };
    let query = |database: &str, sql: &str| {
        String::from_utf8(succeed(client(&psql).args([
            "-qAtX",
            "-v",
            "ON_ERROR_STOP=1",
            "-d",
            database,
            "-c",
            sql,
        ])))
        .unwrap()
    };
    query("postgres", "create database one");
    query("postgres", "create database two");
    query(
        "one",
        "create table t (id int primary key, name text, noise bytea); \
         insert into t select n, 'name ' || n, decode(md5(n::text) || md5((n * 7)::text), 'hex') from generate_series(1, 20000) n",
    );
    let dumped = || succeed(client(&dump).args(["-d", "one"]));
    let (one, first) = tunnel.cost(dumped);
    let (again, second) = tunnel.cost(dumped);
    eprintln!("pg_dump of {} bytes: {first} bytes on the wire, then {second}", one.len());
    // Lines that newer versions write differently in every dump.
    let plain = |dump: &[u8]| {
        let text = String::from_utf8(dump.to_vec()).unwrap();
        text.lines()
            .filter(|line| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict"))
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_same(plain(&again).as_bytes(), plain(&one).as_bytes(), "the second dump");
    assert!(second * 10 <= one.len() as u64, "{second}");
    let restored =
        finish_with(client(&psql).args(["-qX", "-v", "ON_ERROR_STOP=1", "-d", "two"]), &one);
    assert!(restored.status.success(), "{}", text(&restored));
    let sum = "select count(*), md5(string_agg(id || name || noise::text, ',' order by id)) from t";
    assert_eq!(query("one", sum), query("two", sum));
    // If killed, it would leave its child processes behind for a moment.
    running.stop(PATIENCE).unwrap();
}

#[test]
fn redis_answers_pipelines_and_replicates() {
    let (redis, cli) = (need_tool!("redis-server"), need_tool!("redis-cli"));
    let dir = open_dir();
    let start = |name: &str, more: &[&str]| {
        let (home, at) = (dir.path().join(name), local(free_port().unwrap()));
        std::fs::create_dir(&home).unwrap();
        let mut command = Command::new(&redis);
        command
            .args(["--bind", "127.0.0.1", "--save", "", "--port", &at.port().to_string(), "--dir"])
            .arg(&home);
        command.args(["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"]).args(more);
        (server(&mut command, at, &dir.path().join(format!("{name}.log"))), at)
    };
    let (_first, at) = start("first", &[]);
    let tunnel = Plan::new().to(at).start();
    let ask = |port: u16, args: &[&str], stdin: &[u8]| {
        let output =
            finish_with(Command::new(&cli).args(["-p", &port.to_string()]).args(args), stdin);
        assert!(output.status.success(), "{args:?}: {}", text(&output));
        output.stdout
    };
    let way = tunnel.way(0).port();
    assert_eq!(ask(way, &["set", "greeting", "hello"], b""), b"OK\n");
    assert_eq!(ask(way, &["get", "greeting"], b""), b"hello\n");
    // Several megabytes of commands at once.
    let mut commands = Vec::new();
    for n in 0..300u64 {
        let (key, value) = (format!("key:{n}"), incompressible(100 + n, 10_000));
        commands.extend_from_slice(
            format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$10000\r\n", key.len()).as_bytes(),
        );
        commands.extend_from_slice(&value);
        commands.extend_from_slice(b"\r\n");
    }
    let (said, first) = tunnel.cost(|| ask(way, &["--pipe"], &commands));
    assert!(
        String::from_utf8_lossy(&said).contains("errors: 0, replies: 300"),
        "{}",
        String::from_utf8_lossy(&said)
    );
    let (_, second) = tunnel.cost(|| ask(way, &["--pipe"], &commands));
    eprintln!(
        "redis pipeline of {} bytes: {first} bytes on the wire, then {second}",
        commands.len()
    );
    assert!(second * 10 <= commands.len() as u64, "{second}");
    let value = ask(way, &["get", "key:17"], b"");
    assert_same(&value[..value.len() - 1], &incompressible(117, 10_000), "a value");
    // Replicas on the far side of the tunnel.
    let replica = |name: &str| {
        let (running, there) = start(name, &["--replicaof", "127.0.0.1", &way.to_string()]);
        let port = there.port();
        let up = || {
            String::from_utf8_lossy(&ask(port, &["info", "replication"], b""))
                .contains("master_link_status:up")
        };
        wait_until("the replica is in step", up);
        assert_eq!(ask(port, &["debug", "digest"], b""), ask(at.port(), &["debug", "digest"], b""));
        (running, port)
    };
    let ((_one, port), first) = tunnel.cost(|| replica("second"));
    let ((_two, _), second) = tunnel.cost(|| replica("third"));
    eprintln!("redis replicas: {first} bytes on the wire, then {second}");
    assert!(second * 5 <= commands.len() as u64, "{second}");
    ask(way, &["set", "late", "news"], b"");
    wait_until("the news arrive", || ask(port, &["get", "late"], b"") == b"news\n");
}
