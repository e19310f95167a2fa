//! Flags for the options of the analysis `layout`.

use quipu::model::OptionSpec;
use quipu::sim::layout;
use quipu_console::flags::{Flagged, Flags, named};

/// Options that select the layout.
#[derive(Debug)]
pub(crate) struct LayoutOptions;

impl Flagged for LayoutOptions {
    fn specs() -> Vec<OptionSpec> {
        let names = ["type", "split", "arrays", "pad", "align", "remap", "language"];
        named(layout::tool::INFO.options, &names)
            .into_iter()
            .map(|spec| spec.group("Another layout, for the analysis `layout`"))
            .collect()
    }
}

/// Another layout of a type.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Another layout, for the analysis `layout`")]
pub(crate) struct LayoutFlags {
    #[command(flatten)]
    flags: Flags<LayoutOptions>,
    /// Same as `--arrays soa`
    #[arg(long, conflicts_with_all = ["aos", "arrays"])]
    soa: bool,
    /// Same as `--arrays aos`
    #[arg(long, conflicts_with = "arrays")]
    aos: bool,
}

impl LayoutFlags {
    /// The flags as options of the analysis.
    pub(crate) fn given(&self) -> impl Iterator<Item = (String, String)> {
        let arrays = match (self.soa, self.aos) {
            (true, _) => Some("soa"),
            (_, true) => Some("aos"),
            _ => None,
        };
        let arrays = arrays.map(|word| ("arrays".to_owned(), word.to_owned()));
        self.flags.given().clone().into_iter().chain(arrays)
    }
}
