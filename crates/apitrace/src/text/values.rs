//! Parses values of a text into values of a stream.

use super::lexer::{Lexer, Spot};
use super::names::Space;
use super::parse::Parser;
use crate::encode::{self, string, uint};
use crate::record::*;
use quipu_model::values::{Kind, Type};
use quipu_model::{Error, Result};
use std::io::BufRead;

impl<R: BufRead> Parser<'_, R> {
    pub(super) fn value(&mut self, out: &mut Vec<u8>, depth: u32) -> Result<()> {
        let first = self.lexer.peek()?;
        let spot = self.lexer.spot();
        if depth > MAX_DEPTH {
            let message = format!("values are nested deeper than `{MAX_DEPTH}`");
            return Err(self.lexer.error(spot, message));
        }
        match first {
            Some(b'"') => {
                out.push(TAG_STRING);
                string(&self.lexer.string()?, out);
                Ok(())
            }
            Some(b'[') => {
                self.lexer.expect(b'[')?;
                out.push(TAG_ARRAY);
                self.list(b']', out, |parser, out| parser.value(out, depth + 1))
            }
            Some(byte) if byte == b'-' || byte.is_ascii_digit() => self.literal(spot, out),
            _ => match self.lexer.word()? {
                Some(word) => self.worded(spot, &word, out, depth),
                None => Err(self.lexer.unexpected("a value")),
            },
        }
    }

    /// Parses elements with commas between them up to `close`; writes their count first, as the stream has it.
    pub(super) fn list(
        &mut self,
        close: u8,
        out: &mut Vec<u8>,
        mut part: impl FnMut(&mut Self, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let (mut parts, mut n_parts) = (Vec::new(), 0);
        if !self.lexer.takes(close)? {
            loop {
                part(self, &mut parts)?;
                n_parts += 1;
                if self.lexer.takes(close)? {
                    break;
                }
                self.lexer.expect(b',')?;
            }
        }
        uint(n_parts, out);
        out.append(&mut parts);
        Ok(())
    }

    /// Parses a number: an address, an integer, or a float.
    pub(super) fn literal(&mut self, spot: Spot, out: &mut Vec<u8>) -> Result<()> {
        let text = self.lexer.digits()?;
        let tagged = |tag: u8, number: Option<u64>, out: &mut Vec<u8>| {
            number.map(|number| {
                out.push(tag);
                uint(number, out);
            })
        };
        let done = if let Some(digits) = text.strip_prefix("0x") {
            tagged(TAG_POINTER, u64::from_str_radix(digits, 16).ok(), out)
        } else if let Some(digits) = text.strip_suffix('f') {
            digits.parse::<f32>().ok().map(|number| {
                out.push(TAG_FLOAT);
                out.extend_from_slice(&number.to_le_bytes());
            })
        } else if text.contains(['.', 'e']) {
            text.parse::<f64>().ok().map(|number| {
                out.push(TAG_DOUBLE);
                out.extend_from_slice(&number.to_le_bytes());
            })
        } else if let Some(digits) = text.strip_prefix('-') {
            tagged(TAG_NEGATIVE, digits.parse().ok(), out)
        } else {
            tagged(TAG_UNSIGNED, text.parse().ok(), out)
        };
        done.ok_or_else(|| self.lexer.error(spot, format_args!("`{text}` is no number")))
    }

    /// Parses a value that begins with a word.
    pub(super) fn worded(&mut self, spot: Spot, word: &str, out: &mut Vec<u8>, depth: u32) -> Result<()> {
        match word {
            "null" => out.push(TAG_NULL),
            "false" => out.push(TAG_FALSE),
            "true" => out.push(TAG_TRUE),
            "hex" | "blob" => {
                let bytes = if word == "hex" { self.hex()? } else { self.blob(spot)? };
                out.push(TAG_BLOB);
                string(&bytes, out);
            }
            "L" => {
                let units = self.lexer.wide()?;
                out.push(TAG_WIDE);
                uint(units.len() as u64, out);
                units.iter().for_each(|unit| uint(*unit, out));
            }
            "pair" => {
                out.push(TAG_REPR);
                self.lexer.expect(b'(')?;
                self.value(out, depth + 1)?;
                self.lexer.expect(b',')?;
                self.value(out, depth + 1)?;
                self.lexer.expect(b')')?;
            }
            "float" | "double" => self.bits(word, out)?,
            "struct" => {
                let position = self.numbered(Space::Struct)?;
                self.structure(position, out, depth)?;
            }
            "enum" => {
                let position = self.numbered(Space::Enum)?;
                self.lexer.expect(b'(')?;
                let number = self.number_of(position)?;
                self.lexer.expect(b')')?;
                self.enumeration(spot, position, number, out)?;
            }
            "flags" => {
                let position = self.numbered(Space::Flags)?;
                self.lexer.expect(b'(')?;
                let mut number = self.number_of(position)?;
                while self.lexer.takes(b'|')? {
                    number |= self.number_of(position)?;
                }
                self.lexer.expect(b')')?;
                self.flags(position, number, out);
            }
            name if self.lexer.peek()? == Some(b'{') => match self.walker.table.structure(name.as_bytes()) {
                Some(position) => self.structure(position, out, depth)?,
                None => return Err(self.lexer.error(spot, format_args!("there is no structure `{name}`"))),
            },
            name => self.constant(spot, name, out)?,
        }
        Ok(())
    }

    /// Parses the bits of a float that no decimal digits express, such as a NaN.
    pub(super) fn bits(&mut self, word: &str, out: &mut Vec<u8>) -> Result<()> {
        self.lexer.expect(b'(')?;
        let spot = self.lexer.spot();
        let bits = self.lexer.number("the bits of a number")?;
        self.lexer.expect(b')')?;
        if word == "double" {
            out.push(TAG_DOUBLE);
            out.extend_from_slice(&bits.to_le_bytes());
            return Ok(());
        }
        match u32::try_from(bits) {
            Ok(bits) => {
                out.push(TAG_FLOAT);
                out.extend_from_slice(&bits.to_le_bytes());
                Ok(())
            }
            Err(_) => Err(self.lexer.error(spot, "a `float` has 32 bits")),
        }
    }

    /// Parses the id of a type; returns its index.
    pub(super) fn numbered(&mut self, space: Space) -> Result<u32> {
        let spot = self.lexer.spot();
        let id = self.lexer.number("the number of a type")?;
        self.walker
            .table
            .by_id(space, id)
            .ok_or_else(|| self.lexer.error(spot, format_args!("there is no type `{id}` of this kind")))
    }

    /// Parses a number, or a name of the type for one.
    pub(super) fn number_of(&mut self, position: u32) -> Result<u64> {
        let first = self.lexer.peek()?;
        let spot = self.lexer.spot();
        if first.is_some_and(|byte| byte == b'-' || byte.is_ascii_digit()) {
            return self.integer();
        }
        let name = self.name("a name or a number")?;
        let names = match self.walker.table.get(position) {
            Some(Type::Enum(names) | Type::Flags(names)) => &names.names[..],
            _ => &[],
        };
        let found = names.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
        found.ok_or_else(|| {
            let name = String::from_utf8_lossy(&name);
            self.lexer.error(spot, format_args!("the type has no name `{name}`"))
        })
    }

    pub(super) fn structure(&mut self, position: u32, out: &mut Vec<u8>, depth: u32) -> Result<()> {
        out.push(TAG_STRUCT);
        self.signature(position, out);
        self.lexer.expect(b'{')?;
        let n_members = match self.walker.table.get(position) {
            Some(Type::Struct(structure)) => structure.members.len(),
            _ => 0,
        };
        for i in 0..n_members {
            if i > 0 {
                self.lexer.expect(b',')?;
            }
            self.member(position, i, out, depth)?;
        }
        if self.lexer.takes(b'}')? {
            return Ok(());
        }
        Err(self.lexer.unexpected(&format!("`}}` after `{n_members}` members")))
    }

    /// Parses a member: its name, if that is a bare one, then its value.
    pub(super) fn member(&mut self, position: u32, i: usize, out: &mut Vec<u8>, depth: u32) -> Result<()> {
        let spot = self.lexer.spot();
        let name = match self.walker.table.get(position) {
            Some(Type::Struct(structure)) => structure.members.get(i).cloned().unwrap_or_default(),
            _ => Vec::new(),
        };
        if !super::is_bare(&name) {
            return self.value(out, depth + 1);
        }
        let found = self.lexer.word()?;
        if found.as_deref().map(str::as_bytes) != Some(&name) {
            let name = String::from_utf8_lossy(&name);
            return Err(self.lexer.error(spot, format_args!("expected member `{name}`")));
        }
        self.lexer.expect(b'=')?;
        self.value(out, depth + 1)
    }

    pub(super) fn enumeration(
        &mut self,
        spot: Spot,
        position: u32,
        number: u64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        out.push(TAG_ENUM);
        self.signature(position, out);
        if self.walker.version() >= VERSION_WHOLE_ENUMS {
            encode::sint(number, out);
            return Ok(());
        }
        match self.walker.table.get(position) {
            Some(Type::Enum(names)) if names.names.first().is_some_and(|(_, only)| *only == number) => Ok(()),
            _ => Err(self.lexer.error(spot, "in streams of this version, an enumeration has one number")),
        }
    }

    pub(super) fn flags(&mut self, position: u32, number: u64, out: &mut Vec<u8>) {
        out.push(TAG_BITMASK);
        self.signature(position, out);
        uint(number, out);
    }

    /// Parses a bare name: a constant of an enumeration, or flags joined by bars.
    pub(super) fn constant(&mut self, spot: Spot, name: &str, out: &mut Vec<u8>) -> Result<()> {
        let missing = |lexer: &Lexer<R>, spot, name: &str| -> Error {
            lexer.error(spot, format_args!("there is no name `{name}` among the types so far"))
        };
        let Some(constant) = self.walker.table.constant(name.as_bytes()) else {
            return Err(missing(&self.lexer, spot, name));
        };
        if constant.kind == Kind::Enum {
            return self.enumeration(spot, constant.ty, constant.number, out);
        }
        let mut number = constant.number;
        while self.lexer.takes(b'|')? {
            let spot = self.lexer.spot();
            let Some(name) = self.lexer.word()? else { return Err(self.lexer.unexpected("a name")) };
            match self.walker.table.constant(name.as_bytes()) {
                Some(next) if next.ty == constant.ty => number |= next.number,
                Some(_) => {
                    let error = self.lexer.error(spot, format_args!("`{name}` is not of the same type"));
                    return Err(error.hint("`flags NUMBER(A | B)` says which type is meant"));
                }
                None => return Err(missing(&self.lexer, spot, &name)),
            }
        }
        self.flags(constant.ty, number, out);
        Ok(())
    }
}
