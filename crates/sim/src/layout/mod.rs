//! What another layout of a type would give.
//!
//! | file | what |
//! |---|---|
//! | `units`, `source` | the members of a type, and how they are declared |
//! | `arrange` | layouts: orders, splits, arrays, room |
//! | `live`, `moved` | regions of the type, and where they and accesses to them go |
//! | `survey`, `propose` | a first read of the trace, and layouts that may be better |
//! | `levels`, `run` | the second read: a machine for each layout |
//! | `report` | the results |
//! | `declare`, `text`, `rust_text` | the new declaration, and types in each language |
//! | `tool` | the analysis `layout` |

mod arrange;
mod declare;
mod levels;
mod live;
mod moved;
mod propose;
mod report;
mod run;
mod rust_text;
mod source;
mod survey;
mod text;
pub mod tool;
mod units;

#[cfg(test)]
mod compiled;
#[cfg(test)]
mod tests;

pub use report::{LayoutReport, MemberRow, MissesBy, Row, Spot};
