//! Types that a script declares, with the layout of 64-bit machines.

use super::tokens::Token;
use crate::types::{Kind, Member, Type};
use rustc_hash::FxHashMap;

/// Maximum nesting depth of structures and typedefs.
const MAX_DEPTH: usize = 16;

/// Maximum size of a type in bytes.
const MAX_SIZE: u64 = 16 << 20;

/// Size of a pointer in bytes.
const POINTER: u64 = 8;

/// The types that a script declares.
#[derive(Debug, Default)]
pub(super) struct Declared {
    types: FxHashMap<String, Type>,
    /// Alignment of each type in bytes, by id.
    alignments: FxHashMap<String, u64>,
    /// Number of types without a name of their own.
    n_nameless: usize,
}

/// Arithmetic types of C, as they are usually spelled.
const WORDS: [&str; 14] = [
    "char",
    "unsigned char",
    "short",
    "unsigned short",
    "int",
    "unsigned int",
    "long",
    "unsigned long",
    "long long",
    "unsigned long long",
    "float",
    "double",
    "long double",
    "void",
];

/// Typedefs that every script knows: name, size in bytes, whether it is signed.
const NUMBERS: [(&str, u64, bool); 35] = [
    ("int8_t", 1, true),
    ("int16_t", 2, true),
    ("int32_t", 4, true),
    ("int64_t", 8, true),
    ("intptr_t", 8, true),
    ("ssize_t", 8, true),
    ("ptrdiff_t", 8, true),
    ("off_t", 8, true),
    ("time_t", 8, true),
    ("pid_t", 4, true),
    ("uint8_t", 1, false),
    ("uint16_t", 2, false),
    ("uint32_t", 4, false),
    ("uint64_t", 8, false),
    ("uintptr_t", 8, false),
    ("size_t", 8, false),
    ("uid_t", 4, false),
    ("gid_t", 4, false),
    ("u8", 1, false),
    ("u16", 2, false),
    ("u32", 4, false),
    ("u64", 8, false),
    ("s8", 1, true),
    ("s16", 2, true),
    ("s32", 4, true),
    ("s64", 8, true),
    ("__u8", 1, false),
    ("__u16", 2, false),
    ("__u32", 4, false),
    ("__u64", 8, false),
    ("__s8", 1, true),
    ("__s16", 2, true),
    ("__s32", 4, true),
    ("__s64", 8, true),
    ("bool", 1, false),
];

impl Declared {
    pub(super) fn of(tokens: &[Token]) -> Declared {
        let mut declared = Declared::default();
        for (name, size, signed) in NUMBERS {
            declared.add(name, name, (size, size), Kind::Int { signed, char: false });
        }
        for words in WORDS {
            let words: Vec<&str> = words.split(' ').collect();
            if let Some((name, size, kind)) = number(&words) {
                declared.add(&name, &name, (size, size), kind);
            }
        }
        let mut rest = tokens;
        while let Some((first, after)) = rest.split_first() {
            rest = match first {
                Token::Word(word) if word == "typedef" => declared.typedef(after),
                // A structure with its members, or only its name.
                Token::Word(word) if is_tagged(word) => {
                    declared.base(rest, 0).map_or(after, |(_, rest)| rest)
                }
                _ => after,
            };
        }
        declared
    }

    /// The types that `all` refer to, directly or through other types.
    pub(super) fn parts_of(mut self, all: &[Type]) -> Vec<Type> {
        let mut found: Vec<Type> = Vec::new();
        let parts = |ty: &Type| ty.parts().map(str::to_owned).collect::<Vec<_>>();
        let mut wanted: Vec<String> = all.iter().flat_map(parts).collect();
        while let Some(id) = wanted.pop() {
            if let Some(ty) = self.types.remove(&id) {
                wanted.extend(parts(&ty));
                found.push(ty);
            }
        }
        found
    }

    /// The type that the tokens name, if they are nothing but its name: `unsigned char`, `struct s`, `t *`.
    pub(super) fn named(&self, tokens: &[Token]) -> Option<&Type> {
        let words: Vec<&str> = tokens
            .iter()
            .map(|token| match token {
                Token::Word(word) => Some(word.as_str()),
                _ => None,
            })
            .collect::<Option<_>>()?;
        let words: Vec<&str> = words.into_iter().filter(|word| !is_qualifier(word)).collect();
        match words.as_slice() {
            [tag, name] if is_tagged(tag) => self.types.get(&id(&format!("{tag} {name}"))),
            [name] if self.types.contains_key(&id(name)) => self.types.get(&id(name)),
            words => {
                let (name, ..) = number(words)?;
                self.types.get(&id(&name))
            }
        }
    }

    /// The type that a typedef stands for, through further typedefs; other types are returned as they are.
    pub(super) fn resolved<'d>(&'d self, ty: &'d Type) -> &'d Type {
        let mut ty = ty;
        for _ in 0..MAX_DEPTH {
            match &ty.kind {
                Kind::Typedef { to } => match self.types.get(to) {
                    Some(next) => ty = next,
                    None => break,
                },
                _ => break,
            }
        }
        ty
    }

    fn add(&mut self, key: &str, name: &str, (size, alignment): (u64, u64), kind: Kind) -> String {
        let id = id(key);
        self.alignments.insert(id.clone(), alignment.max(1));
        let ty = Type { id: id.clone(), name: name.to_owned(), size, kind };
        self.types.insert(id.clone(), ty);
        id
    }

    fn nameless(&mut self) -> String {
        self.n_nameless += 1;
        format!("nameless {}", self.n_nameless)
    }

    /// Reads the rest of a `typedef` and returns the tokens after it.
    fn typedef<'t>(&mut self, tokens: &'t [Token]) -> &'t [Token] {
        let Some((base, rest)) = self.base(tokens, 0) else { return tokens };
        let Some((name, ty, _, rest)) = self.declarator(&base, rest) else { return rest };
        let (size, alignment) = self.extent(&ty);
        // A typedef that names itself has no effect.
        if !name.is_empty() && id(&name) != ty {
            self.add(&name, &name, (size, alignment), Kind::Typedef { to: ty });
        }
        rest
    }

    fn extent(&self, id: &str) -> (u64, u64) {
        let size = self.types.get(id).map_or(0, |ty| ty.size);
        (size, self.alignments.get(id).copied().unwrap_or(1))
    }

    /// Reads the type before declarators; returns its id and the tokens after it.
    fn base<'t>(&mut self, tokens: &'t [Token], depth: usize) -> Option<(String, &'t [Token])> {
        let mut rest = tokens;
        while let [Token::Word(word), after @ ..] = rest
            && is_qualifier(word)
        {
            rest = after;
        }
        let [Token::Word(first), after @ ..] = rest else { return None };
        if is_tagged(first) {
            let (name, after) = match after {
                [Token::Word(name), after @ ..] => (format!("{first} {name}"), after),
                _ => (first.clone(), after),
            };
            let key = if name == *first { self.nameless() } else { name.clone() };
            return match after {
                [Token::Sign(b'{'), _, ..] if depth >= MAX_DEPTH => None,
                [Token::Sign(b'{'), body @ ..] if first == "enum" => {
                    let (values, rest) = values(body)?;
                    Some((self.add(&key, &name, (4, 4), Kind::Enum { values }), rest))
                }
                [Token::Sign(b'{'), body @ ..] => self.members(first, (&key, &name), body, depth + 1),
                rest => Some((id(&name), rest)),
            };
        }
        let n_words = rest.iter().take_while(|token| matches!(token, Token::Word(word) if is_number(word)));
        let words: Vec<&str> = n_words
            .filter_map(|token| match token {
                Token::Word(word) => Some(word.as_str()),
                _ => None,
            })
            .collect();
        if words.is_empty() {
            return self.types.contains_key(&id(first)).then(|| (id(first), after));
        }
        let (name, size, kind) = number(&words)?;
        let after = &rest[words.len()..];
        Some((self.add(&name, &name, (size, size), kind), after))
    }

    /// Reads members up to the closing bracket, and adds the type.
    fn members<'t>(
        &mut self,
        tag: &str,
        (key, name): (&str, &str),
        body: &'t [Token],
        depth: usize,
    ) -> Option<(String, &'t [Token])> {
        let is_union = tag == "union";
        let (mut members, mut alignment, mut end) = (Vec::new(), 1, 0_u64);
        let mut rest = body;
        while rest.first() != Some(&Token::Sign(b'}')) {
            let (base, mut after) = self.base(rest, depth)?;
            loop {
                let (name, ty, bits, next) = self.declarator(&base, after)?;
                let (size, of_type) = self.extent(&ty);
                alignment = alignment.max(of_type);
                let unit = size.max(1) * 8;
                let start = if is_union { 0 } else { end };
                let bit = match bits {
                    Some(0) => start.next_multiple_of(unit),
                    // A bit-field does not cross a boundary of its declared type.
                    Some(bits) if start % unit + u64::from(bits) <= unit => start,
                    _ => start.next_multiple_of(of_type * 8),
                };
                let n_bits = bits.map_or(size * 8, u64::from);
                end = if is_union { end.max(n_bits) } else { bit + n_bits };
                if end > MAX_SIZE * 8 {
                    return None;
                }
                if bits != Some(0) {
                    members.push(Member { name, ty, bit, bits });
                }
                match next {
                    [Token::Sign(b','), more @ ..] => after = more,
                    [Token::Sign(b';'), more @ ..] => {
                        rest = more;
                        break;
                    }
                    _ => return None,
                }
            }
        }
        let size = end.div_ceil(8).next_multiple_of(alignment);
        let kind = if is_union { Kind::Union { members } } else { Kind::Struct { members } };
        Some((self.add(key, name, (size, alignment), kind), &rest[1..]))
    }

    /// Reads a declarator; returns its name, its type, the width of a bit-field, and the tokens after it.
    fn declarator<'t>(
        &mut self,
        base: &str,
        tokens: &'t [Token],
    ) -> Option<(String, String, Option<u32>, &'t [Token])> {
        let (mut ty, mut rest) = (base.to_owned(), tokens);
        loop {
            match rest {
                [Token::Sign(b'*'), after @ ..] => (ty, rest) = (self.pointer(&ty), after),
                [Token::Word(word), after @ ..] if is_qualifier(word) => rest = after,
                _ => break,
            }
        }
        if let [
            Token::Sign(b'('),
            Token::Sign(b'*'),
            Token::Word(name),
            Token::Sign(b')'),
            Token::Sign(b'('),
            args @ ..,
        ] = rest
        {
            let end = super::closing(args)?;
            let shown = format!("{} (*)()", self.shown(&ty));
            let kind = Kind::Pointer { function: true };
            let ty = self.add(&shown, &shown, (POINTER, POINTER), kind);
            return Some((name.clone(), ty, None, &args[end + 1..]));
        }
        let mut name = String::new();
        if let [Token::Word(word), after @ ..] = rest {
            (name, rest) = (word.clone(), after);
        }
        if let [Token::Sign(b':'), Token::Number(bits), after @ ..] = rest {
            let bits = bits.parse::<u32>().ok().filter(|bits| *bits <= 64)?;
            return Some((name, ty, Some(bits), after));
        }
        let mut counts = Vec::new();
        while let [Token::Sign(b'['), Token::Number(count), Token::Sign(b']'), after @ ..] = rest {
            counts.push(count.parse::<u64>().ok()?);
            rest = after;
        }
        for count in counts.into_iter().rev() {
            ty = self.array(&ty, count)?;
        }
        Some((name, ty, None, rest))
    }

    fn shown(&self, id: &str) -> String {
        self.types.get(id).map_or_else(|| id.trim_start_matches(PREFIX).to_owned(), |ty| ty.name.clone())
    }

    fn pointer(&mut self, to: &str) -> String {
        let of = self.shown(to);
        let name = if of.ends_with('*') { format!("{of}*") } else { format!("{of} *") };
        self.add(&name, &name, (POINTER, POINTER), Kind::Pointer { function: false })
    }

    fn array(&mut self, of: &str, count: u64) -> Option<String> {
        let (size, alignment) = self.extent(of);
        let size = size.checked_mul(count).filter(|size| *size <= MAX_SIZE)?;
        let shown = self.shown(of);
        let name = match shown.split_once(" [") {
            Some((element, counts)) => format!("{element} [{count}][{counts}"),
            None => format!("{shown} [{count}]"),
        };
        let key = format!("{of} [{count}]");
        Some(self.add(&key, &name, (size, alignment), Kind::Array { of: of.to_owned(), count }))
    }
}

/// Prefix of the ids of types that scripts declare.
const PREFIX: &str = "script`";

fn id(name: &str) -> String {
    format!("{PREFIX}{name}")
}

fn is_tagged(word: &str) -> bool {
    matches!(word, "struct" | "union" | "enum")
}

fn is_qualifier(word: &str) -> bool {
    matches!(word, "const" | "volatile" | "restrict" | "static" | "extern" | "register" | "userland")
}

/// Whether a word is one of those that declare an arithmetic type or `void`.
fn is_number(word: &str) -> bool {
    matches!(
        word,
        "signed" | "unsigned" | "char" | "short" | "int" | "long" | "float" | "double" | "void" | "_Bool"
    )
}

/// Name, size in bytes and kind of the type that such words declare.
fn number(words: &[&str]) -> Option<(String, u64, Kind)> {
    if words.is_empty() || !words.iter().all(|word| is_number(word)) {
        return None;
    }
    let n = |wanted: &str| words.iter().filter(|word| **word == wanted).count();
    let signed = n("unsigned") == 0;
    let before = if signed { "" } else { "unsigned " };
    let int = |name: &str, size| {
        let char = name == "char";
        Some((format!("{before}{name}"), size, Kind::Int { signed, char }))
    };
    match () {
        () if n("double") > 0 && n("long") > 0 => Some(("long double".to_owned(), 16, Kind::Float)),
        () if n("double") > 0 => Some(("double".to_owned(), 8, Kind::Float)),
        () if n("float") > 0 => Some(("float".to_owned(), 4, Kind::Float)),
        () if n("void") > 0 => Some(("void".to_owned(), 0, Kind::Struct { members: Vec::new() })),
        () if n("_Bool") > 0 => Some(("_Bool".to_owned(), 1, Kind::Int { signed: false, char: false })),
        () if n("char") > 0 => int("char", 1),
        () if n("short") > 0 => int("short", 2),
        () if n("long") > 1 => int("long long", 8),
        () if n("long") > 0 => int("long", 8),
        () => int("int", 4),
    }
}

/// Names of an enumeration with their values.
type Values = Vec<(String, i64)>;

/// Reads the names of an enumeration up to the closing bracket; returns them and the tokens after it.
fn values(body: &[Token]) -> Option<(Values, &[Token])> {
    let (mut all, mut next, mut rest) = (Vec::new(), 0_i64, body);
    loop {
        rest = match rest {
            [Token::Sign(b'}'), after @ ..] => return Some((all, after)),
            [Token::Sign(b','), after @ ..] => after,
            [Token::Word(name), Token::Sign(b'='), Token::Sign(b'-'), Token::Number(number), after @ ..] => {
                next = -number.parse::<i64>().ok()?;
                all.push((name.clone(), next));
                next = next.wrapping_add(1);
                after
            }
            [Token::Word(name), Token::Sign(b'='), Token::Number(number), after @ ..] => {
                next = number.parse::<i64>().ok()?;
                all.push((name.clone(), next));
                next = next.wrapping_add(1);
                after
            }
            [Token::Word(name), after @ ..] => {
                all.push((name.clone(), next));
                next = next.wrapping_add(1);
                after
            }
            _ => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::tokens;

    /// The types of a script.
    fn declared(text: &str) -> Declared {
        Declared::of(&tokens::of(text.as_bytes()))
    }

    #[test]
    fn members_are_placed_as_64_bit_machines_place_them() {
        let text = "struct in { int a; char b[8]; };\n\
            struct my { char c; short s; int i; long l; unsigned long long u; char str[8]; int arr[3]; struct in n; \
            struct in na[2]; void *p; };\n\
            struct bits { unsigned a:3; unsigned b:30; char c:1, d:1; unsigned :0; int (*f)(int); char g[2][3]; \
            union { long l; char c; } u; enum e { A, B = 5, C } e; } ;\n\
            typedef const struct my *my_p;";
        let declared = declared(text);
        let ty =
            |name: &str| declared.named(&tokens::of(name.as_bytes())).unwrap_or_else(|| panic!("{name}"));
        assert_eq!((ty("struct in").size, ty("struct my").size, ty("my_p").size), (12, 88, 8));
        let members = |name: &str| match &ty(name).kind {
            Kind::Struct { members } => members
                .iter()
                .map(|member| (member.name.clone(), member.bit, member.bits, declared.shown(&member.ty)))
                .collect::<Vec<_>>(),
            kind => panic!("{kind:?}"),
        };
        let bytes: Vec<u64> = members("struct my").iter().map(|member| member.1 / 8).collect();
        assert_eq!(bytes, [0, 2, 4, 8, 16, 24, 32, 44, 56, 80]);
        let text = |(name, bit, bits, ty): &(String, u64, Option<u32>, String)| {
            let bits = bits.map_or_else(String::new, |bits| format!(":{bits}"));
            format!("{ty} {name}{bits} at {bit}")
        };
        let found: Vec<String> = members("struct bits").iter().map(text).collect();
        let expected = [
            "unsigned int a:3 at 0",
            "unsigned int b:30 at 32",
            "char c:1 at 62",
            "char d:1 at 63",
            "int (*)() f at 64",
            "char [2][3] g at 128",
            "union u at 192",
            "enum e e at 256",
        ];
        assert_eq!(found, expected);
        let Kind::Enum { values } = &ty("enum e").kind else { panic!() };
        assert_eq!(values[..], [("A".to_owned(), 0), ("B".to_owned(), 5), ("C".to_owned(), 6)]);
    }
}
