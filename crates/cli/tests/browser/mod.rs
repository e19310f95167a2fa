//! A headless Chromium, controlled through its debugging pipe: opens pages, clicks, and inspects them as a person would.
//!
//! Debian's package is called `chromium`; `./dev test` installs it when run as root. `QUIPU_BROWSER` names another browser
//! of the family. Without any, the tests fail with a message, because a page that no browser has opened is not tested.

use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// One browser at a time: each needs several hundred megabytes.
static TURN: Mutex<()> = Mutex::new(());

/// A browser that runs longer than this in total is killed, and its test fails.
const PATIENCE: Duration = Duration::from_secs(75);

const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

pub(crate) struct Browser {
    child: Arc<Mutex<Child>>,
    to: File,
    from: BufReader<File>,
    session: Option<String>,
    next_id: u64,
    /// Events since the page was opened.
    events: VecDeque<Value>,
    _folder: TempDir,
    _turn: MutexGuard<'static, ()>,
}

fn program() -> PathBuf {
    if let Some(named) = std::env::var_os("QUIPU_BROWSER") {
        return named.into();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let found = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    found.into_iter().find(|program| program.is_file()).unwrap_or_else(|| {
        panic!(
            "no Chromium was found, and pages must be tested in a browser: install Debian's package `chromium` \
             (sudo apt-get install chromium; ./dev test does so when root), or name a program in QUIPU_BROWSER"
        )
    })
}

impl Browser {
    /// Starts a browser with one empty page.
    pub(crate) fn start() -> Browser {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let program = program();
        let folder = tempfile::tempdir().unwrap();
        let pipes = Command::new("mkfifo").args(["to", "from"]).current_dir(&folder).status().unwrap();
        assert!(pipes.success(), "mkfifo");
        // The debugging pipe uses descriptors 3 and 4, which without unsafe code only a shell can set up.
        let child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<to 4>from 2>errors"])
            .arg(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--hide-scrollbars", "--remote-debugging-pipe", "--user-data-dir=profile", "about:blank"])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let child = Arc::new(Mutex::new(child));
        let watched = Arc::downgrade(&child);
        let end = Instant::now() + PATIENCE;
        std::thread::spawn(move || {
            while let Some(child) = watched.upgrade() {
                if Instant::now() > end {
                    let _ = child.lock().unwrap_or_else(PoisonError::into_inner).kill();
                }
                drop(child);
                std::thread::sleep(Duration::from_millis(200));
            }
        });
        // In the shell's order: opening blocks until the other side opens.
        let to = OpenOptions::new().write(true).open(folder.path().join("to")).unwrap();
        let from = BufReader::new(File::open(folder.path().join("from")).unwrap());
        let mut browser = Browser {
            child,
            to,
            from,
            session: None,
            next_id: 0,
            events: VecDeque::new(),
            _folder: folder,
            _turn: turn,
        };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser.resize(1440, 900);
        browser
    }

    /// Sends a command and waits for its result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let mut message = json!({ "id": self.next_id, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let answer = self.receive();
            if answer["id"] == self.next_id {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            self.events.push_back(answer);
        }
    }

    fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        self.from.read_until(0, &mut message).unwrap();
        assert_eq!(message.pop(), Some(0), "the browser has ended, or took longer than {PATIENCE:?}");
        serde_json::from_slice(&message).unwrap()
    }

    /// Opens a page from disk and waits until it is loaded.
    pub(crate) fn open(&mut self, path: &Path) {
        self.events.clear();
        let url = format!("file://{}", path.display());
        let opened = self.call("Page.navigate", json!({ "url": url }));
        assert!(opened["errorText"].is_null(), "{opened}");
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let event = self.receive();
            self.events.push_back(event);
        }
        // Complaints about the page's loading arrive before the result of this.
        self.eval("document.fonts.ready.then(() => 0)");
    }

    /// The value of an expression on the page; waits for promises.
    pub(crate) fn eval(&mut self, expression: &str) -> Value {
        let wanted = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.call("Runtime.evaluate", wanted);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Complaints since the page was opened: messages, exceptions, violations of its policy.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let is_complaint = |event: &&Value| {
            let method = event["method"].as_str().unwrap_or("");
            ["Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"].contains(&method)
        };
        self.events.iter().filter(is_complaint).map(|event| event["params"].to_string()).collect()
    }

    /// URLs requested since the page was opened.
    pub(crate) fn requests(&self) -> Vec<String> {
        let sent = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.map(|event| event["params"]["request"]["url"].as_str().unwrap_or("").to_owned()).collect()
    }

    /// Moves the pointer to a position in the element that `expression` yields, given as shares of its width and height.
    pub(crate) fn point_at(&mut self, expression: &str, (x, y): (f64, f64)) -> (f64, f64) {
        // The page handles scrolling one frame later, which must not happen after the pointer has moved.
        let frame = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))";
        let place = self.eval(&format!(
            "(async () => {{ const e = {expression}; e.scrollIntoView({{ block: 'center' }}); await {frame}; \
             const b = e.getBoundingClientRect(); return [b.left + b.width * {x}, b.top + b.height * {y}]; }})()"
        ));
        let (x, y) = (place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
        self.call("Input.dispatchMouseEvent", json!({ "type": "mouseMoved", "x": x, "y": y }));
        (x, y)
    }

    /// Clicks on the middle of the element that `expression` yields.
    pub(crate) fn click(&mut self, expression: &str) {
        let (x, y) = self.point_at(expression, (0.5, 0.5));
        for what in ["mousePressed", "mouseReleased"] {
            let click = json!({ "type": what, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.call("Input.dispatchMouseEvent", click);
        }
    }

    /// Emulates the system's preferences: `light` or `dark`, on `screen` or in `print`.
    pub(crate) fn emulate(&mut self, scheme: &str, media: &str) {
        let feature = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "media": media, "features": feature }));
    }

    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Saves a screenshot of the whole page, for people, in the folder named by `QUIPU_PICTURES`, if that is set.
    pub(crate) fn picture(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("QUIPU_PICTURES") else { return };
        let shot = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true }));
        let mut decode = Command::new("base64")
            .arg("-d")
            .stdin(Stdio::piped())
            .stdout(File::create(Path::new(&folder).join(format!("{name}.png"))).unwrap())
            .spawn()
            .unwrap();
        decode.stdin.take().unwrap().write_all(shot["data"].as_str().unwrap().as_bytes()).unwrap();
        decode.wait().unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = child.kill();
        let _ = child.wait();
    }
}
