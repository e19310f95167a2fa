//! A body that needs a library is counted and skipped without a decoder. With one, the walk over all samples compares it.

use crate::vectors::{bytes, findings_differ, summary_of};

#[test]
fn a_body_of_arrow_without_a_decoder_is_counted_and_skipped() {
    let summary = summary_of(&bytes("arrow-body"));
    let wanted = serde_json::json!([{"name": "unknown-encoding", "offset": 520, "records": 5}]);
    assert_eq!(findings_differ(&summary["findings"], &wanted), None);
    assert_eq!(summary["records"], serde_json::json!([]));
}
