//! Pages that keep themselves up to date, in headless Chromium. Skipped where no browser is
//! installed.

use crate::support::browser::{Browser, SCREENS};
use oncewire_report::html::{self, Live, Texts};
use oncewire_report::{
    Axis, Block, Cell, Chart, Fact, Map, MapLink, MapNode, MapState, Report, Section, Series,
    Summary, Table, TableView, Unit,
};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

/// What the server is asked for, and how often it answered with an update.
#[derive(Default)]
struct Seen {
    paths: Vec<String>,
    updates: u64,
    /// Another chart, which an update cannot add.
    grown: bool,
    fails: bool,
}

fn report(number: u64, grown: bool) -> Report {
    let line = |id| {
        Block::Chart(Chart {
            id,
            caption: "Rates".into(),
            x: Axis::new("time", Unit::Seconds),
            y: Axis::new("rate", Unit::BitsPerSecond),
            series: vec![Series::new("</script>", vec![(-1.0, 5.0), (0.0, (10 * number) as f64)])],
            ..Chart::default()
        })
    };
    let row = |name: &str, bytes: u64, share: f64| -> Vec<Cell> {
        vec![name.into(), bytes.into(), share.into()]
    };
    let columns = [("peer", Unit::Text), ("bytes", Unit::Bytes), ("saved", Unit::Share)];
    let rows = vec![row("small", 1, 0.25), row("<b>\u{1b}large", 1000 * number, 0.5)];
    let table = Table::new("peers", "Peers", &columns, rows);
    let mut section = Section::new("traffic", "Traffic")
        .with(line("rates"))
        .table(TableView { gauges: vec!["saved"], ..table.into() });
    section = section.with(Block::Map(map(number)));
    if grown {
        section = section.with(line("more"));
    }
    Report {
        kind: "Live",
        title: "<i>hub".into(),
        about: format!("up {number} s"),
        summary: Summary {
            headline: format!("{number} % saved"),
            positive: true,
            facts: vec![Fact::new("rate", format!("{number} B/s"), "now")],
            reasons: vec![format!("use `--x {number}`")],
        },
        sections: vec![section],
        ..Report::default()
    }
}

/// Two nodes. After two updates, the second one is down.
fn map(number: u64) -> Map {
    let node = |pop: u32, label: &str, state| MapNode {
        label: label.into(),
        pop,
        core: true,
        volume: 1e6,
        state,
        ..MapNode::default()
    };
    let is_down = number > 2;
    let link = |from, to| MapLink {
        from,
        to,
        before: (100 * number) as f64,
        after: (40 * number) as f64,
        is_down,
        ..MapLink::default()
    };
    Map {
        nodes: vec![
            node(0, "<img src=x>", MapState::Drained),
            node(1, "B", if is_down { MapState::Down } else { MapState::Overloaded }),
        ],
        links: vec![link(0, 1), link(1, 0)],
        per: "second",
        views: ["Whole", "Sent"],
        ..Map::default()
    }
}

/// Answers with the page and its updates.
fn serve(seen: Arc<Mutex<Seen>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let Some(Ok(first)) = lines.next() else { continue };
            let _ = lines.map_while(Result::ok).take_while(|line| !line.is_empty()).count();
            let path = first.split(' ').nth(1).unwrap().to_owned();
            let mut seen = seen.lock().unwrap();
            let (kind, policy, body) = if path == "/" {
                let texts = Texts { summary: "Summary", numbers: "--json" };
                let live = Live { path: "update.json", price: Some("") };
                let page = html::live(&report(seen.updates, seen.grown), &texts, &live);
                ("text/html", page.policy + "; frame-ancestors 'none'", page.html)
            } else {
                seen.updates += 1;
                let problem = path.ends_with("=x").then_some("write a price");
                let update = html::update(&report(seen.updates, seen.grown), problem);
                ("application/json", "default-src 'none'".into(), update)
            };
            seen.paths.push(path);
            if seen.fails {
                continue;
            }
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Security-Policy: {policy}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    at
}

/// Waits until an expression is true.
fn wait(browser: &mut Browser, until: &str) {
    let script = format!(
        "new Promise((done, failed) => {{ let times = 0; const look = () => {{ if ({until}) done(1); else if (++times > 600) failed(new Error('in vain')); else setTimeout(look, 50); }}; look(); }})"
    );
    browser.evaluate(&script);
}

#[test]
fn a_live_page_shows_new_data_and_asks_nobody_else() {
    let Some(mut browser) = Browser::start() else {
        oncewire_testkit::skip!("there is no chromium, chromium-browser or google-chrome");
    };
    let seen = Arc::new(Mutex::new(Seen::default()));
    let origin = format!("http://{}/", serve(seen.clone()));
    browser.open_at(&(origin.clone() + "#price=%241/GB"), SCREENS[0]);
    let updates = |count: u64| format!("document.documentElement.dataset.updates >= {count}");
    wait(&mut browser, &updates(2));
    let shown = browser.evaluate(
        r#"(() => ({
            price: document.getElementById("price").value,
            headline: document.querySelector(".headline").textContent,
            fact: document.querySelector(".facts dd").firstChild.textContent,
            reason: document.querySelector(".reasons code").textContent,
            about: document.querySelector(".about").textContent,
            name: document.querySelector("main tbody").rows[1].cells[0].textContent,
            gauge: document.querySelector("main tbody").rows[1].cells[2].className,
            state: document.getElementById("live").textContent,
            title: document.querySelector("h1").textContent,
        }))()"#,
    );
    let number = shown["about"].as_str().unwrap()[3..].split(' ').next().unwrap().to_owned();
    assert!(number.parse::<u64>().unwrap() >= 2, "{shown}");
    assert_eq!(
        shown,
        json!({
            "price": "$1/GB",
            "headline": format!("{number}\u{a0}% saved"),
            "fact": format!("{number}\u{a0}B/s"),
            "reason": format!("--x {number}"),
            "about": format!("up {number} s"),
            "name": "<b>\u{fffd}large",
            "gauge": "n gauge",
            "state": "Live",
            "title": "<i>hub",
        })
    );
    assert!(seen.lock().unwrap().paths.iter().any(|path| path == "/update.json?price=%241%2FGB"));

    // The chart is drawn again, and a table stays sorted.
    let picture = r#"document.querySelector("figure.chart canvas").toDataURL()"#;
    browser.evaluate(&format!(
        "window.before = {picture}; window.at = +document.documentElement.dataset.updates; \
         document.querySelector('main th.n button').click(); 1"
    ));
    wait(&mut browser, &format!("window.before !== {picture}"));
    wait(&mut browser, "+document.documentElement.dataset.updates > window.at + 1");
    let first = "document.querySelector('main tbody').rows[0].cells[0].textContent";
    assert_eq!(browser.evaluate(first), "<b>\u{fffd}large");

    // The map follows, and keeps its zoom and what is chosen; names are text.
    browser.evaluate(
        "document.querySelector('[data-zoom=\"1\"]').click(), document.getElementById('load-before').click(), \
         window.at = +document.documentElement.dataset.updates, 1",
    );
    wait(&mut browser, "+document.documentElement.dataset.updates > window.at + 1");
    let map = browser.evaluate(
        r#"(() => ({
            dead: document.querySelectorAll(".pops .dead").length,
            overloaded: document.querySelectorAll(".pops .overloaded").length,
            down: document.querySelectorAll(".drawing .wires .down").length,
            drained: document.querySelectorAll(".pops .drained").length,
            size: document.documentElement.dataset.map,
            large: document.querySelector("svg.map").classList.contains("large"),
            chosen: document.getElementById("load-before").checked,
            name: document.querySelector(".names text").textContent,
            images: document.images.length,
            key: [...document.querySelectorAll(".key > div > span")].map(one => one.textContent.split(":")[0]),
        }))()"#,
    );
    let key = [
        "bytes on a link per second",
        "The busier direction; thicker lines carry more bytes.",
        "PoP, by the traffic that enters and leaves",
        "drained",
        "down",
        "link that is down",
    ];
    let expected = json!({
        "dead": 1, "overloaded": 0, "down": 1, "drained": 1, "size": "2 1", "large": true,
        "chosen": true, "name": "<img src=x>", "images": 0, "key": key,
    });
    assert_eq!(map, expected);
    // A hint has the newest numbers.
    browser.evaluate(
        "(() => { const svg = document.querySelector('svg.map'), one = document.querySelector('.pops [data-p=\"1\"] .dead').getBoundingClientRect(); \
         svg.dispatchEvent(new PointerEvent('pointermove', { clientX: one.left + one.width / 2, clientY: one.top + one.height / 2 })); })(), 1",
    );
    wait(
        &mut browser,
        "document.querySelector('.drawing .tip').textContent.includes('no neighbor reaches it')",
    );

    // A price goes to the fragment; a wrong one is explained.
    let write = |text: &str| {
        format!(
            "(() => {{ const field = document.getElementById('price'); field.value = '{text}'; field.dispatchEvent(new Event('change')); return location.hash; }})()"
        )
    };
    assert_eq!(browser.evaluate(&write("2/TB")), "#price=2%2FTB");
    browser.evaluate(&write("x"));
    wait(&mut browser, "document.getElementById('wrong').textContent === 'write a price'");
    wait(&mut browser, "document.getElementById('price').getAttribute('aria-invalid') === 'true'");

    // Paused by keyboard, it asks nobody; then it continues.
    browser.evaluate("document.getElementById('pause').focus(), document.activeElement.click()");
    wait(&mut browser, "document.getElementById('live').textContent === 'Paused'");
    browser.evaluate(
        "document.activeElement.click(), window.at = +document.documentElement.dataset.updates",
    );
    wait(&mut browser, "+document.documentElement.dataset.updates > window.at");
    let own = |url: &str| url.starts_with(&origin) || url == "data:,";
    assert_eq!(browser.complaints_unless(own), Vec::<String>::new());

    // One chart more: the page is loaded again.
    browser.evaluate("document.activeElement.blur()");
    browser.events.clear();
    seen.lock().unwrap().grown = true;
    browser.loaded();
    wait(&mut browser, "document.querySelectorAll('figure.chart canvas').length === 2");
    // Without an answer, it says so.
    seen.lock().unwrap().fails = true;
    wait(&mut browser, "document.getElementById('live').textContent.startsWith('No answer')");
}
