//! Structures of vectors that are tables.

/// Defines a structure of columns with its [`Schema`](crate::schema::Schema), and implements the traits of tables for it.
///
/// The name of the structure is followed by the name of the table, `exact` or `derived`, and a sentence; then, if needed,
/// `len COLUMN`, the column whose length is the number of rows (by default the first), and `codes COLUMN`, the column with
/// indexes into the code table. Each column has its name in the structure (and in the table, if that differs), the type of
/// its storage ([`Store`](crate::column::Store)), the type of its values (by default that of the storage), further properties
/// of a [`Field`](crate::schema::Field), and a sentence.
///
/// ```
/// use quipu_model::schema::{Missing, Role, Type};
/// use quipu_model::{Table, rows};
///
/// rows! {
///     /// Jumps.
///     pub struct Jumps: "jumps" derived "where control went" {
///         from: Vec<u64> as Type::Address, role(Role::PC) => "the jump";
///         kind("type"): Vec<u8>, missing(0xffu8) => "what sort of jump it is";
///     }
/// }
///
/// let jumps = Jumps { from: vec![0x1000], kind: vec![3] };
/// let schema = jumps.schema();
/// assert_eq!((schema.fields[1].name.as_ref(), schema.fields[1].missing), ("type", Missing::Is(255)));
/// assert_eq!((jumps.n_rows(), jumps.column(0).number(0)), (1, 0x1000));
/// ```
#[macro_export]
macro_rules! rows {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Name:ident: $name:literal $fidelity:ident $doc:literal
        $(, len $len:ident)? $(, codes $codes:ident)?
        { $(
            $field:ident $(($column:literal))? : $store:ty $(as $ty:expr)? $(, $refine:ident ( $($arg:expr),* ))*
            => $sentence:literal;
        )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        $vis struct $Name { $(#[doc = $sentence] pub $field: $store,)* }

        impl $Name {
            /// The schema of the table.
            pub fn table_schema() -> &'static ::std::sync::Arc<$crate::schema::Schema> {
                static SCHEMA: ::std::sync::LazyLock<::std::sync::Arc<$crate::schema::Schema>> =
                    ::std::sync::LazyLock::new(|| {
                        let fields = vec![$(
                            <$store as $crate::column::Store>::field(
                                $crate::rows!(@name $field $($column)?),
                                $crate::rows!(@type $store $(, $ty)?),
                                $sentence,
                            )$(.$refine($($arg),*))*,
                        )*];
                        let fidelity = $crate::rows!(@fidelity $fidelity);
                        ::std::sync::Arc::new($crate::schema::Schema::new($name, fidelity, $doc, fields))
                    });
                &SCHEMA
            }

            /// Number of rows.
            #[inline]
            pub fn len(&self) -> usize {
                $crate::rows!(@len self [$($len)?] $($field)*)
            }

            /// True if there are no rows.
            #[inline]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Removes all rows but keeps the buffers.
            pub fn clear(&mut self) {
                self.truncate(0);
            }

            /// Keeps the first `rows` rows.
            pub fn truncate(&mut self, rows: usize) {
                $($crate::column::Store::cut(&mut self.$field, rows);)*
            }

            /// Appends rows of another structure. `rename` maps each index into the code table to its new value.
            #[inline]
            pub fn append(
                &mut self,
                from: &$Name,
                rows: ::std::ops::Range<usize>,
                rename: impl Fn(u32) -> u32,
            ) {
                $(let first = self.$codes.len();)?
                $($crate::column::Store::append(&mut self.$field, &from.$field, rows.clone());)*
                $(self.$codes[first..].iter_mut().for_each(|code| *code = rename(*code));)?
                let _ = rename;
            }
        }

        impl $crate::Table for $Name {
            fn schema(&self) -> &::std::sync::Arc<$crate::schema::Schema> {
                $Name::table_schema()
            }

            fn n_rows(&self) -> usize {
                self.len()
            }

            fn column(&self, position: usize) -> $crate::column::ColumnRef<'_> {
                let mut left = position;
                $(
                    if left == 0 {
                        return $crate::column::Store::lend(&self.$field);
                    }
                    left = left.wrapping_sub(1);
                )*
                panic!("the table has no column at position {position}, {left} past the end")
            }

            fn into_columns(self: Box<Self>) -> Vec<$crate::column::Column> {
                vec![$($crate::column::Store::give(self.$field),)*]
            }
        }

        impl $crate::TableBuf for $Name {
            fn clear(&mut self) {
                self.truncate(0);
            }

            fn fresh(&self) -> Box<dyn $crate::TableBuf> {
                Box::new($Name::default())
            }

            fn extend_rows(
                &mut self,
                from: &dyn $crate::TableBuf,
                rows: ::std::ops::Range<usize>,
                rename: &dyn Fn(u32) -> u32,
            ) {
                if let Some(from) = from.get::<$Name>() {
                    self.append(from, rows, rename);
                }
            }
        }
    };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $column:literal) => { $column };
    (@type $store:ty) => { <$store as $crate::column::Store>::ty() };
    (@type $store:ty, $ty:expr) => { $ty };
    (@fidelity exact) => { $crate::schema::Fidelity::Exact };
    (@fidelity derived) => { $crate::schema::Fidelity::Derived };
    (@len $self:ident [$len:ident] $($field:ident)*) => { $crate::column::Store::n_values(&$self.$len) };
    (@len $self:ident [] $first:ident $($field:ident)*) => { $crate::column::Store::n_values(&$self.$first) };
}
