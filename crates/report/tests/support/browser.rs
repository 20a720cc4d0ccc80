//! Pages in headless Chromium, controlled over its debugging pipe.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// Timeout of a command. The browser answers in milliseconds; a busy machine takes seconds to start
/// it.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    asked: u64,
    session: Option<String>,
    /// Events since the page was opened.
    pub events: Vec<Value>,
    _profile: tempfile::TempDir,
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    ["chromium", "chromium-browser", "google-chrome"].iter().find_map(|name| {
        std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
    })
}

impl Browser {
    /// Starts with a blank page. `None` if no browser is installed.
    pub fn start() -> Option<Browser> {
        Browser::start_with(&[])
    }

    /// The same with more arguments for the browser.
    pub fn start_with(more: &[&str]) -> Option<Browser> {
        let program = program()?;
        let profile = tempfile::tempdir().unwrap();
        // Chromium reads commands from descriptor 3 and answers on 4. The shell connects them to
        // our pipes, then becomes the browser. Root cannot have a sandbox; the browser opens only
        // our own file.
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
            .args([
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(more)
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
        let mut browser = Browser {
            child,
            commands,
            messages,
            asked: 0,
            session: None,
            events: Vec::new(),
            _profile: profile,
        };
        let target =
            browser.ask("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let attached =
            browser.ask("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    fn next(&mut self, deadline: Instant) -> Value {
        let left = deadline.saturating_duration_since(Instant::now());
        self.messages.recv_timeout(left).expect("the browser does not answer")
    }

    pub fn ask(&mut self, method: &str, params: Value) -> Value {
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

    /// Evaluates a JavaScript expression.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.ask("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    pub fn open(&mut self, file: &Path, screen: Screen) {
        self.open_at(&address(file), screen);
    }

    /// Opens the page at an address.
    pub fn open_at(&mut self, url: &str, screen: Screen) {
        let Screen { width, height, dark, phone } = screen;
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": if phone { 2 } else { 1 }, "mobile": phone});
        self.ask("Emulation.setDeviceMetricsOverride", metrics);
        let scheme = if dark { "dark" } else { "light" };
        self.ask(
            "Emulation.setEmulatedMedia",
            json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
        self.events.clear();
        self.ask("Page.navigate", json!({"url": url}));
        self.loaded();
        // Two frames: charts may be redrawn after the first layout.
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))");
    }

    /// Waits until a page has been loaded since the events were cleared.
    pub fn loaded(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.next(deadline);
            self.events.push(event);
        }
    }

    /// Takes a picture: of a part of the page, or of the window.
    pub fn picture(&mut self, clip: Option<Value>) -> Vec<u8> {
        let params = match clip {
            Some(clip) => json!({"format": "png", "clip": clip, "captureBeyondViewport": true}),
            None => json!({"format": "png"}),
        };
        decoded(&self.ask("Page.captureScreenshot", params))
    }

    /// Prints the page.
    pub fn pdf(&mut self) -> Vec<u8> {
        decoded(
            &self.ask(
                "Page.printToPDF",
                json!({"preferCSSPageSize": true, "printBackground": false}),
            ),
        )
    }

    /// Errors, exceptions and requests since the page was opened, without the request of the page.
    pub fn complaints(&mut self, file: &Path) -> Vec<String> {
        let own = address(file);
        self.complaints_unless(|url| url == own)
    }

    /// Errors, exceptions and requests since the page was opened, without requests to its own
    /// addresses.
    pub fn complaints_unless(&mut self, is_own: impl Fn(&str) -> bool) -> Vec<String> {
        let wrong = |event: &Value| {
            let params = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => true,
                "Runtime.consoleAPICalled" => {
                    matches!(params["type"].as_str(), Some("error" | "warning" | "assert"))
                }
                "Log.entryAdded" => {
                    matches!(params["entry"]["level"].as_str(), Some("error" | "warning"))
                }
                "Network.requestWillBeSent" => {
                    !params["request"]["url"].as_str().is_some_and(&is_own)
                }
                "Page.javascriptDialogOpening" => true,
                _ => false,
            }
        };
        self.events.iter().filter(|event| wrong(event)).map(ToString::to_string).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It should end when the pipe closes, but may not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn decoded(answer: &Value) -> Vec<u8> {
    STANDARD.decode(answer["data"].as_str().unwrap()).unwrap()
}

fn address(file: &Path) -> String {
    format!("file://{}", file.display())
}

#[derive(Clone, Copy, Debug)]
pub struct Screen {
    pub width: u32,
    pub height: u32,
    pub dark: bool,
    pub phone: bool,
}

pub const SCREENS: [Screen; 4] = [
    Screen { width: 1280, height: 900, dark: false, phone: false },
    Screen { width: 1280, height: 900, dark: true, phone: false },
    Screen { width: 390, height: 844, dark: false, phone: true },
    Screen { width: 390, height: 844, dark: true, phone: true },
];
