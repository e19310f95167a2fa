//! A page in the hands of a reader: folding, searching, copying, explanations, zooming, and rules of accessibility.

// A test whose setup fails has failed.

use crate::browser::Browser;
use crate::page::{calls, numbers, report, trace};

#[test]
fn tables_show_ten_rows_until_all_are_wanted_and_are_copied_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (page, _) = report(&trace("threadsig.x64"), &folder);
    let mut browser = Browser::start();
    browser.open(&page);
    let hottest =
        "[...document.querySelectorAll('h2')].find(h => h.textContent === 'Hottest').closest('section')";
    let shown = format!(
        "[...{hottest}.querySelector('table').tBodies[0].rows].filter(row => row.getBoundingClientRect().height > 0).length"
    );
    let button = |words: &str| {
        format!(
            "[...{hottest}.querySelectorAll('.tools button')].find(b => b.textContent.startsWith('{words}'))"
        )
    };
    assert_eq!(browser.eval(&shown), 10);
    let n_rows = browser.eval(&format!("{hottest}.querySelector('table').tBodies[0].rows.length"));
    browser.click(&button("Show all"));
    assert_eq!(browser.eval(&shown), n_rows);
    browser.click(&button("Show the top 10"));
    assert_eq!(browser.eval(&shown), 10);
    // The clipboard of a headless browser is not readable; what would be put there is.
    browser.eval("navigator.clipboard.writeText = async words => { window.copied = words }");
    browser.click(&button("Copy as CSV"));
    browser.eval("new Promise(done => setTimeout(done, 50))");
    let copied = browser.eval("window.copied");
    let lines: Vec<&str> = copied.as_str().unwrap().lines().collect();
    assert_eq!(lines.len() as u64, n_rows.as_u64().unwrap() + 1);
    assert!(lines[0].starts_with("pc,executed,share of executed (0 to 1)"), "{}", lines[0]);
    assert!(lines[1].starts_with("0x") && lines[1].contains(",0."), "{}", lines[1]);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn searching_leaves_only_rows_with_the_words() {
    let folder = tempfile::tempdir().unwrap();
    let (page, json) = report(&trace("threadsig.x64"), &folder);
    let mut browser = Browser::start();
    browser.open(&page);
    let look_for = |browser: &mut Browser, words: &str| {
        browser.eval(&format!("search.value = '{words}'; search.dispatchEvent(new Event('input'))"));
        browser.eval("document.getElementById('found').textContent").as_str().unwrap().to_owned()
    };
    let thread = json["results"]["schedule"]["threads"][0]["thread"].to_string();
    let found = look_for(&mut browser, &thread);
    assert!(found.contains(" in ") && !found.starts_with("0 "), "{thread}: {found}");
    let rows = "[...document.querySelectorAll('table.grid tbody tr')].filter(row => row.getBoundingClientRect().height > 0)";
    let all_have = format!("{rows}.length > 0 && {rows}.every(row => row.textContent.includes('{thread}'))");
    assert_eq!(browser.eval(&all_have), true);
    assert_eq!(look_for(&mut browser, "no such words"), "0 rows in 0 tables");
    assert_eq!(look_for(&mut browser, ""), "");
    assert_eq!(browser.eval("document.querySelectorAll('main [hidden]').length"), 0);
}

#[test]
fn sections_fold_and_links_unfold_them() {
    let folder = tempfile::tempdir().unwrap();
    let (page, _) = report(&trace("tiny.func"), &folder);
    let mut browser = Browser::start();
    browser.open(&page);
    let open = "[...document.querySelectorAll('details.fold')].filter(fold => fold.open).length";
    let n_folds = browser.eval("document.querySelectorAll('details.fold').length");
    assert_eq!(browser.eval(open), n_folds);
    browser.click("document.getElementById('fold')");
    assert_eq!(browser.eval(open), 0);
    browser.click("document.querySelector('nav a')");
    browser.eval("new Promise(done => setTimeout(done, 50))");
    assert_eq!(browser.eval(open), 1);
}

#[test]
fn terms_are_explained_and_drawings_zoom() {
    let folder = tempfile::tempdir().unwrap();
    let (page, _) = report(&trace("tiny.func"), &folder);
    let mut browser = Browser::start();
    browser.open(&page);
    let tip = "[...document.querySelectorAll('#tip p')].map(p => p.textContent).join('\\n')";
    let rate = "[...document.querySelectorAll('th.term button')].find(b => b.textContent === 'miss rate')";
    browser.eval(&format!("{rate}.focus()"));
    assert_eq!(browser.eval(tip), "Share of accesses that missed.");
    assert_eq!(browser.eval(&format!("{rate}.getAttribute('aria-description')")), browser.eval(tip));

    let figure = "document.querySelector('figure.heat')";
    let part = format!("(box => [box.x, box.width])({figure}.querySelector('svg.plot').viewBox.baseVal)");
    let marks = format!("[...{figure}.querySelectorAll('svg.ticks text')].map(text => text.textContent)");
    let (whole, before) = (browser.eval(&part), browser.eval(&marks));
    assert!(before.as_array().unwrap().len() > 2, "{before}");
    let button = |words: &str| format!("{figure}.querySelector('.zoom button[aria-label=\"{words}\"]')");
    browser.click(&button("Zoom in"));
    let zoomed = browser.eval(&part);
    assert_eq!(zoomed[1].as_f64().unwrap() * 2.0, whole[1].as_f64().unwrap());
    assert_ne!(browser.eval(&marks), before);
    browser.click(&button("Move to the left"));
    assert!(browser.eval(&part)[0].as_f64() < zoomed[0].as_f64());
    browser.click(&button("Show the whole axis"));
    assert_eq!(browser.eval(&part), whole);
    assert_eq!(browser.eval(&marks), before, "the script's round numbers are those of the page");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn a_click_on_a_frame_opens_its_calls() {
    let folder = tempfile::tempdir().unwrap();
    let (page, json) = report(&calls("kinds.trace"), &folder);
    let mut browser = Browser::start();
    browser.open(&page);
    browser.click("document.querySelector('figure.series svg.plot')");
    // The middle of five frames.
    let open = browser.eval("[...document.querySelectorAll('details.part')].map(part => part.open)");
    assert_eq!(open, serde_json::json!([false, false, true, false, false]));
    let counts = browser.eval(
        "[...document.querySelectorAll('details.part[open] tbody tr')].map(row => Number(row.cells[1].textContent))",
    );
    assert_eq!(numbers(&counts).iter().sum::<u64>(), json["results"]["frames"]["frames"][2]["calls"]);
    // Every drawing has a name for those who do not see it.
    let nameless = "[...document.querySelectorAll('svg[role=img]')].filter(svg => !svg.querySelector(':scope > title')).length";
    assert_eq!(browser.eval(nameless), 0);
}

/// Rules that automatic checkers of accessibility test first.
#[test]
fn everything_has_a_name_and_headings_are_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let mut browser = Browser::start();
    for trace in [calls("kinds.trace"), trace("tiny.func")] {
        browser.open(&report(&trace, &folder).0);
        let nameless = "[...document.querySelectorAll('button, input, summary, a')] \
             .filter(e => !(e.textContent.trim() || e.ariaLabel || e.labels?.length)).map(e => e.outerHTML)";
        assert_eq!(browser.eval(nameless), serde_json::json!([]));
        let levels = numbers(
            &browser
                .eval("[...document.querySelectorAll('h1, h2, h3, h4')].map(h => Number(h.localName[1]))"),
        );
        assert_eq!(levels[0], 1);
        assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
        let ids =
            "(ids => ids.length - new Set(ids).size)([...document.querySelectorAll('[id]')].map(e => e.id))";
        assert_eq!(browser.eval(ids), 0);
        let unscoped = "document.querySelectorAll('th:not([scope])').length";
        assert_eq!(browser.eval(unscoped), 0);
    }
}
