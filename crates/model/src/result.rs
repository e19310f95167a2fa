//! Results: structures that are JSON and tables by one description.
//!
//! [`result!`](crate::result!) makes a structure whose fields have a sentence each. JSON, tables, and the pages that list keys
//! come from that description alone, so that none of them can say anything else than the others.
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

/// What may stand in a field of a result.
pub trait Value: Serialize {
    /// How many columns it has in the table that it stands in. Constants, since each row asks for them.
    const N_CELLS: usize = 1;
    /// How many tables begin in it.
    const N_TABLES: usize = 0;
    /// Whether it is a structure: a list of such is a table.
    const IS_STRUCTURE: bool = false;

    /// What it is.
    fn kind() -> Kind;

    /// True if a field marked `perhaps` is left out of JSON with this value.
    fn is_nothing(&self) -> bool {
        false
    }

    /// Writes the keys of a structure into an object that is open.
    ///
    /// # Errors
    /// Those of the serializer.
    fn keys<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let _ = map;
        Ok(())
    }

    /// Appends its cells to [`N_CELLS`](Value::N_CELLS) columns.
    fn cells(&self, cells: &mut Cells<'_>);

    /// Appends rows to the [`N_TABLES`](Value::N_TABLES) tables of the lists in it.
    fn rows(&self, rows: &mut Rows<'_>) {
        let _ = rows;
    }
}

/// A structure of [`result!`](crate::result!).
pub trait Fields: Value {
    /// What it has.
    fn shape() -> Shape;
}

/// A value as JSON.
pub fn json(value: &(impl Serialize + ?Sized)) -> serde_json::Value {
    // Structures of numbers, texts and lists always have a JSON form.
    serde_json::to_value(value).unwrap_or_default()
}

/// Writes a field into an object that is open.
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

/// Makes a structure of results: JSON, tables and documentation by one description.
///
/// A field has its type, then perhaps `as` and a form that it is written in ([`Hex`](crate::result::Hex)), marks, and a
/// sentence. Marks are `flat` (the keys of that structure stand here themselves), `perhaps` (left out of JSON where it has
/// nothing to say), `only_in_tables` (a number that readers of JSON take from others), `key` (tables of lists below begin with
/// this column) and `named("type")` (the key, where it is not the field's name). Fields that are not part of the result stand
/// `beside` the others.
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

/// Makes types whose method `name` says their value into texts of results.
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
