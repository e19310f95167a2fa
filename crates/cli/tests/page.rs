//! `--html`: the written file, and the page in a real browser: its requests, contents, and reactions to clicks.

// A test whose setup fails has failed.

use crate::browser::Browser;
use assert_cmd::Command;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(crate) fn trace(name: &str) -> PathBuf {
    quipu_testkit::fixtures("drmemtrace").canonicalize().unwrap().join(name)
}

pub(crate) fn calls(name: &str) -> PathBuf {
    quipu_testkit::fixtures("apitrace").canonicalize().unwrap().join(name)
}

fn quipu<I: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = I>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quipu"));
    command.args(args).env("NO_COLOR", "1");
    command
}

/// The page of a report, and the same report as JSON.
pub(crate) fn report(trace: &Path, folder: &TempDir) -> (PathBuf, Value) {
    let page = folder.path().join("page.html");
    let args = ["report", "--json", "--force", "--html"].map(AsRef::as_ref);
    let output = quipu([&args[..], &[page.as_os_str(), trace.as_os_str()]].concat()).output().unwrap();
    (page, serde_json::from_slice(&output.stdout).unwrap())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

// ---- the file ----------------------------------------------------------------------------------------------------

#[test]
fn the_page_appears_whole_under_its_name_and_standard_error_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("a.html");
    std::fs::write(&page, "an older page").unwrap();
    let done = quipu([
        "report".as_ref(),
        "--force".as_ref(),
        "--html".as_ref(),
        page.as_os_str(),
        trace("allasm").as_os_str(),
    ])
    .assert();
    let output = done.code(0).get_output().clone();
    assert_eq!(text(&output.stdout), "");
    assert!(
        text(&output.stderr).starts_with(&format!("page: {} (", page.display())),
        "{}",
        text(&output.stderr)
    );
    let written = std::fs::read_to_string(&page).unwrap();
    assert!(written.starts_with("<!doctype html>") && written.ends_with("</html>\n"));
    let left: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["a.html"], "nothing unfinished is left");
}

#[test]
fn a_dash_means_standard_output_and_the_same_page() {
    let folder = tempfile::tempdir().unwrap();
    let (page, _) = report(&trace("allasm"), &folder);
    let printed =
        quipu(["report".as_ref(), "--html".as_ref(), "-".as_ref(), trace("allasm").as_os_str()]).assert();
    // The command lines differ, and stand at the end.
    let split = |page: &str| {
        let (before, rest) = page.split_once("<p>Made with <code>").unwrap();
        let (command, after) = rest.split_once("</code>").unwrap();
        (command.to_owned(), format!("{before}{after}"))
    };
    let (command, printed) = split(&text(&printed.code(0).get_output().stdout));
    let (other, written) = split(&std::fs::read_to_string(page).unwrap());
    assert_eq!(printed, written);
    assert_eq!(command, format!("quipu report --html - {}", trace("allasm").display()));
    assert!(other.starts_with("quipu report --json --force --html /"), "{other}");
}

#[test]
fn two_answers_for_standard_output_are_refused() {
    let both =
        quipu(["report".as_ref(), "--json".as_ref(), "--html=-".as_ref(), trace("allasm").as_os_str()])
            .assert();
    assert!(
        text(&both.code(2).get_output().stderr).contains("a page and JSON cannot both go to standard output")
    );
}

#[test]
fn a_folder_that_is_not_there_is_an_error_and_a_device_stays_one() {
    let allasm = trace("allasm");
    let nowhere = ["report".as_ref(), "--html=/no/such/folder/a.html".as_ref(), allasm.as_os_str()];
    let stderr = text(&quipu(nowhere).assert().code(2).get_output().stderr);
    assert!(stderr.contains("/no/such/folder/a.html: cannot create it"), "{stderr}");
    quipu(["report".as_ref(), "--html=/dev/null".as_ref(), trace("allasm").as_os_str()]).assert().code(0);
    assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
}

#[test]
fn a_damaged_trace_still_makes_a_page_that_says_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut.trace");
    let mut bytes = std::fs::read(trace("small/drmemtrace.small.x64.trace")).unwrap();
    bytes.truncate(1000);
    std::fs::write(&cut, bytes).unwrap();
    let page = folder.path().join("page.html");
    quipu(["report".as_ref(), "--html".as_ref(), page.as_os_str(), cut.as_os_str()]).assert().code(1);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(">What is wrong</h2>") && page.contains("drmemtrace/"), "{page}");
}

#[test]
fn analyses_by_name_make_a_page_too() {
    let trace = trace("tiny.func");
    let args = ["analyze".as_ref(), "heatmap,histogram".as_ref(), "--html=-".as_ref(), trace.as_os_str()];
    let page = text(&quipu(args).assert().code(0).get_output().stdout);
    assert!(page.contains(">Addresses over time</h2>") && page.contains("<figure class=\"heat\""));
}

/// The numbers are those of the transcript of `quipu sim sweep`.
#[test]
fn a_sweep_is_drawn_with_a_line_for_each_number_of_ways() {
    let trace = trace("tiny.plain");
    let args = ["sim", "sweep", "--sizes", "1K..4K", "--ways", "1,4", "--html", "-"];
    let drawn = quipu(args.map(AsRef::as_ref).into_iter().chain([trace.as_os_str()])).assert();
    let page = text(&drawn.code(0).get_output().stdout);
    let lines: Vec<&str> =
        page.split("data-t=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(
        lines,
        [
            "10.76 % at 1,024|8.55 % at 2,048|8.55 % at 4,096",
            "5.52 % at 1,024|4.74 % at 2,048|4.74 % at 4,096"
        ]
    );
}

#[test]
fn the_top_of_a_page_has_the_numbers_of_its_family() {
    let expected: [(&str, &[&str]); 5] = [
        ("prism/prodcons.prism", &["fetched instructions", "work", "critical path", "synchronizations"]),
        ("dtrace/classic/agg_ops", &["probes", "aggregations", "CPUs", "records", "most frequent probe"]),
        ("dtrace/linux/speculation", &["probes", "records", "most frequent probe"]),
        ("stream/all-types.quipu", &["producers", "kinds of records", "records"]),
        ("columnar/duckdb.parquet", &["rows of duckdb"]),
    ];
    let traces = quipu_testkit::fixtures("drmemtrace").join("..").canonicalize().unwrap();
    for (trace, labels) in expected {
        let printed = quipu(["report", "--no-machine", "--html", "-", trace]).current_dir(&traces).output();
        let page = text(&printed.unwrap().stdout);
        let (_, lead) = page.split_once("<section class=\"lead\">").unwrap();
        let (lead, _) = lead.split_once("</section>").unwrap();
        for label in labels {
            assert!(lead.contains(&format!(">{label}</dt>")), "{trace}: {label}: {lead}");
        }
    }
}

/// Command lines whose pages have all tables of all analyses but `aggregate`, whose heads its user writes.
const TABLES: &[&str] = &[
    "analyze counts,check,schedule,mix,branches,working-set,hot,functions,syscalls,opcodes,categories,histogram,\
     heatmap,reuse-distance,reuse-time,miss-ratio,caches,tlbs,misses,sweep --per-thread drmemtrace/mock_syscall",
    "analyze schedule-files,functions,branches,syscalls,miss-ratio,caches,tlbs --per-thread -O causes=true \
     -O reset-at=100 drmemtrace/thr",
    "analyze counts,hot,opcodes,categories drmemtrace/tiny.ifiltered",
    "analyze schedule drmemtrace/thr.core_sharded_kernel",
    "analyze check,schedule-files drmemtrace/small",
    "analyze types,caches,check cacheray/grand.trace",
    "analyze check cacheray/structs.trace",
    "analyze layout --type struct.Basic --types cacheray/types/structs.dwarf.json cacheray/structs.trace",
    "analyze check,frames,graphics,calls,leaks apitrace/kinds.trace",
    "analyze aggregations,timeline dtrace/classic/agg_ops",
    "analyze timeline dtrace/linux/speculation",
    "analyze workload prism/prodcons.prism",
    "analyze misses,caches columnar/duckdb.parquet",
    "report dtrace/linux/error_default",
    "report prism/prodcons.prism",
    "report apitrace/kinds.trace",
    "sim sweep --bound --sizes 4K drmemtrace/tiny.plain",
];

#[test]
fn each_head_on_a_page_is_explained() {
    let traces = quipu_testkit::fixtures("drmemtrace").join("..").canonicalize().unwrap();
    let mut n_heads = 0;
    for line in TABLES {
        let printed = quipu(line.split_whitespace().chain(["--html", "-"])).current_dir(&traces).output();
        let page = text(&printed.unwrap().stdout);
        assert!(page.ends_with("</html>\n"), "{line}");
        for head in page.split("<th scope=\"col\"").skip(1) {
            let (attributes, rest) = head.split_once("><button type=\"button\">").unwrap();
            let (words, _) = rest.split_once("</button>").unwrap();
            // A number as head is that of a thread; the first head of the table says so.
            let is_number = words.parse::<u64>().is_ok();
            assert!(is_number || attributes.contains(" title=\""), "{line}: {words}");
            n_heads += 1;
        }
    }
    assert!(n_heads > 500, "{n_heads}");
    let tools = quipu(["tools", "--json"]).output().unwrap();
    let tools: Value = serde_json::from_slice(&tools.stdout).unwrap();
    for tool in tools.as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let is_in = |line: &&str| line.split([' ', ',']).any(|word| word == name);
        assert!(name == "aggregate" || TABLES.iter().any(is_in), "{name}");
    }
}

// ---- the page in a browser ---------------------------------------------------------------------------------------

#[test]
fn pages_open_from_disk_without_a_complaint_and_ask_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Browser::start();
    for name in
        ["threadsig.x64", "tiny.func", "thr.core_sharded_kernel", "aarch64", "small", "tiny.ifiltered"]
    {
        let (page, _) = report(&trace(name), &folder);
        browser.open(&page);
        assert_eq!(browser.complaints(), Vec::<String>::new(), "{name}");
        assert_eq!(browser.requests(), [format!("file://{}", page.display())], "{name}");
        assert_eq!(browser.eval("document.querySelector('h1').textContent"), name);
        assert!(page.metadata().unwrap().len() < 1 << 20, "{name}");
        let wide = "document.documentElement.scrollWidth <= innerWidth";
        for width in [1440, 700, 380] {
            browser.resize(width, 900);
            assert_eq!(browser.eval(wide), true, "{name} fits into {width}");
            browser.picture(&format!("{name}-{width}"));
        }
        browser.resize(1440, 900);
    }
}

#[test]
fn tables_sort_by_a_click_and_keep_their_total_last() {
    let folder = tempfile::tempdir().unwrap();
    let (page, _) = report(&trace("threadsig.x64"), &folder);
    let mut browser = Browser::start();
    browser.open(&page);
    let table = |heading: &str| {
        format!(
            "[...document.querySelectorAll('h2')].find(h => h.textContent === '{heading}').closest('section').querySelector('table.grid')"
        )
    };
    let head = |table: &str, name: &str| {
        format!("[...{table}.tHead.querySelectorAll('button')].find(b => b.textContent === '{name}')")
    };
    let column = |browser: &mut Browser, table: &str, n: usize| -> Vec<u64> {
        let cells =
            browser.eval(&format!("[...{table}.tBodies[0].rows].map(row => row.cells[{n}].textContent)"));
        let number = |text: &Value| {
            let plain = text.as_str().unwrap().replace(',', "");
            plain
                .strip_prefix("0x")
                .map_or_else(|| plain.parse(), |hex| u64::from_str_radix(hex, 16))
                .unwrap()
        };
        cells.as_array().unwrap().iter().map(number).collect()
    };
    // Counts with separators; the first click sorts by the largest, the second by the smallest.
    let counts = table("Counts");
    for is_descending in [true, false] {
        browser.click(&head(&counts, "loads"));
        let found = column(&mut browser, &counts, 3);
        let mut sorted = found.clone();
        sorted.sort_unstable();
        if is_descending {
            sorted.reverse();
        }
        assert_eq!((found.len(), &found), (9, &sorted));
        let order = if is_descending { "descending" } else { "ascending" };
        assert_eq!(browser.eval(&format!("{counts}.querySelector('[aria-sort]').ariaSort")), order);
    }
    assert_eq!(browser.eval(&format!("{counts}.tFoot.rows[0].cells[0].textContent")), "total");
    // Addresses larger than a double can represent exactly.
    let hottest = table("Hottest");
    browser.click(&head(&hottest, "pc"));
    let found = column(&mut browser, &hottest, 0);
    assert!(found.len() > 50 && found.is_sorted_by(|a, b| a >= b), "{found:x?}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Contrast of two colours according to WCAG, from `rgb(…)` texts.
fn contrast(a: &Value, b: &Value) -> f64 {
    let luminance = |color: &Value| {
        let digits = color.as_str().unwrap().replace(|c: char| !c.is_ascii_digit(), " ");
        let part = |text: &str| {
            let part = text.parse::<f64>().unwrap() / 255.0;
            if part <= 0.03928 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        };
        let parts: Vec<f64> = digits.split_whitespace().map(part).collect();
        0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]
    };
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn light_and_dark_follow_the_system_and_the_button_with_enough_contrast() {
    let folder = tempfile::tempdir().unwrap();
    let (page, _) = report(&trace("tiny.func"), &folder);
    let mut browser = Browser::start();
    browser.open(&page);
    let ground = "getComputedStyle(document.body).backgroundColor";
    let mut grounds = Vec::new();
    for scheme in ["light", "dark"] {
        browser.emulate(scheme, "screen");
        let ground = browser.eval(ground);
        for (what, least) in [
            ("h1", 7.0),
            ("td", 7.0),
            ("dl.facts dt", 4.5),
            ("nav a", 4.5),
            ("p.more", 4.5),
            ("th button", 4.5),
            (".gutter text", 4.5),
        ] {
            let property = if what == ".gutter text" { "fill" } else { "color" };
            let ink = browser.eval(&format!("getComputedStyle(document.querySelector('{what}')).{property}"));
            assert!(contrast(&ink, &ground) >= least, "{what} in {scheme}: {ink} on {ground}");
        }
        // In drawings, meaningful parts need a contrast of three.
        for (what, property) in [(".bar rect", "fill"), ("path.line", "stroke")] {
            let ink = browser.eval(&format!("getComputedStyle(document.querySelector('{what}')).{property}"));
            assert!(contrast(&ink, &ground) >= 3.0, "{what} in {scheme}: {ink} on {ground}");
        }
        browser.picture(&format!("tiny.func-{scheme}"));
        grounds.push(ground);
    }
    assert!(contrast(&grounds[0], &grounds[1]) > 10.0, "{grounds:?}");
    // The system prefers dark now; the button switches to light, and back to dark.
    for expected in [&grounds[0], &grounds[1]] {
        browser.click("document.getElementById('theme')");
        assert_eq!(browser.eval(ground), *expected);
    }
    // Paper is white, and shows no buttons.
    browser.emulate("dark", "print");
    let white = browser.eval("getComputedStyle(document.body).color");
    assert!(contrast(&white, &Value::from("rgb(255, 255, 255)")) > 10.0, "{white}");
    assert_eq!(browser.eval("getComputedStyle(document.getElementById('theme')).display"), "none");
}

/// The numbers in a JSON list.
pub(crate) fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().unwrap().iter().map(|number| number.as_u64().unwrap()).collect()
}

#[test]
fn charts_have_the_marks_that_json_has_numbers_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Browser::start();
    for name in ["threadsig.x64", "tiny.func", "thr.core_sharded_kernel"] {
        let (page, json) = report(&trace(name), &folder);
        let results = &json["results"];
        browser.open(&page);

        // One lane per core or thread, with one value per step.
        let lanes = browser
            .eval("[...document.querySelectorAll('.lanes g')].map(g => g.dataset.v.split(',').length)");
        let schedule = &results["schedule"];
        let cores = schedule["cores"].as_array().unwrap();
        let expected = if cores.is_empty() { schedule["threads"].as_array().unwrap() } else { cores };
        assert_eq!(
            numbers(&lanes),
            vec![schedule["steps"]["count"].as_u64().unwrap(); expected.len()],
            "{name}"
        );

        // One bar per part of the mix, with its length in proportion to the largest.
        let bars = browser.eval("[...document.querySelectorAll('.bars')][0].querySelectorAll('rect').length");
        let parts = results["mix"]["parts"].as_array().unwrap();
        assert_eq!(bars, parts.len(), "{name}");
        let widths = browser.eval(
            "[...document.querySelectorAll('.bar')].slice(0, 2).map(b => b.querySelector('rect').getBoundingClientRect().width)",
        );
        let ratio = widths[1].as_f64().unwrap() / widths[0].as_f64().unwrap();
        let expected = parts[1]["count"].as_f64().unwrap() / parts[0]["count"].as_f64().unwrap();
        assert!((ratio - expected).abs() < 0.01, "{name}: {ratio} is not {expected}");

        // The working set's values, with the same number of steps drawn.
        let data_lines = numbers(&results["working-set"]["data_lines"]);
        let series = "[...document.querySelectorAll('.series g')].find(g => g.dataset.l === 'data lines')";
        let values = browser.eval(&format!("{series}.dataset.v.split(',').map(Number)"));
        assert_eq!(numbers(&values), data_lines, "{name}");
        let steps = browser.eval(&format!(
            "{series}.parentNode.querySelector('.line').getAttribute('d').match(/h1/g).length"
        ));
        assert_eq!(steps, data_lines.len(), "{name}");

        // Each non-empty cell of the heat map is drawn once, and its label has its count.
        let rows = results["heatmap"]["rows"].as_array().unwrap();
        let counts: Vec<u64> = rows.iter().flat_map(|row| numbers(&row["counts"])).collect();
        let cells = browser.eval(
            "[...document.querySelectorAll('.heat g')].flatMap(g => g.dataset.v.split(',').map(Number))",
        );
        assert_eq!(numbers(&cells), counts, "{name}");
        let drawn = browser.eval(
            "[...document.querySelectorAll('.heat .raster path')].flatMap(p => [...p.getAttribute('d').matchAll(/h(\\d+)/g)]) \
             .reduce((sum, run) => sum + Number(run[1]), 0)",
        );
        assert_eq!(drawn, counts.iter().filter(|count| **count > 0).count(), "{name}");

        // The curve of reuse distances ends at the share of accesses that are reuses.
        let reuse = &results["reuse-distance"];
        let end = browser.eval("document.querySelector('.curve g').dataset.t.split('|').at(-1)");
        let share = reuse["reuses"].as_f64().unwrap() / reuse["accesses"].as_f64().unwrap() * 100.0;
        let found = end.as_str().unwrap().split(' ').next().unwrap().parse::<f64>().unwrap();
        assert!((found - share).abs() < 0.006, "{name}: {end} is not {share}");

        // Drawings are visible.
        let hidden = browser.eval(
            "[...document.querySelectorAll('svg.plot')].filter(svg => !svg.closest('details:not([open])')) \
             .filter(svg => svg.getBoundingClientRect().width < 100 || svg.getBoundingClientRect().height < 2).length",
        );
        assert_eq!(hidden, 0, "{name}");
    }
}

#[test]
fn a_page_on_graphics_calls_shows_frames_textures_and_shaders() {
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Browser::start();
    for name in ["kinds.trace", "glxgears-300.trace", "tri_glsl.trace", "header-only-2-bytes.trace"] {
        let (page, json) = report(&calls(name), &folder);
        let results = &json["results"];
        browser.open(&page);
        assert_eq!(browser.complaints(), Vec::<String>::new(), "{name}");
        assert_eq!(browser.eval("document.querySelector('h1').textContent"), name);
        for width in [1440, 380] {
            browser.resize(width, 900);
            assert_eq!(browser.eval("document.documentElement.scrollWidth <= innerWidth"), true, "{name}");
            browser.picture(&format!("{name}-{width}"));
        }
        browser.resize(1440, 900);

        // One line for calls per frame, with a value per frame, or means of adjacent frames.
        let frames = results["frames"]["frames"].as_array().unwrap();
        let line = "[...document.querySelectorAll('.series g')].find(g => g.dataset.l === 'calls')";
        let values =
            browser.eval(&format!("({line}?.dataset.v ?? '').split(',').filter(Boolean).map(Number)"));
        let values: Vec<f64> =
            values.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect();
        let calls: Vec<f64> = frames.iter().map(|frame| frame["calls"].as_f64().unwrap()).collect();
        assert_eq!(values.len(), calls.len().min(160), "{name}");
        if calls.len() <= 160 {
            assert_eq!(values, calls, "{name}");
        }

        // Pictures are embedded in the page; sources are folded below their summaries.
        let images = browser.eval(
            "[...document.images].map(i => [i.complete && i.naturalWidth === Number(i.getAttribute('width')), i.src.slice(0, 22)])",
        );
        let images = images.as_array().unwrap();
        assert!(
            images.iter().all(|image| image[0] == true && image[1] == "data:image/png;base64,"),
            "{images:?}"
        );
        let sources = results["graphics"]["shaders"]["listed"].as_array().unwrap();
        let listed =
            browser.eval("[...document.querySelectorAll('details .listing')].map(e => e.textContent)");
        let listed = listed.as_array().unwrap();
        assert_eq!(listed.len(), sources.len(), "{name}");
        for (shown, source) in listed.iter().zip(sources) {
            let source = source["text"].as_str().unwrap().replace('\t', "    ");
            let lines: Vec<&str> = source.lines().collect();
            assert_eq!(shown.as_str().unwrap().lines().collect::<Vec<_>>(), lines, "{name}");
        }
        if name == "kinds.trace" {
            // Each of the two textures stands among the textures, and in the frame that uploads it.
            assert_eq!((images.len(), sources.len()), (4, 3));
            let text = browser.eval("document.body.textContent");
            for word in ["OpenGL + GLX/WGL/CGL", "GL_INVALID_VALUE", "glBufferData", "glVertex2f"] {
                assert!(text.as_str().unwrap().contains(word), "{word}");
            }
        }
    }
}

#[test]
fn hovering_reads_values_out() {
    let folder = tempfile::tempdir().unwrap();
    let (page, json) = report(&trace("tiny.func"), &folder);
    let mut browser = Browser::start();
    browser.open(&page);
    let tip = "[...document.querySelectorAll('#tip p')].map(p => p.textContent).join('\\n')";
    browser.point_at("document.querySelector('.heat svg.plot')", (0.001, 0.001));
    let found = browser.eval(tip);
    let first = &json["results"]["heatmap"]["rows"][0];
    let count = first["counts"][0].as_u64().unwrap();
    let expected = format!("{}, 64 B\n{count} accesses\n≈ ", first["addr"].as_str().unwrap());
    assert!(found.as_str().unwrap().starts_with(&expected), "{found}");
    browser.point_at("document.querySelector('.series svg.plot')", (0.999, 0.5));
    let found = browser.eval(tip);
    let last = numbers(&json["results"]["working-set"]["data_lines"]).pop().unwrap();
    assert!(found.as_str().unwrap().starts_with(&format!("data lines: {last} lines\n")), "{found}");
    browser.point_at("document.querySelector('.lanes svg.plot')", (0.5, 0.5));
    let found = browser.eval(tip);
    assert!(found.as_str().unwrap().contains("% busy"), "{found}");
    assert_eq!(browser.eval("document.getElementById('tip').hidden"), false);
    browser.point_at("document.querySelector('h1')", (0.5, 0.5));
    assert_eq!(browser.eval("document.getElementById('tip').hidden"), true);
}

#[test]
fn names_from_a_trace_stay_words() {
    const HOSTILE: &str =
        "<img src=x onerror=document.title='taken'><script>document.title='taken'<_script>\"'`&amp;";
    let folder = tempfile::tempdir().unwrap();
    // A folder, a file and a function with that name.
    let copy = folder.path().join(HOSTILE);
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(trace("tiny.func")).unwrap() {
        let from = entry.unwrap().path();
        let name = from.file_name().unwrap().to_str().unwrap().to_owned();
        if name == "funclist.log" {
            let list = std::fs::read_to_string(&from).unwrap();
            assert!(list.contains("leaf_add"));
            std::fs::write(copy.join(name), list.replace("leaf_add", &HOSTILE.replace("_script", "/script")))
                .unwrap();
        } else {
            std::fs::copy(&from, copy.join(name)).unwrap();
        }
    }
    let (page, json) = report(&copy, &folder);
    assert!(json["results"]["functions"].to_string().contains("<img"), "the name got through: {json:#}");
    let mut browser = Browser::start();
    browser.open(&page);
    assert_eq!(browser.complaints(), Vec::<String>::new());
    assert_eq!(browser.requests().len(), 1);
    assert_eq!(browser.eval("document.querySelectorAll('img, iframe, object, link').length"), 0);
    assert_eq!(browser.eval("document.scripts.length"), 1);
    assert_eq!(browser.eval("document.title"), format!("{HOSTILE} – Quipu"));
    assert_eq!(browser.eval("document.querySelector('h1').textContent"), HOSTILE);
    assert_eq!(browser.eval("document.body.textContent.includes('<img src=x')"), true);
    let attributes = "[...document.querySelectorAll('*')].flatMap(e => [...e.attributes]).filter(a => /^on|^style$/.test(a.name)).length";
    assert_eq!(browser.eval(attributes), 0);
    // Even if there were a hole, the page's policy would block scripts.
    browser.eval(
        "document.body.insertAdjacentHTML('beforeend', '<img src=\"data:,\" onerror=\"document.title=1\">')",
    );
    browser.eval("new Promise(done => setTimeout(done, 200))");
    assert_eq!(browser.eval("document.title"), format!("{HOSTILE} – Quipu"));
}

#[test]
fn without_scripts_the_page_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let (page, _) = report(&trace("tiny.func"), &folder);
    let mut browser = Browser::start();
    browser.call("Emulation.setScriptExecutionDisabled", serde_json::json!({ "value": true }));
    browser.open(&page);
    assert_eq!(
        browser.eval("document.getElementById('theme').hidden"),
        true,
        "a button that does nothing is not shown"
    );
    for what in [".lanes path", ".series .line", ".heat path", ".bar rect", "table.grid td"] {
        let width = browser.eval(&format!("document.querySelector('{what}').getBoundingClientRect().width"));
        assert!(width.as_f64().unwrap() > 0.0, "{what}");
    }
}
