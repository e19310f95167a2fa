//! Explanations of heads of columns and labels: the sentences on the result's keys, which heads spell with spaces, and the
//! glossary for other words.

use super::text::{cut, escape};
use quipu_model::doc::{Document, Term};
use std::fmt::Write as _;

/// Maximum length of an explanation.
const MAX_WORDS: usize = 400;

/// The glossary of the documentation, for words that the result does not describe.
const GLOSSARY: &str = include_str!("../../../../docs/glossary.md");

/// Words that are not the beginning of the key whose values they stand over.
const OTHER_WORDS: &[(&str, &str)] = &[
    ("allocated", "name"),
    ("as", "kind"),
    ("at", "position"),
    ("bytes", "size"),
    ("bytes_ahead", "stride"),
    ("cache", "name"),
    ("computed_targets", "targets"),
    ("distinct_lines", "lines"),
    ("ended", "ends"),
    ("instrs", "instructions"),
    ("instruction", "pc"),
    ("level", "name"),
    ("line", "addr"),
    ("load", "pc"),
    ("loaded", "bytes_loaded"),
    ("made_by_call", "made_by"),
    ("mean_distance", "mean"),
    ("median_distance", "median"),
    ("member", "name"),
    ("most_at_a_time", "most"),
    ("not_destroyed_until", "until"),
    ("not_in_a_first_cache", "first_level_misses"),
    ("not_in_a_first_tlb", "first_level_misses"),
    ("not_in_any_cache", "last_level_misses"),
    ("not_in_any_tlb", "last_level_misses"),
    ("of_data", "data_accesses"),
    ("of_instructions", "instr_accesses"),
    ("page", "addr"),
    ("pixels", "size"),
    ("processors", "cpus"),
    ("raw_memory", "blob_bytes"),
    ("read_from_next_level", "bytes_in"),
    ("share_of_executed", "share"),
    ("site", "pc"),
    ("stored", "bytes_stored"),
    ("system_calls", "syscalls"),
    ("tlb", "name"),
    ("true_sharing", "moves"),
    ("type", "name"),
    ("usage", "format"),
    ("ways", "assoc"),
];

/// The sentences of one document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms<'a> {
    terms: &'a [Term],
    /// The structure whose keys come first, because it has most words of the block.
    of: Option<&'static str>,
}

impl<'a> Terms<'a> {
    pub(super) fn new(document: &'a Document) -> Terms<'a> {
        Terms { terms: &document.terms, of: None }
    }

    /// The same for a block with these words: several structures may have a key, and the one that has most of the words is
    /// meant.
    pub(super) fn of<'w>(self, words: impl Iterator<Item = &'w str>) -> Terms<'a> {
        let words: Vec<String> = words.map(key_of).collect();
        let (mut most, mut of) = (0, None);
        for term in self.terms {
            if of == Some(term.of) {
                continue;
            }
            let has =
                |word: &&String| self.terms.iter().any(|own| own.of == term.of && is_named(own.key, word));
            let n = words.iter().filter(has).count();
            if n > most {
                (most, of) = (n, Some(term.of));
            }
        }
        Terms { of, ..self }
    }

    /// The attribute that explains a word, with a leading space; empty if there is no sentence on it.
    pub(super) fn title(self, word: &str) -> String {
        let mut out = String::new();
        if let Some(doc) = self.explain(word) {
            let words = escape(&cut(&for_people(&doc), MAX_WORDS));
            let _ = write!(out, " title=\"{words}\""); // Writing to a string cannot fail.
        }
        out
    }

    /// The sentence on a word, also if the name of a cache stands before it; otherwise what the glossary says of it.
    fn explain(self, word: &str) -> Option<String> {
        let word = key_of(word);
        let mut rest = word.as_str();
        loop {
            if let Some(doc) = self.sentence(rest) {
                return Some(doc.to_owned());
            }
            let is_cache = |name: &str| name == "ll" || name.contains(|c: char| c.is_ascii_digit());
            match rest.split_once('_').filter(|(first, _)| is_cache(first)) {
                Some((_, after)) => rest = after,
                None => return in_glossary(rest),
            }
        }
    }

    /// The sentence on a key: that of the block's structure, of the outermost one, or of any if all say the same.
    fn sentence(self, word: &str) -> Option<&'static str> {
        let of = |of: Option<&'static str>| self.terms.iter().filter(move |term| of == Some(term.of));
        let is_short = |term: &&Term| term.key.strip_prefix(word).is_some_and(|rest| rest.starts_with('_'));
        let outermost = self.terms.first().map(|term| term.of);
        let one = of(self.of).find(|term| term.key == word);
        let one = one.or_else(|| of(self.of).find(|term| is_named(term.key, word)));
        let one = one.or_else(|| only(of(self.of).filter(is_short)));
        let one = one.or_else(|| of(outermost).find(|term| term.key == word));
        one.or_else(|| only(self.terms.iter().filter(|term| term.key == word))).map(|term| term.doc)
    }
}

/// The first of these, if all say the same.
fn only<'a>(mut terms: impl Iterator<Item = &'a Term>) -> Option<&'a Term> {
    let first = terms.next()?;
    terms.all(|term| term.doc == first.doc).then_some(first)
}

/// Whether a word stands for values of this key.
fn is_named(key: &str, word: &str) -> bool {
    key == word || OTHER_WORDS.iter().any(|(other, of)| *other == word && *of == key)
}

/// What the glossary says of a word, or otherwise of its singular: `line: the block of memory …`.
fn in_glossary(word: &str) -> Option<String> {
    // Rows of its tables; the rows of the last table are links.
    let row = |wanted: &str| {
        GLOSSARY.lines().find_map(|line| {
            let (words, means) = line.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | ")?;
            let name = words.split(", ").find(|name| key_of(name) == wanted)?;
            Some(format!("{name}: {}", means.replace('*', "")))
        })
    };
    [Some(word), word.strip_suffix('s'), word.strip_suffix("es")].into_iter().flatten().find_map(row)
}

/// A sentence without what it says about values that JSON lacks: a page shows them as empty cells.
fn for_people(doc: &str) -> String {
    match doc.split_once("; `null`").or_else(|| doc.split_once("; null")) {
        Some((words, _)) => format!("{words}."),
        None => doc.to_owned(),
    }
}

/// A word as keys are written: small letters and digits, with underscores between.
fn key_of(word: &str) -> String {
    let parts = word.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("_").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Document {
        let term = |of, key, doc| Term { of, key, doc };
        Document {
            terms: vec![
                term("Outer", "misses", "All misses."),
                term("Level", "misses", "Misses of a level."),
                term("Level", "miss_rate", "Share that missed; `null` without accesses."),
                term("Level", "compulsory_misses", "First uses."),
                term("Level", "assoc", "Lines in a set."),
            ],
            ..Document::default()
        }
    }

    #[test]
    fn a_head_is_explained_by_the_structure_that_has_most_heads() {
        let document = document();
        let heads = ["level", "misses", "miss rate", "compulsory", "ways", "nonsense"];
        let terms = Terms::new(&document).of(heads.into_iter());
        let docs = heads.map(|head| terms.explain(head).unwrap_or_default());
        let expected = [
            "",
            "Misses of a level.",
            "Share that missed; `null` without accesses.",
            "First uses.",
            "Lines in a set.",
            "",
        ];
        assert_eq!(docs, expected);
        assert_eq!(Terms::new(&document).explain("misses").as_deref(), Some("All misses."));
    }

    #[test]
    fn a_name_before_a_word_does_not_hide_it() {
        let document = document();
        assert_eq!(Terms::new(&document).title("L1D miss rate"), " title=\"Share that missed.\"");
        assert_eq!(Terms::new(&document).title("nothing"), "");
    }

    #[test]
    fn a_key_that_means_different_things_elsewhere_is_not_guessed() {
        let term = |of, key, doc| Term { of, key, doc };
        let terms = vec![term("A", "x", "X."), term("B", "count", "Bs."), term("C", "count", "Cs.")];
        let document = Document { terms, ..Document::default() };
        assert_eq!(Terms::new(&document).explain("count"), None);
        assert_eq!(Terms::new(&document).of(["count"].into_iter()).explain("count").as_deref(), Some("Bs."));
    }

    #[test]
    fn the_glossary_explains_other_words() {
        let document = Document::default();
        let title = Terms::new(&document).title("MPKI");
        assert_eq!(title, " title=\"MPKI: misses per 1,000 instructions\"");
        let of = |word: &str| Terms::new(&document).explain(word).unwrap_or_default();
        assert!(of("prefetches").starts_with("prefetch: an access made before"), "{}", of("prefetches"));
        assert!(of("L1D").starts_with("L1D: first-level caches"), "{}", of("L1D"));
        assert_eq!(of("DynamoRIO"), "", "projects are not words");
        assert!(of("times").starts_with("times: ") && of("time").starts_with("time: "), "not the singular");
        assert!(of("LL miss rate").starts_with("miss rate: "), "{}", of("LL miss rate"));
    }
}
