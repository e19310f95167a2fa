//! Many units at once, in the program that these tests are.

use super::DebugInfo;
use super::index::Index;
use super::objects::{Objects, Wanted};

#[test]
fn units_side_by_side_say_what_they_say_one_after_another() {
    // Compiled without debug information, it has nothing to say.
    let Ok(mut info) = DebugInfo::open(&std::env::current_exe().unwrap()) else { return };
    info.units.part_bytes = u64::MAX;
    let index = Index::new(&info.units);
    let objects = Objects::new(&info, Wanted::All);
    let variables = Objects::new(&info, Wanted::Variables);
    assert_eq!(variables.globals, objects.globals);
    assert!(variables.functions.is_empty());
    for part_bytes in [1, 10_000] {
        info.units.part_bytes = part_bytes;
        assert!(Index::new(&info.units) == index, "{part_bytes}");
        assert!(Objects::new(&info, Wanted::All) == objects, "{part_bytes}");
        assert!(Objects::new(&info, Wanted::Variables) == variables, "{part_bytes}");
    }
}
