//! Types in the form of Cacheray's extractor: `NAME.dwarf.json`, version 4.
//!
//! JSON with sorted keys, indented by four blanks, without a newline at the end. SPEC: cacheray.md#types.

use crate::FileError;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt::Write as _;

/// The supported version of the file.
pub const VERSION: u64 = 4;
/// The largest file that is read: all types of a program with a gigabyte of debug information fit.
pub const MAX_BYTES: usize = 1 << 30;

/// A file of types. Fields are in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypesFile {
    /// Structures, including C++ classes.
    pub structs: Vec<StructDef>,
    /// Aliases of types.
    pub typedefs: Vec<TypedefDef>,
    /// Unions.
    pub unions: Vec<UnionDef>,
    /// Version of the format.
    pub version: u64,
}

/// A structure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StructDef {
    /// Offset of its debug entry.
    pub id: u64,
    /// Its members, in the order of the source.
    pub members: Vec<MemberDef>,
    /// Its name with `struct ` in front.
    pub name: String,
}

/// A member of a structure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberDef {
    /// Offset of the debug entry of its type.
    pub id: u64,
    /// Its name.
    #[serde(rename = "memberName")]
    pub member: String,
    /// Its type.
    pub name: String,
    /// Offset in bytes.
    pub offset: i64,
    /// Size in bytes; -1 if unknown.
    pub size: i64,
}

/// A union.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnionDef {
    /// Offset of its debug entry.
    pub id: u64,
    /// Its members.
    pub members: Vec<UnionMemberDef>,
    /// Its name, with nothing in front.
    pub name: String,
}

/// A member of a union.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnionMemberDef {
    /// Offset of the debug entry of its type.
    pub id: u64,
    /// Its name.
    #[serde(rename = "memberName")]
    pub member: String,
    /// Its type.
    pub name: String,
    /// Size in bytes; -1 if unknown.
    pub size: i64,
}

/// An alias of a type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TypedefDef {
    /// The type.
    pub def: String,
    /// The alias.
    #[serde(rename = "type")]
    pub alias: String,
}

impl Default for TypesFile {
    /// No types.
    fn default() -> TypesFile {
        TypesFile { structs: Vec::new(), typedefs: Vec::new(), unions: Vec::new(), version: VERSION }
    }
}

impl TypesFile {
    /// Reads a file.
    ///
    /// # Errors
    /// If it is too large, not JSON of this form, or has another version; the error has the line.
    pub fn parse(bytes: &[u8]) -> Result<TypesFile, FileError> {
        if bytes.len() > MAX_BYTES {
            let what = format!("a file of types has at most `{MAX_BYTES}` bytes, found `{}`", bytes.len());
            return Err(FileError::new(None, what));
        }
        let file: TypesFile = serde_json::from_slice(bytes).map_err(|error| {
            FileError::new(Some(error.line()).filter(|line| *line > 0), format!("no file of types: {error}"))
        })?;
        if file.version != VERSION {
            let what = format!("expected version `{VERSION}` of the file of types, found `{}`", file.version);
            return Err(FileError::new(None, what));
        }
        Ok(file)
    }

    /// The text of the file in the extractor's format: non-ASCII characters are escaped, so that readers need not know the
    /// encoding.
    pub fn text(&self) -> String {
        let mut out = Vec::new();
        let mut writer = serde_json::Serializer::with_formatter(
            &mut out,
            serde_json::ser::PrettyFormatter::with_indent(b"    "),
        );
        // A vector accepts everything, and all keys are strings.
        let _ = self.serialize(&mut writer);
        ascii(&String::from_utf8_lossy(&out))
    }
}

/// Escapes the non-ASCII characters in the strings of JSON as 16-bit numbers.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut units = [0; 2];
    for c in json.chars() {
        if c.is_ascii() {
            out.push(c);
        } else {
            // Writing to memory cannot fail.
            c.encode_utf16(&mut units).iter().for_each(|unit| _ = write!(out, "\\u{unit:04x}"));
        }
    }
    out
}

/// A structure in the view of Cacheray's simulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Its name with `struct ` in front.
    pub name: String,
    /// Its members: name, offset, size, in the order of the file.
    pub members: Vec<LayoutMember>,
}

/// A member of a [`Layout`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutMember {
    /// Its name.
    pub name: String,
    /// Offset in bytes.
    pub offset: i64,
    /// Size in bytes; -1 if unknown.
    pub size: i64,
}

impl Layout {
    /// The end of the last member in bytes, without padding after it; -1 if there are no members, or its size is unknown.
    pub fn size(&self) -> i64 {
        match self.members.last() {
            Some(last) if last.size >= 0 => last.offset.saturating_add(last.size),
            _ => -1,
        }
    }
}

/// The structures of a file by name, looked up as in Cacheray's simulator: of several with one name, the last one is used.
#[derive(Clone, Debug, Default)]
pub struct Lookup {
    layouts: Vec<Layout>,
    names: HashMap<String, usize>,
    typedefs: HashMap<String, String>,
}

impl Lookup {
    /// The look-up for the types of a file.
    pub fn new(file: &TypesFile) -> Lookup {
        let mut lookup = Lookup::default();
        for def in &file.structs {
            let member = |member: &MemberDef| LayoutMember {
                name: member.member.clone(),
                offset: member.offset,
                size: member.size,
            };
            lookup.add(Layout { name: def.name.clone(), members: def.members.iter().map(member).collect() });
        }
        for typedef in &file.typedefs {
            lookup.typedefs.insert(typedef.alias.clone(), typedef.def.clone());
        }
        lookup
    }

    fn add(&mut self, layout: Layout) {
        match self.names.get(&layout.name).and_then(|at| self.layouts.get_mut(*at)) {
            Some(other) => *other = layout,
            None => {
                self.names.insert(layout.name.clone(), self.layouts.len());
                self.layouts.push(layout);
            }
        }
    }

    /// All structures, each name once.
    pub fn layouts(&self) -> &[Layout] {
        &self.layouts
    }

    /// The position in [`Lookup::layouts`] of the structure that an annotation names: blanks around the name are ignored,
    /// `struct.X` is `struct X`, and an alias is resolved once.
    pub fn find(&self, name: &str) -> Option<usize> {
        let name = Lookup::rewritten(name);
        let name = self.typedefs.get(&name).unwrap_or(&name);
        self.names.get(name).copied()
    }

    /// The form of a name that is looked up.
    pub fn rewritten(name: &str) -> String {
        let name = name.trim();
        match name.strip_prefix("struct.") {
            Some(rest) => format!("struct {rest}"),
            None => name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{
    "structs": [
        {
            "id": 4,
            "members": [
                {
                    "id": 7,
                    "memberName": "a",
                    "name": "int",
                    "offset": 0,
                    "size": 4
                }
            ],
            "name": "struct A"
        },
        {
            "id": 9,
            "members": [],
            "name": "struct B"
        }
    ],
    "typedefs": [
        {
            "def": "struct A",
            "type": "a_t"
        }
    ],
    "unions": [],
    "version": 4
}"#;

    #[test]
    fn a_file_comes_back_byte_for_byte() {
        assert_eq!(TypesFile::parse(SMALL.as_bytes()).unwrap().text(), SMALL);
    }

    #[test]
    fn names_are_found_as_the_original_finds_them() {
        let lookup = Lookup::new(&TypesFile::parse(SMALL.as_bytes()).unwrap());
        assert_eq!(lookup.find("struct.A"), Some(0));
        assert_eq!(lookup.find(" struct A "), Some(0));
        assert_eq!(lookup.find("a_t"), Some(0));
        assert_eq!(lookup.find("A"), None);
        assert_eq!(lookup.layouts().iter().map(Layout::size).collect::<Vec<_>>(), [4, -1]);
    }

    #[test]
    fn of_two_with_one_name_the_last_counts() {
        let mut file = TypesFile::parse(SMALL.as_bytes()).unwrap();
        file.structs[1].name = "struct A".to_owned();
        let lookup = Lookup::new(&file);
        assert_eq!((lookup.layouts().len(), lookup.find("struct.A")), (1, Some(0)));
        assert!(lookup.layouts()[0].members.is_empty());
    }

    #[test]
    fn what_is_wrong_has_a_line() {
        let error = TypesFile::parse(SMALL.replace("\"offset\": 0", "\"offset\": x").as_bytes()).unwrap_err();
        assert_eq!(error.line, Some(10), "{error}");
        let error =
            TypesFile::parse(SMALL.replace("\"version\": 4", "\"version\": 3").as_bytes()).unwrap_err();
        assert!(error.what.contains("found `3`"), "{error}");
        assert!(TypesFile::parse(b"").is_err());
    }
}
