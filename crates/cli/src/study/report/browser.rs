//! The page in a real browser: headless Chromium over its debugging pipe. Skipped, with a message, where there is none.

use super::{html, sample};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// For anything that the browser is asked. It answers in milliseconds; a busy machine may take seconds to start it.
const PATIENCE: Duration = Duration::from_secs(60);

struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    asked: u64,
    session: Option<String>,
    /// What happened meanwhile.
    events: Vec<Value>,
    _profile: tempfile::TempDir,
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    ["chromium", "chromium-browser", "google-chrome"]
        .iter()
        .find_map(|name| std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file()))
}

impl Browser {
    /// With a blank page, or `None` where there is no browser.
    fn start() -> Option<Browser> {
        let Some(program) = program() else {
            eprintln!("skipped: there is no chromium, chromium-browser or google-chrome");
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        // Chromium takes commands at descriptor 3 and answers at 4: the shell makes them of our two pipes. It becomes the browser, so
        // that the child is the one to end. Without a sandbox, which root may not have: all that it opens is our own file.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null"])
            .arg(program)
            .args([
                "--headless=new",
                "--remote-debugging-pipe",
                "--no-sandbox",
                "--no-first-run",
                "--disable-gpu",
                "--hide-scrollbars",
            ])
            .args(["--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let commands = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = mpsc::channel();
        std::thread::spawn(move || {
            for message in answers.split(0).map_while(Result::ok) {
                if sender.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    break;
                }
            }
        });
        let mut browser = Browser { child, commands, messages, asked: 0, session: None, events: Vec::new(), _profile: profile };
        let target = browser.ask("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached = browser.ask("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    fn next(&mut self, deadline: Instant) -> Value {
        let left = deadline.saturating_duration_since(Instant::now());
        self.messages.recv_timeout(left).expect("the browser says nothing more")
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let mut command = json!({"id": self.asked, "method": method, "params": params});
        if let Some(session) = &self.session {
            command["sessionId"] = json!(session);
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let message = self.next(deadline);
            if message["id"] == self.asked {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    /// What a JavaScript expression comes to.
    fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.ask("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    fn open(&mut self, file: &Path, screen: Screen) {
        let Screen { width, height, dark, phone } = screen;
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": if phone { 2 } else { 1 }, "mobile": phone});
        self.ask("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = if dark { "dark" } else { "light" };
        self.ask("Emulation.setEmulatedMedia", json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}));
        self.events.clear();
        self.ask("Page.navigate", json!({"url": address(file)}));
        let deadline = Instant::now() + PATIENCE;
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next(deadline);
            self.events.push(event);
        }
        // Two frames: charts may be drawn anew after the first layout.
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))");
    }

    /// Errors, exceptions and requests since the page was opened, but for the request of the page.
    fn complaints(&mut self, file: &Path) -> Vec<String> {
        let own = address(file);
        let wrong = |event: &Value| {
            let params = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => true,
                "Runtime.consoleAPICalled" => matches!(params["type"].as_str(), Some("error" | "warning" | "assert")),
                "Log.entryAdded" => matches!(params["entry"]["level"].as_str(), Some("error" | "warning")),
                "Network.requestWillBeSent" => params["request"]["url"] != own.as_str(),
                "Page.javascriptDialogOpening" => true,
                _ => false,
            }
        };
        self.events.iter().filter(|event| wrong(event)).map(ToString::to_string).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It ends by itself when the pipe closes, but not for certain.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn address(file: &Path) -> String {
    format!("file://{}", file.display())
}

#[derive(Clone, Copy, Debug)]
struct Screen {
    width: u32,
    height: u32,
    dark: bool,
    phone: bool,
}

const SCREENS: [Screen; 4] = [
    Screen { width: 1280, height: 900, dark: false, phone: false },
    Screen { width: 1280, height: 900, dark: true, phone: false },
    Screen { width: 390, height: 844, dark: false, phone: true },
    Screen { width: 390, height: 844, dark: true, phone: true },
];

/// All that is asked of a page, as one object.
const LOOK: &str = r#"(() => {
    const inked = canvas => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const seen = new Set();
        for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 200) seen.add(data[at] >> 4 << 8 | data[at + 1] >> 4 << 4 | data[at + 2] >> 4);
        return seen.size;
    };
    const beyond = [...document.querySelectorAll("main *, header *, footer *")].filter(one => {
        if (one.closest(".scroll, .u-over, svg, .skip, .tip, noscript")) return false;
        const box = one.getBoundingClientRect();
        return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
    });
    return {
        inner: innerWidth,
        scroll: document.scrollingElement.scrollWidth,
        beyond: beyond.slice(0, 5).map(one => one.outerHTML.slice(0, 200)),
        expected: [...document.querySelectorAll("figure.chart")].filter(one => !one.querySelector(".empty")).length,
        colours: [...document.querySelectorAll("figure.chart canvas")].map(inked),
        labels: [...document.querySelectorAll("figure.chart .axis-label")].filter(one => one.dataset.named === "false").map(one => one.textContent),
        paper: getComputedStyle(document.body).backgroundColor,
        headings: document.querySelectorAll("section.figure").length,
        ran: typeof window.ran,
    };
})()"#;

#[test]
fn the_page_is_whole_on_every_screen() {
    let Some(mut browser) = Browser::start() else { return };
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("report.html");
    let report = sample::report();
    std::fs::write(&file, html::render(&report)).unwrap();
    let charts = report.figures.iter().flat_map(|figure| &figure.charts);
    let charts = charts.filter(|chart| chart.series.iter().any(|series| !series.points.is_empty())).count();
    for screen in SCREENS {
        browser.open(&file, screen);
        let look = browser.evaluate(LOOK);
        assert_eq!(browser.complaints(&file), Vec::<String>::new(), "{screen:?}");
        assert_eq!(look["inner"], screen.width, "{screen:?}");
        assert!(look["scroll"].as_u64().unwrap() <= screen.width.into(), "{screen:?}: {look}");
        assert_eq!(look["beyond"], json!([]), "{screen:?}");
        assert_eq!(look["expected"], charts, "{screen:?}");
        assert_eq!(look["headings"], report.figures.len(), "{screen:?}");
        let colours = look["colours"].as_array().unwrap();
        assert_eq!(colours.len(), charts, "{screen:?}");
        // Text, grid and at least one series.
        assert!(colours.iter().all(|seen| seen.as_u64().unwrap() >= 3), "{screen:?}: {colours:?}");
        let labels = look["labels"].as_array().unwrap();
        assert!(labels.len() > charts, "{screen:?}");
        let units = ["count", "B", "%", "ns", "µs", "ms", "s", "min", "h", "d", "bit/s", "number"];
        let has_unit =
            |label: &str| units.iter().any(|unit| [")", ","].iter().any(|end| label.contains(&format!("({unit}{end}"))));
        assert!(labels.iter().all(|label| has_unit(label.as_str().unwrap())), "{screen:?}: {labels:?}");
        let paper = if screen.dark { "rgb(20, 23, 26)" } else { "rgb(255, 255, 255)" };
        assert_eq!(look["paper"], paper, "{screen:?}");
    }
}

#[test]
fn the_page_answers_its_reader() {
    let Some(mut browser) = Browser::start() else { return };
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("report.html");
    std::fs::write(&file, html::render(&sample::report())).unwrap();
    browser.open(&file, SCREENS[0]);

    // A click on a heading sorts by numbers, the largest first; what is missing stays last.
    let column = |click: usize| {
        format!(
            r#"(() => {{
                const table = document.querySelector("\#applications table");
                for (let at = 0; at < {click}; at += 1) table.tHead.rows[0].cells[4].querySelector("button").click();
                return [...table.tBodies[0].rows].map(row => row.cells[4].dataset.v ?? null);
            }})()"#
        )
        .replace("\\#", "#")
    };
    for rising in [false, true] {
        let cells: Vec<Option<f64>> = browser
            .evaluate(&column(1))
            .as_array()
            .unwrap()
            .iter()
            .map(|cell| cell.as_str().map(|text| text.parse().unwrap()))
            .collect();
        let numbers: Vec<f64> = cells.iter().map_while(|cell| *cell).collect();
        assert!(numbers.len() > 100 && cells[numbers.len()..].iter().all(Option::is_none));
        assert!(numbers.is_sorted_by(|a, b| if rising { a <= b } else { a >= b }));
    }

    // The switch turns charts as well as text.
    let both = r#"(() => {
        const picture = () => document.querySelector("figure.chart canvas").toDataURL();
        const before = [getComputedStyle(document.body).backgroundColor, picture()];
        document.getElementById("theme").click();
        const after = [getComputedStyle(document.body).backgroundColor, picture()];
        return before.map((one, at) => one !== after[at]);
    })()"#;
    assert_eq!(browser.evaluate(both), json!([true, true]));

    // The legend tells values at the cursor, and hides a series.
    let hover = r#"(() => {
        const figure = document.querySelector("\#cache figure.chart"), over = figure.querySelector(".u-over"), box = over.getBoundingClientRect();
        const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true };
        over.dispatchEvent(new MouseEvent("mouseenter", at));
        over.dispatchEvent(new MouseEvent("mousemove", at));
        return new Promise(done => setTimeout(() => done([...figure.querySelectorAll(".legend .value")].map(one => one.textContent)), 100));
    })()"#
        .replace("\\#", "#");
    let values = browser.evaluate(&hover);
    let values: Vec<&str> = values.as_array().unwrap().iter().map(|value| value.as_str().unwrap()).collect();
    assert_eq!(values.len(), 4);
    assert!(values[..3].iter().all(|value| value.ends_with(" %")), "{values:?}");
    assert!(values[3].ends_with('B'), "{values:?}");
    let hide = r#"(() => {
        const figure = document.querySelector("\#cache figure.chart"), picture = () => figure.querySelector("canvas").toDataURL(), before = picture();
        figure.querySelector(".legend button").click();
        return picture() !== before && figure.querySelector(".legend button").getAttribute("aria-pressed") === "false";
    })()"#
        .replace("\\#", "#");
    assert_eq!(browser.evaluate(&hide), true);
    assert_eq!(browser.complaints(&file), Vec::<String>::new());

    // Paper: folds open, light, as wide as a sheet; and back.
    let print = r#"(async () => {
        const look = () => [
            document.querySelectorAll("main details:not([open])").length,
            getComputedStyle(document.body).backgroundColor === "rgb(255, 255, 255)",
            Math.max(...[...document.querySelectorAll("figure.chart .uplot")].map(one => one.offsetWidth)),
        ];
        document.documentElement.dataset.theme = "dark";
        const before = look();
        dispatchEvent(new Event("beforeprint"));
        // uPlot lays out at the end of the task.
        await null;
        const paper = look();
        dispatchEvent(new Event("afterprint"));
        await null;
        return [before, paper, look()];
    })()"#;
    let print = browser.evaluate(print);
    assert_eq!(print[1], json!([0, true, 670]));
    assert_eq!(print[0], print[2]);
    assert_eq!(print[0][0], 15);
    assert_eq!(print[0][1], false);

    // Were something to slip through, the policy would not run it, nor let it ask for anything.
    let intrude = r##"(() => {
        const script = document.createElement("script");
        script.textContent = "window.ran = 1";
        const box = document.createElement("div");
        box.innerHTML = "<img src=http://192.0.2.1/x onerror='window.ran = 2'>";
        document.body.append(script, box);
        return new Promise(done => setTimeout(() => done(String(window.ran)), 200));
    })()"##;
    browser.events.clear();
    // `onerror` is refused as well; that the image was refused is seen at the requests.
    assert_eq!(browser.evaluate(intrude), "undefined");
    let sent =
        |event: &Value| event["method"] == "Network.responseReceived" || event["method"] == "Network.requestWillBeSentExtraInfo";
    assert!(!browser.events.iter().any(sent));
}

/// Writes pictures of the page and its print to the directory `ONCEWIRE_REPORT_SHOTS`, for a look.
#[test]
#[ignore = "writes pictures for people: ONCEWIRE_REPORT_SHOTS=DIR cargo test -p oncewire -- --ignored pictures"]
fn pictures() {
    let place = PathBuf::from(std::env::var_os("ONCEWIRE_REPORT_SHOTS").expect("ONCEWIRE_REPORT_SHOTS names a directory"));
    std::fs::create_dir_all(&place).unwrap();
    let file = place.join("report.html");
    std::fs::write(&file, html::render(&sample::report())).unwrap();
    let Some(mut browser) = Browser::start() else { return };
    for screen in SCREENS {
        browser.open(&file, screen);
        let height = browser.evaluate("document.scrollingElement.scrollHeight").as_u64().unwrap();
        let step = if screen.phone { 1_500 } else { 1_800 };
        for (at, top) in (0..height).step_by(step).enumerate() {
            let clip = json!({"x": 0, "y": top, "width": screen.width, "height": (height - top).min(step as u64), "scale": 1});
            let shot =
                browser.ask("Page.captureScreenshot", json!({"format": "png", "clip": clip, "captureBeyondViewport": true}));
            let name = format!(
                "{}-{}-{at:02}.png",
                if screen.phone { "phone" } else { "desk" },
                if screen.dark { "dark" } else { "light" }
            );
            std::fs::write(place.join(name), unbase64(shot["data"].as_str().unwrap())).unwrap();
        }
        if !screen.phone {
            browser.evaluate("document.querySelector('#cache .chart').scrollIntoView({behavior: 'instant'})");
            browser.ask("Input.dispatchMouseEvent", json!({"type": "mouseMoved", "x": 700, "y": 200}));
            std::thread::sleep(Duration::from_millis(300));
            let shot = browser.ask("Page.captureScreenshot", json!({"format": "png"}));
            let name = format!("hover-{}.png", if screen.dark { "dark" } else { "light" });
            std::fs::write(place.join(name), unbase64(shot["data"].as_str().unwrap())).unwrap();
        }
        if screen.dark && !screen.phone {
            let paper = json!({"preferCSSPageSize": true, "printBackground": false});
            let print = browser.ask("Page.printToPDF", paper);
            std::fs::write(place.join("print.pdf"), unbase64(print["data"].as_str().unwrap())).unwrap();
        }
    }
}

fn unbase64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let text = text.trim_end_matches('=').as_bytes();
    text.chunks(4)
        .flat_map(|group| {
            let bits = group.iter().fold(0u32, |bits, &byte| bits << 6 | u32::from(digit(byte))) << (6 * (4 - group.len()));
            bits.to_be_bytes()[1..group.len()].to_vec()
        })
        .collect()
}
