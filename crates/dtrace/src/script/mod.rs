//! Signs and types of values, from the script beside a capture of Linux.
//!
//! The consumer of Linux uses the types of its script to decide whether `%d` shows a sign and what `print()` shows, but its
//! records do not have them. If the script itself is beside the capture, they are taken from it: from casts of `printf()`
//! arguments and numbers among them, and from the declared types of the pointers that `print()` takes. They are used where
//! their sizes agree with those of the records; where the script does not say a type, none is guessed.
//!
//! SPEC: dtrace.md#captures

mod declared;
mod tokens;

use crate::action::Action;
use crate::describe::Capture;
use crate::types::{Kind, Type, Types};
use declared::Declared;
use std::collections::BTreeMap;
use tokens::Token;

/// Name of the script beside a capture.
pub const FILE: &str = "script.d";

/// Maximum size of a script in bytes; longer ones are ignored.
pub const MAX_BYTES: u64 = 1 << 20;

/// Adds signs and types from the script to the capture that it made.
pub fn apply(capture: &mut Capture, text: &[u8]) {
    if text.len() as u64 > MAX_BYTES {
        return;
    }
    let tokens = tokens::of(text);
    let declared = Declared::of(&tokens);
    signs(capture, &tokens, &declared);
    types(capture, &tokens, declared);
}

/// Size in bytes, if known, and whether the value is signed.
type Sign = (Option<u64>, bool);

/// Sets signs of `printf()` arguments, by format; where statements with the same format differ in an argument, its sign
/// stays unknown.
fn signs(capture: &mut Capture, tokens: &[Token], declared: &Declared) {
    let mut by_format: BTreeMap<Vec<u8>, Vec<Option<Sign>>> = BTreeMap::new();
    for args in calls(tokens, "printf") {
        let Some((format, args)) = args.split_first() else { continue };
        let Some(format) = text(format) else { continue };
        let found: Vec<Option<Sign>> = args.iter().map(|arg| sign(arg, declared)).collect();
        by_format
            .entry(format)
            .and_modify(|known| {
                let is_same = known.len() == found.len();
                let both = known.iter().zip(&found).map(|(a, b)| a.filter(|_| is_same && a == b));
                *known = both.collect();
            })
            .or_insert(found);
    }
    let formats = capture.formats.clone();
    for enabling in &mut capture.enablings {
        let recs = &mut enabling.recs;
        for at in 0..recs.len() {
            let format =
                usize::from(recs[at].format).checked_sub(1).and_then(|position| formats.get(position));
            let known = format.filter(|_| recs[at].action == Action::Printf);
            let Some(known) = known.and_then(|format| by_format.get(&**format)) else { continue };
            for (rec, known) in recs[at..].iter_mut().zip(known) {
                let Some((size, signed)) = known.filter(|_| rec.action == Action::Printf) else { continue };
                if rec.signed.is_none() && size.is_none_or(|size| size == u64::from(rec.size)) {
                    rec.signed = Some(signed);
                }
            }
        }
    }
}

/// Adds types for `print()`, matched to records by size, if only one type has that size.
fn types(capture: &mut Capture, tokens: &[Token], declared: Declared) {
    let mut by_size: BTreeMap<u64, Vec<&Type>> = BTreeMap::new();
    for args in calls(tokens, "print") {
        let [arg] = &args[..] else { continue };
        // A value whose type is unknown may have any size.
        let Some(ty) = pointed(arg, tokens, &declared) else { return };
        let known = by_size.entry(ty.size).or_default();
        if !known.iter().any(|other| other.id == ty.id) {
            known.push(ty);
        }
    }
    let mut shown: Vec<Type> = Vec::new();
    for recs in capture.enablings.iter().map(|enabling| &enabling.recs) {
        for pair in recs.windows(2) {
            let is_value = pair[0].action == Action::Print && pair[1].action == Action::Print;
            let id = pair[0].arg.to_string();
            let known = by_size.get(&u64::from(pair[1].size)).filter(|_| is_value);
            if let Some([ty]) = known.map(Vec::as_slice)
                && pair[0].arg != 0
                && capture.types.get(&id).is_none()
            {
                shown.push(Type { id, ..(*ty).clone() });
            }
        }
    }
    if shown.is_empty() {
        return;
    }
    let parts = declared.parts_of(&shown);
    let known = capture.types.sorted().into_iter().cloned();
    // Types that the capture describes take precedence.
    let all: Vec<Type> = shown.into_iter().chain(parts).chain(known).collect();
    capture.types = Types::new(all);
}

/// Arguments of each call of a routine.
fn calls<'t>(tokens: &'t [Token], name: &str) -> Vec<Vec<&'t [Token]>> {
    let mut all = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        let [Token::Word(word), Token::Sign(b'(')] = pair else { continue };
        if word != name {
            continue;
        }
        let args = &tokens[at + 2..];
        let Some(end) = closing(args) else { continue };
        let mut list = Vec::new();
        let (mut start, mut depth) = (0, 0);
        for (position, token) in args[..end].iter().enumerate() {
            match token {
                Token::Sign(b'(' | b'[') => depth += 1,
                Token::Sign(b')' | b']') => depth -= 1,
                Token::Sign(b',') if depth == 0 => {
                    list.push(&args[start..position]);
                    start = position + 1;
                }
                _ => {}
            }
        }
        list.push(&args[start..end]);
        all.push(list);
    }
    all
}

/// Position of the bracket that closes the one opened before these tokens.
fn closing(tokens: &[Token]) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Sign(b'(') => depth += 1,
            Token::Sign(b')') if depth == 0 => return Some(at),
            Token::Sign(b')') => depth -= 1,
            Token::Sign(b';') => return None,
            _ => {}
        }
    }
    None
}

/// A string literal, which may consist of several parts.
fn text(tokens: &[Token]) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    for token in tokens {
        let Token::Text(part) = token else { return None };
        all.extend_from_slice(part);
    }
    Some(all).filter(|_| !tokens.is_empty())
}

/// Size and sign of an argument that has a cast or is a number.
fn sign(arg: &[Token], declared: &Declared) -> Option<Sign> {
    if let [Token::Sign(b'('), rest @ ..] = arg {
        let end = closing(rest)?;
        let ty = declared.named(&rest[..end]).filter(|_| is_operand(&rest[end + 1..]))?;
        return match declared.resolved(ty).kind {
            Kind::Int { signed, .. } => Some((Some(ty.size), signed)),
            _ => None,
        };
    }
    let number = match arg {
        [Token::Number(number)] | [Token::Sign(b'-' | b'+' | b'~'), Token::Number(number)] => number,
        _ => return None,
    };
    let lower = number.to_ascii_lowercase();
    let digits = lower.trim_end_matches(['u', 'l']);
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()?,
        None => digits.parse::<u64>().ok()?,
    };
    Some((None, !lower.contains('u') && i64::try_from(value).is_ok()))
}

/// Whether a cast before these tokens applies to all of them: a number, a name, or an expression in brackets.
fn is_operand(tokens: &[Token]) -> bool {
    match tokens {
        [Token::Sign(b'-' | b'+' | b'~'), rest @ ..] if !matches!(rest.first(), Some(Token::Sign(_))) => {
            is_operand(rest)
        }
        [Token::Sign(b'('), rest @ ..] => closing(rest).is_some_and(|end| end + 1 == rest.len()),
        [Token::Number(_) | Token::Letter] => true,
        path => is_path(path),
    }
}

/// Whether the tokens are a name or a member of a named value: `this->x`, `args[0]`.
fn is_path(tokens: &[Token]) -> bool {
    let is_part = |token: &Token| match token {
        Token::Word(_) | Token::Number(_) => true,
        Token::Sign(sign) => matches!(sign, b'-' | b'>' | b'.' | b'[' | b']' | b'`'),
        _ => false,
    };
    // A minus is allowed only as half of an arrow.
    let is_arrow = |(at, token): (usize, &Token)| {
        *token != Token::Sign(b'-') || tokens.get(at + 1) == Some(&Token::Sign(b'>'))
    };
    matches!(tokens.first(), Some(Token::Word(_)))
        && tokens.iter().all(is_part)
        && tokens.iter().enumerate().all(is_arrow)
}

/// The type that a pointer points to: from its cast, or from the casts in the assignments to it, if they all agree.
fn pointed<'d>(arg: &[Token], tokens: &[Token], declared: &'d Declared) -> Option<&'d Type> {
    let of_cast = |tokens: &[Token]| {
        let [Token::Sign(b'('), rest @ ..] = tokens else { return None };
        let end = closing(rest)?;
        let (last, ty) = rest[..end].split_last()?;
        declared.named(ty).filter(|_| *last == Token::Sign(b'*'))
    };
    if let Some(ty) = of_cast(arg) {
        return Some(ty);
    }
    if !is_path(arg) {
        return None;
    }
    let assigned = (0..tokens.len()).filter_map(|at| {
        let rest = tokens[at..].strip_prefix(arg)?.strip_prefix(&[Token::Sign(b'=')])?;
        (rest.first() != Some(&Token::Sign(b'='))).then(|| of_cast(rest))
    });
    let all: Vec<Option<&Type>> = assigned.collect();
    let first = (*all.first()?)?;
    all.iter().all(|ty| ty.is_some_and(|ty| ty.id == first.id)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(text: &str) -> Vec<Option<Sign>> {
        let tokens = tokens::of(text.as_bytes());
        let declared = Declared::of(&tokens);
        let calls = calls(&tokens, "printf");
        calls[0][1..].iter().map(|arg| sign(arg, &declared)).collect()
    }

    #[test]
    fn casts_and_numbers_say_signs_and_nothing_else_does() {
        let text = r#"typedef unsigned short port_t; BEGIN {
            printf("%d\n", /* a comment, */ (unsigned char)255, (port_t)x, (int64_t)-1, 5, -5, 5u,
            18446744073709551615, arg0, (int)x + y, (int)(x + y), (long)args[0]->f, (struct s *)p, 'a'); }"#;
        let expected = [
            Some((Some(1), false)),
            Some((Some(2), false)),
            Some((Some(8), true)),
            Some((None, true)),
            Some((None, true)),
            Some((None, false)),
            Some((None, false)),
            None,
            None,
            Some((Some(4), true)),
            Some((Some(8), true)),
            None,
            None,
        ];
        assert_eq!(known(text), expected);
    }

    #[test]
    fn a_pointer_leads_to_what_all_its_assignments_say() {
        let text = "struct s { int a; }; struct t { long a; };\n\
            { this->x = (struct s *)alloca(4); this->y = (struct s *)a; this->y = (struct t *)b; self->z = q; }";
        let tokens = tokens::of(text.as_bytes());
        let declared = Declared::of(&tokens);
        let pointed = |arg: &str| {
            let arg = tokens::of(arg.as_bytes());
            pointed(&arg, &tokens, &declared).map(|ty| ty.name.clone())
        };
        assert_eq!(pointed("this->x").as_deref(), Some("struct s"));
        assert_eq!(pointed("(struct t *)arg0").as_deref(), Some("struct t"));
        for arg in ["this->y", "self->z", "this->w", "(struct s)x", "(unknown *)x", ""] {
            assert_eq!(pointed(arg), None, "{arg}");
        }
    }

    #[test]
    fn any_text_is_read_to_its_end() {
        let text = b"struct a { struct b { int x[9999999999][9]; union { char c:3; } u[2]; } *p; int (*f)(int, char); }; \
            enum e { A, B = 7, C }; typedef struct a a_t; printf(\"%d %s\\n\\x41\\101\", (a_t *)x, (enum e)y, \
            /* open";
        for end in 0..text.len() {
            apply(&mut Capture::default(), &text[..end]);
        }
        let nested = [&b"struct a { ".repeat(5000)[..], b"int x;"].concat();
        apply(&mut Capture::default(), &nested);
        apply(&mut Capture::default(), &b"printf((((".repeat(5000));
        // A structure that contains itself: the size of the member is the one known so far.
        apply(
            &mut Capture::default(),
            b"struct a { struct a x; struct a *p; }; typedef t t; print((struct a *)x);",
        );
    }
}
