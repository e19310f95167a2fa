//! Libraries in C, built with this machine's compiler and loaded: the calls that they get, and the libraries that are
//! refused.

#![allow(clippy::unwrap_used)]
#![cfg(feature = "load")]

use quipu_hooks::abi::RawEvent;
use quipu_hooks::event::{
    Compute, Config, Context, Control, Event, Kind, Memory, Place, Sync, context, sync,
};
use quipu_hooks::load::{Library, Refused};
use quipu_hooks::{Batch, Detail, Error, Sink};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles the tool with these definitions.
fn build(folder: &Path, definitions: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let library = folder.join(format!("lib{}.so", definitions.join("").replace(['/', '"', '('], "_")));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]);
    compiler
        .arg("-Wno-unused-const-variable")
        .args(definitions.iter().map(|definition| format!("-D{definition}")));
    compiler.arg("-I").arg(root.join("include")).arg(root.join("tests/tool.c")).arg("-o").arg(&library);
    assert!(compiler.status().unwrap().success(), "{definitions:?}");
    library
}

/// One event of each kind.
fn events(batch: &mut Batch) {
    let name = Place::Name(batch.add_name(b"main"));
    batch.events = vec![
        Event::Sync(Sync { kind: sync::SWAP, data: 3, second: None }),
        Event::Memory(Memory { access: Some(1), size: Some(8), address: Some(0x1000), id: Some(9) }),
        Event::Compute(Compute {
            format: Some(2),
            operation: Some(1),
            arguments: Some(2),
            ..Compute::default()
        }),
        Event::Context(Context { kind: context::ENTER, place: name }),
        Event::Context(Context { kind: context::INSTRUCTION, place: Place::Address(77) }),
        Event::Control(Control { kind: Some(2), taken: Some(true), indirect: Some(false), target: Some(5) }),
        Event::Config(Config { kind: Kind::Compute, fields: 0xb0 }),
        Event::Unknown(6),
    ];
}

#[test]
fn a_tool_gets_the_fields_that_it_asks_for_with_thread_ordinal_and_clock() {
    let folder = tempfile::tempdir().unwrap();
    let library = Library::open(&build(folder.path(), &[])).unwrap();
    assert_eq!(library.name(), "probe");
    let mut tool = library.create("deep=1,b", Some(folder.path())).unwrap();
    assert_eq!(tool.detail(), Detail { memory: 0xc0, ..Detail::NONE });
    let mut batch = Batch { thread: Some(3), first: 10, clocks: (70..78).collect(), ..Batch::default() };
    events(&mut batch);
    tool.start().unwrap();
    tool.take(&batch).unwrap();
    tool.finish().unwrap();
    library.finish_all([&mut tool].into_iter()).unwrap();
    drop(tool);
    let said = fs::read_to_string(folder.path().join("said-0")).unwrap();
    let expected = "\
options deep=1,b
start
3/10@70 sync type 5 fields 00 size 0 data 3
3/11@71 memory type 1 fields c0 size 8 data 0
3/12@72 compute type 0 fields 00 size 0 data 0
3/13@73 main type 3 fields 80 size 0 data 0
3/14@74 context type 1 fields 00 size 0 data 77
3/15@75 control type 0 fields 00 size 0 data 0
3/16@76 config type 1 fields 00 size 0 data 0
finish 7
all 7 of 1
destroyed
";
    assert_eq!(said, expected);
}

#[test]
fn events_come_back_from_the_table_as_they_went_in() {
    let mut batch = Batch::default();
    events(&mut batch);
    for event in &batch.events {
        assert_eq!(RawEvent::of(event, &Detail::ALL, u64::MAX).event(), *event);
        let none = RawEvent::of(event, &Detail::NONE, u64::MAX);
        assert_eq!(RawEvent::of(&none.event(), &Detail::ALL, u64::MAX), none);
    }
    assert_eq!((size_of::<RawEvent>(), align_of::<RawEvent>()), (40, 8));
}

#[test]
fn a_message_stops_the_run_with_the_name_of_the_tool() {
    let folder = tempfile::tempdir().unwrap();
    let library = Library::open(&build(folder.path(), &["NAME=\"strict\""])).unwrap();
    let stopped = |error: Error| match error {
        Error::Stop(message) => message,
        other => panic!("{other}"),
    };
    assert_eq!(stopped(library.create("refuse", Some(folder.path())).unwrap_err()), "strict: refused");
    assert_eq!(stopped(library.create("", None).unwrap_err()), "strict: it needs a folder");
    let mut tool = library.create("", Some(folder.path())).unwrap();
    let large = Event::Memory(Memory { size: Some(666), ..Memory::default() });
    let error = tool.take(&Batch { events: vec![large], ..Batch::default() }).unwrap_err();
    assert_eq!(stopped(error), "strict: an access of 666 bytes");
}

#[test]
fn a_name_outside_of_the_batch_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let library = Library::open(&build(folder.path(), &["NAME=\"outside\""])).unwrap();
    let mut tool = library.create("", Some(folder.path())).unwrap();
    let place = Place::Name(quipu_hooks::event::Name { start: 1, len: u32::MAX });
    let events = vec![Event::Context(Context { kind: context::ENTER, place })];
    tool.take(&Batch { events, names: b"main".to_vec(), ..Batch::default() }).unwrap();
    drop(tool);
    let said = fs::read_to_string(folder.path().join("said-0")).unwrap();
    assert!(said.contains("0/0@0 context type 3"), "{said}");
}

#[test]
fn old_tables_load_and_new_ones_are_refused_with_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let open = |definitions: &[&str]| Library::open(&build(folder.path(), definitions));
    // A table that ends after `destroy`: anything after it is ignored.
    let old = open(&["SIZE=offsetof(quipu_tool,needs)"]).unwrap();
    let mut tool = old.create("", Some(folder.path())).unwrap();
    assert_eq!(tool.detail(), Detail::ALL);
    tool.start().unwrap();
    tool.finish().unwrap();
    old.finish_all([&mut tool].into_iter()).unwrap();
    drop(tool);
    let said = fs::read_to_string(folder.path().join("said-0")).unwrap();
    assert_eq!(said, "options \ndestroyed\n");
    // A table of a later program, with more functions, but of this version.
    assert!(open(&["SIZE=(sizeof(quipu_tool)+64)"]).is_ok());

    let refused = |definitions: &[&str]| open(definitions).unwrap_err();
    assert_eq!(refused(&["VERSION=2"]), Refused::TooNew(2));
    assert!(
        refused(&["VERSION=2"]).to_string().starts_with(
            "it was made for version 2 of the interface, and this program knows versions up to 1"
        )
    );
    assert!(matches!(refused(&["VERSION=0"]), Refused::Wrong(_)));
    assert!(matches!(refused(&["SIZE=40"]), Refused::Wrong(_)));
    assert!(matches!(refused(&["NO_CREATE"]), Refused::Wrong(_)));
    assert!(matches!(refused(&["INSTANCES=7"]), Refused::Wrong(_)));
    assert!(matches!(refused(&["NAME=\"../up\""]), Refused::Wrong(_)));
    assert_eq!(refused(&["NO_TABLE"]), Refused::NoTable);
    let text = folder.path().join("text.so");
    fs::write(&text, "no library").unwrap();
    assert!(matches!(Library::open(&text), Err(Refused::NotLoaded(_))));
    assert!(matches!(Library::open(Path::new("/nowhere/libmine.so")), Err(Refused::NotLoaded(_))));
}
