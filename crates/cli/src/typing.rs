//! Saying where types come from, for verbs that tell accesses by field.

use quipu::model::{Args, ToolInfo};
use quipu_console::number;
use std::path::PathBuf;

/// Where types come from.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct Typing {
    /// The program, whose debug information says types and variables
    #[arg(long, value_name = "FILE", help_heading = "Types")]
    binary: Option<PathBuf>,
    /// A file of types, as Cacheray's extractor writes it; where both are given, for what the program does not know
    #[arg(long, value_name = "FILE", help_heading = "Types")]
    types: Option<PathBuf>,
    /// Where the program was loaded, if not where its file says
    #[arg(long, value_name = "ADDR", value_parser = number::number, help_heading = "Types", requires = "binary")]
    base: Option<u64>,
}

impl Typing {
    /// The options of analyses that were given.
    pub(crate) fn given(&self) -> Vec<(String, String)> {
        let path = |path: &PathBuf| path.display().to_string();
        [
            ("binary", self.binary.as_ref().map(path)),
            ("types", self.types.as_ref().map(path)),
            ("base", self.base.map(|base| base.to_string())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
    }

    /// Gives an analysis those that it has.
    pub(crate) fn give(&self, info: &ToolInfo, args: &mut Args) {
        for (name, value) in self.given() {
            if info.options.iter().any(|option| option.name == name) {
                args.set(name, value);
            }
        }
    }
}
