//! Each rule broken once, and sound traces.

// The helpers of a test may panic as the test may.

use crate::common::{din, format, lackey, trace};
use quipu_model::Trace;
use quipu_testkit::broken_rules;
use std::collections::BTreeMap;

/// The rules that a trace breaks: how often, and where first.
fn broken(name: &str, trace: &dyn Trace) -> BTreeMap<String, (u64, Option<u64>)> {
    broken_rules(format(name).tools()[0], trace)
}

fn of(rule: &str, count: u64, offset: u64) -> BTreeMap<String, (u64, Option<u64>)> {
    BTreeMap::from([(rule.to_owned(), (count, Some(offset)))])
}

#[test]
fn each_rule_of_lackey_is_told_where_it_is_broken() {
    for (text, rule, count, offset) in [
        ("==1== Lackey\n", "lackey/empty", 1, 13),
        ("I  0400,3\nI  0403,3", "lackey/cut", 1, 10),
        ("I  0400,3\n\nhello\n L 20,4\nworld\n", "lackey/bad-line", 2, 11),
        ("I  0400,3\n L 123456789abcdef01,4\n", "lackey/number", 1, 10),
        ("==1== Lackey\nI  0400,3\n==2== Lackey\n==2== x\n", "lackey/processes", 1, 23),
        ("I  0400,3\n==1== guest instrs:  1,002\n", "lackey/instr-count", 1, 10),
        ("I  0400,3\nI  0403,0\n==1== x\nI  0403,25\n", "lackey/instr-size", 2, 10),
        ("I  0400,3\n==1== x\n\n L 10,513\n S 20,512\n", "lackey/data-size", 1, 19),
        (" L 10,4\n S 10,4\nI  0400,3\n", "lackey/no-instr", 1, 0),
    ] {
        assert_eq!(broken("lackey", &*lackey(text.as_bytes())), of(rule, count, offset), "{text}");
    }
}

#[test]
fn each_rule_of_din_is_told_where_it_is_broken() {
    for (text, rule, count, offset) in [
        ("", "din/empty", 1, 0),
        ("0 10\n1 20", "din/cut", 1, 5),
        ("0 10\n5 20\n\n0 x\n", "din/bad-line", 2, 5),
        ("0 10\n0 123456789abcdef01\n", "din/number", 1, 5),
        ("r 10 4\nr 10 0\nw 20 1001\n", "din/size", 2, 7),
        ("0 10\n1 100000000\n", "din/wide-address", 1, 5),
    ] {
        assert_eq!(broken("din", &*din(text.as_bytes(), &[])), of(rule, count, offset), "{text}");
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
