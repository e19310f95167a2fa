//! Prism's own delivery, tested with a front end in C that is built with the compiler of this machine.

use super::folders;
use quipu_prism::batch::Batch;
use quipu_prism::delivery::core::{Core, Layout, Options, Outcome};
use quipu_prism::delivery::fault::Place;
use quipu_prism::delivery::receiver::Wish;
use quipu_prism::delivery::{Fault, Wrong};
use quipu_prism::event::{Event, Memory, Place as Where};
use quipu_prism::hooks::Sink;
use quipu_prism::variable::Dialect;
use quipu_prism::{Detail, Result, fault};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The front end, built once.
fn front_end() -> &'static Path {
    static BUILT: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, program) = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("front_end");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/delivery/front_end.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source);
        assert!(compiler.status().unwrap().success(), "front_end.c does not compile");
        (folder, program)
    });
    program
}

fn start(core: &Core, prefix: &str, channel: usize, layout: Layout, what: &str, n_events: u64) -> Child {
    let layout = match layout {
        Layout::Fixed => "fixed",
        Layout::Clocked => "clocked",
        Layout::Variable(_) => "variable",
    };
    let mut command = Command::new(front_end());
    command.arg(core.folder()).args([prefix, &channel.to_string(), layout, what, &n_events.to_string()]);
    command.spawn().unwrap()
}

/// Counts accesses, and checks that their addresses count them, too.
#[derive(Default)]
struct Counts {
    n_accesses: u64,
    thread: Option<u64>,
    name: Vec<u8>,
    first_clock: Option<u64>,
    is_finished: bool,
}

impl Sink for Counts {
    fn detail(&self) -> Detail {
        Detail::VALGRIND
    }

    fn start(&mut self) -> Result<()> {
        Ok(())
    }

    fn take(&mut self, batch: &Batch) -> Result<()> {
        for (index, event) in batch.events.iter().enumerate() {
            let at = batch.at(index);
            self.thread = at.thread;
            self.first_clock = self.first_clock.or(at.clock);
            match event {
                Event::Memory(Memory { address, .. }) => {
                    assert_eq!(*address, Some(self.n_accesses));
                    self.n_accesses += 1;
                }
                Event::Context(context) => {
                    let Where::Name(name) = context.place else { panic!("{event:?}") };
                    self.name = batch.name(name).to_vec();
                }
                Event::Sync(_) => {}
                other => panic!("{other:?}"),
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.is_finished = true;
        Ok(())
    }
}

/// Runs one front end with one channel.
fn run(layout: Layout, what: &str, n_events: u64) -> (Counts, Outcome, PathBuf) {
    let base = tempfile::tempdir().unwrap();
    let detail = if layout == Layout::Variable(Dialect::Strict) { Detail::SIGRIND } else { Detail::VALGRIND };
    let options = Options { base: base.path().to_owned(), layout, detail, ..Options::default() };
    let mut core = Core::create(&options).unwrap();
    let folder = core.folder().to_owned();
    let mut child = start(&core, "prism", 0, layout, what, n_events);
    let mut counts = Counts::default();
    let mut wish = |_| if child.try_wait().unwrap().is_none() { Wish::Wait } else { Wish::Drain };
    let outcome = core.run(&mut [&mut counts], &mut wish).unwrap().remove(0);
    child.wait().unwrap();
    drop(core);
    assert!(folders(base.path()).is_empty());
    assert!(counts.is_finished);
    (counts, outcome, folder)
}

/// Checks the reason for which a channel ended.
fn check(what: &str, n_accesses: u64, file: &str, n_before: Option<u64>, wrong: Wrong) {
    let (counts, outcome, folder) = run(Layout::Fixed, what, 20_000);
    let file = folder.join(file);
    let place = match n_before {
        Some(n_before) => Place::Buffer { file, n_before },
        None => Place::File(file),
    };
    assert_eq!(outcome.fault, Some(Fault { place, what: wrong }), "{what}");
    assert_eq!(counts.n_accesses, n_accesses, "{what}");
}

#[test]
fn a_front_end_of_each_layout_is_understood() {
    for layout in [Layout::Fixed, Layout::Clocked, Layout::Variable(Dialect::Strict)] {
        for n_events in [0, 1, 4094, 4095, 600_000] {
            let (counts, outcome, _) = run(layout, "right", n_events);
            assert_eq!(outcome.fault, None, "{layout:?}");
            assert_eq!((counts.n_accesses, outcome.n_events), (n_events, n_events + 2));
            assert_eq!((counts.thread, &counts.name[..]), (Some(1), &b"main"[..]));
            assert_eq!(counts.first_clock, (layout == Layout::Clocked).then_some(1000));
        }
    }
}

#[test]
fn the_folder_has_the_names_and_modes_of_prism_and_of_sigil2() {
    for prefix in ["prism", "sgl2"] {
        let base = tempfile::tempdir().unwrap();
        let prefix_owned = prefix.to_owned();
        let options =
            Options { base: base.path().into(), prefix: prefix_owned, n_channels: 2, ..Options::default() };
        let mut core = Core::create(&options).unwrap();
        let name = core.folder().file_name().unwrap().to_str().unwrap();
        let chance = name.strip_prefix(prefix).and_then(|name| name.strip_prefix('-')).unwrap();
        assert!(chance.len() == 6 && chance.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{name}");
        assert_eq!(core.folder().metadata().unwrap().mode() & 0o777, 0o700);
        for n in 0..2 {
            for (what, bits) in [("shmem", 0o100_600), ("empty", 0o010_600), ("full", 0o010_600)] {
                let found = core.folder().join(format!("{prefix}-{what}-{n}")).metadata().unwrap();
                assert_eq!(found.mode(), bits, "{what}");
            }
        }
        let children: Vec<_> = (0..2).map(|n| start(&core, prefix, n, Layout::Fixed, "right", 50)).collect();
        let (mut first, mut second) = (Counts::default(), Counts::default());
        let outcomes = core.run(&mut [&mut first, &mut second], &mut |_| Wish::Wait).unwrap();
        assert!(outcomes.iter().all(|outcome| outcome.fault.is_none()), "{outcomes:?}");
        assert_eq!((first.n_accesses, first.thread), (50, Some(1)));
        assert_eq!((second.n_accesses, second.thread), (50, Some(2)), "each channel has its own sink");
        children.into_iter().for_each(|mut child| assert!(child.wait().unwrap().success()));
    }
}

#[test]
fn several_channels_run_side_by_side() {
    let base = tempfile::tempdir().unwrap();
    let options = Options { base: base.path().into(), n_channels: 4, ..Options::default() };
    let mut core = Core::create(&options).unwrap();
    let whats = ["right", "killed", "right", "fork"];
    let mut children: Vec<_> =
        (0..4).map(|n| start(&core, "prism", n, Layout::Fixed, whats[n], 100_000)).collect();
    let mut counts: [Counts; 4] = Default::default();
    let mut sinks: Vec<_> = counts.iter_mut().map(|counts| counts as &mut dyn Sink).collect();
    let outcomes = core.run(&mut sinks, &mut |_| Wish::Wait).unwrap();
    drop(core);
    for child in &mut children {
        child.wait().unwrap();
    }
    let faults: Vec<_> =
        outcomes.iter().map(|outcome| outcome.fault.as_ref().map(|fault| &fault.what)).collect();
    assert_eq!((faults[0], faults[1], faults[2]), (None, Some(&Wrong::NoEnd), None));
    assert!(matches!(faults[3], Some(Wrong::FilledTwice { .. })), "{:?}", faults[3]);
    assert_eq!((counts[0].n_accesses, counts[2].n_accesses), (100_000, 100_000));
    assert_eq!(counts[1].n_accesses, 2 * 4096 - 2, "two buffers of its thread and function");
}

#[test]
fn a_missing_fifo_ends_the_core_with_the_front_end() {
    let begun = Instant::now();
    check("missing", 0, "prism-empty-0", None, Wrong::NotOpened);
    assert!(begun.elapsed() > Duration::from_millis(1400), "the front end tries four times");
    check("half", 0, "prism-full-0", None, Wrong::HalfOpened);
}

#[test]
fn a_front_end_that_never_comes_is_not_waited_for() {
    let base = tempfile::tempdir().unwrap();
    let patience = Duration::from_millis(100);
    let options = Options { base: base.path().into(), patience, ..Options::default() };
    let mut core = Core::create(&options).unwrap();
    let outcome = core.run(&mut [&mut Counts::default()], &mut |_| Wish::Wait).unwrap().remove(0);
    let fault = outcome.fault.unwrap();
    assert_eq!(fault.what, Wrong::NotOpened);
    assert!(fault.to_string().ends_with("/prism-empty-0: no front end opened this FIFO"), "{fault}");
}

#[test]
fn an_end_without_the_number_that_says_so_is_an_error_after_all_buffers() {
    check("unfinished", 20_000, "prism-full-0", None, Wrong::NoEnd);
    check("killed", 2 * 4096 - 2, "prism-full-0", None, Wrong::NoEnd);
}

#[test]
fn a_buffer_that_a_fork_fills_twice_is_an_error_that_says_so() {
    let (counts, outcome, folder) = run(Layout::Fixed, "fork", 20_000);
    // The child fills buffers 2 to 4 and finishes; then its parent fills 2 again.
    let fault = outcome.fault.unwrap();
    let Wrong::FilledTwice { expected, found } = fault.what else { panic!("{fault}") };
    assert_eq!((expected, found, counts.n_accesses), (5, 2, 20_000));
    let text = format!(
        "{}/prism-shmem-0, buffer 5 of its channel: buffer 2 was filled twice, where it is the turn of buffer 5: the traced \
         program made a child by fork, and both fill the same buffers",
        folder.display()
    );
    assert_eq!(fault.to_string(), text);
}

#[test]
fn numbers_and_counts_that_cannot_be_are_errors() {
    check("number", 0, "prism-shmem-0", Some(0), Wrong::BufferNumber(9));
    check("turn", 0, "prism-shmem-0", Some(0), Wrong::OutOfTurn { expected: 0, found: 3 });
    let many = fault::Fault { offset: 0, what: fault::Wrong::TooManyEvents(5000) };
    check("count", 0, "prism-shmem-0", Some(0), Wrong::Event(many));
}

#[test]
fn a_file_a_page_shorter_than_the_map_is_read_as_far_as_it_goes() {
    // The count of the last buffer of names is before the end of the file, and the buffer has no names.
    let (counts, outcome, _) = run(Layout::Fixed, "short", 100_000);
    assert_eq!((counts.n_accesses, outcome.fault), (100_000, None));
    check("cut", 0, "prism-shmem-0", Some(0), Wrong::Short { needed: 589_896, found: 4096 });
}
