//! Simulates other layouts of a type.
//!
//! | file | what |
//! |---|---|
//! | `units`, `source` | the members of a type, and their declarations |
//! | `arrange` | layouts: orders, splits, arrays, padding |
//! | `live`, `moved` | regions of the type, and their new addresses |
//! | `survey`, `propose` | a first read of the trace, and layouts to try |
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
