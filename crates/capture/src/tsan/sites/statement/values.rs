//! Evaluates expressions: constants, and types of variables, members, elements and casts.

use super::{Candidate, Look, MAX_DEPTH, Sort, Ty};
use crate::tsan::sites::text::{closing, is_identifier};
use quipu_symbols::dwarf::types::{Encoding, Kind, Member, MemberKind};
use quipu_symbols::dwarf::{DebugInfo, Type, TypeId};

impl Look<'_> {
    /// The value of a constant expression of sums and products.
    pub(super) fn constant(&self, words: &[String]) -> Option<u64> {
        let mut at = 0;
        self.sum(words, &mut at, 0)
    }

    fn sum(&self, words: &[String], at: &mut usize, depth: u32) -> Option<u64> {
        let mut total = self.product(words, at, depth)?;
        while words.get(*at).is_some_and(|word| word == "+") {
            *at += 1;
            total = total.checked_add(self.product(words, at, depth)?)?;
        }
        Some(total)
    }

    fn product(&self, words: &[String], at: &mut usize, depth: u32) -> Option<u64> {
        let mut total = self.atom(words, at, depth)?;
        while words.get(*at).is_some_and(|word| word == "*") {
            *at += 1;
            total = total.checked_mul(self.atom(words, at, depth)?)?;
        }
        Some(total)
    }

    fn atom(&self, words: &[String], at: &mut usize, depth: u32) -> Option<u64> {
        let word = words.get(*at)?;
        if depth > MAX_DEPTH {
            return None;
        }
        *at += 1;
        if word == "(" {
            let end = closing(words, *at - 1);
            if self.type_name(words.get(*at..end)?).is_some() {
                *at = end + 1;
                return self.atom(words, at, depth + 1);
            }
            let total = self.sum(words, at, depth + 1)?;
            *at = end + 1;
            return Some(total);
        }
        if word == "sizeof" && words.get(*at).is_some_and(|word| word == "(") {
            let end = closing(words, *at);
            let inner = words.get(*at + 1..end)?;
            *at = end + 1;
            let ty = self.type_name(inner).or_else(|| self.value(inner))?;
            return self.candidate(ty).map(|found| found.size);
        }
        let digits = word.trim_end_matches(['u', 'U', 'l', 'L']);
        match digits.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => digits.parse().ok(),
        }
    }

    /// The type named by words; `None` if they are not a type.
    pub(super) fn type_name(&self, words: &[String]) -> Option<Ty> {
        let n_stars = words.iter().rev().take_while(|word| matches!(word.as_str(), "*" | "const" | "&"));
        let n_stars = n_stars.count();
        let (name, stars) = words.split_at(words.len() - n_stars);
        let stars = stars.iter().filter(|word| *word == "*").count() as u32;
        let skipped = ["const", "volatile", "restrict", "static", "register", "typename", "constexpr"];
        let name: Vec<&str> =
            name.iter().map(String::as_str).filter(|word| !skipped.contains(word)).collect();
        let is_name = |word: &&str| is_identifier(word) || matches!(*word, "::" | "<" | ">" | "," | "*");
        let first = *name.first()?;
        if !is_identifier(first) || !name.iter().all(|word| is_name(word) || word.parse::<u64>().is_ok()) {
            return None;
        }
        if name == ["void"] {
            return Some(Ty { id: None, stars });
        }
        if name == ["auto"] || name.len() == 1 && self.variable(first).is_some() {
            return None;
        }
        if !name.contains(&"<") && name.contains(&"*") {
            return None;
        }
        let mut text = String::new();
        for word in &name {
            let joins = text.ends_with(|c: char| c.is_alphanumeric() || c == '_') && is_identifier(word);
            text.push_str(if joins { " " } else { "" });
            text.push_str(word);
        }
        let found = self.info.find(&text);
        let argument = || match &self.frame.arguments[..] {
            [only] if name.len() == 1 && n_stars > 0 => Some(*only),
            _ => None,
        };
        found.or_else(argument).map(|id| Ty { id: Some(id), stars })
    }

    pub(super) fn variable(&self, name: &str) -> Option<Ty> {
        let line = self.frame.place.as_ref().map_or(u64::MAX, |place| place.line);
        let same = self.frame.variables.iter().filter(|variable| variable.name == name);
        let nearest = same.max_by_key(|variable| variable.line.filter(|at| *at <= line).unwrap_or(0));
        if let Some(variable) = nearest {
            return Some(Ty { id: Some(variable.ty?), stars: 0 });
        }
        let globals = &self.info.variables().globals;
        let is_same = |known: &str| known == name || known.rsplit("::").next() == Some(name);
        let global = globals.iter().find(|global| is_same(&global.name))?;
        Some(Ty { id: Some(global.ty?), stars: 0 })
    }

    /// The type of an expression with variables, members, elements and casts.
    pub(super) fn value(&self, words: &[String]) -> Option<Ty> {
        let mut at = 0;
        self.prefixed(words, &mut at, 0)
    }

    fn prefixed(&self, words: &[String], at: &mut usize, depth: u32) -> Option<Ty> {
        if depth > MAX_DEPTH {
            return None;
        }
        let word = words.get(*at)?;
        match word.as_str() {
            "*" => {
                *at += 1;
                self.prefixed(words, at, depth + 1).and_then(|ty| self.pointee(ty))
            }
            "&" => {
                *at += 1;
                let ty = self.prefixed(words, at, depth + 1)?;
                Some(Ty { stars: ty.stars + 1, ..ty })
            }
            "++" | "--" => {
                *at += 1;
                self.prefixed(words, at, depth + 1)
            }
            "(" => {
                let end = closing(words, *at);
                let inner = words.get(*at + 1..end)?;
                *at = end + 1;
                if let Some(ty) = self.type_name(inner) {
                    let _ = self.prefixed(words, at, depth + 1);
                    return Some(ty);
                }
                let mut within = 0;
                let ty = self.prefixed(inner, &mut within, depth + 1)?;
                self.suffixed(words, at, ty)
            }
            name if is_identifier(name) => {
                let ty = self.variable(name)?;
                *at += 1;
                self.suffixed(words, at, ty)
            }
            _ => None,
        }
    }

    fn suffixed(&self, words: &[String], at: &mut usize, mut ty: Ty) -> Option<Ty> {
        while let Some(word) = words.get(*at) {
            match word.as_str() {
                "->" | "." => {
                    let holder = if word == "->" { self.pointee(ty)? } else { ty };
                    ty = self.member(holder, words.get(*at + 1)?, 0)?;
                    *at += 2;
                }
                "[" => {
                    ty = self.pointee(ty)?;
                    *at = closing(words, *at) + 1;
                }
                "++" | "--" => *at += 1,
                "(" => return None,
                _ => break,
            }
        }
        Some(ty)
    }

    fn member(&self, ty: Ty, name: &str, depth: u32) -> Option<Ty> {
        if ty.stars > 0 || depth > MAX_DEPTH {
            return None;
        }
        let found = self.read(ty)?;
        for member in &found.members {
            if member.name.as_deref() == Some(name) {
                return Some(Ty { id: Some(member.ty?), stars: 0 });
            }
            let is_inner = member.name.is_none() || member.kind == MemberKind::Base;
            if let Some(inner) = member.ty.filter(|_| is_inner)
                && let Some(found) = self.member(Ty { id: Some(inner), stars: 0 }, name, depth + 1)
            {
                return Some(found);
            }
        }
        None
    }

    fn read(&self, ty: Ty) -> Option<Type> {
        self.info.read(self.info.behind_names(ty.id?)).ok()
    }

    /// The type that a pointer points to, or that of an array's elements.
    pub(super) fn pointee(&self, ty: Ty) -> Option<Ty> {
        if let Some(stars) = ty.stars.checked_sub(1) {
            return Some(Ty { stars, ..ty });
        }
        match self.read(ty)?.kind {
            Kind::Pointer(id) => Some(Ty { id, stars: 0 }),
            Kind::Array { element, .. } => Some(Ty { id: Some(element?), stars: 0 }),
            _ => None,
        }
    }

    /// A type as a candidate for an allocation.
    pub(super) fn candidate(&self, ty: Ty) -> Option<Candidate> {
        let id = ty.id;
        if ty.stars > 0 {
            let text = id.map_or_else(|| "void".to_owned(), |id| self.info.text_of(id));
            return Some(Candidate {
                name: pointer(&text, ty.stars as usize + 1),
                size: 8,
                least: 8,
                sort: Sort::Pointer,
                members: Vec::new(),
            });
        }
        candidate_of(self.info, id?)
    }
}

/// A type as a candidate for an allocation; `None` for `void` and types without a size.
pub(in super::super) fn candidate_of(info: &DebugInfo, id: TypeId) -> Option<Candidate> {
    // For nested arrays, use the innermost element type.
    let inner = info.behind_arrays(id);
    let found = info.read(inner).ok()?;
    let size = info.size_of(found.id).filter(|size| *size > 0)?;
    let named = if info.behind_names(id) == inner { id } else { inner };
    let short = if found.name.is_some() { found.path.clone() } else { alias_of(info, named, &found) };
    let (sort, name) = match &found.kind {
        Kind::Struct => (Sort::Record, format!("struct.{short}")),
        Kind::Class => (Sort::Record, format!("class.{short}")),
        Kind::Union => (Sort::Record, format!("union.{short}")),
        Kind::Variants => (Sort::Record, short),
        Kind::Base(Encoding::Char) => (Sort::Bytes, info.text_of(inner)),
        Kind::Base(_) if size == 1 => (Sort::Bytes, info.text_of(inner)),
        Kind::Base(_) | Kind::Enum(_) => (Sort::Number, info.text_of(inner)),
        Kind::Pointer(_) => (Sort::Pointer, pointer(&info.text_of(inner), 1)),
        _ => return None,
    };
    let members = found.members.iter().map(|member| (member.name.clone(), member.bit_offset)).collect();
    // Free memory is kept in linked lists whose nodes have no other members; such a node does not show the purpose of the
    // memory.
    if let [link] = &found.members[..]
        && let Some(Kind::Pointer(Some(to))) =
            link.ty.and_then(|ty| info.read(info.behind_names(ty)).ok()).map(|ty| ty.kind)
        && info.read(info.behind_names(to)).is_ok_and(|to| to.id == found.id)
    {
        return None;
    }
    let last = found.members.last().filter(|_| !matches!(found.kind, Kind::Union));
    let is_array = |member: &&Member| {
        let kind = member.ty.and_then(|ty| info.read(info.behind_names(ty)).ok()).map(|ty| ty.kind);
        matches!(kind, Some(Kind::Array { .. }))
    };
    let open = last.filter(is_array).and_then(Member::offset).filter(|offset| *offset > 0);
    Some(Candidate { name, size, least: open.unwrap_or(size), sort, members })
}

/// Name of a region of pointers: one more level than the pointers themselves, since a region's name stands for its pointee.
fn pointer(text: &str, n_stars: usize) -> String {
    let name = text.trim_end_matches(['*', ' ']);
    format!("{name}{}", "*".repeat(text.matches('*').count() + n_stars))
}

/// Name of an unnamed type: the typedef by which it was requested.
fn alias_of(info: &DebugInfo, id: TypeId, found: &Type) -> String {
    match info.read(id) {
        Ok(named) if matches!(named.kind, Kind::Typedef(_)) => named.path,
        _ => info.shown_name(found),
    }
}
