//! Breaks each rule once, and checks undamaged traces.

// The helpers of a test may panic as the test may.

use crate::common::{format, trace};
use quipu_model::Trace;
use quipu_testkit::{broken_rules, cases};
use std::collections::BTreeMap;

/// The rules that a trace breaks, each with its number of violations and its first place.
fn broken(name: &str, trace: &dyn Trace) -> BTreeMap<String, (u64, Option<u64>)> {
    broken_rules(format(name).tools()[0], trace)
}

/// `cases/FORMAT-RULE` breaks one rule each.
#[test]
fn every_case_is_printed_and_checked_as_its_files_say() {
    for name in ["lackey", "din"] {
        let inputs = cases::inputs(name);
        inputs.iter().for_each(|input| cases::holds(format(name), input));
        for rule in format(name).rules().iter().filter(|rule| rule.name.starts_with(name)) {
            let case = rule.name.replace('/', "-");
            let has = inputs.iter().any(|input| input.parent().is_some_and(|folder| folder.ends_with(&case)));
            assert!(has || rule.name == "lackey/zeros", "no case breaks `{}`", rule.name);
        }
    }
}

#[test]
fn real_traces_follow_the_rules() {
    for name in ["lackey/nodes.lackey.gz", "din/labels.din"] {
        assert_eq!(broken(name, &*trace(name)), BTreeMap::new(), "{name}");
    }
    // The stack of this process is above 4 GiB.
    assert_eq!(
        broken("din", &*trace("din/nodes.din.gz")).into_keys().collect::<Vec<_>>(),
        ["din/wide-address"]
    );
}
