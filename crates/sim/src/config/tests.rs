//! Tests of configurations: what they describe, and messages for what is wrong.

use super::block::KEYS;
use super::*;
use crate::spec::{Policy, Prefetch, Role, Rrip};

const SMALL: &str = "num_cores 1\nL1I { type instruction core 0 size 4K assoc 4 parent LL }\n\
                     L1D{type data core 0 size 4K assoc 4 parent LL prefetcher nextline}\n\
                     LL { size 1M assoc 16 replace_policy { type RRIP rrpv_bits 2 rrpv_period 32 \
                     rrpv_long_per_period 2 } } // the last\n";

fn refused(text: &str, message: &str) {
    assert_eq!(parse(text, "c").unwrap_err().message(), message);
}

#[test]
fn a_configuration_says_what_the_caches_are() {
    let config = parse(SMALL, "c").unwrap();
    assert_eq!(config.machine.caches.len(), 3);
    let [l1i, l1d, ll] = &config.machine.caches[..] else { panic!("three caches") };
    assert_eq!((l1i.role, l1i.bytes, l1i.ways, l1i.core), (Role::Instruction, 4096, 4, Some(0)));
    assert_eq!((l1d.prefetch, l1d.parent.as_deref()), (Prefetch::NextLine, Some("LL")));
    assert_eq!(ll.policy, Policy::Rrip(Rrip { bits: 2, period: 32, long_per_period: 2 }));
    assert_eq!((ll.role, ll.core, ll.parent.as_deref()), (Role::Unified, None, None));
}

#[test]
fn a_mistake_is_told_with_line_key_found_and_allowed() {
    refused(
        &SMALL.replace("size 1M", "size 1X"),
        "c: line 4, key size: found `1X`, allowed: a number of bytes, with K, M or G for powers of two",
    );
    refused(
        &SMALL.replace("nextline", "psychic"),
        "c: line 3, key prefetcher: found `psychic`, allowed: none, nextline, stride, stream",
    );
    refused(
        &SMALL.replace("type data", "type date"),
        "c: line 3, key type: found `date`, allowed: instruction, data, unified",
    );
    refused(
        &format!("{SMALL}coherence maybe"),
        "c: line 5, key coherence: found `maybe`, allowed: true, false",
    );
    refused(
        &SMALL.replace("assoc 16", "ways 16"),
        "c: line 4, key name: found `ways`, allowed: type, core, shared_by, size, assoc, inclusive, exclusive, \
         parent, replace_policy, prefetcher, miss_file, entries, pages",
    );
    refused(
        &SMALL.replace("assoc 16", "assoc 3"),
        "c: line 4, cache `LL`, key assoc: found `3`, allowed: 1 or more, so that size 1048576 is a multiple of assoc \
         times the line size 64",
    );
    refused(
        &SMALL.replace("parent LL }\n", "parent L9 }\n"),
        "c: line 2, cache `L1I`, key parent: found `L9`, allowed: memory, or the name of a cache",
    );
    refused("num_cores", "c: line 1, key num_cores: found the end of the file, allowed: a value");
    refused("LL { size 4K", "c: line 1, key LL: found the end of the file, allowed: a closing brace");
}

#[test]
fn circles_and_missing_caches_are_told() {
    let circle = SMALL.replace("LL { size", "LL { parent L2 size") + "L2 { size 1M assoc 16 parent LL }";
    refused(
        &circle,
        "c: line 2, cache `L1I`, key parent: found `LL`, allowed: a chain of parents that ends, after 32 at most",
    );
    refused(
        &SMALL.replace("num_cores 1", "num_cores 2"),
        "c: line 1, key num_cores: found `2`, allowed: as many as have caches of their own; core 1 has no instruction \
         cache",
    );
}

/// Asserts that the message names the file, this line and key, what was found and what is allowed.
fn told(text: &str, line: usize, key: &str, found: &str) {
    let error = parse(text, "c").unwrap_err();
    let message = error.message();
    let (place, rest) = message.split_once(": found ").unwrap_or_else(|| panic!("{message}"));
    assert!(place.starts_with(&format!("c: line {line}, ")), "{message}");
    assert!(place.ends_with(&format!("key {key}")), "{message}");
    assert!(rest.starts_with(found) && rest.contains(", allowed: "), "{message}");
}

#[test]
fn every_key_tells_a_wrong_value() {
    let globals = [
        "num_cores",
        "line_size",
        "skip_refs",
        "warmup_refs",
        "warmup_fraction",
        "sim_refs",
        "cpu_scheduling",
        "verbose",
        "coherence",
        "coherent",
        "use_physical",
        "page_size",
        "large_pages",
    ];
    assert_eq!(globals.len(), GLOBALS.split(',').count());
    for key in globals {
        for bad in ["-1", "x", "0x1"] {
            told(&format!("{SMALL}\n{key}\n{bad}\n"), 7, key, &format!("`{bad}`"));
        }
        told(&format!("{SMALL}{key}"), 5, key, "the end of the file");
    }
    for key in KEYS.split(", ").filter(|key| !["parent", "miss_file"].contains(key)) {
        let with = |value: &str| format!("{SMALL}L2 {{ size 1M\n{key} {value}\n}}");
        for bad in ["-1", "x", "}"] {
            told(&with(bad), 6, key, &format!("`{bad}`"));
        }
    }
    for key in ["rrpv_bits", "rrpv_period", "rrpv_long_per_period", "type"] {
        let text = SMALL.replace("rrpv_bits 2", &format!("\n{key} x"));
        told(&text, 5, key, "`x`");
    }
    told(&format!("{SMALL}sizes 1"), 5, "name", "`sizes`");
    told(&format!("{SMALL}}}"), 5, "name", "`}`");
}

#[test]
fn what_does_not_fit_together_is_told_at_its_key() {
    let with = |from: &str, to: &str| SMALL.replace(from, to);
    told(&with("LL { size", "LL { exclusive true\n inclusive true size"), 5, "inclusive", "`inclusive`");
    told(&with("size 1M assoc 16", "\nsize 1M\nassoc 3"), 6, "assoc", "`3`");
    told(&with("LL { size 1M assoc 16", "LL {\nsize 1048577\nassoc 16"), 5, "size", "`1048577`");
    let unified = "num_cores 1\nL1 { core 0 size 4K\nassoc 4 }\nL2 { size 8K assoc 4 parent L1 }";
    told(unified, 2, "core", "`0`");
    told(&with("parent LL }\n", "parent LL\ncore 7 }\n"), 3, "core", "`7`");
    told(&with("LL { size 1M", "LL { type\ndata size 1M"), 2, "parent", "`LL`");
    told(&with("rrpv_bits 2", "rrpv_bits 40"), 4, "replace_policy", "`RRIP 40 32 2`");
    told(&with("rrpv_bits 2", ""), 4, "replace_policy", "braces");
    told(&(SMALL.to_owned() + "L1I { size 4K assoc 4 }"), 5, "name", "`L1I`");
    told(&(SMALL.to_owned() + "L2 {\nsize 4K assoc 4 }"), 5, "core", "`nothing`");
    told("warmup_refs 3\nwarmup_fraction 0.5\nL { core 0 size 4K assoc 4 }", 2, "warmup_fraction", "`0.5`");
    told("num_cores 1\n\n", 3, "name", "the end of the file");
    told(
        &format!(
            "{}LL {{ size 1M assoc 16 inclusive true\nreplace_policy OPT }}",
            &SMALL[..SMALL.find("LL { size").unwrap()]
        ),
        5,
        "replace_policy",
        "`OPT`",
    );
}

#[test]
fn a_comment_mark_inside_a_word_is_none() {
    refused(
        &SMALL.replace("parent LL prefetcher", "parent //LL prefetcher"),
        "c: line 3, cache `L1D`, key parent: found `//LL`, allowed: memory, or the name of a cache",
    );
}

/// A cache's name, its first core and number of cores, and its parent.
type Shape<'a> = (&'a str, Option<(usize, usize)>, Option<&'a str>);

fn shape(caches: &[CacheSpec]) -> Vec<Shape<'_>> {
    let of = |cache: &CacheSpec| cache.core.map(|core| (core, cache.n_cores));
    caches.iter().map(|cache| (cache.name.as_str(), of(cache), cache.parent.as_deref())).collect()
}

#[test]
fn a_shared_block_stands_for_a_cache_of_each_group_of_cores() {
    let text = "num_cores 6\nL1 { shared_by 2 size 4K assoc 4 parent L2 }\n\
                L2 { shared_by 4 size 16K assoc 4 parent LL }\nLL { size 1M assoc 16 }\n";
    let config = parse(text, "c").unwrap();
    assert_eq!(
        shape(&config.machine.caches),
        [
            ("L1-0", Some((0, 2)), Some("L2-0")),
            ("L1-1", Some((2, 2)), Some("L2-0")),
            ("L1-2", Some((4, 2)), Some("L2-1")),
            ("L2-0", None, Some("LL")),
            ("L2-1", None, Some("LL")),
            ("LL", None, None),
        ]
    );
    // With another number of cores, the last group can have fewer.
    let config = parse_for(text, "c", Some(3)).unwrap();
    assert_eq!(config.machine.cores, 3);
    assert_eq!(shape(&config.machine.caches)[1], ("L1-1", Some((2, 1)), Some("L2-0")));
    // A first cache of named cores.
    let named = "num_cores 2\nL1I { type instruction core 0 shared_by 2 size 4K assoc 4 parent LL }\n\
                 L1D { type data shared_by 1 size 4K assoc 4 parent LL }\nLL { size 1M assoc 16 }\n";
    let config = parse(named, "c").unwrap();
    assert_eq!(shape(&config.machine.caches)[0], ("L1I", Some((0, 2)), Some("LL")));
    assert_eq!(config.machine.layout().unwrap().first, [[0, 1], [0, 2]]);
    refused(
        &text.replace("shared_by 4", "shared_by 3"),
        "c: line 2, cache `L1`, key parent: found `L2`, allowed: a cache whose cores include all of its own; 3 cores share \
         each `L2`",
    );
    refused(
        &text.replace("shared_by 4", "shared_by 0"),
        "c: line 3, key shared_by: found `0`, allowed: 1 to 4096",
    );
}

/// Two cores with TLBs for small and for large pages, and a second level for some of both.
const TLBS: &str = "num_cores 2\nITLB { type instruction shared_by 1 entries 8 assoc full pages 4K,2M,1G parent BOTH }\n\
                    SMALL { type data shared_by 1 entries 16 assoc 4 pages 4K parent BOTH }\n\
                    LARGE { type data shared_by 1 entries 4 assoc 2 pages 2M,1G parent BOTH }\n\
                    BOTH { shared_by 2 entries 48 assoc 6 pages 4K,2M }\n";

#[test]
fn tlbs_are_those_that_hold_the_pages_in_use() {
    let names = |text: &str, page_bytes: u64| -> Vec<String> {
        let tlbs = parse(text, "c").unwrap().tlbs(page_bytes).unwrap();
        assert_eq!(tlbs.line_bytes, page_bytes);
        tlbs.caches.into_iter().map(|tlb| tlb.name).collect()
    };
    assert_eq!(names(TLBS, 4096), ["ITLB0", "ITLB1", "SMALL0", "SMALL1", "BOTH0"]);
    assert_eq!(names(TLBS, 2 << 20), ["ITLB0", "ITLB1", "LARGE0", "LARGE1", "BOTH0"]);
    // No TLB after the first level holds pages of this size.
    let tlbs = parse(TLBS, "c").unwrap().tlbs(1 << 30).unwrap();
    assert_eq!(shape(&tlbs.caches)[2], ("LARGE0", Some((0, 1)), None));
    let mixed = format!("{TLBS}large_pages {{ size 2M from 0x200000 to 0x600000 }}");
    assert_eq!(names(&mixed, 4096), ["ITLB0", "ITLB1", "SMALL0", "SMALL1", "LARGE0", "LARGE1", "BOTH0"]);
    let tlbs = parse(&mixed, "c").unwrap().tlbs(4096).unwrap();
    assert_eq!(tlbs.large, [LargePages { bytes: 2 << 20, first: 0x20_0000, last: 0x5f_ffff }]);
    assert_eq!(tlbs.caches[4].pages, [2 << 20]);
    // Ranges of pages that are no larger than all others say nothing.
    assert!(parse(&mixed, "c").unwrap().tlbs(2 << 20).unwrap().large.is_empty());
    let error = parse(TLBS, "c").unwrap().tlbs(64 << 10).unwrap_err();
    assert_eq!(error.message(), "c: no TLB holds pages of 65536 bytes");
    let error = parse(&TLBS.replace("pages 4K,2M,1G", "pages 2M"), "c").unwrap_err();
    assert!(
        error.message().contains("core 0 has no instruction TLB for pages of 4096 bytes"),
        "{}",
        error.message()
    );
    let error = parse(TLBS, "c").unwrap().caches().unwrap_err();
    assert_eq!(error.message(), "c: it describes TLBs only, no caches");
    let error = parse(SMALL, "c").unwrap().tlbs(4096).unwrap_err();
    assert_eq!(error.message(), "c: it describes no TLBs");
}

#[test]
fn what_is_wrong_with_tlbs_is_told_at_its_key() {
    told(&TLBS.replace("assoc 6", "\nassoc 5"), 6, "assoc", "`5`");
    told(&TLBS.replace("entries 48", "\nentries 0"), 6, "entries", "`0`");
    told(&TLBS.replace("entries 48", "\nsize 48K entries 48"), 6, "size", "`size`");
    told(&TLBS.replace(" pages 4K,2M }", " }"), 5, "pages", "nothing");
    told(&TLBS.replace("pages 4K,2M }", "pages 4K,3M }"), 5, "pages", "`4K,3M`");
    told(&TLBS.replace("SMALL { type data", "SMALL { type instruction"), 3, "core", "`0`");
    told(&SMALL.replace("assoc 16", "assoc full"), 4, "assoc", "`full`");
    let range = |text: &str| format!("{TLBS}large_pages {{ {text} }}");
    told(&range("size 2M from 0x1000 to 0x200000"), 6, "large_pages", "`0x1000`");
    told(&range("size 2M from 0x200000 to 0x200000"), 6, "large_pages", "`0x200000`");
    told(&range("size 2M to 0x200000"), 6, "large_pages", "`{`");
    told(&range("size 2M from 0x200000 to 1x"), 6, "to", "`1x`");
    let twice = "size 2M from 0 to 0x400000 } large_pages { size 2M from 0x200000 to 0x600000";
    told(&range(twice), 6, "large_pages", "`2097152`");
}

#[test]
fn presets_describe_machines_of_which_they_name_the_source() {
    for preset in PRESETS {
        let config = parse(preset.text, preset.name).unwrap_or_else(|error| panic!("{}", error.message()));
        assert!(!preset.title().is_empty() && !preset.source().is_empty(), "{}", preset.name);
        let caches = config.caches().unwrap();
        assert!(caches.cores > 1 && caches.coherent, "{}", preset.name);
        // A file that says the size of pages has TLBs for this size only.
        let sizes = config.page_bytes.map_or(vec![4096, 2 << 20, 1 << 30], |bytes| vec![bytes]);
        for page_bytes in sizes {
            let tlbs = config.tlbs(page_bytes).unwrap_or_else(|error| panic!("{}", error.message()));
            assert_eq!(tlbs.layout().unwrap().first.len(), tlbs.cores, "{}", preset.name);
        }
        for cores in [1, 2, 5] {
            assert_eq!(parse_for(preset.text, preset.name, Some(cores)).unwrap().machine.cores, cores);
        }
    }
    let of_file = Preset::named("own.conf").unwrap_err();
    assert!(of_file.advice().is_some_and(|advice| advice.contains("--config own.conf")), "{of_file}");
    let error = Preset::named("amd-zen33").unwrap_err();
    assert_eq!(error.message(), "there is no machine `amd-zen33`");
    assert!(error.advice().is_some_and(|advice| advice.starts_with("did you mean `amd-zen")));
    assert_eq!(Preset::named("AMD-Zen3").unwrap().name, "amd-zen3");
}

#[test]
fn sizes_of_a_preset_are_those_of_its_source() {
    let zen3 = parse(Preset::named("amd-zen3").unwrap().text, "zen3").unwrap();
    let of = |name: &str| {
        let cache = zen3.machine.caches.iter().find(|cache| cache.name == name).unwrap();
        (cache.bytes >> 10, cache.ways, cache.n_cores)
    };
    assert_eq!((of("L1D0"), of("L2-7"), of("L3-0")), ((32, 8, 2), (512, 8, 2), (32 << 10, 16, 16)));
    let server = parse(Preset::named("intel-skylake-server").unwrap().text, "server").unwrap();
    let last = server.machine.caches.last().unwrap();
    assert_eq!((last.bytes >> 20, last.ways, last.bytes / 64 / last.ways), (33, 11, 49152));
    let tlb = |preset: &str, page_bytes: u64, name: &str| {
        let tlbs = parse(Preset::named(preset).unwrap().text, preset).unwrap().tlbs(page_bytes).unwrap();
        let tlb = tlbs.caches.iter().find(|tlb| tlb.name.starts_with(name)).unwrap();
        (tlb.bytes / page_bytes, tlb.ways, tlb.n_cores)
    };
    assert_eq!(tlb("intel-haswell", 2 << 20, "ITLB2M"), (8, 8, 1));
    assert_eq!(tlb("intel-golden-cove", 4096, "STLB"), (2048, 16, 2));
    assert_eq!(tlb("intel-golden-cove", 2 << 20, "STLB2M"), (1024, 8, 2));
    assert_eq!(tlb("intel-golden-cove", 1 << 30, "STLB1G"), (1024, 8, 2));
    assert_eq!(tlb("apple-m1", 16 << 10, "DTLB"), (160, 5, 1));
    assert_eq!(tlb("apple-m1", 16 << 10, "L2TLB"), (3072, 12, 1));
}
