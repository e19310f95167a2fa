//! Converts Rust type names from debug information into source code.
//!
//! The compiler's names have no lifetimes, contain types that programs cannot name (`alloc::alloc::Global`), and use the
//! modules in which the standard library defines types instead of those that export them.

use std::iter::Peekable;
use std::str::Chars;

/// Maximum nesting of types.
const MAX_DEPTH: usize = 32;

/// Paths at which the standard library defines types, and how to write them.
const OFFERED: &[(&str, &str)] = &[
    ("alloc::borrow::Cow", "std::borrow::Cow"),
    ("alloc::boxed::Box", "Box"),
    ("alloc::collections::binary_heap::BinaryHeap", "std::collections::BinaryHeap"),
    ("alloc::collections::btree::map::BTreeMap", "std::collections::BTreeMap"),
    ("alloc::collections::btree::set::BTreeSet", "std::collections::BTreeSet"),
    ("alloc::collections::linked_list::LinkedList", "std::collections::LinkedList"),
    ("alloc::collections::vec_deque::VecDeque", "std::collections::VecDeque"),
    ("alloc::string::String", "String"),
    ("alloc::vec::Vec", "Vec"),
    ("core::cell::lazy::LazyCell", "core::cell::LazyCell"),
    ("core::cell::once::OnceCell", "core::cell::OnceCell"),
    ("core::marker::Send", "Send"),
    ("core::marker::Sync", "Sync"),
    ("core::marker::Unpin", "Unpin"),
    ("core::mem::manually_drop::ManuallyDrop", "core::mem::ManuallyDrop"),
    ("core::mem::maybe_uninit::MaybeUninit", "core::mem::MaybeUninit"),
    ("core::net::ip_addr::IpAddr", "core::net::IpAddr"),
    ("core::net::ip_addr::Ipv4Addr", "core::net::Ipv4Addr"),
    ("core::net::ip_addr::Ipv6Addr", "core::net::Ipv6Addr"),
    ("core::net::socket_addr::SocketAddr", "core::net::SocketAddr"),
    ("core::num::nonzero::NonZero", "core::num::NonZero"),
    ("core::ops::function::Fn", "Fn"),
    ("core::ops::function::FnMut", "FnMut"),
    ("core::ops::function::FnOnce", "FnOnce"),
    ("core::ops::range::Range", "core::ops::Range"),
    ("core::ops::range::RangeFrom", "core::ops::RangeFrom"),
    ("core::ops::range::RangeInclusive", "core::ops::RangeInclusive"),
    ("core::ops::range::RangeTo", "core::ops::RangeTo"),
    ("core::option::Option", "Option"),
    ("core::ptr::non_null::NonNull", "core::ptr::NonNull"),
    ("core::result::Result", "Result"),
    ("core::task::poll::Poll", "core::task::Poll"),
    ("core::task::wake::Waker", "core::task::Waker"),
    ("std::collections::hash::map::HashMap", "std::collections::HashMap"),
    ("std::collections::hash::set::HashSet", "std::collections::HashSet"),
    ("std::hash::random::DefaultHasher", "std::hash::DefaultHasher"),
    ("std::hash::random::RandomState", "std::hash::RandomState"),
    ("std::sync::lazy_lock::LazyLock", "std::sync::LazyLock"),
    ("std::sync::once_lock::OnceLock", "std::sync::OnceLock"),
    ("std::sync::poison::condvar::Condvar", "std::sync::Condvar"),
    ("std::sync::poison::mutex::Mutex", "std::sync::Mutex"),
    ("std::sync::poison::once::Once", "std::sync::Once"),
    ("std::sync::poison::rwlock::RwLock", "std::sync::RwLock"),
    ("std::thread::join_handle::JoinHandle", "std::thread::JoinHandle"),
];

/// Default arguments, which are left out.
const USUAL: [&str; 2] = ["alloc::alloc::Global", "std::hash::RandomState"];

/// A type as source code; `None` if it cannot be named. Paths in the crate `own` begin with `crate`.
pub(super) fn rust_source(text: &str, own: &str) -> Option<String> {
    let mut reader = Reader { rest: text.chars().peekable(), own, in_function: 0 };
    let ty = reader.ty(0)?;
    reader.blanks();
    reader.rest.next().is_none().then_some(ty)
}

struct Reader<'t> {
    rest: Peekable<Chars<'t>>,
    own: &'t str,
    /// Nesting depth of function types, in which references need no lifetime.
    in_function: usize,
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

impl Reader<'_> {
    fn blanks(&mut self) {
        while self.rest.next_if_eq(&' ').is_some() {}
    }

    /// Consumes a character if it is next.
    fn takes(&mut self, sign: char) -> bool {
        self.blanks();
        self.rest.next_if_eq(&sign).is_some()
    }

    /// Consumes a character that has to be next.
    fn sign(&mut self, sign: char) -> Option<()> {
        self.takes(sign).then_some(())
    }

    fn word(&mut self) -> String {
        self.blanks();
        let mut word = String::new();
        while let Some(c) = self.rest.next_if(|c| is_word(*c)) {
            word.push(c);
        }
        word
    }

    /// Consumes a word if it is next.
    fn takes_word(&mut self, word: &str) -> bool {
        let mut ahead = self.rest.clone();
        while ahead.next_if_eq(&' ').is_some() {}
        if !word.chars().all(|c| ahead.next() == Some(c)) || ahead.peek().is_some_and(|c| is_word(*c)) {
            return false;
        }
        self.rest = ahead;
        true
    }

    fn ty(&mut self, depth: usize) -> Option<String> {
        if depth > MAX_DEPTH {
            return None;
        }
        let depth = depth + 1;
        self.blanks();
        let first = self.rest.peek().copied()?;
        match first {
            '&' => {
                self.rest.next();
                let lifetime = if self.in_function == 0 { "'static " } else { "" };
                let sign = if self.takes_word("mut") { "mut " } else { "" };
                Some(format!("&{lifetime}{sign}{}", self.ty(depth)?))
            }
            '*' => {
                self.rest.next();
                let is_mut = self.takes_word("mut");
                if !is_mut && !self.takes_word("const") {
                    return None;
                }
                Some(format!("*{} {}", if is_mut { "mut" } else { "const" }, self.ty(depth)?))
            }
            '[' => {
                self.rest.next();
                let of = self.ty(depth)?;
                let n = if self.takes(';') { format!("; {}", self.word()) } else { String::new() };
                self.sign(']')?;
                Some(format!("[{of}{n}]"))
            }
            '(' => {
                self.rest.next();
                let parts = self.list(')', depth)?;
                Some(match &parts[..] {
                    // A pointee with several bounds is in parentheses.
                    [one] if one.starts_with("dyn ") => format!("({one})"),
                    [one] => format!("({one},)"),
                    all => format!("({})", all.join(", ")),
                })
            }
            '!' => {
                self.rest.next();
                Some("!".to_owned())
            }
            _ if self.takes_word("dyn") => {
                let mut bounds = vec![self.path(depth)?];
                while self.takes('+') {
                    bounds.push(self.path(depth)?);
                }
                Some(format!("dyn {}", bounds.join(" + ")))
            }
            _ => match self.function(depth) {
                Some(function) => function,
                None => self.path(depth),
            },
        }
    }

    /// A function pointer: the outer `None` if there is none, the inner if it cannot be named.
    fn function(&mut self, depth: usize) -> Option<Option<String>> {
        let start = self.rest.clone();
        let mut front = String::new();
        if self.takes_word("unsafe") {
            front.push_str("unsafe ");
        }
        if self.takes_word("extern") {
            front.push_str("extern ");
            if self.takes('"') {
                let mut abi = String::new();
                while let Some(c) = self.rest.next_if(|c| *c != '"') {
                    abi.push(c);
                }
                self.rest.next();
                front.push_str(&format!("\"{abi}\" "));
            }
        }
        if !self.takes_word("fn") {
            self.rest = start;
            return None;
        }
        Some(self.signature(depth).map(|signature| format!("{front}fn{signature}")))
    }

    /// The part after `fn`.
    fn signature(&mut self, depth: usize) -> Option<String> {
        self.in_function += 1;
        self.sign('(')?;
        let parameters = self.list(')', depth)?;
        let result = if self.takes('-') {
            self.sign('>')?;
            format!(" -> {}", self.ty(depth)?)
        } else {
            String::new()
        };
        self.in_function -= 1;
        // If no parameter has a lifetime, the result has none to borrow from.
        let result = if parameters.iter().any(|of| of.contains('&')) {
            result
        } else {
            result.replace('&', "&'static ")
        };
        Some(format!("({}){result}", parameters.join(", ")))
    }

    /// Types up to the character `end`.
    fn list(&mut self, end: char, depth: usize) -> Option<Vec<String>> {
        let mut all = Vec::new();
        while !self.takes(end) {
            all.push(self.ty(depth)?);
            if !self.takes(',') {
                self.sign(end)?;
                break;
            }
        }
        Some(all)
    }

    fn path(&mut self, depth: usize) -> Option<String> {
        let (mut path, mut arguments) = (String::new(), Vec::new());
        loop {
            let word = self.word();
            if word.is_empty() {
                // A name such as `{closure#0}`.
                return None;
            }
            path.push_str(&word);
            if self.takes('<') {
                arguments = self.arguments(depth)?;
            }
            if !self.takes(':') {
                break;
            }
            self.sign(':')?;
            if !arguments.is_empty() {
                return None;
            }
            path.push_str("::");
        }
        Some(self.written(&path, arguments))
    }

    /// Generic arguments of a type; associated types have names.
    fn arguments(&mut self, depth: usize) -> Option<Vec<String>> {
        let mut all = Vec::new();
        while !self.takes('>') {
            let mut ahead = self.rest.clone();
            while ahead.next_if(|c| is_word(*c) || *c == ' ').is_some() {}
            let name = if ahead.next() == Some('=') {
                let name = self.word();
                self.sign('=')?;
                format!("{name} = ")
            } else {
                String::new()
            };
            let is_negative = self.takes('-');
            let of = if is_negative { format!("-{}", self.word()) } else { self.ty(depth)? };
            all.push(name + &of);
            if !self.takes(',') {
                self.sign('>')?;
                break;
            }
        }
        Some(all)
    }

    fn written(&self, path: &str, mut arguments: Vec<String>) -> String {
        let offered =
            OFFERED.iter().find(|(kept, _)| *kept == path).map(|(_, offered)| (*offered).to_owned());
        let name = offered.unwrap_or_else(|| match path.split_once("::") {
            Some(("alloc", rest)) if path != USUAL[0] => format!("std::{rest}"),
            Some((own, rest)) if own == self.own => format!("crate::{rest}"),
            _ => path.to_owned(),
        });
        while arguments.last().is_some_and(|last| USUAL.contains(&last.as_str())) {
            arguments.pop();
        }
        if let ("Fn" | "FnMut" | "FnOnce", [parameters, result @ ..]) = (name.as_str(), &arguments[..]) {
            let parameters = parameters.strip_suffix(",)").map_or(parameters.clone(), |of| format!("{of})"));
            let result = result.first().and_then(|of| of.strip_prefix("Output = "));
            let result = result.filter(|of| *of != "()").map_or(String::new(), |of| format!(" -> {of}"));
            return format!("{name}{parameters}{result}");
        }
        if name == "std::borrow::Cow" {
            arguments.insert(0, if self.in_function == 0 { "'static" } else { "'_" }.to_owned());
        }
        if arguments.is_empty() { name } else { format!("{name}<{}>", arguments.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::rust_source;

    #[test]
    fn names_of_debug_information_become_code() {
        for (name, code) in [
            ("alloc::vec::Vec<u8, alloc::alloc::Global>", "Vec<u8>"),
            ("&str", "&'static str"),
            ("&mut [prog::Node]", "&'static mut [crate::Node]"),
            ("*const program::Node", "*const program::Node"),
            ("fn(i32, &str) -> &u8", "fn(i32, &str) -> &u8"),
            ("fn() -> &u8", "fn() -> &'static u8"),
            (
                "core::option::Option<unsafe extern \"C\" fn(*const u8) -> i32>",
                "Option<unsafe extern \"C\" fn(*const u8) -> i32>",
            ),
            ("alloc::boxed::Box<dyn prog::Draw, alloc::alloc::Global>", "Box<dyn crate::Draw>"),
            (
                "alloc::boxed::Box<(dyn core::any::Any + core::marker::Send), alloc::alloc::Global>",
                "Box<(dyn core::any::Any + Send)>",
            ),
            (
                "alloc::boxed::Box<dyn core::ops::function::Fn<(u8), Output=u8>, alloc::alloc::Global>",
                "Box<dyn Fn(u8) -> u8>",
            ),
            (
                "std::collections::hash::map::HashMap<u32, (), std::hash::random::RandomState, alloc::alloc::Global>",
                "std::collections::HashMap<u32, ()>",
            ),
            ("[[u8; 2]; 3]", "[[u8; 2]; 3]"),
            ("(u8, alloc::string::String)", "(u8, String)"),
            ("prog::Sized<3, -1, true>", "crate::Sized<3, -1, true>"),
            ("fn() -> !", "fn() -> !"),
        ] {
            assert_eq!(rust_source(name, "prog").as_deref(), Some(code), "{name}");
        }
        for name in [
            "prog::main::{closure_env#0}",
            "prog::{impl#0}::T",
            "fn(",
            "Vec<u8",
            "*u8",
            "[u8; 3",
            "a::b>",
            "",
        ] {
            assert_eq!(rust_source(name, "prog"), None, "{name}");
        }
        assert_eq!(rust_source(&"&".repeat(100), ""), None);
    }
}
