//! Hooks: the arguments of each call, and the ends of runs.

use quipu_prism::batch::{At, Batch};
use quipu_prism::event::{
    Compute, Config, Context, Control, Event, Kind, Memory, Place, Sync, context, sync,
};
use quipu_prism::hooks::{Hooks, Sink, run_variable};
use quipu_prism::variable::{Dialect, Encoder};
use quipu_prism::{Detail, Error, Result};

/// Notes all calls, and stops at an ordinal.
#[derive(Default)]
struct Notes {
    calls: Vec<String>,
    stop_at: Option<u64>,
}

impl Notes {
    fn note(&mut self, at: At, what: &str) -> Result<()> {
        if self.stop_at == Some(at.ordinal) {
            return Err(Error::Stop(format!("enough at {}", at.ordinal)));
        }
        let thread = at.thread.map_or("?".to_owned(), |thread| thread.to_string());
        let clock = at.clock.map_or(String::new(), |clock| format!(" @{clock}"));
        self.calls.push(format!("{} {thread} {what}{clock}", at.ordinal));
        Ok(())
    }
}

impl Hooks for Notes {
    fn on_start(&mut self) -> Result<()> {
        self.calls.push("start".to_owned());
        Ok(())
    }

    fn on_compute(&mut self, at: At, _: &Compute) -> Result<()> {
        self.note(at, "compute")
    }

    fn on_memory(&mut self, at: At, _: &Memory) -> Result<()> {
        self.note(at, "memory")
    }

    fn on_sync(&mut self, at: At, _: &Sync) -> Result<()> {
        self.note(at, "sync")
    }

    fn on_context(&mut self, at: At, _: &Context, name: &[u8]) -> Result<()> {
        self.note(at, &format!("context {}", String::from_utf8_lossy(name)))
    }

    fn on_control_flow(&mut self, at: At, _: &Control) -> Result<()> {
        self.note(at, "control")
    }

    fn on_config(&mut self, at: At, _: &Config) -> Result<()> {
        self.note(at, "config")
    }

    fn on_flush(&mut self) -> Result<()> {
        self.calls.push("flush".to_owned());
        Ok(())
    }

    fn on_finish(&mut self) -> Result<()> {
        self.calls.push("finish".to_owned());
        Ok(())
    }
}

/// A stream with one event of each kind, in two threads.
fn stream() -> Vec<u8> {
    let mut batch = Batch::default();
    let name = Place::Name(batch.add_name(b"main"));
    let mut encoder = Encoder::agreed(Detail::NONE);
    for event in [
        Event::Memory(Memory::default()),
        Event::Sync(Sync { kind: sync::SWAP, data: 1, second: None }),
        Event::Context(Context { kind: context::ENTER, place: name }),
        Event::Config(Config { kind: Kind::Sync, fields: 0x80 }),
        Event::Sync(Sync { kind: sync::SWAP, data: 2, second: None }),
        Event::Compute(Compute::default()),
        Event::Sync(Sync { kind: sync::SWAP, data: 2, second: None }),
        Event::Control(Control::default()),
    ] {
        encoder.put(&event, &batch).unwrap();
    }
    encoder.end();
    encoder.out
}

#[test]
fn every_event_comes_with_its_thread_and_ordinal() {
    let mut notes = Notes::default();
    run_variable(&stream(), Detail::NONE, Dialect::Strict, &mut notes).unwrap();
    let expected = [
        "start",
        "0 ? memory",
        "flush",
        "1 1 sync",
        "2 1 context main",
        "3 1 config",
        "flush",
        "4 2 sync",
        "5 2 compute",
        "6 2 sync",
        "7 2 control",
        "flush",
        "finish",
    ];
    assert_eq!(notes.calls, expected);
}

#[test]
fn clocks_come_with_the_events_that_have_them() {
    let events = vec![Event::Memory(Memory::default()), Event::Compute(Compute::default())];
    let batch = Batch { thread: Some(3), first: 9, events, clocks: vec![70, 71], names: Vec::new() };
    let mut notes = Notes::default();
    notes.take(&batch).unwrap();
    assert_eq!(notes.calls, ["9 3 memory @70", "10 3 compute @71", "flush"]);
}

#[test]
fn a_hook_stops_the_run_with_its_message() {
    let mut notes = Notes { stop_at: Some(5), ..Notes::default() };
    let error = run_variable(&stream(), Detail::NONE, Dialect::Strict, &mut notes).unwrap_err();
    assert_eq!(error.to_string(), "enough at 5");
    assert_eq!(notes.calls.last().map(String::as_str), Some("4 2 sync"));
}

#[test]
fn a_fault_ends_the_run_after_the_events_before_it() {
    let mut bytes = stream();
    *bytes.last_mut().unwrap() = 0xe0;
    let mut notes = Notes::default();
    let error = run_variable(&bytes, Detail::NONE, Dialect::Strict, &mut notes).unwrap_err();
    let end = bytes.len() - 1;
    assert_eq!(error.to_string(), format!("offset {end:#x}: unknown kind 7, whose length is unknown"));
    assert!(notes.calls.contains(&"7 2 control".to_owned()));
}

#[test]
fn a_dump_is_read_on_after_a_wrong_name() {
    use quipu_prism::hooks::run_dump;
    use quipu_prism::simplecount::SimpleCount;
    let slot = |bytes: &[u8]| {
        let mut slot = [0; 18];
        slot[..bytes.len()].copy_from_slice(bytes);
        slot
    };
    let named = slot(&[4, 3, 200, 0, 0, 0, 9, 0, 0, 0]);
    let load = slot(&[1, 0, 16, 0, 0, 0, 0, 0, 0, 4, 0, 1]);
    let mut dump = [3u64.to_le_bytes(), 0u64.to_le_bytes()].concat();
    [load, named, load].iter().for_each(|slot| dump.extend_from_slice(slot));
    let mut counts = SimpleCount::default();
    let ended = run_dump(&dump, quipu_prism::Detail::VALGRIND, &mut counts);
    assert_eq!(counts.reads, 2);
    assert!(ended.unwrap_err().to_string().starts_with("offset 0x22: a name of 9 bytes"));
}
