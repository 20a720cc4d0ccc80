//! The page in a real browser. Skipped, with a message, where there is none.

use super::{html, sample};
use crate::page::browser::{Browser, SCREENS, unbase64};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

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
