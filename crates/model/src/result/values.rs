//! Numbers, texts and lists as values in results.

use super::{Cells, Fields, Kind, Marks, Rows, Shape, Value, put};
use crate::schema::Type;
use crate::thread::{ThreadId, is_first_workload};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeSet;

macro_rules! numbers {
    ($($ty:ty as $Variant:ident: $number:ident => $bits:expr;)*) => {$(
        impl Value for $ty {
            fn kind() -> Kind {
                Kind::cell(Type::$Variant)
            }

            fn is_nothing(&self) -> bool {
                *self == <$ty>::default()
            }

            fn cells(&self, cells: &mut Cells<'_>) {
                let $number = *self;
                cells.number($bits);
            }
        }
    )*};
}

numbers! {
    bool as Bool: number => number.into();
    u16 as U16: number => number.into();
    u32 as U32: number => number.into();
    u64 as U64: number => number;
    usize as U64: number => number as u64;
    i64 as I64: number => number as u64;
    f64 as F64: number => number.to_bits();
}

macro_rules! texts {
    ($($ty:ty),*) => {$(
        impl Value for $ty {
            fn kind() -> Kind {
                Kind::cell(Type::Text)
            }

            fn is_nothing(&self) -> bool {
                self.is_empty()
            }

            fn cells(&self, cells: &mut Cells<'_>) {
                cells.text(self);
            }
        }
    )*};
}

texts!(&'static str, String, Cow<'static, str>);

impl<V: Value> Value for Option<V> {
    const N_CELLS: usize = V::N_CELLS;
    const N_TABLES: usize = V::N_TABLES;
    const IS_STRUCTURE: bool = V::IS_STRUCTURE;

    fn kind() -> Kind {
        V::kind().or_nothing()
    }

    fn is_nothing(&self) -> bool {
        self.is_none()
    }

    fn keys<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.as_ref().map_or(Ok(()), |value| value.keys(map))
    }

    fn cells(&self, cells: &mut Cells<'_>) {
        match self {
            Some(value) => value.cells(cells),
            None => cells.nothing(V::N_CELLS),
        }
    }

    fn rows(&self, rows: &mut Rows<'_>) {
        match self {
            Some(value) => value.rows(rows),
            None => rows.skip(V::N_TABLES),
        }
    }
}

impl<V: Value> Value for Vec<V> {
    const N_CELLS: usize = if V::IS_STRUCTURE { 0 } else { 1 };
    const N_TABLES: usize = if V::IS_STRUCTURE { 1 } else { 0 };
    const IS_STRUCTURE: bool = V::IS_STRUCTURE;

    fn kind() -> Kind {
        V::kind().list()
    }

    fn is_nothing(&self) -> bool {
        self.is_empty()
    }

    fn cells(&self, cells: &mut Cells<'_>) {
        if !V::IS_STRUCTURE {
            cells.list(|add| self.iter().for_each(|item| add(&|cell| item.cells(cell))));
        }
    }

    fn rows(&self, rows: &mut Rows<'_>) {
        if V::IS_STRUCTURE {
            rows.list(self);
        }
    }
}

impl Value for BTreeSet<u64> {
    fn kind() -> Kind {
        Kind::cell(Type::U64).list()
    }

    fn cells(&self, cells: &mut Cells<'_>) {
        cells.list(|add| self.iter().for_each(|item| add(&|cell| item.cells(cell))));
    }
}

/// A number in hexadecimal. It is text in JSON, because many readers of JSON hold numbers in 53 bits.
#[derive(Debug)]
pub struct Hex<'a, T>(pub &'a T);

impl Serialize for Hex<'_, u64> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#x}", self.0))
    }
}

impl Value for Hex<'_, u64> {
    fn kind() -> Kind {
        Kind::cell(Type::Address)
    }

    fn cells(&self, cells: &mut Cells<'_>) {
        cells.number(*self.0);
    }
}

impl Serialize for Hex<'_, Option<u64>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_ref().map(Hex).serialize(serializer)
    }
}

impl Value for Hex<'_, Option<u64>> {
    fn kind() -> Kind {
        Kind::cell(Type::Address).or_nothing()
    }

    fn is_nothing(&self) -> bool {
        self.0.is_none()
    }

    fn cells(&self, cells: &mut Cells<'_>) {
        self.0.as_ref().map(Hex).cells(cells);
    }
}

impl Serialize for Hex<'_, Vec<u64>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Hex))
    }
}

impl Value for Hex<'_, Vec<u64>> {
    fn kind() -> Kind {
        Kind::cell(Type::Address).list()
    }

    fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }

    fn cells(&self, cells: &mut Cells<'_>) {
        cells.list(|add| self.0.iter().for_each(|item| add(&|cell| cell.number(*item))));
    }
}

/// A list of threads: their numbers, or texts such as `W1.T5747` for threads of further traces.
#[derive(Debug)]
pub struct ThreadNames<'a, T>(pub &'a T);

impl Serialize for ThreadNames<'_, Vec<ThreadId>> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        crate::thread::numbers(self.0, serializer)
    }
}

impl Value for ThreadNames<'_, Vec<ThreadId>> {
    fn kind() -> Kind {
        Kind::cell(Type::Text).list()
    }

    fn cells(&self, cells: &mut Cells<'_>) {
        cells.list(|add| self.0.iter().for_each(|thread| add(&|cell| cell.text(&thread.to_string()))));
    }
}

const THREAD: Marks = Marks::new("thread");
const WORKLOAD: Marks = Marks::new("workload").perhaps();

impl Fields for ThreadId {
    fn shape() -> Shape {
        let workload = "Which of several traces the thread belongs to; left out for the first.";
        let members = vec![
            THREAD.member(Kind::cell(Type::U64), "The thread."),
            WORKLOAD.member(Kind::cell(Type::U16), workload),
        ];
        Shape { name: "ThreadId", doc: "A thread.", members }
    }
}

impl Value for ThreadId {
    const N_CELLS: usize = 2;
    const IS_STRUCTURE: bool = true;

    fn kind() -> Kind {
        Kind::fields(ThreadId::shape)
    }

    fn keys<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        put(map, &THREAD, &self.tid)?;
        if is_first_workload(&self.workload) { Ok(()) } else { put(map, &WORKLOAD, &self.workload) }
    }

    fn cells(&self, cells: &mut Cells<'_>) {
        cells.number(self.tid);
        cells.number(self.workload.into());
    }
}
