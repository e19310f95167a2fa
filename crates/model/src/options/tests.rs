//! Tests of options.

use super::*;

const SIZE: OptionSpec = OptionSpec::new("size", Kind::PowerOfTwo, "64", "bytes in a line");
const CACHE: OptionSpec = OptionSpec::new("cache", Kind::Bytes, "32K", "bytes in a cache");
const TAKE: OptionSpec = OptionSpec::new("take", Kind::Count, "all", "how many records").excludes(&["until"]);
const UNTIL: OptionSpec = OptionSpec::new("until", Kind::Count, "", "the clock").excludes(&["take"]);
const THREADS: OptionSpec = OptionSpec::flag("per-thread", "each thread");
const SHARE: OptionSpec = OptionSpec::new("share", Kind::Share, "0.5", "how much");
const POLICY: OptionSpec = OptionSpec::new("policy", Kind::Choice(&["LRU", "FIFO"]), "LRU", "which policy");
const CALLS: OptionSpec = OptionSpec::new("calls", Kind::Set, "*", "which calls").repeated();
const ADDR: OptionSpec = OptionSpec::new("addr", Kind::Range, "", "which addresses").listed();
const FILE: OptionSpec = OptionSpec::new("file", Kind::Path, "none", "a file");
const BLOBS: OptionSpec = OptionSpec::new("blobs", Kind::Path, "", "a folder").bare(".");
static ALL: [OptionSpec; 11] = [SIZE, CACHE, TAKE, UNTIL, THREADS, SHARE, POLICY, CALLS, ADDR, FILE, BLOBS];

fn parse<const N: usize>(given: [(&str, &str); N]) -> Result<Options> {
    Options::parse("tool `t`", &ALL, &Given::from(given))
}

#[test]
fn each_kind_reads_its_values_with_suffixes() {
    let options = parse([
        ("size", "1K"),
        ("cache", "0x8000"),
        ("take", "4Ki"),
        ("per-thread", "on"),
        ("share", "0.25"),
        ("policy", "fifo"),
        ("calls", "1-3"),
        ("calls", "*"),
        ("addr", "0x10..0x20,7"),
        ("file", "a.conf"),
        ("blobs", ""),
    ])
    .unwrap();
    assert_eq!((options.count(&SIZE), options.count(&CACHE)), (1024, 32768));
    assert_eq!(options.number(&TAKE), Some(4096));
    assert!(options.flag(&THREADS));
    assert_eq!(options.share(&SHARE), 0.25);
    assert_eq!(options.word(&POLICY), "FIFO");
    assert_eq!(options.texts(&CALLS).collect::<Vec<_>>(), ["1-3", "*"]);
    assert_eq!(options.ranges(&ADDR).collect::<Vec<_>>(), [0x10..=0x1f, 7..=7]);
    assert_eq!(options.path(&FILE), Some(Path::new("a.conf")));
    assert_eq!(options.text(&BLOBS), Some("."));
}

#[test]
fn what_is_not_given_has_its_default() {
    for options in [Options::default(), parse([("take", "all"), ("file", "none"), ("file", "")]).unwrap()] {
        assert_eq!((options.count(&SIZE), options.count(&CACHE)), (64, 32 << 10));
        assert_eq!(options.number(&TAKE), None);
        assert!(!options.flag(&THREADS));
        assert_eq!(options.share(&SHARE), 0.5);
        assert_eq!(options.word(&POLICY), "LRU");
        assert_eq!(options.path(&FILE), None);
        assert!(!options.has(&TAKE) && !options.has(&FILE));
    }
    // A number that equals the default still counts as given.
    assert!(parse([("size", "64")]).unwrap().has(&SIZE));
}

#[test]
fn of_several_values_the_last_counts() {
    let options = parse([("size", "32"), ("per-thread", ""), ("size", "128"), ("per-thread", "no")]).unwrap();
    assert_eq!(options.count(&SIZE), 128);
    assert!(!options.flag(&THREADS));
}

#[test]
fn what_is_wrong_is_said_with_what_is_wanted() {
    let told = |name: &str, value: &str| parse([(name, value)]).unwrap_err().message().to_owned();
    assert_eq!(told("size", "48"), "option `size` wants a power of two, found `48`");
    assert_eq!(
        told("cache", "big"),
        "option `cache` wants a number of bytes such as 32768 or 32K, found `big`"
    );
    assert_eq!(told("take", "1.5M"), "option `take` wants a number, found `1.5M`");
    assert_eq!(
        told("take", "99999999999Gi"),
        "option `take` wants a number of 64 bits, found `99999999999Gi`"
    );
    assert_eq!(told("per-thread", "maybe"), "option `per-thread` wants yes or no, found `maybe`");
    assert_eq!(told("share", "2"), "option `share` wants a number from 0.0 to 1.0, found `2`");
    assert_eq!(told("policy", "LIFO"), "option `policy` is `LIFO`, allowed: LRU, FIFO");
    assert!(told("addr", "9..1").starts_with("option `addr` wants a range"));
    let error = parse([("policy", "fif")]).unwrap_err();
    assert_eq!(error.advice(), Some("did you mean `FIFO`?"));
}

#[test]
fn names_that_are_unknown_are_refused_with_the_nearest() {
    let error = parse([("pre-thread", "on")]).unwrap_err();
    assert_eq!(error.message(), "tool `t` has no option `pre-thread`");
    assert_eq!(error.advice(), Some("did you mean `per-thread`?"));
    let error = Options::parse("format f", &[] as &[OptionSpec], &Given::from([("x", "1")])).unwrap_err();
    assert_eq!((error.message(), error.advice()), ("format f has no option `x`", Some("it has none")));
    let error = parse([("colour", "red")]).unwrap_err();
    assert!(error.advice().unwrap().starts_with("its options: size, cache, take"));
}

#[test]
fn options_that_exclude_each_other_are_refused_together() {
    let error = parse([("until", "5"), ("take", "1")]).unwrap_err();
    assert_eq!(error.message(), "`take` and `until` exclude each other");
    assert!(parse([("until", "5"), ("take", "all")]).is_ok());
}
