//! The text of a type in the syntax of its language.
//!
//! C declarations read from the inside out: `int (*)[3]` is a pointer to arrays. So the text around a name is built up on
//! the way to the innermost type. Texts are short: a type that is nested too deep, or too long, ends in three dots.

use super::index::{anonymous, definition, path_of};
use super::read::counts;
use super::units::{Die, Open, View};
use super::{DebugInfo, TypeId};

/// Maximum depth up to which a type is written.
const MAX_SPELLED_DEPTH: usize = 24;
/// Maximum length of a part's text.
const MAX_TEXT: usize = 4096;
/// Maximum number of parameters of a function that are written.
const MAX_PARAMETERS: usize = 16;
const DOTS: &str = "...";

/// The text of a type; `None` is `void`.
pub(crate) fn spell<'a>(view: &View<'a>, info: &DebugInfo, id: Option<TypeId>, depth: usize) -> String {
    declare(view, info, id, String::new(), depth)
}

/// The text of a type around `inner`, which is the part of the declarator beside the name in C.
fn declare<'a>(view: &View<'a>, info: &DebugInfo, id: Option<TypeId>, inner: String, depth: usize) -> String {
    let Some(id) = id else { return join("void", &inner) };
    if depth > MAX_SPELLED_DEPTH || inner.len() > MAX_TEXT {
        return join(DOTS, &inner);
    }
    let Ok((open, die)) = view.entry(id) else { return join("<unknown>", &inner) };
    let target = view.reference(id.unit, &die, gimli::DW_AT_type);
    let next = |inner: String| declare(view, info, target, inner, depth + 1);
    match die.tag() {
        gimli::DW_TAG_pointer_type
        | gimli::DW_TAG_reference_type
        | gimli::DW_TAG_rvalue_reference_type
        | gimli::DW_TAG_ptr_to_member_type => {
            // Rust has names for pointers, with the type that they point to.
            if let Some(name) = open.name(&die).filter(|_| open.is_rust()) {
                return join(&name, &inner);
            }
            let sign = match die.tag() {
                gimli::DW_TAG_pointer_type => "*".to_owned(),
                gimli::DW_TAG_reference_type => "&".to_owned(),
                gimli::DW_TAG_rvalue_reference_type => "&&".to_owned(),
                _ => {
                    let class = view.reference(id.unit, &die, gimli::DW_AT_containing_type);
                    format!(" {}::*", spell(view, info, class, depth + 1))
                }
            };
            let is_tight = target.and_then(|target| view.entry(target).ok()).is_some_and(|(_, die)| {
                matches!(die.tag(), gimli::DW_TAG_array_type | gimli::DW_TAG_subroutine_type)
            });
            next(if is_tight { format!("({sign}{inner})") } else { format!("{sign}{inner}") })
        }
        gimli::DW_TAG_array_type => {
            let counts = counts(view, &open, id);
            if open.is_rust() {
                let element = next(String::new());
                let count =
                    counts.first().copied().flatten().map_or(String::new(), |count| format!("; {count}"));
                return join(&format!("[{element}{count}]"), &inner);
            }
            let mut text = inner;
            for count in &counts {
                text += &count.map_or_else(|| "[]".to_owned(), |count| format!("[{count}]"));
            }
            next(text)
        }
        gimli::DW_TAG_const_type => qualified("const", target, view, inner, &next),
        gimli::DW_TAG_volatile_type => qualified("volatile", target, view, inner, &next),
        gimli::DW_TAG_restrict_type => qualified("restrict", target, view, inner, &next),
        gimli::DW_TAG_atomic_type => qualified("_Atomic", target, view, inner, &next),
        gimli::DW_TAG_subroutine_type => {
            let parameters = parameters(view, info, &open, id, depth);
            next(format!("{inner}({parameters})"))
        }
        gimli::DW_TAG_unspecified_type => join(&open.name(&die).unwrap_or_else(|| "void".to_owned()), &inner),
        _ => join(&named(view, info, &open, &die, id), &inner),
    }
}

/// Puts a qualifier in front of the type that it qualifies, or after the star of a pointer.
fn qualified(
    word: &str,
    target: Option<TypeId>,
    view: &View<'_>,
    inner: String,
    next: &dyn Fn(String) -> String,
) -> String {
    let is_pointer = target.and_then(|target| view.entry(target).ok()).is_some_and(|(open, die)| {
        let is_plain = !(open.is_rust() && die.attr(gimli::DW_AT_name).is_some());
        is_plain && matches!(die.tag(), gimli::DW_TAG_pointer_type | gimli::DW_TAG_ptr_to_member_type)
    });
    match is_pointer {
        true if inner.is_empty() => next(format!(" {word}")),
        true => next(format!(" {word} {inner}")),
        false => format!("{word} {}", next(inner)),
    }
}

/// The name of a type, with the keyword in front that C requires.
fn named<'a>(view: &View<'a>, info: &DebugInfo, open: &Open<'a>, die: &Die<'a>, id: TypeId) -> String {
    let word = match die.tag() {
        gimli::DW_TAG_structure_type => "struct ",
        gimli::DW_TAG_union_type => "union ",
        gimli::DW_TAG_enumeration_type => "enum ",
        _ => "",
    };
    if open.is_c() {
        return match open.name(die) {
            Some(name) => format!("{word}{name}"),
            None => anonymous(die.tag()).to_owned(),
        };
    }
    // A declaration that refers to a type unit has its name there.
    let id = match die.attr(gimli::DW_AT_name) {
        Some(_) => id,
        None => definition(info, view, id).unwrap_or(id),
    };
    match path_of(info, view, id) {
        Ok(path) => path,
        Err(_) => anonymous(die.tag()).to_owned(),
    }
}

fn parameters<'a>(view: &View<'a>, info: &DebugInfo, open: &Open<'a>, id: TypeId, depth: usize) -> String {
    let mut types = Vec::new();
    let mut has_more = false;
    let _ = super::index::children(view, open, id, |die| {
        if die.depth() != 1 {
            return;
        }
        match die.tag() {
            gimli::DW_TAG_formal_parameter if types.len() < MAX_PARAMETERS => {
                types.push(view.reference(id.unit, die, gimli::DW_AT_type));
            }
            gimli::DW_TAG_formal_parameter | gimli::DW_TAG_unspecified_parameters => has_more = true,
            _ => {}
        }
    });
    // Functions that take functions branch, so each level has a smaller budget.
    let mut texts: Vec<String> = types.into_iter().map(|ty| spell(view, info, ty, depth + 12)).collect();
    if has_more {
        texts.push(DOTS.to_owned());
    }
    if texts.is_empty() { "void".to_owned() } else { texts.join(", ") }
}

fn join(name: &str, inner: &str) -> String {
    // A pointer to a function or array is separated by a blank, as is usual.
    match inner.starts_with('(') {
        true => format!("{name} {inner}"),
        false => format!("{name}{inner}"),
    }
}
