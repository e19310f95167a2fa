//! The rules of `check`, each with its name, severity and entry in the manual.

use quipu_arrow::read::{Flaw, Loses};
use quipu_model::{Amount, Error, ErrorKind, Finding, Loss, RuleInfo};

quipu_model::rules! {
    "files of Parquet and Arrow" {
        FILE "columnar/unreadable-file" Error
            "A file of a folder can be read."
            "Its rows are lost; other files are read." []
        GROUP "columnar/damaged-group" Error
            "A row group or record batch is what its file says."
            "What was unpacked of it before the damage is kept; reading continues with the next one." []
        MARK "columnar/damaged-mark" Error
            "A file has the marks, the head and the footer of its format, and its indexes of pages agree with the pages."
            "What reading needs of them stands elsewhere in the file, too: no row is lost. Where an index is wrong, row groups are read whole. Of a file of Parquet whose footer is damaged, no row can be found." []
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
            "Its rows are lost. A record counts as read if another file has a row of it." []
    }
}

/// Turns an error of a read into a finding that reports lost rows: `n_rows`, or an unknown number. With `is_end`, reading does
/// not resume after the error.
pub(crate) fn lost(rule: &'static RuleInfo, error: &Error, n_rows: Option<u64>, is_end: bool) -> Finding {
    let place = error.place().clone();
    let loss = Loss {
        records: Amount::known(n_rows),
        resumed: (!is_end).then(|| place.clone()),
        ..Loss::from(place.clone())
    };
    rule.broken(place, error.message_and_cause()).losing(loss)
}

/// Turns a flaw of a file into a finding.
pub(crate) fn of_flaw(flaw: &Flaw) -> Finding {
    match flaw.loses {
        Loses::Nothing => MARK.broken(flaw.error.place().clone(), flaw.error.message_and_cause()),
        Loses::Group => lost(&GROUP, &flaw.error, None, false),
        Loses::Rest => lost(&CUT, &flaw.error, None, true),
    }
}

/// The finding for a file that could not be opened.
pub(crate) fn unreadable(name: &str, error: &Error) -> Finding {
    let error = Error::new(error.kind(), error.message_and_cause()).at(error.place()).in_file(name);
    let rule = if error.kind() == ErrorKind::Missing { &MISSING } else { &FILE };
    lost(rule, &error, None, true)
}
