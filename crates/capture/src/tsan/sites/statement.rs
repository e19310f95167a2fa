//! The meaning of a call in its function: the type that its result is converted to, and the uses of the result.
//!
//! | in the source | meaning |
//! |---|---|
//! | `(T *)f(n)`, `x = f(n)`, `*out = f(n)`, `f(n, &x)`, `new T` | the type of the result |
//! | `f(n * sizeof(T))`, `offsetof(T, m)` | the type of the size |
//! | `y = (T *)x`, `y = &x->m`, later | the type after a later conversion |
//! | `return x`, `*out = x`, later | the result is passed to the caller |
//! | `x++`, `x += k`, `return x + k`, later | a header precedes the part passed to the caller |
//! | `f(n + 8)` with a parameter `n` | the caller determines the size, and so the type |
//!
//! Types of variables and members come from debug information; the source only shows how they are used.

mod values;

use super::text::{File, Macros, arguments, closing, is_identifier};
use quipu_symbols::dwarf::frames::CodeFrame;
use quipu_symbols::dwarf::types::Kind;
use quipu_symbols::dwarf::{DebugInfo, TypeId};
use std::ops::Range;
pub(super) use values::candidate_of;

/// Maximum nesting of expressions.
const MAX_DEPTH: u32 = 32;
/// Most names tracked for a result in a function.
const MAX_NAMES: usize = 8;
/// Most statements examined after a call.
const MAX_STATEMENTS: usize = 4000;
/// Allocating functions of the C library and of C++.
pub(super) const MALLOCS: [&str; 10] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "aligned_alloc",
    "posix_memalign",
    "memalign",
    "valloc",
    "pvalloc",
    "new",
];

/// Kind of a type, as far as it matters for the use of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// A structure, class or union.
    Record,
    /// Pointers.
    Pointer,
    /// Numbers of more than one byte, and enumerations.
    Number,
    /// Characters and bytes, which reveal nothing about the use.
    Bytes,
}

/// A possible type of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) name: String,
    pub(super) size: u64,
    /// Minimum size in bytes: an array at its end may be cut short.
    pub(super) least: u64,
    pub(super) sort: Sort,
    /// Names and bit offsets of a record's members.
    members: Vec<(Option<String>, Option<u64>)>,
}

impl Candidate {
    /// Whether this record begins with all members of the other, and so describes the same memory in more detail.
    pub(super) fn continues(&self, other: &Candidate) -> bool {
        self.members.len() > other.members.len()
            && self.size > other.size
            && !other.members.is_empty()
            && self.members.starts_with(&other.members)
    }
}

/// How a function passes memory to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Way {
    /// As its result.
    Result,
    /// Through a pointer argument with this index, from 0.
    Out(usize),
}

/// Meaning of a call.
#[derive(Clone, Debug, Default)]
pub(super) struct Meaning {
    /// Candidate types, the likeliest first.
    pub(super) types: Vec<Candidate>,
    /// How the memory is passed to the caller, if it is.
    pub(super) passes: Option<Way>,
    /// Bytes before the part that the caller gets.
    pub(super) header: u64,
    /// Whether the caller determined the size.
    pub(super) is_for_caller: bool,
    /// Number of allocating calls in the same line.
    pub(super) n_calls: usize,
    /// Whether the source was not found.
    pub(super) is_unread: bool,
}

/// A type and the number of pointers to it; without a type, `void`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ty {
    id: Option<TypeId>,
    stars: u32,
}

/// A function, with its source if available.
pub(super) struct Look<'a> {
    pub(super) info: &'a DebugInfo,
    pub(super) frame: &'a CodeFrame,
    pub(super) file: Option<&'a File>,
    pub(super) macros: &'a Macros,
}

impl Look<'_> {
    /// Meaning in this function of its call to `callee`; if that is empty, of a call to any allocating function.
    pub(super) fn meaning(&self, callee: &str, way: Way) -> Meaning {
        let mut meaning = Meaning::default();
        let line = self.frame.place.as_ref().map_or(0, |place| place.line);
        let Some(file) = self.file else {
            meaning.is_unread = true;
            meaning.types.extend(self.returned());
            meaning.passes = self.returns_plain().then_some(Way::Result);
            meaning.is_for_caller = meaning.passes.is_some();
            return meaning;
        };
        let statements = file.statements_at(line);
        let wanted = if callee.is_empty() { "malloc" } else { callee };
        let mut calls = Vec::new();
        for range in &statements {
            let words = self.macros.expand(&file.words(range.clone()), wanted);
            calls.extend(
                calls_in(&words, callee).into_iter().map(|call| (range.clone(), words.clone(), call)),
            );
        }
        if calls.is_empty() {
            for range in &statements {
                let words = self.macros.expand(&file.words(range.clone()), wanted);
                calls
                    .extend(indirect_in(&words).into_iter().map(|call| (range.clone(), words.clone(), call)));
            }
            // It is unknown which of these it is.
            calls.truncate(1);
        }
        meaning.n_calls = calls.len();
        if calls.is_empty() {
            meaning.passes = self.returns_plain().then_some(Way::Result);
            meaning.is_for_caller = meaning.passes.is_some();
        }
        for (range, words, call) in calls {
            self.call(file, range, &words, call, way, &mut meaning);
        }
        meaning
    }

    fn call(
        &self,
        file: &File,
        statement: Range<usize>,
        words: &[String],
        call: Range<usize>,
        way: Way,
        meaning: &mut Meaning,
    ) {
        let mut names: Vec<Vec<String>> = Vec::new();
        let mut is_returned = false;
        let open = (call.start..call.end).find(|at| words[*at] == "(");
        let given = open.map(|open| arguments(words, open)).unwrap_or_default();
        match way {
            Way::Result => self.outwards(words, call.clone(), meaning, &mut names, &mut is_returned),
            Way::Out(nth) => {
                if let Some(range) = given.get(nth) {
                    let start =
                        range.clone().find(|at| !self.is_cast_word(words, *at)).unwrap_or(range.start);
                    let argument = &words[start..range.end];
                    match argument {
                        [and, name @ ..] if and == "&" => {
                            self.add(self.value(name).and_then(|ty| self.pointee(ty)), meaning);
                            names.push(name.to_vec());
                        }
                        [name] => meaning.passes = self.parameter(name).map(Way::Out),
                        _ => {}
                    }
                }
            }
        }
        if is_returned {
            meaning.passes = Some(Way::Result);
        }
        self.size(&words[call], file, statement.start, meaning);
        let declared = self.frame.declared.as_ref().map_or(0, |place| place.line);
        let body = file.body(declared, statement.start);
        if let Some(body) = body.filter(|_| !names.is_empty()) {
            self.afterwards(file, statement.end..body.end, &mut names, meaning);
        }
        if meaning.passes == Some(Way::Result) {
            meaning.types.extend(self.returned());
        }
    }

    /// Examines the expression around the call: casts, and the target of the assignment.
    fn outwards(
        &self,
        words: &[String],
        call: Range<usize>,
        meaning: &mut Meaning,
        names: &mut Vec<Vec<String>>,
        is_returned: &mut bool,
    ) {
        let (mut start, mut end) = (call.start, call.end);
        if words[start] == "new" {
            let ty = self.type_after_new(&words[start + 1..end]);
            self.add(ty, meaning);
        }
        for _ in 0..MAX_DEPTH {
            let Some(before) = start.checked_sub(1) else { return };
            match words[before].as_str() {
                ")" => {
                    let Some(open) = opening(words, before) else { return };
                    let Some(ty) = self.type_name(&words[open + 1..before]) else { return };
                    self.add(self.pointee(ty), meaning);
                    start = open;
                }
                "(" => {
                    let word = before.checked_sub(1).map_or("", |at| words[at].as_str());
                    end = closing(words, before) + 1;
                    start = before;
                    match word {
                        "if" | "while" | "for" | "switch" | "sizeof" => return,
                        "return" => {}
                        // `static_cast<T *>(…)`.
                        ">" if before > 1 => {
                            let Some(open) = (0..before - 1).rev().find(|at| words[*at] == "<") else {
                                return;
                            };
                            if open == 0 || !words[open - 1].ends_with("_cast") {
                                return;
                            }
                            let ty = self.type_name(&words[open + 1..before - 1]);
                            self.add(ty.and_then(|ty| self.pointee(ty)), meaning);
                            start = open - 1;
                        }
                        // Results of other functions are unknown, except for branch hints.
                        "__builtin_expect" => start -= 1,
                        word if is_identifier(word) => return,
                        _ => {}
                    }
                }
                "=" => {
                    let left = left_of(words, before);
                    let name = &words[left.clone()];
                    let found = self.assigned(name);
                    self.add(found.and_then(|ty| self.pointee(ty)), meaning);
                    match name {
                        [star, out] if star == "*" && self.parameter(out).is_some() => {
                            meaning.passes = self.parameter(out).map(Way::Out);
                        }
                        [] => return,
                        _ => names.push(self.place_of(name)),
                    }
                    start = left.start;
                }
                "?" | ":" | "||" | "&&" | "," => {
                    // Goes to the beginning of the expression, from any part of it.
                    let mut depth = 0_i32;
                    let begin = (0..before).rev().find(|at| {
                        let word = words[*at].as_str();
                        depth += i32::from(matches!(word, ")" | "]")) - i32::from(matches!(word, "(" | "["));
                        depth < 0 || depth == 0 && matches!(word, "=" | "return")
                    });
                    let Some(begin) = begin else { return };
                    if words[before] != "?" && words[before] != ":" {
                        return;
                    }
                    start = begin + 1;
                }
                "return" => {
                    *is_returned = true;
                    let k = self.constant_after(words, end);
                    meaning.header += k;
                    return;
                }
                _ => return,
            }
        }
    }

    /// Adds the types from which the requested size was computed.
    fn size(&self, inner: &[String], file: &File, before: usize, meaning: &mut Meaning) {
        let mut found = self.sizes_in(inner);
        let mut from_parameter = self.uses_number(inner, true);
        if found.is_empty() {
            // The size is in a variable.
            let declared = self.frame.declared.as_ref().map_or(0, |place| place.line);
            if let Some(body) = file.body(declared, before) {
                let names: Vec<&String> = inner.iter().filter(|word| self.is_number(word, false)).collect();
                let mut at = body.start;
                while at < before {
                    let statement = file.statement(at);
                    at = statement.end + 1;
                    let sets = |nth: &usize| {
                        names.iter().any(|name| name.as_str() == file.word(*nth))
                            && matches!(file.word(nth + 1), "=" | "+=")
                    };
                    if let Some(set) = statement.clone().find(sets) {
                        let words = self.macros.expand(&file.words(set + 2..statement.end), "");
                        found.extend(self.sizes_in(&words));
                        from_parameter |= self.uses_number(&words, true);
                    }
                }
            }
        }
        let is_own = found.iter().any(|found| matches!(found.sort, Sort::Record | Sort::Pointer));
        meaning.is_for_caller |= from_parameter && !is_own;
        for found in found {
            put(&mut meaning.types, found);
        }
    }

    /// Types in `sizeof` and `offsetof`.
    fn sizes_in(&self, words: &[String]) -> Vec<Candidate> {
        let mut found = Vec::new();
        for at in 0..words.len() {
            let next = words.get(at + 1).map_or("", String::as_str);
            let ty = match (words[at].as_str(), next) {
                ("sizeof", "(") => {
                    let inner = &words[at + 2..closing(words, at + 1)];
                    self.type_name(inner).or_else(|| self.value(inner))
                }
                ("sizeof", _) => self.value(&words[at + 1..]),
                ("offsetof" | "__builtin_offsetof", "(") => {
                    arguments(words, at + 1).first().and_then(|range| self.type_name(&words[range.clone()]))
                }
                _ => continue,
            };
            found.extend(ty.and_then(|ty| self.candidate(ty)));
        }
        found
    }

    /// Whether a number is used; with `is_parameter`, only parameters count.
    fn uses_number(&self, words: &[String], is_parameter: bool) -> bool {
        words.iter().enumerate().any(|(at, word)| {
            let before = at.checked_sub(1).map_or("", |at| words[at].as_str());
            !matches!(before, "." | "->") && self.is_number(word, is_parameter)
        })
    }

    fn is_number(&self, word: &str, is_parameter: bool) -> bool {
        let mut same = self.frame.variables.iter().filter(|variable| variable.name == word);
        same.any(|variable| {
            let kind = variable.ty.and_then(|ty| self.info.read(self.info.behind_names(ty)).ok());
            let is_number = kind.is_some_and(|ty| matches!(ty.kind, Kind::Base(_) | Kind::Enum(_)));
            is_number && (variable.is_parameter || !is_parameter)
        })
    }

    /// Examines the uses of the result under its names, from the end of the call's statement to that of the function.
    fn afterwards(
        &self,
        file: &File,
        rest: Range<usize>,
        names: &mut Vec<Vec<String>>,
        meaning: &mut Meaning,
    ) {
        let mut at = rest.start;
        for _ in 0..MAX_STATEMENTS {
            if at >= rest.end {
                break;
            }
            let statement = file.statement(at);
            at = statement.end + 1;
            let is_named = |word: &str| names.iter().any(|name| name.last().is_some_and(|last| last == word));
            if !statement.clone().any(|at| is_named(file.word(at))) {
                continue;
            }
            let words = self.macros.expand(&file.words(statement), "");
            for nth in 0..names.len() {
                let name = names[nth].clone();
                if let Some(alias) = self.use_of(&words, &name, meaning)
                    && names.len() < MAX_NAMES
                    && !names.contains(&alias)
                {
                    names.push(alias);
                }
            }
        }
    }

    /// Examines one statement; returns a new name of the result, if the statement assigns it.
    fn use_of(&self, words: &[String], name: &[String], meaning: &mut Meaning) -> Option<Vec<String>> {
        let is_whole = |at: &usize| {
            let before = at.checked_sub(1).map_or("", |at| words[at].as_str());
            words[*at..].starts_with(name) && !matches!(before, "." | "->" | "::")
        };
        let at = (0..words.len()).find(is_whole)?;
        let end = at + name.len();
        let next = words.get(end).map_or("", String::as_str);
        let before = at.checked_sub(1).map_or("", |at| words[at].as_str());
        let first = words.first().map_or("", String::as_str);
        if (next == "++" && end + 1 == words.len()) || (before == "++" && at == 1) {
            meaning.header += self.step(name);
            return None;
        }
        if next == "+=" {
            meaning.header += self.constant(&words[end + 1..]).unwrap_or(0).saturating_mul(self.step(name));
            return None;
        }
        if first == "return" {
            let value = &words[1..];
            // A function that gets it as its first argument is assumed to return it.
            let n_words = at - 1;
            let is_first = value[..n_words].iter().enumerate().all(|(nth, word)| {
                word == "(" || word == "*" || word == ")" || is_identifier(word) || word == "&" && nth == 0
            });
            let is_own = !matches!(next, "->" | "." | "==" | "!=");
            if is_first && is_own && !matches!(next, "[") {
                meaning.passes.get_or_insert(Way::Result);
                let k = self.constant_after(words, end);
                if k > 0 {
                    let is_cast = before == ")";
                    meaning.header += k.saturating_mul(if is_cast { 1 } else { self.step(name) });
                }
            }
            return None;
        }
        let assigned = words.iter().take(at).rposition(|word| word == "=");
        if let Some(equal) = assigned {
            let right = &words[equal + 1..];
            let stop = right.iter().position(|word| word == "," || word == ";").unwrap_or(right.len());
            let right = &right[..stop];
            let at = at - equal - 1;
            if at >= right.len() {
                return None;
            }
            let is_plain = right.iter().all(|word| {
                is_identifier(word) || matches!(word.as_str(), "(" | ")" | "*" | "&" | "->" | "." | "+")
            });
            let calls = right.iter().enumerate().any(|(nth, word)| {
                let follows = right.get(nth + 1).is_some_and(|next| next == "(");
                is_identifier(word) && follows
            });
            let is_moved = right.iter().any(|word| word == "+");
            // A member, or the memory that it points to, is a different object; the address of a union's member is not.
            let is_member = right.iter().any(|word| word == "->" || word == ".");
            let is_address = right.iter().any(|word| word == "&");
            let is_target = right[..at].iter().any(|word| word == "*")
                && !right[..at].windows(2).any(|pair| pair[0] == "*" && pair[1] == ")");
            if !is_plain || calls || is_member && !is_address || is_target {
                return None;
            }
            let left = left_of(words, equal);
            let target = &words[left];
            let target = self.place_of(target);
            if let [star, out] = &target[..]
                && star == "*"
                && let Some(nth) = self.parameter(out)
            {
                meaning.passes.get_or_insert(Way::Out(nth));
                return None;
            }
            if !is_moved {
                self.add(self.assigned(&target).and_then(|ty| self.pointee(ty)), meaning);
            }
            return (target != name).then_some(target);
        }
        // `((T *)x)->m`.
        if before == ")"
            && let Some(open) = opening(words, at - 1)
        {
            let ty = self.type_name(&words[open + 1..at - 1]);
            self.add(ty.and_then(|ty| self.pointee(ty)), meaning);
        }
        None
    }

    /// Number of bytes by which `++` advances a pointer.
    fn step(&self, name: &[String]) -> u64 {
        let ty = self.value(name).and_then(|ty| self.pointee(ty));
        ty.and_then(|ty| self.candidate(ty)).map_or(1, |found| found.size)
    }

    /// `k` if `+ k` follows an expression, possibly after closing parentheses; otherwise 0.
    fn constant_after(&self, words: &[String], end: usize) -> u64 {
        let mut at = end;
        while words.get(at).is_some_and(|word| word == ")") {
            at += 1;
        }
        match words.get(at).map(String::as_str) {
            Some("+") => self.constant(&words[at + 1..]).unwrap_or(0),
            _ => 0,
        }
    }

    /// Index of a parameter.
    fn parameter(&self, name: &str) -> Option<usize> {
        let mut parameters = self.frame.variables.iter().filter(|variable| variable.is_parameter);
        parameters.position(|variable| variable.name == name)
    }

    fn returns_plain(&self) -> bool {
        let Some(ty) = self.frame.returns else { return false };
        let pointee = self.pointee(Ty { id: Some(ty), stars: 0 });
        pointee.is_some_and(|ty| {
            self.candidate(ty).is_none_or(|found| matches!(found.sort, Sort::Bytes | Sort::Number))
        })
    }

    fn returned(&self) -> Option<Candidate> {
        let ty = self.pointee(Ty { id: Some(self.frame.returns?), stars: 0 })?;
        self.candidate(ty)
    }

    fn add(&self, ty: Option<Ty>, meaning: &mut Meaning) {
        if let Some(found) = ty.and_then(|ty| self.candidate(ty)) {
            put(&mut meaning.types, found);
        }
    }

    /// The left side of an assignment, without the type of a declaration.
    fn place_of(&self, name: &[String]) -> Vec<String> {
        let is_chain = name.iter().any(|word| matches!(word.as_str(), "->" | "." | "["));
        match name {
            [star, ..] if star == "*" => name.to_vec(),
            [.., last] if !is_chain => vec![last.clone()],
            _ => name.to_vec(),
        }
    }

    /// Type of the left side of an assignment.
    fn assigned(&self, name: &[String]) -> Option<Ty> {
        let place = self.place_of(name);
        self.value(&place).or_else(|| {
            let (_, declared) = name.split_last()?;
            self.type_name(declared)
        })
    }

    fn type_after_new(&self, words: &[String]) -> Option<Ty> {
        let words = match words.first() {
            // Placement arguments: existing memory, or `nothrow`.
            Some(open) if open == "(" => words.get(closing(words, 0) + 1..)?,
            _ => words,
        };
        let mut depth = 0_i32;
        let end = words.iter().position(|word| {
            depth += i32::from(word == "<") - i32::from(word == ">");
            depth == 0 && matches!(word.as_str(), "(" | "[" | "{")
        });
        self.type_name(&words[..end.unwrap_or(words.len())])
    }

    fn is_cast_word(&self, words: &[String], at: usize) -> bool {
        matches!(words[at].as_str(), "(" | ")" | "*" | "void" | "char" | "const")
    }
}

fn put(types: &mut Vec<Candidate>, found: Candidate) {
    if !types.iter().any(|known| known.name == found.name && known.size == found.size) {
        types.push(found);
    }
}

/// Calls of a function in a statement, or of any allocating function if `callee` is empty.
fn calls_in(words: &[String], callee: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let word = words[at].as_str();
        let plain = word.strip_prefix("__builtin_").unwrap_or(word);
        let is_callee = if callee.is_empty() { MALLOCS.contains(&plain) } else { word == callee };
        at += 1;
        if !is_callee {
            continue;
        }
        let before = at.checked_sub(2).map_or("", |at| words[at].as_str());
        if word == "new" || before == "new" {
            let start = if word == "new" { at - 1 } else { at - 2 };
            let mut end = at;
            let mut depth = 0_i32;
            // The type, and array sizes or initializers after it.
            while end < words.len() {
                match words[end].as_str() {
                    "<" => depth += 1,
                    ">" => depth -= 1,
                    "(" | "[" | "{" => {
                        end = closing(words, end);
                        if end + 1 < words.len() && !is_identifier(&words[end + 1]) {
                            end += 1;
                            break;
                        }
                    }
                    "," | ")" | ";" if depth == 0 => break,
                    _ => {}
                }
                end += 1;
            }
            found.push(start..end.min(words.len()));
            continue;
        }
        // Template arguments may come in between.
        let mut open = at;
        if words.get(open).is_some_and(|word| word == "<") {
            let mut depth = 0_i32;
            let is_closed = |at: &usize| {
                depth += i32::from(words[*at] == "<") - i32::from(words[*at] == ">");
                depth == 0
            };
            open = (open..words.len()).find(is_closed).map_or(open, |end| end + 1);
        }
        if words.get(open).is_some_and(|word| word == "(") {
            let start = start_of(words, at - 1);
            found.push(start..(closing(words, open) + 1).min(words.len()));
        }
    }
    found
}

/// Calls through pointers: of members, or of expressions in parentheses.
fn indirect_in(words: &[String]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for open in 1..words.len() {
        if words[open] != "(" {
            continue;
        }
        let before = words[open - 1].as_str();
        let is_member = open > 1 && is_identifier(before) && matches!(words[open - 2].as_str(), "->" | ".");
        let start = match before {
            ")" => opening(words, open - 1).filter(|group| {
                words.get(group + 1).is_some_and(|word| matches!(word.as_str(), "*" | "("))
                    && words[group + 1..open - 1].iter().any(|word| is_identifier(word))
                    && !words[open - 2].ends_with('*')
            }),
            _ if is_member => Some(start_of(words, open - 1)),
            _ => None,
        };
        if let Some(start) = start {
            found.push(start..(closing(words, open) + 1).min(words.len()));
        }
    }
    found
}

/// Start of a chain of members that ends at `at`.
fn start_of(words: &[String], mut at: usize) -> usize {
    while at >= 2 && matches!(words[at - 1].as_str(), "->" | "." | "::") {
        at -= 2;
        if matches!(words[at].as_str(), ")" | "]") {
            let Some(open) = opening(words, at) else { break };
            at = match open.checked_sub(1) {
                Some(before) if is_identifier(&words[before]) => before,
                _ => open,
            };
        }
    }
    at
}

/// Index of the opening bracket for a closing one.
fn opening(words: &[String], close: usize) -> Option<usize> {
    let mut depth = 0_i32;
    (0..=close).rev().find(|at| {
        let word = words[*at].as_str();
        depth += i32::from(matches!(word, ")" | "]")) - i32::from(matches!(word, "(" | "["));
        depth == 0
    })
}

/// The left side of `=`.
fn left_of(words: &[String], equal: usize) -> Range<usize> {
    let mut depth = 0_i32;
    let stops = [",", ";", "{", "}", "=", "&&", "||", "?", ":", "return", "else", "case", "!"];
    let start = (0..equal).rev().find(|at| {
        let word = words[*at].as_str();
        depth += i32::from(matches!(word, ")" | "]")) - i32::from(matches!(word, "(" | "["));
        // The condition of an `if` precedes its statement.
        depth < 0 || depth == 0 && stops.contains(&word)
    });
    let mut start = start.map_or(0, |at| at + 1);
    while matches!(words[start].as_str(), "if" | "while" | "for")
        && words.get(start + 1).is_some_and(|word| word == "(")
    {
        let end = closing(words, start + 1);
        if end >= equal {
            break;
        }
        start = end + 1;
    }
    start..equal
}
