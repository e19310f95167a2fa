//! The vocabulary that every Quipu crate shares.
//!
//! This crate knows no format and reads no file. It defines where a record is ([`Place`]), why an operation failed
//! ([`Error`]), what is wrong with a trace ([`Finding`]), how rows travel ([`Batch`], [`lens`], [`table`]), the interface of
//! a trace format ([`Format`], [`Trace`], [`Reader`], [`Printer`], [`Transform`]), that of an analysis ([`Pass`], [`Tool`],
//! [`Report`]) and the documents that an analysis makes for people ([`doc`]).
//!
//! To read traces, start with [`Trace`]; to analyse them, start with [`Pass`].

#![warn(missing_docs)]

pub mod aggregations;
pub mod align;
pub mod batch;
pub mod buckets;
pub mod check;
pub mod code;
pub mod column;
pub mod columns;
pub mod convert;
pub mod damaged;
pub mod dicts;
pub mod doc;
pub mod error;
pub mod executed;
pub mod finding;
pub mod fresh;
pub mod harmless;
pub mod lens;
pub mod loss;
pub mod number;
pub mod options;
pub mod pass;
pub mod predicate;
pub mod print;
pub mod result;
pub mod row_source;
pub mod row_tool;
pub mod rows;
pub mod schema;
pub mod spans;
pub mod table;
pub mod thread;
pub mod trace;
pub mod transform;
pub mod values;

pub use batch::{Batch, Cursor, Remark, Span};
pub use code::{Code, CodeTable, SharedCodes};
pub use column::{Column, ColumnRef, Strings};
pub use columns::{Columns, LensInfo};
pub use damaged::Damaged;
pub use error::{Error, ErrorKind, Place, Result};
pub use finding::{Finding, Found, RuleInfo, Severity};
pub use loss::{Amount, Loss, Lost};
pub use options::{Given, OptionSpec, Options};
pub use pass::{DynPass, Needs, Order, Pass, Reads, Report, ReportBody, Tool, ToolInfo};
pub use predicate::{Accept, Beside, Chosen, Condition, Filter, Predicate, RowFilter, RowTest, Sieve};
pub use print::{Paint, Printer};
pub use row_source::RowSource;
pub use row_tool::{RowMaker, RowPass, RowTaker, RowTool};
pub use schema::{Field, Schema, Text};
pub use spans::Spans;
pub use table::{ColumnTable, Table, TableBuf};
pub use thread::ThreadId;
pub use trace::{
    Confidence, Cut, Dispatched, Format, FormatInfo, Meta, Module, OpenOptions, Placed, Reader, Rounds, Scan,
    Shard, ShardId, ShardKind, Trace, Window,
};
pub use transform::{Comparison, Transform, Transformed};
pub use values::{Types, Values};
