//! Results: structures whose JSON, tables and documentation come from one description.
//!
//! [`result!`](crate::result!) defines a structure with a sentence for each field. JSON, tables, and the pages that list keys
//! are all made from that description, so they cannot contradict each other.
//!
//! | a field's type | in JSON | in tables |
//! |---|---|---|
//! | a number, a text, true or false | a value | a column |
//! | a list of these | a list | a column of lists |
//! | `Option` of something | the same, or `null` | a column in which rows may lack a value |
//! | another structure | an object | columns, whose names begin with the field's and a dot |
//! | a list whose items have names ([`What::Items`]) | a list | the same |
//! | a list of structures | a list of objects | a table of its own, a row for each, which begins with its parent's keys |

mod shape;
mod tables;
mod values;

pub use shape::{Kind, Marks, Member, Shape, What};
pub use tables::{Cells, Rows, schemas, tables};
pub use values::{Hex, ThreadNames};

#[doc(hidden)]
pub use serde;
use serde::Serialize;
use serde::ser::SerializeMap;

/// A type that a field of a result may have.
pub trait Value: Serialize {
    /// Number of columns that the value takes in its table. A constant, because it is needed for each row.
    const N_CELLS: usize = 1;
    /// Number of tables that the lists in the value need.
    const N_TABLES: usize = 0;
    /// Whether the value is a structure: a list of structures becomes a table.
    const IS_STRUCTURE: bool = false;

    /// The kind of the value.
    fn kind() -> Kind;

    /// True if a field marked `perhaps` is omitted from JSON when it has this value.
    fn is_nothing(&self) -> bool {
        false
    }

    /// Writes the keys of a structure into an open JSON object.
    ///
    /// # Errors
    /// Those of the serializer.
    fn keys<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let _ = map;
        Ok(())
    }

    /// Appends the value's cells to [`N_CELLS`](Value::N_CELLS) columns.
    fn cells(&self, cells: &mut Cells<'_>);

    /// Appends rows to the [`N_TABLES`](Value::N_TABLES) tables for the lists in the value.
    fn rows(&self, rows: &mut Rows<'_>) {
        let _ = rows;
    }
}

/// A structure defined with [`result!`](crate::result!).
pub trait Fields: Value {
    /// The description of the structure.
    fn shape() -> Shape;
}

/// Converts a value to JSON.
pub fn json(value: &(impl Serialize + ?Sized)) -> serde_json::Value {
    // Structures of numbers, texts and lists always have a JSON form.
    serde_json::to_value(value).unwrap_or_default()
}

/// Writes a field into an open JSON object, unless its marks omit it.
///
/// # Errors
/// Those of the serializer.
#[doc(hidden)]
pub fn put<M: SerializeMap, V: Value>(map: &mut M, marks: &Marks, value: &V) -> Result<(), M::Error> {
    if marks.is_only_in_tables {
        Ok(())
    } else if marks.is_flat {
        value.keys(map)
    } else if marks.is_perhaps && value.is_nothing() {
        Ok(())
    } else {
        map.serialize_entry(marks.key, value)
    }
}

/// Defines a structure of results, with JSON, tables and documentation from one description.
///
/// A field has a type, optionally `as` and a form in which it is written ([`Hex`](crate::result::Hex)), marks, and a
/// sentence. The marks are `flat` (the keys of the field's structure appear directly in this object), `perhaps` (omitted from
/// JSON if it has nothing to say), `only_in_tables` (omitted from JSON because readers can compute it from other keys), `key`
/// (tables of nested lists begin with this column) and `named("type")` (the key, if it differs from the field's name). Fields
/// in the block `beside` are not part of the result.
///
/// ```
/// use quipu_model::result;
/// use quipu_model::result::{Fields, Hex, tables};
///
/// result! {
///     /// Lines that were used.
///     #[derive(Debug, PartialEq)]
///     pub struct Lines {
///         pub n_lines: u64 => "How many there are.";
///         pub top: Vec<Line> => "Those used most.";
///     } beside {
///         pub is_filtered: bool => "Whether a filter left some out.";
///     }
/// }
///
/// result! {
///     /// A line.
///     #[derive(Debug, PartialEq)]
///     pub struct Line {
///         pub addr: u64 as Hex, key => "Its first byte.";
///         pub uses: Option<u64> => "How often it was used.";
///     }
/// }
///
/// let lines = Lines { n_lines: 7, top: vec![Line { addr: 64, uses: None }], is_filtered: false };
/// let json = r#"{"n_lines":7,"top":[{"addr":"0x40","uses":null}]}"#;
/// assert_eq!(serde_json::to_string(&lines).unwrap(), json);
/// let names: Vec<_> = tables("lines", &lines).iter().map(|table| table.schema().name.clone()).collect();
/// assert_eq!(names, ["lines", "lines.top"]);
/// assert_eq!(Lines::shape().members[1].doc, "Those used most.");
/// # use quipu_model::Table;
/// ```
#[macro_export]
macro_rules! result {
    (
        $(#[doc = $doc:literal])+
        $(#[derive($($derive:path),* $(,)?)])?
        $vis:vis struct $Name:ident $(<$T:ident: $Bound:path>)? {
            $($fvis:vis $field:ident: $ty:ty $(as $Form:ident)? $(, $mark:ident $(($arg:expr))?)* => $sentence:literal;)*
        } $(beside {
            $($hvis:vis $hidden:ident: $hty:ty => $about:literal;)*
        })?
    ) => {
        $(#[doc = $doc])+
        $(#[derive($($derive),*)])?
        $vis struct $Name $(<$T>)? {
            $(#[doc = $sentence] $fvis $field: $ty,)*
            $($(#[doc = $about] $hvis $hidden: $hty,)*)?
        }

        impl $(<$T: $Bound>)? $crate::result::Fields for $Name $(<$T>)? {
            fn shape() -> $crate::result::Shape {
                $crate::result::Shape {
                    name: stringify!($Name),
                    doc: concat!($($doc, "\n"),+),
                    members: vec![$(
                        const { $crate::result::Marks::new(stringify!($field))$(.$mark($($arg)?))* }
                            .member(<$crate::result!(@type $ty $(as $Form)?) as $crate::result::Value>::kind(), $sentence),
                    )*],
                }
            }
        }

        impl $(<$T: $Bound>)? $crate::result::Value for $Name $(<$T>)? {
            const N_CELLS: usize = 0 $(+ <$crate::result!(@type $ty $(as $Form)?) as $crate::result::Value>::N_CELLS)*;
            const N_TABLES: usize = 0 $(+ <$crate::result!(@type $ty $(as $Form)?) as $crate::result::Value>::N_TABLES)*;
            const IS_STRUCTURE: bool = true;

            fn kind() -> $crate::result::Kind {
                $crate::result::Kind::fields(<Self as $crate::result::Fields>::shape)
            }

            fn keys<M: $crate::result::serde::ser::SerializeMap>(&self, map: &mut M) -> ::std::result::Result<(), M::Error> {
                $($crate::result::put(
                    map,
                    &const { $crate::result::Marks::new(stringify!($field))$(.$mark($($arg)?))* },
                    $crate::result!(@value self $field $($Form)?),
                )?;)*
                Ok(())
            }

            fn cells(&self, cells: &mut $crate::result::Cells<'_>) {
                $($crate::result::Value::cells($crate::result!(@value self $field $($Form)?), cells);)*
            }

            fn rows(&self, rows: &mut $crate::result::Rows<'_>) {
                $($crate::result::Value::rows($crate::result!(@value self $field $($Form)?), rows);)*
            }
        }

        impl $(<$T: $Bound>)? $crate::result::serde::Serialize for $Name $(<$T>)? {
            fn serialize<S: $crate::result::serde::Serializer>(&self, serializer: S) -> ::std::result::Result<S::Ok, S::Error> {
                let mut map = $crate::result::serde::Serializer::serialize_map(serializer, None)?;
                $crate::result::Value::keys(self, &mut map)?;
                $crate::result::serde::ser::SerializeMap::end(map)
            }
        }
    };
    (@type $ty:ty) => { $ty };
    (@type $ty:ty as $Form:ident) => { $Form<'static, $ty> };
    (@value $self:ident $field:ident) => { &$self.$field };
    (@value $self:ident $field:ident $Form:ident) => { &$Form(&$self.$field) };
}

/// Implements serialization and results for types whose method `name` returns a stable name: the value is that text.
#[macro_export]
macro_rules! result_names {
    ($($ty:ty),* $(,)?) => {$(
        impl $crate::result::serde::Serialize for $ty {
            fn serialize<S: $crate::result::serde::Serializer>(&self, serializer: S) -> ::std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl $crate::result::Value for $ty {
            fn kind() -> $crate::result::Kind {
                $crate::result::Kind::cell($crate::schema::Type::Text)
            }

            fn cells(&self, cells: &mut $crate::result::Cells<'_>) {
                cells.text(self.name());
            }
        }
    )*};
}
