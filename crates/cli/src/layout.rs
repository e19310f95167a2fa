//! Flags of the analysis `layout`, which are options of it with names of their own.

use quipu_console::number;
use std::path::PathBuf;

/// Another layout of a type
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Another layout, for the analysis `layout`")]
pub(crate) struct LayoutFlags {
    /// The type; without further flags, layouts of it are proposed
    #[arg(id = "type_name", long = "type", value_name = "NAME")]
    name: Option<String>,
    /// Hot members apart: their names, `cold=` and names, or `hot` to find them
    #[arg(long, value_name = "MEMBERS")]
    split: Option<String>,
    /// An array for each member, where there are several elements
    #[arg(long, conflicts_with = "aos")]
    soa: bool,
    /// One array of structures for members that are arrays of one length
    #[arg(long)]
    aos: bool,
    /// Bytes left free: `MEMBER=BYTES`, `MEMBER=line`, or `line` for lines of its own for each element
    #[arg(long, value_name = "ROOM")]
    pad: Vec<String>,
    /// What each element's address is a multiple of
    #[arg(long, value_name = "BYTES", value_parser = number::number)]
    align: Option<u64>,
    /// A file of Cacheray's simulator that says where members lie
    #[arg(long, value_name = "FILE")]
    remap: Option<PathBuf>,
    /// The language of the new declaration
    #[arg(long, value_name = "LANGUAGE", value_parser = ["c", "cpp", "rust"])]
    language: Option<String>,
}

impl LayoutFlags {
    /// The same as options.
    pub(crate) fn given(&self) -> impl Iterator<Item = (String, String)> {
        let arrays = match (self.soa, self.aos) {
            (true, _) => Some("soa".to_owned()),
            (_, true) => Some("aos".to_owned()),
            _ => None,
        };
        let all = [
            ("type", self.name.clone()),
            ("split", self.split.clone()),
            ("arrays", arrays),
            ("pad", (!self.pad.is_empty()).then(|| self.pad.join(","))),
            ("align", self.align.map(|align| align.to_string())),
            ("remap", self.remap.as_ref().map(|path| path.display().to_string())),
            ("language", self.language.clone()),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)))
    }
}
