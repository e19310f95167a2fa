//! The type that memory was allocated for: what debug information and source say of the place of the call.
//!
//! No compiler writes down what an allocation is for. But it writes down the line, and there the source says it: the type that
//! is in `sizeof`, after `new` or in a cast, the variable that takes the result. Containers of C++ allocate in
//! functions whose names have the type, whether they were put into others or not. A type counts only if debug information
//! knows it and its size goes into that of the allocation. A call in a function that allocates for others is judged by where
//! that was called.

use quipu_symbols::dwarf::DebugInfo;
use quipu_symbols::dwarf::types::{Kind, Place};
use rustc_hash::FxHashMap;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Callers that are looked at.
const MAX_CALLERS: usize = 6;
/// Lines above a call in which the declaration of a variable is looked for.
const MAX_LINES_UP: usize = 200;
/// Larger sources are not read.
const MAX_SOURCE_BYTES: u64 = 16 << 20;

/// The type of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteType {
    /// As LLVM and the format write it: `struct.node`.
    pub name: String,
    /// Bytes of an element.
    pub size: u64,
}

/// Where code of a program stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// The program or library, and where in it.
    pub module: Option<(PathBuf, u64)>,
    /// The function, if debug information says.
    pub function: Option<String>,
    /// File and line of the source in that function, if debug information says.
    pub source: Option<(String, u64)>,
    /// The function that the compiler put there, if it did, and the place in that; of several the innermost.
    pub inlined: Option<(String, Option<(String, u64)>)>,
}

/// What is known of the places of calls.
#[derive(Debug, Default)]
pub struct Sites {
    modules: Vec<Module>,
    known: FxHashMap<u64, Site>,
    spots: FxHashMap<u64, Spot>,
    sources: HashMap<String, Vec<String>>,
}

#[derive(Debug)]
struct Module {
    base: u64,
    end: u64,
    path: PathBuf,
    info: Info,
}

#[derive(Debug)]
enum Info {
    Unread,
    Missing,
    Read(Box<DebugInfo>),
}

/// What a place in the program says.
#[derive(Clone, Debug)]
enum Site {
    /// Nothing is known of it, so nothing of its callers may be believed either.
    Foreign,
    /// Types that stand there.
    Types {
        /// The likeliest first.
        types: Vec<SiteType>,
        /// The function returns memory of any type, so that its callers say which.
        is_for_others: bool,
        /// How many allocations are in that line.
        n_calls: usize,
    },
}

impl Sites {
    /// A part of the program was loaded at `base`.
    pub fn module(&mut self, base: u64, n_bytes: u64, path: &[u8]) {
        let path = PathBuf::from(OsStr::from_bytes(path));
        if !self.modules.iter().any(|module| module.base == base && module.path == path) {
            let end = base.saturating_add(n_bytes);
            // Where it was loaded something else may have been before.
            self.modules.retain(|module| module.end <= base || module.base >= end);
            self.known.clear();
            self.spots.clear();
            self.modules.push(Module { base, end, path, info: Info::Unread });
        }
    }

    /// The program: what was told first.
    pub fn program(&self) -> Option<PathBuf> {
        self.modules.first().map(|module| module.path.clone())
    }

    /// The type of an allocation of `n_elements` of `element_bytes` after `pc`, which was called from `callers`, innermost
    /// first.
    ///
    /// Callers are asked only where the function is one that allocates for others.
    pub fn type_of(
        &mut self,
        pc: u64,
        callers: impl Iterator<Item = u64>,
        element_bytes: u64,
        n_elements: u64,
    ) -> Option<SiteType> {
        let n_bytes = element_bytes.saturating_mul(n_elements);
        for pc in std::iter::once(pc).chain(callers.take(MAX_CALLERS)) {
            if !self.known.contains_key(&pc) {
                let site = self.look_up(pc).unwrap_or(Site::Foreign);
                self.known.insert(pc, site);
            }
            let Some(Site::Types { types, is_for_others, n_calls }) = self.known.get(&pc) else {
                return None;
            };
            // An array is of elements that the call names, if it does.
            let fits = |kind: &&SiteType| {
                kind.size > 0
                    && n_bytes > 0
                    && if n_elements > 1 {
                        kind.size == element_bytes
                    } else {
                        n_bytes.is_multiple_of(kind.size)
                    }
            };
            if *n_calls > 1 {
                // Several calls in one line: which it was, only the size tells, and only if it is that of one of them.
                let mut same = types.iter().filter(|kind| kind.size == element_bytes);
                let first = same.next()?;
                return same.all(|other| other.name == first.name).then(|| first.clone());
            }
            if let Some(kind) = types.iter().find(fits) {
                return Some(kind.clone());
            }
            // A structure with room after it, of one element then.
            if let Some(kind) =
                types.iter().find(|kind| n_elements == 1 && kind.size > 8 && kind.size < n_bytes)
            {
                return Some(SiteType { name: kind.name.clone(), size: n_bytes });
            }
            if !is_for_others || !types.is_empty() {
                return None;
            }
        }
        None
    }

    /// Where the code stands that is in front of `pc`, which is where a call returns to.
    pub fn spot(&mut self, pc: u64) -> &Spot {
        if !self.spots.contains_key(&pc) {
            let spot = self.find_spot(pc);
            self.spots.insert(pc, spot);
        }
        &self.spots[&pc]
    }

    fn find_spot(&mut self, pc: u64) -> Spot {
        let Some(module) = module_at(&mut self.modules, pc) else { return Spot::default() };
        let address = pc.saturating_sub(module.base);
        let mut spot = Spot { module: Some((module.path.clone(), address)), ..Spot::default() };
        if let Info::Read(info) = &module.info {
            let before = address.saturating_sub(1);
            let source = |place: Place| (place.file, place.line);
            let inlined = info.inlined_at(before);
            spot.function = info.objects().function_at(before).map(|function| function.name.clone());
            spot.source = info.line_of(before).map(source);
            if let [innermost, ..] = &inlined[..] {
                // The line is that of the innermost; in the function itself the outermost is called.
                let line = std::mem::replace(
                    &mut spot.source,
                    inlined.last().and_then(|outermost| outermost.call.clone()).map(source),
                );
                spot.inlined = Some((innermost.name.clone(), line));
            }
        }
        spot
    }

    fn look_up(&mut self, pc: u64) -> Option<Site> {
        let module = module_at(&mut self.modules, pc)?;
        let Info::Read(info) = &module.info else { return None };
        // The call itself lies before where it returns to.
        let address = pc.checked_sub(1)?.checked_sub(module.base)?;
        let place = info.line_of(address)?;
        let function = info.objects().function_at(address).map(|function| function.name.clone());
        // Functions that were put into this one say more than it does; where they are called is a line that may say it, too.
        let inlined = info.inlined_at(address);
        let functions: Vec<&String> = inlined.iter().map(|inlined| &inlined.name).chain(&function).collect();
        let allocators = functions.iter().filter_map(|name| of_allocator(name));
        let types: Vec<SiteType> = allocators.filter_map(|name| resolve(info, name)).collect();
        if !types.is_empty() {
            return Some(Site::Types { types, is_for_others: false, n_calls: 1 });
        }
        let places = std::iter::once(Some(&place)).chain(inlined.iter().map(|inlined| inlined.call.as_ref()));
        for (nth, place) in places.enumerate() {
            let Some(place) = place else { break };
            let lines =
                self.sources.entry(place.file.clone()).or_insert_with_key(|file| read_lines(Path::new(file)));
            let line = usize::try_from(place.line).ok()?.checked_sub(1)?;
            let names = named_in(lines, line);
            if !names.is_empty() {
                let types = names.iter().filter_map(|name| resolve(info, name)).collect();
                return Some(Site::Types { types, is_for_others: false, n_calls: n_calls(lines, line) });
            }
            if !functions.get(nth).is_some_and(|function| is_for_others(lines, line, function)) {
                return Some(Site::Types { types: Vec::new(), is_for_others: false, n_calls: 1 });
            }
        }
        Some(Site::Types { types: Vec::new(), is_for_others: true, n_calls: 1 })
    }
}

/// How many allocations a line has.
fn n_calls(lines: &[String], line: usize) -> usize {
    let Some(text) = lines.get(line) else { return 0 };
    let words =
        ["malloc", "calloc", "realloc", "reallocarray", "aligned_alloc", "posix_memalign", "memalign", "new"];
    let text = text.split("//").next().unwrap_or_default();
    words
        .into_iter()
        .map(|word| {
            let mut from = 0;
            std::iter::from_fn(|| {
                from = word_at(text, word, from)? + word.len();
                Some(())
            })
            .count()
        })
        .sum()
}

/// True if the function that has this line returns memory of no type, by its source: `void *` stands before its name.
fn is_for_others(lines: &[String], line: usize, function: &str) -> bool {
    // Without arguments of templates, which have names of their own.
    let mut depth = 0;
    let path: String = function
        .chars()
        .filter(|c| {
            depth += i32::from(*c == '<') - i32::from(*c == '>');
            depth == 0 && *c != '>'
        })
        .collect();
    let name = path.rsplit("::").next().unwrap_or_default();
    if name.is_empty() {
        return false;
    }
    for at in (line.saturating_sub(MAX_LINES_UP)..=line.min(lines.len().saturating_sub(1))).rev() {
        let Some(text) = lines.get(at) else { return false };
        let Some(start) =
            word_at(text, name, 0).filter(|start| text[start + name.len()..].trim_start().starts_with('('))
        else {
            continue;
        };
        let before = text[..start].trim();
        let before = match before {
            "" if at > 0 => lines[at - 1].trim(),
            _ => before,
        };
        return before.ends_with('*') && word_at(before, "void", 0).is_some();
    }
    false
}

/// The part of the program that has an address, with its debug information read if there is any.
fn module_at(modules: &mut [Module], pc: u64) -> Option<&Module> {
    let module = modules.iter_mut().find(|module| (module.base..module.end).contains(&pc))?;
    if matches!(module.info, Info::Unread) {
        module.info = DebugInfo::open(&module.path).map_or(Info::Missing, |info| Info::Read(Box::new(info)));
    }
    Some(module)
}

/// What numbers are called in sources, and by gcc in debug information.
const SPELLINGS: [(&str, &str); 10] = [
    ("long", "long int"),
    ("unsigned long", "long unsigned int"),
    ("unsigned long int", "long unsigned int"),
    ("long long", "long long int"),
    ("unsigned long long", "long long unsigned int"),
    ("short", "short int"),
    ("unsigned short", "short unsigned int"),
    ("unsigned", "unsigned int"),
    ("unsigned char", "uint8_t"),
    ("signed", "int"),
];

/// The type of that name, if the program has it and its size is known.
fn resolve(info: &DebugInfo, name: &str) -> Option<SiteType> {
    if let Some(pointee) = name.strip_suffix('*') {
        return Some(SiteType { name: format!("{}*", pointee.trim_end()), size: 8 });
    }
    let spelled = || SPELLINGS.iter().find(|(short, _)| *short == name).map(|(_, long)| *long);
    let id = info.find(name).or_else(|| info.find(spelled()?))?;
    let size = info.size_of(id)?;
    let found = info.read(id).ok()?;
    let short = if found.name.is_some() { found.path.as_str() } else { name };
    let name = match found.kind {
        Kind::Struct => format!("struct.{short}"),
        Kind::Class => format!("class.{short}"),
        Kind::Union => format!("union.{short}"),
        _ => info.text_of(id),
    };
    Some(SiteType { name, size })
}

fn read_lines(path: &Path) -> Vec<String> {
    let small = std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_SOURCE_BYTES);
    let bytes = if small { std::fs::read(path).unwrap_or_default() } else { Vec::new() };
    String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
}

/// The type that a function of the C++ library allocates for, which is in its name.
fn of_allocator(function: &str) -> Option<&str> {
    for maker in ["std::make_unique<", "std::make_shared<"] {
        if let Some(arguments) = function.strip_prefix(maker) {
            return Some(first_argument(arguments));
        }
    }
    let (class, method) = function.rsplit_once("::")?;
    if !method.starts_with("allocate") {
        return None;
    }
    let (_, arguments) = class.split_once("allocator<")?;
    Some(arguments.strip_suffix('>')?.trim())
}

/// What stands before the first comma, or the end, of arguments of a template.
fn first_argument(arguments: &str) -> &str {
    let mut depth = 0;
    let end = arguments.find(|c: char| {
        depth += i32::from(matches!(c, '<' | '(')) - i32::from(matches!(c, '>' | ')'));
        depth < 0 || depth == 0 && c == ','
    });
    arguments[..end.unwrap_or(arguments.len())].trim()
}

/// Names of types that a line says something is allocated for, the likeliest first.
fn named_in(lines: &[String], line: usize) -> Vec<String> {
    let Some(text) = lines.get(line) else { return Vec::new() };
    let text = text.split("//").next().unwrap_or_default();
    let mut names = Vec::new();
    let mut from = 0;
    while let Some(at) = word_at(text, "sizeof", from) {
        from = at + "sizeof".len();
        let rest = text[from..].trim_start();
        let inner = rest.strip_prefix('(').map_or(rest, |inner| &inner[..closing(inner)]).trim();
        let variable = inner.strip_prefix('*').or_else(|| inner.strip_suffix("[0]")).map(str::trim);
        match variable {
            Some(variable) => names.extend(declared(lines, line, identifier(variable))),
            None => names.push(inner.to_owned()),
        }
    }
    if let Some(at) = word_at(text, "new", 0) {
        let rest = text[at + "new".len()..].trim_start();
        // Memory that is there already may stand in parentheses.
        let rest =
            rest.strip_prefix('(').map_or(rest, |inner| inner[closing(inner)..].trim_start_matches(')'));
        names.push(type_name(rest.trim_start()));
    }
    for (at, _) in text.match_indices('(') {
        // What a function is given, or `sizeof`, is no cast.
        let before = text[..at].trim_end();
        if before.ends_with(|c: char| is_name(c) || c == ']') && !before.ends_with("return") {
            continue;
        }
        let inner = &text[at + 1..][..closing(&text[at + 1..])];
        if let Some(pointee) = inner.trim().strip_suffix('*') {
            names.push(pointee.trim().to_owned());
        }
    }
    // `T *v = …` or, declared above, `v = …`; in C++ also `static_cast<T *>`.
    if let Some((left, _)) = text.split_once('=') {
        let variable = left.trim().rsplit(|c: char| !is_name(c)).next().unwrap_or_default();
        names.extend(declared(lines, line, variable));
    }
    names.retain(|name| !name.is_empty() && name != "void");
    names
}

/// What a variable points to, by its declaration in this line or one above it.
fn declared(lines: &[String], line: usize, variable: &str) -> Option<String> {
    if variable.is_empty() {
        return None;
    }
    let above = lines[..=line].iter().rev().take(MAX_LINES_UP);
    above.flat_map(|text| text.match_indices(variable).map(move |(at, _)| (text, at))).find_map(
        |(text, at)| {
            let is_whole = !text[at + variable.len()..].starts_with(is_name);
            let before = text[..at].trim_end().strip_suffix('*')?.trim_end();
            let is_of_pointers = before.ends_with('*');
            let start = before.rfind(['(', ';', '{', '=']).map_or(0, |at| at + 1);
            let mut parts = before[start..].split(',').map(str::trim);
            let first = parts.next().unwrap_or_default();
            // `T *a, *v;` has the type before the first, `(int a, T *v)` before this one.
            let name = match parts.next_back() {
                Some("") | None => first.split('*').next().unwrap_or_default().trim_end(),
                Some(last) => last,
            };
            let name = name.trim_start_matches("static ").trim_start_matches("const ");
            let is_type = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
            let is_other = word_at(&before[start..], "sizeof", 0).is_some()
                || matches!(name.split(' ').next(), Some("return" | "sizeof" | "else" | "case"));
            let name = name.trim_end_matches(['*', ' ']);
            let stars = if is_of_pointers { " *" } else { "" };
            (is_whole && is_type && !is_other).then(|| format!("{name}{stars}"))
        },
    )
}

/// The name of a type at the front of a text, with namespaces and arguments.
fn type_name(text: &str) -> String {
    let mut depth = 0;
    let end = text.find(|c: char| {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        depth == 0 && !(is_name(c) || c == ':' || c == '>')
    });
    text[..end.unwrap_or(text.len())].to_owned()
}

/// Where the parenthesis that was opened before `text` is closed, or the end.
fn closing(text: &str) -> usize {
    let mut depth = 0;
    let closes = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth < 0
    };
    text.find(closes).unwrap_or(text.len())
}

/// Where a word stands by itself.
fn word_at(text: &str, word: &str, from: usize) -> Option<usize> {
    text[from..]
        .match_indices(word)
        .map(|(at, _)| from + at)
        .find(|at| !text[..*at].ends_with(is_name) && !text[at + word.len()..].starts_with(is_name))
}

/// The name at the front of a text.
fn identifier(text: &str) -> &str {
    &text[..text.find(|c| !is_name(c)).unwrap_or(text.len())]
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expected: &[&str]) {
        let lines: Vec<String> = source.lines().map(str::to_owned).collect();
        assert_eq!(named_in(&lines, lines.len() - 1), expected, "{source}");
    }

    #[test]
    fn a_line_says_what_it_allocates_for() {
        check("  struct node *n = malloc(sizeof(struct node));", &["struct node", "struct node"]);
        check("  p->next = calloc(n, sizeof(body_t));", &["body_t"]);
        check("  auto *x = new ns::Outer::X<int, 3>(4);", &["ns::Outer::X<int, 3>", "auto"]);
        check("  list.push_back(new Item{1});", &["Item"]);
        check("  return (struct tree *)malloc(n * 24);", &["struct tree"]);
        check("  double *a; int i;\n  a = malloc(8 * n);", &["double"]);
        check("  struct node *head, *n;\n  n = malloc(sizeof *n);", &["struct node", "struct node"]);
        check("  static struct node *n;\n  n = malloc(sizeof(*n));", &["struct node", "struct node"]);
        check("  resize(renewed, 3);", &[]);
        check("  list = calloc(n, sizeof(char *));", &["char *"]);
        check("  char **tab;\n  tab = malloc(n * sizeof *tab);", &["char *", "char *"]);
        check("  void *scratch = malloc(100);", &[]);
    }

    #[test]
    fn a_function_that_returns_any_memory_allocates_for_others() {
        let is = |source: &str, function: &str| {
            let lines: Vec<String> = source.lines().map(str::to_owned).collect();
            is_for_others(&lines, lines.len() - 1, function)
        };
        assert!(is("static void *xmalloc(size_t n) {\n  void *p = malloc(n);", "xmalloc"));
        assert!(is("void *\nxmalloc (size_t n)\n{\n  return malloc(n);", "xmalloc"));
        assert!(is("void* alloc(int n) { return malloc(n); }", "ns::Pool<int>::alloc"));
        assert!(!is("struct node *parse(int n) {\n  void *scratch = malloc(100);", "parse"));
        assert!(!is("void fill(void *p) {\n  p = malloc(100);", "fill"));
        assert_eq!(n_calls(&["a = malloc(4); b = new int; renew();".to_owned()], 0), 2);
    }

    #[test]
    fn an_allocator_has_its_type_in_its_name() {
        assert_eq!(of_allocator("std::__new_allocator<ns::Node<int> >::allocate"), Some("ns::Node<int>"));
        assert_eq!(of_allocator("std::make_unique<ns::Node<int, 3>, int>"), Some("ns::Node<int, 3>"));
        assert_eq!(of_allocator("std::make_shared<Node>"), Some("Node"));
        assert_eq!(of_allocator("make_allocator"), None);
    }
}
