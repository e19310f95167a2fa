//! Files with the offsets of the members of structures in another layout.
//!
//! One line per structure: `struct NAME=member,offset;member,offset`. Numbers are decimal, hexadecimal (`0x`) or octal (a
//! leading `0`). SPEC: cacheray.md#types.

use crate::FileError;

/// The structures of a file, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remap {
    /// The structures.
    pub structs: Vec<StructRemap>,
}

/// The member offsets of one structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StructRemap {
    /// Its name, with `struct ` in front.
    pub name: String,
    /// Members and their new offsets.
    pub members: Vec<(String, i64)>,
}

impl Remap {
    /// Reads a file.
    ///
    /// # Errors
    /// If a line is empty or has no `=`, where Cacheray stops; or if an offset is not a number.
    pub fn parse(text: &str) -> Result<Remap, FileError> {
        let structs = text.lines().enumerate().map(|(i, line)| parse_line(line, i + 1));
        Ok(Remap { structs: structs.collect::<Result<_, _>>()? })
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let member = |(name, offset): &(String, i64)| format!("{name},{offset}");
        let line = |one: &StructRemap| {
            format!("{}={}\n", one.name, one.members.iter().map(member).collect::<Vec<_>>().join(";"))
        };
        self.structs.iter().map(line).collect()
    }

    /// The new layout of a structure.
    pub fn find(&self, name: &str) -> Option<&StructRemap> {
        self.structs.iter().rev().find(|one| one.name == name)
    }
}

fn parse_line(line: &str, number: usize) -> Result<StructRemap, FileError> {
    let wrong = |what: String| FileError::new(Some(number), what);
    let (name, members) = line
        .split_once('=')
        .ok_or_else(|| wrong(format!("expected `struct NAME=member,offset;…`, found `{line}`")))?;
    let members = members.split(';').filter(|part| !part.is_empty()).map(|part| {
        let (member, offset) =
            part.split_once(',').ok_or_else(|| wrong(format!("expected `member,offset`, found `{part}`")))?;
        let offset = parse_number(offset.trim())
            .ok_or_else(|| wrong(format!("expected a number after `{member},`, found `{offset}`")))?;
        Ok((member.to_owned(), offset))
    });
    Ok(StructRemap { name: name.to_owned(), members: members.collect::<Result<_, FileError>>()? })
}

fn parse_number(text: &str) -> Option<i64> {
    let (digits, radix) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    i64::from_str_radix(digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_hexadecimal_and_octal() {
        let remap = Remap::parse("struct Plain=key,0x18;long,0;letters,020\nstruct T=a,64").unwrap();
        let plain = [("key", 24), ("long", 0), ("letters", 16)].map(|(name, at)| (name.to_owned(), at));
        assert_eq!(remap.structs[0].members, plain);
        assert_eq!(remap.find("struct T").unwrap().members, [("a".to_owned(), 64)]);
        assert_eq!(remap.text(), "struct Plain=key,24;long,0;letters,16\nstruct T=a,64\n");
        assert_eq!(Remap::parse(&remap.text()).unwrap(), remap);
    }

    #[test]
    fn mistakes_name_the_line() {
        for (text, line) in [("a=b,1\n\nc=d,2", 2), ("nothing", 1), ("a=b", 1), ("a=b,1\nc=d,x", 2)] {
            assert_eq!(Remap::parse(text).unwrap_err().line, Some(line), "{text}");
        }
    }
}
