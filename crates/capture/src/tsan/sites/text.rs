//! Sources split into words: files, macros, and the statements around a line.
//!
//! This is not a full preprocessor. Debug information does not contain the compiler's `-D` options, so conditions are
//! guessed, and a name may have several definitions. Those whose conditions seem to hold come first; among them, the one
//! that contains the call in question is taken, otherwise the first that is not empty.

use rustc_hash::FxHashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Larger sources are not read.
const MAX_SOURCE_BYTES: u64 = 16 << 20;
/// Most words of a statement, before and after macro expansion.
const MAX_WORDS: usize = 1 << 14;
/// Maximum nesting of macros.
const MAX_NESTED: usize = 24;
/// Most files of a compilation unit.
const MAX_FILES: usize = 1 << 12;

/// A source file split into words.
#[derive(Debug, Default)]
pub(super) struct File {
    text: Arc<str>,
    words: Vec<Place>,
    directives: Arc<[Directive]>,
}

/// A preprocessor directive.
#[derive(Debug)]
struct Directive {
    line: u32,
    name: String,
    words: Vec<String>,
    /// Whether no blank separates the first two words: a macro with parameters.
    is_joined: bool,
}

/// Position of a word: byte range and line.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: u32,
    end: u32,
    line: u32,
}

/// A macro definition.
#[derive(Debug)]
struct Macro {
    /// Whether it is in a conditional block whose condition seems false.
    is_doubtful: bool,
    /// `None` for a macro without parentheses.
    parameters: Option<Vec<String>>,
    body: Vec<String>,
}

/// Preprocessor state of a unit: its macros, and the lines that its conditions skip.
#[derive(Debug, Default)]
pub(super) struct Macros {
    by_name: FxHashMap<String, Vec<Arc<Macro>>>,
    /// Names defined so far while files are read, with their values if they are numbers.
    defined: FxHashMap<String, Option<i64>>,
    left_out: FxHashMap<PathBuf, Vec<Range<u32>>>,
}

impl File {
    /// # Errors
    /// If the file cannot be read, is not a regular file, or is too large.
    pub(super) fn open(path: &Path) -> std::io::Result<File> {
        let meta = std::fs::metadata(path)?;
        if !meta.is_file() || meta.len() > MAX_SOURCE_BYTES {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        Ok(File::parse(&String::from_utf8_lossy(&std::fs::read(path)?)))
    }

    pub(super) fn parse(text: &str) -> File {
        let (mut words, mut directives) = (Vec::new(), Vec::new());
        let (mut lexer, mut line) = (Lexer { text, at: 0, line: 1 }, 0);
        let word = |place: &Place| text[place.start as usize..place.end as usize].to_owned();
        while let Some(place) = lexer.next(false) {
            let is_first = place.line != line;
            line = place.line;
            if !is_first || &text[place.start as usize..place.end as usize] != "#" {
                words.push(place);
                continue;
            }
            let rest: Vec<Place> = std::iter::from_fn(|| lexer.next(true)).take(MAX_WORDS).collect();
            line = lexer.line;
            if let Some((name, rest)) = rest.split_first() {
                let is_joined = rest.len() > 1 && rest[0].end == rest[1].start;
                let words = rest.iter().map(word).collect();
                directives.push(Directive { line: place.line, name: word(name), words, is_joined });
            }
        }
        File { text: text.into(), words, directives: directives.into() }
    }

    /// The file without the words in some lines.
    pub(super) fn without(&self, lines: &[Range<u32>]) -> File {
        let is_in = |place: &Place| !lines.iter().any(|lines| lines.contains(&place.line));
        let words = self.words.iter().copied().filter(is_in).collect();
        File { text: self.text.clone(), words, directives: self.directives.clone() }
    }

    pub(super) fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", |place| &self.text[place.start as usize..place.end as usize])
    }

    pub(super) fn line(&self, at: usize) -> u64 {
        self.words.get(at).map_or(0, |place| place.line.into())
    }

    pub(super) fn words(&self, range: Range<usize>) -> Vec<String> {
        range.take(MAX_WORDS).map(|at| self.word(at).to_owned()).collect()
    }

    fn first_of_line(&self, line: u64) -> usize {
        self.words.partition_point(|place| u64::from(place.line) < line)
    }

    /// Statements with words in this line.
    pub(super) fn statements_at(&self, line: u64) -> Vec<Range<usize>> {
        let mut start = self.first_of_line(line);
        if self.line(start) != line {
            start = start.saturating_sub(1);
        }
        let earliest = start.saturating_sub(MAX_WORDS);
        while start > earliest && !is_end(self.word(start - 1)) {
            start -= 1;
        }
        let mut statements = Vec::new();
        while start < self.words.len() && (statements.is_empty() || self.line(start) <= line) {
            let statement = self.statement(start);
            start = statement.end + 1;
            if !statement.is_empty() {
                statements.push(statement);
            }
        }
        statements
    }

    /// The statement that begins at `start`, without its terminator.
    pub(super) fn statement(&self, start: usize) -> Range<usize> {
        let most = (start + MAX_WORDS).min(self.words.len());
        let mut depth = 0_i32;
        let end = (start..most).find(|at| {
            let word = self.word(*at);
            depth += i32::from(matches!(word, "(" | "[")) - i32::from(matches!(word, ")" | "]"));
            word == "{" || word == "}" || word == ";" && depth <= 0
        });
        start..end.unwrap_or(most)
    }

    /// The body of the function declared in this line, if the word `inside` is in it.
    pub(super) fn body(&self, declared: u64, inside: usize) -> Option<Range<usize>> {
        let start = self.first_of_line(declared);
        let open = (start..inside).find(|at| self.word(*at) == "{")?;
        let mut depth = 0_usize;
        for at in open..self.words.len() {
            match self.word(at) {
                "{" => depth += 1,
                "}" if depth <= 1 => return (at >= inside).then_some(open + 1..at),
                "}" => depth -= 1,
                _ => {}
            }
        }
        // With preprocessor conditionals, more braces may be opened than closed.
        Some(open + 1..self.words.len().min(inside + MAX_WORDS))
    }
}

/// Macros that every compiler here predefines.
const PREDEFINED: &[(&str, i64)] = &[
    ("__GNUC__", 12),
    ("__STDC__", 1),
    ("__STDC_VERSION__", 201_710),
    ("__linux__", 1),
    ("__linux", 1),
    ("linux", 1),
    ("__unix__", 1),
    ("unix", 1),
    ("__x86_64__", 1),
    ("__LP64__", 1),
    ("__CHAR_BIT__", 8),
    ("__SIZEOF_POINTER__", 8),
];
/// Folders of system headers.
const SYSTEM_FOLDERS: [&str; 3] = ["/usr/include", "/usr/include/x86_64-linux-gnu", "/usr/local/include"];
/// Maximum nesting of included files.
const MAX_INCLUDED: usize = 64;

impl Macros {
    fn holds(&self, words: &[String]) -> bool {
        let mut at = 0;
        self.either(words, &mut at, 0) != 0
    }

    fn either(&self, words: &[String], at: &mut usize, depth: usize) -> i64 {
        let mut value = self.both(words, at, depth);
        while words.get(*at).is_some_and(|word| word == "||") {
            *at += 1;
            value = i64::from((self.both(words, at, depth) != 0) | (value != 0));
        }
        value
    }

    fn both(&self, words: &[String], at: &mut usize, depth: usize) -> i64 {
        let mut value = self.compared(words, at, depth);
        while words.get(*at).is_some_and(|word| word == "&&") {
            *at += 1;
            value = i64::from((self.compared(words, at, depth) != 0) & (value != 0));
        }
        value
    }

    fn compared(&self, words: &[String], at: &mut usize, depth: usize) -> i64 {
        let left = self.single(words, at, depth);
        let Some(operator) = words.get(*at).map(String::as_str) else { return left };
        let compare: fn(&i64, &i64) -> bool = match operator {
            "==" => i64::eq,
            "!=" => i64::ne,
            "<" => i64::lt,
            ">" => i64::gt,
            "<=" => i64::le,
            ">=" => i64::ge,
            _ => return left,
        };
        *at += 1;
        i64::from(compare(&left, &self.single(words, at, depth)))
    }

    fn single(&self, words: &[String], at: &mut usize, depth: usize) -> i64 {
        let Some(word) = words.get(*at).filter(|_| depth < MAX_NESTED) else { return 0 };
        *at += 1;
        match word.as_str() {
            "!" => i64::from(self.single(words, at, depth + 1) == 0),
            "(" => {
                let end = closing(words, *at - 1);
                let value = self.either(&words[..end.min(words.len())], at, depth + 1);
                *at = end + 1;
                value
            }
            "defined" => {
                let is_open = words.get(*at).is_some_and(|word| word == "(");
                let name = words.get(*at + usize::from(is_open));
                *at += if is_open { 3 } else { 1 };
                i64::from(name.is_some_and(|name| self.defined.contains_key(name)))
            }
            word => number(word).or_else(|| self.defined.get(word).copied().flatten()).unwrap_or(0),
        }
    }
}

fn number(word: &str) -> Option<i64> {
    let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
    match digits.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16).ok(),
        None => digits.parse().ok(),
    }
}

fn is_end(word: &str) -> bool {
    matches!(word, ";" | "{" | "}")
}

/// Whether a word is a name or keyword.
pub(super) fn is_identifier(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl Lexer<'_> {
    /// The next word; in a directive, only up to the end of the line.
    fn next(&mut self, in_directive: bool) -> Option<Place> {
        let bytes = self.text.as_bytes();
        loop {
            let rest = &bytes[self.at.min(bytes.len())..];
            match rest {
                [] => return None,
                [b'\n', ..] if in_directive => return None,
                [b'\\', b'\n', ..] => self.skip(2),
                [b'\\', b'\r', b'\n', ..] => self.skip(3),
                [b'/', b'/', ..] => {
                    self.skip(rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()))
                }
                [b'/', b'*', ..] => {
                    let end = rest[2..].windows(2).position(|window| window == b"*/");
                    self.skip(end.map_or(rest.len(), |end| end + 4));
                }
                [byte, ..] if byte.is_ascii_whitespace() => self.skip(1),
                _ => break,
            }
        }
        let (start, line) = (self.at, self.line);
        let rest = &bytes[start..];
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
        let n_bytes = match rest {
            [b'"', ..] => quoted(rest),
            // A lifetime in Rust has no closing quote.
            [b'\'', b'\\', ..] | [b'\'', _, b'\'', ..] => quoted(rest),
            [b'.', b'.', b'.', ..] => 3,
            [b'-', b'>', ..]
            | [b':', b':', ..]
            | [b'+', b'+' | b'=', ..]
            | [b'-', b'-' | b'=', ..]
            | [b'=' | b'!' | b'<' | b'>' | b'*' | b'/' | b'|' | b'&' | b'^' | b'%', b'=', ..]
            | [b'&', b'&', ..]
            | [b'|', b'|', ..]
            | [b'#', b'#', ..] => 2,
            [byte, ..] if is_word(byte) => rest.iter().position(|byte| !is_word(byte)).unwrap_or(rest.len()),
            _ => 1,
        };
        self.skip(n_bytes);
        Some(Place { start: u32::try_from(start).ok()?, end: u32::try_from(self.at).ok()?, line })
    }

    fn skip(&mut self, n_bytes: usize) {
        let passed = &self.text.as_bytes()[self.at..self.at + n_bytes];
        self.line += u32::try_from(passed.iter().filter(|byte| **byte == b'\n').count()).unwrap_or(0);
        self.at += n_bytes;
    }
}

/// Length of a quoted text in bytes.
fn quoted(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != rest[0] && rest[at] != b'\n' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

impl Macros {
    /// Reads the macros of a compilation unit: `files` contains its main file first; the others show where headers are.
    /// `open` finds a file.
    pub(super) fn of(files: &[String], mut open: impl FnMut(&Path) -> Option<Arc<File>>) -> Macros {
        let mut macros = Macros::default();
        macros.defined.extend(PREDEFINED.iter().map(|(name, value)| ((*name).to_owned(), Some(*value))));
        let mut folders: Vec<PathBuf> = Vec::new();
        for folder in files.iter().filter_map(|file| Path::new(file).parent()) {
            if !folders.iter().any(|known| known == folder) {
                folders.push(folder.to_owned());
            }
        }
        folders.extend(SYSTEM_FOLDERS.iter().map(PathBuf::from));
        if let Some(first) = files.first() {
            let mut left = MAX_FILES;
            macros.read(Path::new(first), &folders, &mut open, 0, &mut left);
        }
        macros.defined = FxHashMap::default();
        macros
    }

    fn read(
        &mut self,
        path: &Path,
        folders: &[PathBuf],
        open: &mut impl FnMut(&Path) -> Option<Arc<File>>,
        depth: usize,
        left: &mut usize,
    ) {
        let Some(n_left) = left.checked_sub(1).filter(|_| depth < MAX_INCLUDED) else { return };
        *left = n_left;
        let Some(file) = open(path) else { return };
        // For each open conditional: whether the current branch is taken, and whether any branch was.
        let mut conditions: Vec<(bool, bool)> = Vec::new();
        let mut out_since = None;
        let mut left_out = Vec::new();
        for directive in file.directives.iter() {
            let words = &directive.words;
            let is_taken = conditions.iter().all(|(is_taken, _)| *is_taken);
            match directive.name.as_str() {
                "if" | "ifdef" | "ifndef" => {
                    let is_defined = words.first().is_some_and(|word| self.defined.contains_key(word));
                    let holds = match directive.name.as_str() {
                        "ifdef" => is_defined,
                        "ifndef" => !is_defined,
                        _ => self.holds(words),
                    };
                    conditions.push((holds, holds));
                }
                "elif" | "else" => {
                    let holds = directive.name == "else" || self.holds(words);
                    if let Some((is_taken, was_taken)) = conditions.last_mut() {
                        *is_taken = holds && !*was_taken;
                        *was_taken |= holds;
                    }
                }
                "endif" => drop(conditions.pop()),
                "undef" if is_taken => {
                    if let Some(name) = words.first() {
                        self.defined.remove(name);
                        self.by_name.remove(name);
                    }
                }
                "define" => self.define(directive, !is_taken),
                "include" if is_taken => {
                    if let Some(found) = included(words, path, folders) {
                        self.read(&found, folders, open, depth + 1, left);
                    }
                }
                _ => {}
            }
            match (out_since, conditions.iter().all(|(is_taken, _)| *is_taken)) {
                (None, false) => out_since = Some(directive.line),
                (Some(start), true) => {
                    left_out.push(start..directive.line);
                    out_since = None;
                }
                _ => {}
            }
        }
        left_out.extend(out_since.map(|start| start..u32::MAX));
        self.left_out.insert(path.to_owned(), left_out);
    }

    fn define(&mut self, directive: &Directive, is_doubtful: bool) {
        let Some((name, rest)) = directive.words.split_first() else { return };
        let mut body = rest.to_vec();
        let has_parameters = directive.is_joined && body.first().is_some_and(|word| word == "(");
        let parameters = has_parameters.then(|| {
            let end = body.iter().position(|word| word == ")").unwrap_or(body.len() - 1);
            body.drain(..=end).filter(|word| is_identifier(word) || word == "...").collect()
        });
        let all = self.by_name.entry(name.clone()).or_default();
        if is_doubtful {
            all.push(Arc::new(Macro { is_doubtful, parameters, body }));
            return;
        }
        let inner = body.iter().filter(|word| !matches!(word.as_str(), "(" | ")"));
        let value = inner.clone().next().filter(|_| inner.count() == 1).and_then(|word| number(word));
        self.defined.insert(name.clone(), value);
        // The last definition is the current one.
        all.insert(0, Arc::new(Macro { is_doubtful, parameters, body }));
    }

    /// Lines of a file that conditionals skip.
    pub(super) fn left_out(&self, path: &Path) -> &[Range<u32>] {
        self.left_out.get(path).map_or(&[], Vec::as_slice)
    }

    /// Removes macros without parameters whose body is one word, if `is_known` recognises their name.
    pub(super) fn forget(&mut self, is_known: impl Fn(&str) -> bool) {
        let is_name = |found: &Arc<Macro>| found.parameters.is_none() && found.body.len() == 1;
        self.by_name.retain(|name, all| !(all.iter().all(is_name) && is_known(name)));
    }

    /// Expands macros in `words`, preferring definitions that contain `wanted`.
    pub(super) fn expand(&self, words: &[String], wanted: &str) -> Vec<String> {
        let mut out = Vec::with_capacity(words.len());
        self.replace(words, wanted, &mut Vec::new(), &mut out);
        out
    }

    fn replace(&self, words: &[String], wanted: &str, active: &mut Vec<String>, out: &mut Vec<String>) {
        let mut at = 0;
        while at < words.len() && out.len() < MAX_WORDS {
            let word = &words[at];
            at += 1;
            let found = self.by_name.get(word).filter(|_| word != wanted && !active.contains(word));
            let is_called = words.get(at).is_some_and(|next| next == "(");
            let Some(found) =
                found.filter(|_| active.len() < MAX_NESTED).and_then(|all| choose(all, is_called, wanted))
            else {
                out.push(word.clone());
                continue;
            };
            let mut body = found.body.clone();
            if let Some(parameters) = &found.parameters {
                let end = closing(words, at);
                let given: Vec<Vec<String>> = arguments(words, at)
                    .into_iter()
                    .map(|range| {
                        let mut argument = Vec::new();
                        self.replace(&words[range], wanted, active, &mut argument);
                        argument
                    })
                    .collect();
                body = filled(&found.body, parameters, &given);
                at = (end + 1).min(words.len());
            }
            active.push(word.clone());
            self.replace(&body, wanted, active, out);
            active.pop();
        }
    }
}

/// Path of the file that a directive includes.
fn included(words: &[String], from: &Path, folders: &[PathBuf]) -> Option<PathBuf> {
    let name = match words.first()?.as_str() {
        "<" => words.iter().skip(1).take_while(|word| *word != ">").map(String::as_str).collect::<String>(),
        quoted => quoted.strip_prefix('"')?.strip_suffix('"')?.to_owned(),
    };
    let beside = from.parent().map(|folder| folder.join(&name));
    let mut places = beside.into_iter().chain(folders.iter().map(|folder| folder.join(&name)));
    places.find(|place| place.is_file())
}

/// Chooses among several definitions of a macro.
fn choose<'a>(all: &'a [Arc<Macro>], is_called: bool, wanted: &str) -> Option<&'a Arc<Macro>> {
    let fits = |found: &&Arc<Macro>| found.parameters.is_none() || is_called;
    let leads = |found: &&Arc<Macro>| fits(found) && found.body.iter().any(|word| word == wanted);
    let says = |found: &&Arc<Macro>| fits(found) && !found.body.is_empty();
    let mut likely = all.iter().filter(|found| !found.is_doubtful);
    let leading = likely.clone().find(leads).or_else(|| all.iter().find(leads));
    leading.or_else(|| likely.find(says)).or_else(|| all.iter().find(says))
}

/// A macro body with its parameters replaced by arguments.
fn filled(body: &[String], parameters: &[String], given: &[Vec<String>]) -> Vec<String> {
    let mut out: Vec<String> = Vec::with_capacity(body.len());
    let mut joins = false;
    for word in body {
        if word == "##" {
            joins = true;
            continue;
        }
        let nth = match word.as_str() {
            "__VA_ARGS__" => parameters.iter().position(|name| name == "..."),
            _ => parameters.iter().position(|name| name == word),
        };
        let mut words = match nth {
            Some(nth) if parameters[nth] == "..." => {
                given.get(nth..).unwrap_or_default().join(&",".to_owned())
            }
            Some(nth) => given.get(nth).cloned().unwrap_or_default(),
            None => vec![word.clone()],
        };
        if std::mem::take(&mut joins)
            && let (Some(last), Some(first)) = (out.last_mut(), words.first())
        {
            last.push_str(first);
            words.remove(0);
        }
        out.append(&mut words);
    }
    out
}

/// Index of the bracket that closes the one at `open`, or the end.
pub(super) fn closing(words: &[String], open: usize) -> usize {
    let mut depth = 0_i32;
    let end = (open..words.len()).find(|at| {
        let word = words[*at].as_str();
        depth += i32::from(matches!(word, "(" | "[" | "{")) - i32::from(matches!(word, ")" | "]" | "}"));
        depth <= 0
    });
    end.unwrap_or(words.len())
}

/// The arguments in the parentheses that open at `open`.
pub(super) fn arguments(words: &[String], open: usize) -> Vec<Range<usize>> {
    let end = closing(words, open).min(words.len());
    let (mut depth, mut start, mut found) = (0_i32, open + 1, Vec::new());
    for (at, word) in words.iter().enumerate().take(end).skip(open + 1) {
        match word.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            "," if depth == 0 => {
                found.push(start..at);
                start = at + 1;
            }
            _ => {}
        }
    }
    if start < end || !found.is_empty() {
        found.push(start.min(end)..end);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        let file = File::parse(text);
        file.words(0..file.words.len())
    }

    #[test]
    fn words_are_those_of_the_language() {
        assert_eq!(
            split("a->b += 'x'; /* no */ s = \"q;\\\"\"; // end\n#define X 1\nz"),
            ["a", "->", "b", "+=", "'x'", ";", "s", "=", "\"q;\\\"\"", ";", "z"]
        );
        assert_eq!(split("fn f<'a>(x: &'a T)")[..5], ["fn", "f", "<", "'", "a"]);
    }

    #[test]
    fn macros_lead_to_the_call() {
        let source = "#define cast(t, e) ((t)(e))\n#define new_vector(n, t) \\\n  cast(t *, take(n, sizeof(t)))\n\
                      #define M(x) take(x)\n#if 0\n#define M(x) other(x)\n#endif\n#define self self + 1\n#define v(...) f(__VA_ARGS__)\n\
                      #define join(a) a##_t";
        let file = Arc::new(File::parse(source));
        let macros = Macros::of(&["a.c".to_owned()], |_| Some(file.clone()));
        let expand = |text: &str, wanted: &str| macros.expand(&split(text), wanted).join(" ");
        assert_eq!(
            expand("p = new_vector(3 + k, Node);", "take"),
            "p = ( ( Node * ) ( take ( 3 + k , sizeof ( Node ) ) ) ) ;"
        );
        assert_eq!(
            (expand("M(1)", "take"), expand("M(1)", "other")),
            ("take ( 1 )".into(), "other ( 1 )".into())
        );
        assert_eq!((expand("self", ""), expand("v(1, 2)", "")), ("self + 1".into(), "f ( 1 , 2 )".into()));
        let conditional = "#if defined(A) || B > 2\n#define X one\n#elif __GNUC__ >= 4 && !(defined C)\n#define X two\n#else\n\
                           #define X three\n#endif\n#ifndef D\n#define D 3\n#endif\n#if D == 3\n#define Y yes\n#endif";
        let file = Arc::new(File::parse(conditional));
        let guessed = Macros::of(&["b.c".to_owned()], |_| Some(file.clone()));
        let guess = |text: &str, wanted: &str| guessed.expand(&split(text), wanted).join(" ");
        assert_eq!((guess("X Y", ""), guess("X", "three")), ("two yes".into(), "three".into()));
        assert_eq!((expand("cast", ""), expand("join(uint8)", "")), ("cast".into(), "uint8_t".into()));
    }

    #[test]
    fn statements_go_over_lines() {
        let file = File::parse(
            "int f(int n) {\n  if (n) {\n    x =\n      (T *)\n      g(n);\n  }\n  for (a; b; c) h();\n}\n",
        );
        let at = |line| {
            file.statements_at(line).into_iter().map(|range| file.words(range).join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(at(4), ["x = ( T * ) g ( n )"]);
        assert_eq!(at(7), ["for ( a ; b ; c ) h ( )"]);
        let body = file.body(1, file.statements_at(4)[0].start).unwrap();
        assert_eq!((file.word(body.start), file.line(body.end)), ("if", 8));
    }
}
