//! SQL's scalar expressions over the columns of tables and lenses.
//!
//! [`parse`] parses a text to a tree; [`Bound`] binds it to the columns of a table, checks types, and evaluates it for a
//! batch of rows at a time. [`Where`] is a condition that selects rows. The grammar, the functions and all differences from
//! DataFusion's SQL are in `docs/expressions.md`.
//!
//! | file | subject |
//! |---|---|
//! | `lex` | tokens |
//! | `parse` | the grammar, with limits of size and nesting |
//! | [`tree`] | the parsed tree |
//! | `bind` | columns, types, constants |
//! | `eval` | values of a batch |
//! | [`vector`] | representation of values |
//! | `functions`, `like` | scalar functions, patterns |
//! | `choose` | conditions as predicates that readers evaluate |
//! | `fault` | errors that point at a place of the text |
//!
//! ```
//! use quipu_expr::{Bound, Input, Source, parse};
//! use quipu_model::schema::{Fidelity, Schema, Type};
//! use quipu_model::{ColumnTable, Field, Table};
//!
//! let fields = vec![Field::new("addr", Type::Address, ""), Field::new("size", Type::U8, "")];
//! let mut rows = ColumnTable::new(Schema::new("t", Fidelity::Derived, "", fields).into());
//! for (addr, size) in [(0x1238, 8), (0x2000, 4)] {
//!     rows.columns[0].push(addr)?;
//!     rows.columns[1].push(size)?;
//! }
//! let source = Source::new("line(addr) + size");
//! let bound = Bound::new(&source, &parse(&source)?, rows.schema())?;
//! let values = bound.eval(&Input::of(&rows))?;
//! assert_eq!((values.int(0), values.int(1)), (Some(0x1208), Some(0x2004)));
//! # Ok::<(), quipu_model::Error>(())
//! ```

#![warn(missing_docs)]

mod bind;
mod choose;
mod eval;
mod fault;
mod functions;
mod lex;
mod like;
mod parse;
#[cfg(test)]
mod tests;
pub mod tree;
pub mod vector;

pub use bind::{Bound, Ty, Value};
pub use choose::Where;
pub use eval::Input;
pub use fault::Source;
pub use functions::names as function_names;
pub use parse::{MAX_BYTES, MAX_DEPTH, MAX_NODES, Named, parse, parse_list};
pub use tree::Expr;
pub use vector::{Data, Texts, Vector};
