//! `docs/house.md`: the value of each measure at the start, and the number of places that may still break each rule.
//!
//! The page is generated from the lists in the sources and from the numbers on the page itself. A starting value is written
//! once. When the page is written and fewer places break a rule, its allowance is lowered; nothing raises it.

use super::measures::{Goal, LATER, MEASURES};
use crate::tidy::RULES;
use std::fmt::Write;

/// Path of the page.
pub(crate) const PATH: &str = "docs/house.md";

/// Numbers on the page, by the name of the measure or rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers(Vec<(String, u64)>);

impl Numbers {
    /// Reads the numbers of an existing page.
    pub(crate) fn read(page: &str) -> Numbers {
        let row = |line: &str| {
            let (name, rest) = line.strip_prefix("| `")?.split_once("` |")?;
            let number = rest.trim_end_matches([' ', '|']).rsplit('|').next()?.replace(',', "");
            Some((name.to_owned(), number.trim().parse().ok()?))
        };
        Numbers(page.lines().filter_map(row).collect())
    }

    pub(crate) fn of(&self, name: &str) -> Option<u64> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, number)| *number)
    }

    /// Stores the starting value of a measure that has none yet.
    pub(crate) fn start(&mut self, name: &str, now: u64) {
        if self.of(name).is_none() {
            self.0.push((name.to_owned(), now));
        }
    }

    /// Lowers the allowance of a rule to `now`, the number of places that break it; a new rule starts with that number.
    pub(crate) fn lower(&mut self, name: &str, now: u64) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, allowed)) => *allowed = now.min(*allowed),
            None => self.0.push((name.to_owned(), now)),
        }
    }
}

/// Renders the page with these numbers.
pub(crate) fn page(numbers: &Numbers) -> String {
    let mut page = String::from(
        "# The house in numbers\n\n\
         <!-- Written by `cargo xtask docs` from the lists in `xtask/src`: a start stays, an allowance only falls. -->\n\n\
         `cargo xtask house` takes each measure again and says how far it is from its goal; `cargo xtask house NAME` lists what a\n\
         measure or rule counts, place by place.\n\n\
         ## Measures\n\n\
         What a large change of the code should come to. Lines are counted without blank ones, comments and what only tests compile.\n\n\
         | measure | what is counted | goal | at the start |\n|---|---|---|---|\n",
    );
    for measure in MEASURES {
        let start = numbers.of(measure.name).unwrap_or_default();
        let goal = goal(measure.goal, start);
        let _ = writeln!(page, "| `{}` | {} | {goal} | {} |", measure.name, measure.what, grouped(start));
    }
    page.push_str(
        "\n## Measures to come\n\n\
         These cannot be taken by reading sources, or not yet.\n\n\
         | what | goal | why not here |\n|---|---|---|\n",
    );
    for later in LATER {
        let _ = writeln!(page, "| {} | {} | {} |", later.what, later.goal, later.why);
    }
    page.push_str(
        "\n## Rules\n\n\
         A test holds each (`xtask/src/tidy.rs`). Where a rule is broken in more places than can be mended at once, it allows as many\n\
         as there are, and no more. After mending some, run `cargo xtask docs`: it lowers the number, and nothing raises it.\n\n\
         | rule | what it says | allowed |\n|---|---|---|\n",
    );
    for rule in RULES {
        let allowed = grouped(numbers.of(rule.name).unwrap_or_default());
        let _ = writeln!(page, "| `{}` | {} | {allowed} |", rule.name, rule.what);
    }
    page
}

/// A goal in words, for a measure that started at `start`.
pub(crate) fn goal(goal: Goal, start: u64) -> String {
    match goal {
        Goal::None => "no goal".to_owned(),
        Goal::AtMost(0) => "none".to_owned(),
        Goal::AtMost(limit) => format!("≤ {}", grouped(limit)),
        Goal::Fewer(percent) => format!("≤ {} ({percent} % fewer)", grouped(goal.limit(start))),
    }
}

/// A number with commas between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_page_are_read_back() {
        let mut numbers = Numbers::default();
        for (i, measure) in MEASURES.iter().enumerate() {
            numbers.start(measure.name, 1_234_567 + i as u64);
        }
        for rule in RULES {
            numbers.lower(rule.name, 3);
        }
        assert_eq!(Numbers::read(&page(&numbers)), numbers);
    }

    #[test]
    fn a_start_stays_and_an_allowance_only_falls() {
        let mut numbers = Numbers::default();
        numbers.start("lines", 10);
        numbers.start("lines", 9);
        assert_eq!(numbers.of("lines"), Some(10));
        numbers.lower("width", 5);
        numbers.lower("width", 7);
        assert_eq!(numbers.of("width"), Some(5));
        numbers.lower("width", 2);
        assert_eq!(numbers.of("width"), Some(2));
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!([0, 999, 1_000, 96_546].map(grouped), ["0", "999", "1,000", "96,546"]);
    }
}
