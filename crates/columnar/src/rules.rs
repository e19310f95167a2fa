//! The rules, each with its name, its severity and its entry in the manual.

use quipu_model::{Amount, Error, Finding, Loss, RuleInfo};

quipu_model::rules! {
    "files of Parquet and Arrow" {
        FILE "columnar/unreadable-file" Error
            "A file of a folder can be read."
            "Its rows are lost; other files are read." []
        GROUP "columnar/damaged-group" Error
            "A row group or record batch is what its file says."
            "What was unpacked of it before the damage is kept; reading continues with the next one." []
        CUT "columnar/cut" Error
            "A file or stream of Arrow is complete."
            "What precedes the cut is good. A stream has no count of its batches: one that was cut between two of them looks whole." []
        ORDER "columnar/record-order" Warning
            "Positions of records ascend, and are no more than 2^48."
            "A row that stands too late, or has a larger one, counts for the record before it; its own columns stay." ["record N stands after record N", "record N is beyond the N that there may be"]
        COLUMN "columnar/left-out-column" Warning
            "A column has values that a table can have."
            "Others are left out: maps, unions, intervals." []
        COLUMNS "columnar/other-columns" Error
            "All files of a table have its columns."
            "The rows of one that has others are left out." []
        MISSING "columnar/missing-file" Error
            "A file that the manifest names is there."
            "Its rows are lost." []
    }
}

/// What a read could not do, as a finding: `n_rows` are lost, if that is known.
pub(crate) fn lost(rule: &'static RuleInfo, error: &Error, n_rows: Option<u64>, is_end: bool) -> Finding {
    let place = error.place().clone();
    let loss = Loss {
        records: Amount::known(n_rows),
        resumed: (!is_end).then(|| place.clone()),
        ..Loss::from(place.clone())
    };
    rule.broken(place, error.message().to_owned()).losing(loss)
}
