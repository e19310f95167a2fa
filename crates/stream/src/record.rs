//! Records as Rust structures: `#[derive(Record)]` derives a schema from a structure and writes its values.
//!
//! The derive macro is in `quipu-stream-derive`. It implements the traits below, which may also be implemented by hand.
//! Plain rows are written straight from the structure: a bounds check and copies.

use crate::spec::{SchemaSpec, Ty};

pub use quipu_stream_derive::Record;

/// The body of a row that is being written.
#[derive(Debug)]
pub struct Body<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Body<'a> {
    /// A body of `fixed` zero bytes at the end of `out`, after `head` zero bytes for the row's head.
    #[inline]
    pub(crate) fn new(out: &'a mut Vec<u8>, head: usize, fixed: usize) -> Body<'a> {
        let start = out.len() + head;
        out.resize(start + fixed, 0);
        Body { out, start }
    }

    /// Writes bytes of the fixed part at offset `at`.
    ///
    /// # Panics
    /// Panics if they reach beyond the bytes written so far.
    #[inline]
    pub fn put(&mut self, at: usize, bytes: &[u8]) {
        let at = self.start + at;
        self.out[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Appends `bytes`, and writes their offset and `count` at offset `at` of the fixed part.
    pub fn append(&mut self, at: usize, bytes: &[u8], count: usize) {
        let offset = self.out.len() - self.start;
        self.out.extend_from_slice(bytes);
        self.put_piece(at, offset, count);
    }

    /// Appends zeroed room for `count` elements, and writes its offset and `count` at offset `at`. Returns the offset.
    pub fn append_room(&mut self, at: usize, align: usize, size: usize, count: usize) -> usize {
        let offset = (self.out.len() - self.start).next_multiple_of(align.max(1));
        self.out.resize(self.start + offset + size * count, 0);
        self.put_piece(at, offset, count);
        offset
    }

    fn put_piece(&mut self, at: usize, offset: usize, count: usize) {
        // A row longer than 4 GiB is refused when it ends.
        self.put(at, &(offset as u32).to_le_bytes());
        self.put(at + 4, &(count as u32).to_le_bytes());
    }

    /// Length of the body so far, in bytes.
    pub(crate) fn len(&self) -> usize {
        self.out.len() - self.start
    }
}

/// A type of values for fields.
pub trait FieldValue {
    /// Bytes of the plain form in the fixed part.
    const SIZE: usize;
    /// Alignment of the plain form in bytes.
    const ALIGN: usize;
    /// The stream type of the values.
    fn ty() -> Ty;
    /// Writes the value at offset `at` of the body.
    fn put(&self, body: &mut Body<'_>, at: usize);
}

macro_rules! numbers {
    ($($ty:ty => $described:expr, $align:literal;)*) => {$(
        impl FieldValue for $ty {
            const SIZE: usize = size_of::<$ty>();
            const ALIGN: usize = $align;
            fn ty() -> Ty {
                $described
            }
            #[inline]
            fn put(&self, body: &mut Body<'_>, at: usize) {
                body.put(at, &self.to_le_bytes());
            }
        }
    )*};
}

numbers! {
    u8 => Ty::Uint(8), 1;
    u16 => Ty::Uint(16), 2;
    u32 => Ty::Uint(32), 4;
    u64 => Ty::Uint(64), 8;
    u128 => Ty::Uint(128), 8;
    i8 => Ty::Sint(8), 1;
    i16 => Ty::Sint(16), 2;
    i32 => Ty::Sint(32), 4;
    i64 => Ty::Sint(64), 8;
    i128 => Ty::Sint(128), 8;
    f32 => Ty::Float(32), 4;
    f64 => Ty::Float(64), 8;
}

impl FieldValue for bool {
    const SIZE: usize = 1;
    const ALIGN: usize = 1;
    fn ty() -> Ty {
        Ty::Bool
    }
    fn put(&self, body: &mut Body<'_>, at: usize) {
        body.put(at, &[u8::from(*self)]);
    }
}

impl FieldValue for char {
    const SIZE: usize = 4;
    const ALIGN: usize = 4;
    fn ty() -> Ty {
        Ty::Char
    }
    fn put(&self, body: &mut Body<'_>, at: usize) {
        body.put(at, &u32::from(*self).to_le_bytes());
    }
}

impl FieldValue for str {
    const SIZE: usize = 8;
    const ALIGN: usize = 4;
    fn ty() -> Ty {
        Ty::Text
    }
    fn put(&self, body: &mut Body<'_>, at: usize) {
        body.append(at, self.as_bytes(), self.len());
    }
}

impl FieldValue for String {
    const SIZE: usize = 8;
    const ALIGN: usize = 4;
    fn ty() -> Ty {
        Ty::Text
    }
    fn put(&self, body: &mut Body<'_>, at: usize) {
        self.as_str().put(body, at);
    }
}

impl<T: FieldValue + ?Sized> FieldValue for &T {
    const SIZE: usize = T::SIZE;
    const ALIGN: usize = T::ALIGN;
    fn ty() -> Ty {
        T::ty()
    }
    fn put(&self, body: &mut Body<'_>, at: usize) {
        (**self).put(body, at);
    }
}

impl<T: FieldValue> FieldValue for [T] {
    const SIZE: usize = 8;
    const ALIGN: usize = 4;
    fn ty() -> Ty {
        Ty::Vector(Box::new(T::ty()))
    }
    fn put(&self, body: &mut Body<'_>, at: usize) {
        let first = body.append_room(at, T::ALIGN, T::SIZE, self.len());
        for (n, value) in self.iter().enumerate() {
            value.put(body, first + n * T::SIZE);
        }
    }
}

impl<T: FieldValue> FieldValue for Vec<T> {
    const SIZE: usize = 8;
    const ALIGN: usize = 4;
    fn ty() -> Ty {
        <[T]>::ty()
    }
    fn put(&self, body: &mut Body<'_>, at: usize) {
        self.as_slice().put(body, at);
    }
}

impl<T: FieldValue, const N: usize> FieldValue for [T; N] {
    const SIZE: usize = N * T::SIZE;
    const ALIGN: usize = T::ALIGN;
    fn ty() -> Ty {
        Ty::Array(Box::new(T::ty()), N as u32) // No array of a structure has 2^32 elements.
    }
    fn put(&self, body: &mut Body<'_>, at: usize) {
        for (n, value) in self.iter().enumerate() {
            value.put(body, at + n * T::SIZE);
        }
    }
}

impl<T: FieldValue> FieldValue for Option<T> {
    const SIZE: usize = (T::ALIGN + T::SIZE).next_multiple_of(T::ALIGN);
    const ALIGN: usize = T::ALIGN;
    fn ty() -> Ty {
        Ty::Optional(Box::new(T::ty()))
    }
    fn put(&self, body: &mut Body<'_>, at: usize) {
        if let Some(value) = self {
            body.put(at, &[1]);
            value.put(body, at + T::ALIGN);
        }
    }
}

/// A byte string of any length, as a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes<'a>(pub &'a [u8]);

impl FieldValue for Bytes<'_> {
    const SIZE: usize = 8;
    const ALIGN: usize = 4;
    fn ty() -> Ty {
        Ty::Bytes
    }
    fn put(&self, body: &mut Body<'_>, at: usize) {
        body.append(at, self.0, self.0.len());
    }
}

/// An address in the traced program, as a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub u64);

impl FieldValue for Address {
    const SIZE: usize = 8;
    const ALIGN: usize = 8;
    fn ty() -> Ty {
        Ty::Address
    }
    #[inline]
    fn put(&self, body: &mut Body<'_>, at: usize) {
        self.0.put(body, at);
    }
}

/// Return addresses, innermost first, as a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack<'a>(pub &'a [u64]);

impl FieldValue for Stack<'_> {
    const SIZE: usize = 8;
    const ALIGN: usize = 4;
    fn ty() -> Ty {
        Ty::Stack
    }
    fn put(&self, body: &mut Body<'_>, at: usize) {
        self.0.put(body, at);
    }
}

/// A structure that is one kind of record.
pub trait Record {
    /// Bytes of the fixed part of the body.
    const FIXED_BYTES: usize;
    /// The schema of the records.
    fn spec() -> SchemaSpec;
    /// Writes the fields into a body with [`Record::FIXED_BYTES`] bytes.
    fn put(&self, body: &mut Body<'_>);
}
