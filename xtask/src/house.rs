//! `cargo xtask house`: the measures and rules of the repository, each with its current number and whether it holds.
//!
//! [`measures`] lists what is counted, [`crate::tidy`] lists the rules, and [`page`] stores starting values and allowances.

pub(crate) mod measures;
pub(crate) mod page;
pub(crate) mod source;

use crate::tidy::RULES;
use anyhow::{Context, Result, bail};
use measures::{LATER, MEASURES, Taken, Tree};
use page::{Numbers, grouped};
use std::fs;
use std::path::Path;

/// Prints all measures and rules, or the places that the one called `only` counts.
pub(crate) fn run(root: &Path, only: Option<&str>) -> Result<()> {
    let tree = Tree::read(root)?;
    if let Some(name) = only {
        let taken =
            take(&tree, name).with_context(|| format!("no measure and no rule is called `{name}`"))??;
        for place in &taken.places {
            println!("{place}");
        }
        println!("{name}: {}", grouped(taken.value));
        return Ok(());
    }
    let numbers = stored(root)?;
    let mut rows = vec![["measure", "at the start", "today", "goal", "holds"].map(str::to_owned)];
    for measure in MEASURES {
        let now = (measure.take)(&tree).with_context(|| measure.name)?.value;
        let start = numbers.of(measure.name).unwrap_or(now);
        rows.push([
            measure.name.to_owned(),
            grouped(start),
            grouped(now),
            page::goal(measure.goal, start),
            yes(now <= measure.goal.limit(start)),
        ]);
    }
    put(&rows);
    println!();
    let mut rows = vec![["rule", "broken", "allowed", "goal", "holds"].map(str::to_owned)];
    for rule in RULES {
        let now = rule.broken(&tree).with_context(|| rule.name)?.len() as u64;
        let allowed = numbers.of(rule.name).unwrap_or_default();
        let words = "none".to_owned();
        rows.push([rule.name.to_owned(), grouped(now), grouped(allowed), words, yes(now == 0)]);
    }
    put(&rows);
    println!("\nnot taken here:");
    for later in LATER {
        println!("  {}\n    goal: {}; {}", later.what, later.goal, later.why);
    }
    Ok(())
}

/// Evaluates the measure or rule called `name`; `None` if there is none.
fn take(tree: &Tree, name: &str) -> Option<Result<Taken>> {
    if let Some(measure) = MEASURES.iter().find(|measure| measure.name == name) {
        return Some((measure.take)(tree));
    }
    let rule = RULES.iter().find(|rule| rule.name == name)?;
    Some(rule.broken(tree).map(|places| Taken { value: places.len() as u64, places }))
}

/// Numbers stored on the page.
pub(crate) fn stored(root: &Path) -> Result<Numbers> {
    let path = root.join(page::PATH);
    if !path.exists() {
        return Ok(Numbers::default());
    }
    Ok(Numbers::read(&fs::read_to_string(&path).with_context(|| path.display().to_string())?))
}

/// The page as it should be now: with starting values for new measures, and with allowances lowered where fewer places break
/// a rule.
pub(crate) fn written(root: &Path) -> Result<String> {
    let tree = Tree::read(root)?;
    let mut numbers = stored(root)?;
    for measure in MEASURES {
        numbers.start(measure.name, (measure.take)(&tree)?.value);
    }
    for rule in RULES {
        numbers.lower(rule.name, rule.broken(&tree)?.len() as u64);
    }
    Ok(page::page(&numbers))
}

/// Fails if the page differs from the one generated from its own numbers.
pub(crate) fn check(root: &Path) -> Result<()> {
    let text = fs::read_to_string(root.join(page::PATH)).unwrap_or_default();
    if page::page(&stored(root)?) != text {
        bail!("stale: {}; run `cargo xtask docs`", page::PATH);
    }
    Ok(())
}

fn yes(holds: bool) -> String {
    if holds { "yes" } else { "no" }.to_owned()
}

/// Prints rows of cells in aligned columns: the first and fourth to the left, the second and third to the right.
fn put(rows: &[[String; 5]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    for row in rows {
        let [a, b, c, d, e] = row;
        let (wa, wb, wc, wd) = (width(0), width(1), width(2), width(3));
        println!("{a:<wa$}  {b:>wb$}  {c:>wc$}  {d:<wd$}  {e}");
    }
}
