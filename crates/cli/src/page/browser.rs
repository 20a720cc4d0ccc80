//! A page in a real browser: headless Chromium over its debugging pipe. Skipped, with a message, where there is none.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

/// For anything that the browser is asked. It answers in milliseconds; a busy machine may take seconds to start it.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Browser {
    child: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    asked: u64,
    session: Option<String>,
    /// What happened meanwhile.
    pub(crate) events: Vec<Value>,
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
    pub(crate) fn start() -> Option<Browser> {
        let Some(program) = program() else {
            oncewire_testkit::skipped!("there is no chromium, chromium-browser or google-chrome");
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

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
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
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.ask("Runtime.evaluate", params);
        assert!(answer["exceptionDetails"].is_null(), "{}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    pub(crate) fn open(&mut self, file: &Path, screen: Screen) {
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
    pub(crate) fn complaints(&mut self, file: &Path) -> Vec<String> {
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
pub(crate) struct Screen {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) dark: bool,
    pub(crate) phone: bool,
}

pub(crate) const SCREENS: [Screen; 4] = [
    Screen { width: 1280, height: 900, dark: false, phone: false },
    Screen { width: 1280, height: 900, dark: true, phone: false },
    Screen { width: 390, height: 844, dark: false, phone: true },
    Screen { width: 390, height: 844, dark: true, phone: true },
];
/// RFC 4648, Section 4.
pub(crate) fn unbase64(text: &str) -> Vec<u8> {
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
