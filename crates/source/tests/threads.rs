//! Reading ahead: dropped streams end their threads early, and buffers are bounded.

use crate::packing;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::packing::{ahead, pack_zip, trace_like};
use quipu_source::Source;

#[cfg(target_os = "linux")]
fn n_inflating_threads() -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "quipu-inflate").count()
}

/// The only test of this program that reads seekable sources ahead, so that it can count threads.
#[cfg(target_os = "linux")]
#[test]
fn a_stream_that_is_dropped_early_leaves_no_thread_behind() {
    let part = trace_like(20_000);
    let packed = pack_zip(&vec![part.as_slice(); 40]);
    let container = Source::from_bytes("memory", packed).container().unwrap();
    for n_blocks in 0..12 {
        let mut stream = container.stream(container.all_members(), &ahead(4096, 3, 3)).unwrap();
        let mut block = Vec::new();
        for _ in 0..n_blocks {
            stream.next(&mut block).unwrap().unwrap();
        }
        drop(stream);
        // Threads are joined, but the system may list one for a moment longer.
        let start = Instant::now();
        while n_inflating_threads() > n_threads_on_silent_pipes() && start.elapsed() < Duration::from_secs(5)
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(n_inflating_threads() <= n_threads_on_silent_pipes());
    }
}

/// Number of threads of the test below, which runs at the same time.
#[cfg(target_os = "linux")]
fn n_threads_on_silent_pipes() -> usize {
    2
}

#[test]
fn dropping_a_stream_on_a_silent_pipe_does_not_wait() {
    struct Silent(std::sync::mpsc::Receiver<()>);
    impl Read for Silent {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            static CALLS: AtomicUsize = AtomicUsize::new(0);
            if CALLS.fetch_add(1, Ordering::Relaxed) > 8 {
                let _ = self.0.recv();
                return Ok(0);
            }
            out.fill(0x19);
            Ok(out.len())
        }
    }
    let (wake, silence) = channel();
    let container = Source::from_reader("silent", Silent(silence)).container().unwrap();
    let mut stream = container.stream(0..1, &ahead(1000, 2, 1)).unwrap();
    let mut block = Vec::new();
    stream.next(&mut block).unwrap().unwrap();
    let start = Instant::now();
    drop(stream);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    drop(wake);
}

#[test]
fn no_more_than_the_allowed_blocks_are_read_ahead() {
    struct Counting(Arc<AtomicUsize>);
    impl Read for Counting {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            out.fill(0x19);
            self.0.fetch_add(out.len(), Ordering::Relaxed);
            Ok(out.len())
        }
    }
    const BLOCK: usize = 100_000;
    let taken = Arc::new(AtomicUsize::new(0));
    let container = Source::from_reader("endless", Counting(taken.clone())).container().unwrap();
    let mut stream = container.stream(0..1, &ahead(BLOCK, 3, 8)).unwrap();
    let mut block = Vec::new();
    for _ in 0..10 {
        stream.next(&mut block).unwrap().unwrap();
    }
    std::thread::sleep(Duration::from_millis(200));
    // Ten blocks delivered, three waiting, one being made, and the packed bytes that are buffered.
    let ahead = taken.load(Ordering::Relaxed);
    assert!(ahead <= 14 * BLOCK + 140_000, "{ahead}");
}

#[test]
fn a_stream_can_be_sent_to_another_thread() {
    let container = Source::from_reader("pipe", std::io::Cursor::new(trace_like(1000))).container().unwrap();
    let mut stream = container.stream(0..1, &packing::inline(5000)).unwrap();
    drop(container);
    let n_bytes = std::thread::spawn(move || {
        let (mut block, mut n_bytes) = (Vec::new(), 0);
        while stream.next(&mut block).unwrap().is_some() {
            n_bytes += block.len();
        }
        n_bytes
    });
    assert_eq!(n_bytes.join().unwrap(), 12_000);
}
