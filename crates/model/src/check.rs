//! What the tools called `check` share: their options, and which rules a person asks for.
//!
//! What they look at, and how they count it, is each format's own.

use crate::finding::{RuleInfo, is_called};
use crate::pass::Args;
use crate::trace::SettingInfo;
use crate::{Error, Result};

/// Rules that a trace of any format may break, because they are about containers and reading; their entries stand in the
/// list of the first format that has them.
pub const SHARED_RULES: &[&str] =
    &["source/truncated", "source/malformed", "source/unsupported", "source/limit", "engine/unreadable"];

/// The options that such a tool has; `decode` says what is left out without it.
pub const fn options(decode: &'static str) -> [SettingInfo; 4] {
    [
        SettingInfo {
            name: "max-per-rule",
            value: "N",
            default: "8",
            doc: "how many violations of each rule are kept one by one; the rest are counted",
        },
        SettingInfo { name: "rules", value: "RULE,…", default: "", doc: "only these rules" },
        SettingInfo { name: "skip-rules", value: "RULE,…", default: "", doc: "all rules but these" },
        SettingInfo { name: "decode", value: "", default: "true", doc: decode },
    ]
}

/// Whether the option `decode` leaves that on.
pub fn decodes(args: &Args) -> bool {
    args.get("decode").is_none() || args.flag("decode")
}

/// Which rules are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WantedRules {
    only: Vec<&'static str>,
    without: Vec<&'static str>,
}

impl WantedRules {
    /// Those that the options `rules` and `skip-rules` leave of a format's rules and the shared ones.
    ///
    /// # Errors
    /// `Usage` if there is no rule of a name.
    pub fn of(args: &Args, rules: &'static [RuleInfo]) -> Result<WantedRules> {
        let find = |option: &str| -> Result<Vec<&'static str>> {
            let names = args.get(option).unwrap_or("").split(',').filter(|name| !name.is_empty());
            names
                .map(|name| {
                    let mut known = rules.iter().map(|rule| rule.name).chain(SHARED_RULES.iter().copied());
                    known.find(|rule| is_called(rule, name)).ok_or_else(|| {
                        Error::usage(format!("there is no rule `{name}`"))
                            .hint("`quipu check --list` has all rules")
                    })
                })
                .collect()
        };
        Ok(WantedRules { only: find("rules")?, without: find("skip-rules")? })
    }

    /// Whether a rule, by its full name, is one of them.
    pub fn wants(&self, rule: &str) -> bool {
        (self.only.is_empty() || self.only.contains(&rule)) && !self.without.contains(&rule)
    }
}
