//! Rules that replace values, and their syntax on the command line.
//!
//! A rule is data; [`Rule::apply`] applies it to one value. One of them is apitrace's rule `s/SEARCH/REPLACE/`:
//! it replaces whole strings, names of numbers, flags and addresses, but not plain numbers.
//! SPEC: apitrace.md#editing.

use quipu_model::values::{Kind, NO_TYPE, NamedNumbers, Node, Type, Types, Values};
use quipu_model::{Error, ErrorKind, Result};
use quipu_source::Reading;
use regex_lite::Regex;
use std::path::Path;

/// A replacement.
#[derive(Clone, Debug)]
pub enum Rule {
    /// Replaces values that equal `search`.
    Equal {
        /// The text to search for.
        search: Vec<u8>,
        /// The replacement.
        replace: Vec<u8>,
    },
    /// Replaces matches of a pattern within strings and names; `$1` in the replacement stands for a group.
    Matches {
        /// The pattern to search for.
        pattern: Regex,
        /// The replacement.
        replace: String,
    },
    /// Replaces any value, as far as its kind allows.
    Set {
        /// The new value, in the notation of the printer.
        value: String,
    },
}

/// Which kinds of values a rule may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Strings, names and addresses, as in apitrace.
    Original,
    /// Wide strings too.
    Texts,
    /// Plain numbers too, because the rule names its arguments.
    Numbers,
}

/// Outcome of applying a rule to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The value changed.
    Changed,
    /// The rule does not apply, or the value was already the same.
    Same,
    /// Unchanged: no value of its type has the new name.
    Unfit,
}

/// Checks that a replacement refers only to groups of the pattern, and puts braces around references. `$1` ends after the
/// digits; without braces, all letters and digits that follow would belong to the name of the group.
///
/// # Errors
/// `Usage` if there is no such group.
fn references(pattern: &Regex, text: &str) -> Result<String> {
    let has = |group: &str| match group.parse::<usize>() {
        Ok(number) => number < pattern.captures_len(),
        Err(_) => pattern.capture_names().flatten().any(|name| name == group),
    };
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let count = |is: fn(&char) -> bool| behind.chars().take_while(is).map(char::len_utf8).sum::<usize>();
        let (group, used) = match behind.chars().next() {
            // `$$` stands for one `$`.
            Some('$') => {
                out.push_str("$$");
                rest = &behind[1..];
                continue;
            }
            Some('{') if behind.contains('}') => {
                let end = behind.find('}').unwrap_or(0);
                (&behind[1..end], end + 1)
            }
            Some('0'..='9') => {
                let n = count(char::is_ascii_digit);
                (&behind[..n], n)
            }
            Some(letter) if letter.is_ascii_alphabetic() || letter == '_' => {
                let n = count(|letter| letter.is_ascii_alphanumeric() || *letter == '_');
                (&behind[..n], n)
            }
            _ => {
                out.push_str("$$");
                rest = behind;
                continue;
            }
        };
        if !has(group) {
            return Err(Error::usage(format!("`{text}`: the pattern has no group `{group}`"))
                .hint("`$1` is the first pair of parentheses, `${1}x` that and an x, `$$` a dollar"));
        }
        out.push_str(&format!("${{{group}}}"));
        rest = &behind[used..];
    }
    out.push_str(rest);
    Ok(out)
}

impl Rule {
    /// Parses `s/SEARCH/REPLACE/`, with any separator; `@file(PATH)` stands for the contents of a file.
    ///
    /// # Errors
    /// `Usage` if `text` has another form; errors of reading the file.
    pub fn parse(text: &str, is_pattern: bool) -> Result<Rule> {
        let wrong = || {
            Error::usage(format!("`{text}` is no replacement"))
                .hint("write `s/SEARCH/REPLACE/`, with any separator")
        };
        let mut rest = text.strip_prefix('s').ok_or_else(wrong)?.chars();
        let separator = rest.next().filter(|separator| *separator != '\\').ok_or_else(wrong)?;
        let parts: Vec<&str> = rest.as_str().split(separator).collect();
        let [search, replace, ""] = parts[..] else { return Err(wrong()) };
        let (search, replace) = (content(search)?, content(replace)?);
        if !is_pattern {
            return Ok(Rule::Equal { search, replace });
        }
        let utf8 = |bytes: Vec<u8>| {
            String::from_utf8(bytes).map_err(|_| Error::usage("a pattern and its replacement are UTF-8"))
        };
        let search = utf8(search)?;
        let pattern = Regex::new(&search)
            .map_err(|cause| Error::usage(format!("`{search}` is no regular expression")).because(cause))?;
        let replace = references(&pattern, &utf8(replace)?)?;
        Ok(Rule::Matches { pattern, replace })
    }

    /// Applies the rule to the value at `index`, not to its parts.
    ///
    /// # Errors
    /// `Usage` if `Set` gives a value that this one cannot have, or if the new name of an `Equal` rule does not exist in the
    /// value's type; with `Reach::Original`, such a name is skipped.
    pub fn apply(&self, index: u32, reach: Reach, values: &mut Values, types: &Types) -> Result<Applied> {
        let node = values.node(index);
        let mut is_unfit = false;
        let new = match node.kind {
            Kind::Text => self.text(node, values)?,
            Kind::Wide if reach != Reach::Original => self.wide(node, values)?,
            Kind::Enum => match types.get(node.ty) {
                Some(Type::Enum(names)) => self.name(names, node, reach, &mut is_unfit)?,
                _ => None,
            },
            Kind::Flags => match types.get(node.ty) {
                Some(Type::Flags(names)) => self.flags(names, node, reach, &mut is_unfit)?,
                _ => None,
            },
            Kind::Pointer => self.pointer(node)?,
            Kind::Null if matches!(self, Rule::Set { .. }) => self.pointer(node)?,
            Kind::Negative | Kind::Unsigned | Kind::Float | Kind::Double | Kind::True | Kind::False
                if reach == Reach::Numbers =>
            {
                self.number(node)?
            }
            _ => None,
        };
        match new {
            Some(new) if new != node => {
                values.nodes[index as usize] = new;
                Ok(Applied::Changed)
            }
            _ if is_unfit => Ok(Applied::Unfit),
            _ => Ok(Applied::Same),
        }
    }

    /// The replacement for a string; `None` if it stays as it is.
    fn string(&self, old: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(match self {
            Rule::Equal { search, replace } => (old == search).then(|| replace.clone()),
            Rule::Matches { pattern, replace } => match std::str::from_utf8(old) {
                Ok(old) if pattern.is_match(old) => {
                    Some(pattern.replace_all(old, replace.as_str()).into_owned().into_bytes())
                }
                _ => None,
            },
            Rule::Set { value } => Some(value.clone().into_bytes()),
        })
    }

    fn text(&self, node: Node, values: &mut Values) -> Result<Option<Node>> {
        let Some(new) = self.string(values.bytes_of(node))? else { return Ok(None) };
        if new == values.bytes_of(node) {
            return Ok(None);
        }
        store(Kind::Text, &new, values).map(Some)
    }

    fn wide(&self, node: Node, values: &mut Values) -> Result<Option<Node>> {
        let units = values.bytes_of(node).as_chunks::<4>().0;
        let chars: Option<String> =
            units.iter().map(|unit| char::from_u32(u32::from_le_bytes(*unit))).collect();
        let Some(old) = chars else { return Ok(None) };
        let Some(new) = self.string(old.as_bytes())? else { return Ok(None) };
        let Ok(new) = String::from_utf8(new) else { return Ok(None) };
        if new == old {
            return Ok(None);
        }
        let bytes: Vec<u8> = new.chars().flat_map(|unit| u32::from(unit).to_le_bytes()).collect();
        store(Kind::Wide, &bytes, values).map(Some)
    }

    /// The replacement for a name; `None` if it stays as it is.
    fn new_name(&self, old: &[u8]) -> Option<Vec<u8>> {
        match self {
            Rule::Set { .. } => None,
            _ => self.string(old).ok().flatten(),
        }
    }

    /// The number for the new name of a value. An unknown name is an error for an `Equal` rule; for a pattern, which may be
    /// meant for other types, the value is skipped and noted in `is_unfit`. With `Reach::Original` it is skipped in either
    /// case, as apitrace does.
    fn replacement(
        &self,
        names: &NamedNumbers,
        new: &[u8],
        reach: Reach,
        is_unfit: &mut bool,
    ) -> Result<Option<u64>> {
        let number = number_of(names, new);
        if number.is_some() || reach == Reach::Original {
            return Ok(number);
        }
        let text = String::from_utf8_lossy(new);
        match parse_number(&text) {
            Some(number) => Ok(Some(number)),
            None if matches!(self, Rule::Equal { .. }) => Err(misfit(&text, "a name or number of its kind")),
            None => {
                *is_unfit = true;
                Ok(None)
            }
        }
    }

    fn name(
        &self,
        names: &NamedNumbers,
        node: Node,
        reach: Reach,
        is_unfit: &mut bool,
    ) -> Result<Option<Node>> {
        let number = match self {
            Rule::Set { value } => {
                Some(said(names, value).ok_or_else(|| misfit(value, "a name or number of its kind"))?)
            }
            _ => match names.name(node.payload).and_then(|old| Some((old, self.new_name(old)?))) {
                Some((old, new)) if new != old => self.replacement(names, &new, reach, is_unfit)?,
                _ => None,
            },
        };
        Ok(number.map(|payload| Node { payload, ..node }))
    }

    fn flags(
        &self,
        names: &NamedNumbers,
        node: Node,
        reach: Reach,
        is_unfit: &mut bool,
    ) -> Result<Option<Node>> {
        let mut number = node.payload;
        match self {
            Rule::Set { value } => {
                number = 0;
                for word in value.split('|').map(str::trim) {
                    number |=
                        said(names, word).ok_or_else(|| misfit(value, "flags of its kind, joined by `|`"))?;
                }
            }
            _ => {
                for (old, bits) in &names.names {
                    let Some(new) = self.new_name(old) else { continue };
                    if *bits == 0 || node.payload & bits != *bits {
                        continue;
                    }
                    // In apitrace too, numbers may stand for flags.
                    let plain = std::str::from_utf8(&new).ok().and_then(|new| new.parse().ok());
                    let set = match number_of(names, &new).or(plain) {
                        None => self.replacement(names, &new, reach, is_unfit)?,
                        known => known,
                    };
                    if let Some(set) = set {
                        number = number & !bits | set;
                    }
                }
            }
        }
        Ok(Some(Node { payload: number, ..node }))
    }

    fn pointer(&self, node: Node) -> Result<Option<Node>> {
        let address = |text: &[u8]| {
            let digits = std::str::from_utf8(text).ok()?.strip_prefix("0x")?;
            u64::from_str_radix(digits, 16).ok()
        };
        Ok(match self {
            Rule::Equal { search, replace } => match (address(search), address(replace)) {
                (Some(from), Some(to)) if from == node.payload => Some(Node { payload: to, ..node }),
                _ => None,
            },
            Rule::Matches { .. } => None,
            Rule::Set { value } if value == "NULL" => Some(Node::scalar(Kind::Null, 0)),
            Rule::Set { value } => match address(value.as_bytes()) {
                Some(to) => Some(Node::scalar(Kind::Pointer, to)),
                None => return Err(misfit(value, "an address such as `0x10`, or `NULL`")),
            },
        })
    }

    fn number(&self, node: Node) -> Result<Option<Node>> {
        let new = match self {
            Rule::Equal { search, replace } => {
                let same = std::str::from_utf8(search).ok().and_then(|text| literal(text, node.kind));
                if same != Some(node) {
                    return Ok(None);
                }
                let text = String::from_utf8_lossy(replace).into_owned();
                literal(&text, node.kind).ok_or_else(|| misfit(&text, "a number"))?
            }
            Rule::Matches { .. } => return Ok(None),
            Rule::Set { value } => literal(value, node.kind).ok_or_else(|| misfit(value, "a number"))?,
        };
        Ok(Some(new))
    }
}

#[cold]
fn misfit(value: &str, wanted: &str) -> Error {
    Error::usage(format!("`{value}` cannot replace a value that is to be {wanted}"))
}

/// The contents of one side of a rule: the text itself, or that of the file it names.
fn content(side: &str) -> Result<Vec<u8>> {
    let Some(path) = side.strip_prefix("@file(").and_then(|rest| rest.strip_suffix(')')) else {
        return Ok(side.as_bytes().to_vec());
    };
    Reading::keep(Path::new(path));
    std::fs::read(path).map_err(|cause| {
        let kind = match cause.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::Missing,
            _ => ErrorKind::Io,
        };
        Error::new(kind, "cannot read what a replacement names").in_file(path).because(cause)
    })
}

/// Adds bytes to the values and makes a node for them.
fn store(kind: Kind, bytes: &[u8], values: &mut Values) -> Result<Node> {
    let (start, len) = (u32::try_from(values.bytes.len()), u32::try_from(bytes.len()));
    let (Ok(start), Ok(len)) = (start, len) else {
        return Err(Error::limit("bytes in one batch", values.bytes.len() as u64, u32::MAX.into()));
    };
    values.bytes.extend_from_slice(bytes);
    Ok(Node { kind, ty: NO_TYPE, payload: Node::join(start, len) })
}

fn number_of(names: &NamedNumbers, name: &[u8]) -> Option<u64> {
    names.names.iter().find(|(known, _)| known == name).map(|(_, number)| *number)
}

/// The number for a word, which is a name or a number.
fn said(names: &NamedNumbers, word: &str) -> Option<u64> {
    number_of(names, word.as_bytes()).or_else(|| parse_number(word))
}

/// Parses a number; the result is two's complement.
fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse::<u64>().ok().or_else(|| text.parse::<i64>().ok().map(i64::cast_unsigned)),
    }
}

/// Parses a number of the given kind.
fn literal(text: &str, kind: Kind) -> Option<Node> {
    Some(match kind {
        Kind::Float => Node::scalar(Kind::Float, text.parse::<f32>().ok()?.to_bits().into()),
        Kind::Double => Node::scalar(Kind::Double, text.parse::<f64>().ok()?.to_bits()),
        Kind::True | Kind::False => match text {
            "true" => Node::scalar(Kind::True, 0),
            "false" => Node::scalar(Kind::False, 0),
            _ => return None,
        },
        _ => match text.strip_prefix('-') {
            Some(digits) => Node::scalar(Kind::Negative, digits.parse().ok()?),
            None => Node::scalar(Kind::Unsigned, parse_number(text)?),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equal(search: &str, replace: &str) -> Rule {
        Rule::parse(&format!("s/{search}/{replace}/"), false).unwrap()
    }

    #[test]
    fn a_rule_is_written_with_any_separator() {
        for text in ["s/a/b/", "s;a;b;", "s a b "] {
            match Rule::parse(text, false).unwrap() {
                Rule::Equal { search, replace } => {
                    assert_eq!((&search[..], &replace[..]), (&b"a"[..], &b"b"[..]))
                }
                other => panic!("{other:?}"),
            }
        }
        for text in ["", "s", "s/a/b", "s/a/", "x/a/b/", "s/a/b/g"] {
            assert!(Rule::parse(text, false).is_err(), "{text}");
        }
        assert!(Rule::parse("s/(/b/", true).is_err());
    }

    #[test]
    fn flags_change_as_in_the_original() {
        let names = [("A", 1), ("B", 2), ("AB", 3)].map(|(name, bits)| (name.as_bytes().to_vec(), bits));
        let names = NamedNumbers::new(0, names.to_vec());
        let node = Node { kind: Kind::Flags, ty: 0, payload: 5 };
        let payload =
            |rule: &Rule| rule.flags(&names, node, Reach::Original, &mut false).unwrap().unwrap().payload;
        assert_eq!(payload(&equal("A", "B")), 6);
        assert_eq!(payload(&equal("A", "16")), 20);
        assert_eq!(payload(&equal("B", "A")), 5);
        assert_eq!(payload(&equal("A", "C")), 5);
        assert_eq!(payload(&Rule::Set { value: "A | B".to_owned() }), 3);
        assert!(Rule::Set { value: "C".to_owned() }.flags(&names, node, Reach::Numbers, &mut false).is_err());
    }

    #[test]
    fn names_that_nobody_knows_are_errors_and_those_that_a_pattern_makes_are_counted() {
        let names = [("ONE", 1), ("TWO", 2)].map(|(name, number)| (name.as_bytes().to_vec(), number));
        let mut types = Types::default();
        let ty = types.push(std::sync::Arc::new(Type::Enum(NamedNumbers::new(0, names.to_vec()))));
        let node = Node { kind: Kind::Enum, ty, payload: 1 };
        let mut values = Values { nodes: vec![node], ..Values::default() };
        let mut apply = |rule: &Rule, reach| {
            values.nodes[0] = node;
            let applied = rule.apply(0, reach, &mut values, &types).map_err(|error| error.to_string());
            (applied, values.node(0).payload)
        };
        assert_eq!(apply(&equal("ONE", "TWO"), Reach::Texts), (Ok(Applied::Changed), 2));
        assert_eq!(apply(&equal("ONE", "0x7"), Reach::Texts), (Ok(Applied::Changed), 7));
        assert_eq!(apply(&equal("TWO", "NONE"), Reach::Texts), (Ok(Applied::Same), 1));
        assert_eq!(apply(&equal("ONE", "NONE"), Reach::Original), (Ok(Applied::Same), 1));
        let error = "`NONE` cannot replace a value that is to be a name or number of its kind";
        assert_eq!(apply(&equal("ONE", "NONE"), Reach::Texts), (Err(error.to_owned()), 1));
        let pattern = Rule::parse("s/N(E)/$1/", true).unwrap();
        assert_eq!(apply(&pattern, Reach::Texts), (Ok(Applied::Unfit), 1));
    }

    #[test]
    fn numbers_change_only_where_arguments_are_named() {
        let mut values = Values { nodes: vec![Node::scalar(Kind::Unsigned, 7)], ..Values::default() };
        let types = Types::default();
        let rule = equal("7", "-8");
        assert_eq!(rule.apply(0, Reach::Texts, &mut values, &types).unwrap(), Applied::Same);
        assert_eq!(rule.apply(0, Reach::Numbers, &mut values, &types).unwrap(), Applied::Changed);
        assert_eq!(values.node(0), Node::scalar(Kind::Negative, 8));
    }

    #[test]
    fn patterns_replace_within_strings() {
        let rule = Rule::parse("s/v([0-9]+)/V$1/", true).unwrap();
        assert_eq!(rule.string(b"v1 v22").unwrap(), Some(b"V1 V22".to_vec()));
        assert_eq!(rule.string(b"none").unwrap(), None);
    }

    #[test]
    fn references_go_as_far_as_their_digits_and_to_groups_that_are_there() {
        let pattern = Regex::new("mark(e)(?P<last>r)").unwrap();
        for (text, expected) in [
            ("X$1Y", "XeY"),
            ("${1}Y$2", "eYr"),
            ("$last!", "r!"),
            ("$$1", "$1"),
            ("5$", "5$"),
            ("$0", "marker"),
        ] {
            let replace = references(&pattern, text).unwrap();
            assert_eq!(pattern.replace_all("marker", replace.as_str()), expected, "{text}");
        }
        for text in ["$3", "${x}", "$nobody"] {
            assert!(references(&pattern, text).is_err(), "{text}");
        }
    }
}
