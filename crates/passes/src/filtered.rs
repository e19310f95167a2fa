//! Labels for numbers of a trace that was filtered while it was traced.
//!
//! Its instructions are not all that were executed, and its accesses not all that were made.

use crate::number::{counted, grouped};
use quipu_model::Meta;
use quipu_model::trace::{Recorded, filtered_sentence};

/// The parts of a trace that a filter has thinned out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filtered {
    instrs: bool,
    data: bool,
}

impl Filtered {
    /// The filtered parts of this trace.
    pub fn of(meta: &Meta) -> Filtered {
        let is_filtered = |recorded| recorded == Recorded::Filtered;
        Filtered { instrs: is_filtered(meta.instrs), data: is_filtered(meta.data) }
    }

    /// A sentence about the missing parts of the trace; `None` if nothing was filtered.
    pub(crate) fn sentence(self) -> Option<String> {
        let recorded = |is_filtered| if is_filtered { Recorded::Filtered } else { Recorded::All };
        let lacks = filtered_sentence(recorded(self.instrs), recorded(self.data))?;
        Some(format!("{lacks}; all numbers are about the rest"))
    }

    /// The participle for a count of instructions, including further iterations of string loops.
    pub(crate) fn executed(self) -> &'static str {
        if self.instrs { "left by the filter" } else { "executed" }
    }

    /// The head of a column with shares of executed instructions.
    pub(crate) fn share_of_executed(self) -> &'static str {
        if self.instrs { "share of those left" } else { "share of executed" }
    }

    /// The label of the number of executed instructions.
    pub(crate) fn executed_instructions(self) -> &'static str {
        if self.instrs { "instructions left by the filter" } else { "executed instructions" }
    }

    /// The label of the number of fetched instructions.
    pub fn fetched_instructions(self) -> &'static str {
        if self.instrs { "fetched instructions left by the filter" } else { "fetched instructions" }
    }

    /// The label of the number of accesses to data.
    pub fn of_data(self, what: &str) -> String {
        if self.data { format!("{what} left by the filter") } else { what.to_owned() }
    }

    /// The phrase for `n` executed instructions as the whole of a share.
    pub(crate) fn whole_of_executed(self, n: u64) -> String {
        match (self.instrs, n) {
            (true, _) => format!("the {} left by the filter", counted(n, "instruction")),
            (false, 1) => "1 executed instruction".to_owned(),
            (false, _) => format!("{} executed instructions", grouped(n)),
        }
    }

    /// The phrase for `n` fetched instructions as the whole of a share.
    pub(crate) fn whole_of_fetched(self, n: u64) -> String {
        match (self.instrs, n) {
            (true, _) => format!("the {} left by the filter", counted(n, "fetched instruction")),
            (false, _) => counted(n, "fetched instruction"),
        }
    }

    /// The label of accesses per fetched instruction.
    pub(crate) fn per_fetched(self, what: &str) -> String {
        match (self.data, self.instrs) {
            (false, false) => format!("{what} per fetched instruction"),
            (true, false) => format!("{what} left by the filter, per fetched instruction"),
            (false, true) => format!("{what} per fetched instruction left by the filter"),
            (true, true) => format!("{what} per fetched instruction, both as left by the filter"),
        }
    }

    /// The label of a quantity per fetched instruction that the trace has.
    pub(crate) fn of_fetched(self, what: &str) -> String {
        if self.instrs {
            format!("{what} per fetched instruction left by the filter")
        } else {
            format!("{what} per fetched instruction")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_filter_left_is_not_called_executed() {
        let (all, some) = (Filtered::default(), Filtered { instrs: true, data: true });
        assert_eq!(all.whole_of_executed(5979), "5,979 executed instructions");
        assert_eq!(all.whole_of_executed(1), "1 executed instruction");
        assert_eq!(some.whole_of_executed(53), "the 53 instructions left by the filter");
        assert_eq!(some.whole_of_fetched(1), "the 1 fetched instruction left by the filter");
        assert_eq!(some.share_of_executed(), "share of those left");
        assert_eq!(all.sentence(), None);
        let data = Filtered { instrs: false, data: true };
        assert_eq!(data.executed(), "executed");
        assert_eq!(data.per_fetched("loads"), "loads left by the filter, per fetched instruction");
        assert!(data.sentence().is_some_and(|text| text.contains("accesses to data that")));
    }
}
