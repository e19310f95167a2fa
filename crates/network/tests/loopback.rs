//! Tests with a collector and senders in one process, over local sockets.

use crate::made;
use quipu_network::collect::{Collector, Door, Limits, Notice, Summary};
use quipu_network::message::Proof;
use quipu_network::send::{Failure, Input, SILENCE, Sent, Target, send};
use quipu_network::spool::Spool;
use quipu_network::store::file_name;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A collector in its own thread.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<(Summary, Vec<String>)>>,
}

impl Running {
    pub(crate) fn new(folder: &Path, door: Door, limits: Limits) -> Running {
        Running::at("127.0.0.1:0".parse().unwrap(), folder, door, limits)
    }

    pub(crate) fn at(address: SocketAddr, folder: &Path, door: Door, limits: Limits) -> Running {
        let collector = Collector::new(address, folder, door, limits).unwrap();
        let address = collector.address().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut said = Vec::new();
            let mut notice = |notice: Notice| match notice {
                Notice::Refused(_, fault) => said.push(fault.text),
                Notice::Cut(_, bytes) => said.push(format!("cut {bytes:?}")),
                Notice::Began(..) | Notice::Ended(..) => {}
            };
            let summary = collector.serve(&mut |_, _| is_over.load(Ordering::Relaxed), &mut notice).unwrap();
            (summary, said)
        });
        Running { address, stop, thread: Some(thread) }
    }

    /// Ends the collector. Returns its summary, and why it refused senders or which bytes it cut off.
    pub(crate) fn stop(mut self) -> (Summary, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
    }
}

pub(crate) fn plain(address: SocketAddr) -> Target {
    let give_up = Some(Duration::from_secs(20));
    Target { addresses: vec![address], tls: None, proof: Proof::None, give_up, silence: SILENCE }
}

pub(crate) fn send_file(target: &Target, path: &Path) -> Result<Sent, Failure> {
    send(target, Input::Path(path.to_owned(), true), &|| false, &mut |_| {}).map_err(|(failure, _)| failure)
}

#[test]
fn what_is_sent_is_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let running = Running::new(&out, Door::Loopback, Limits::default());
    let stream = made::stream(5, 3000, 900);
    let path = folder.path().join("run.quipu");
    fs::write(&path, &stream).unwrap();
    let wanted = made::read(&stream);
    let sent = send_file(&plain(running.address), &path).unwrap();
    assert!(sent.is_whole() && sent.already == 0 && sent.records == 6000, "{sent:?}");
    // Sending again to the same collector sends nothing new.
    let again = send_file(&plain(running.address), &path).unwrap();
    assert!(again.is_whole() && again.frames == 0 && again.already == sent.frames, "{again:?}");
    let (summary, refused) = running.stop();
    assert!(refused.is_empty() && summary.senders == 2 && summary.n_ended() == 1, "{summary:?} {refused:?}");
    let file = out.join(file_name(5));
    assert_eq!(made::read(&fs::read(&file).unwrap()), wanted);
    // Then to another collector with the same folder, after the last frames were torn off.
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 5000]).unwrap();
    let running = Running::new(&out, Door::Loopback, Limits::default());
    let rest = send_file(&plain(running.address), &path).unwrap();
    assert!(rest.is_whole() && rest.frames > 0 && rest.already > rest.frames, "{rest:?}");
    running.stop();
    assert_eq!(fs::read(&file).unwrap(), whole);
}

#[test]
fn a_frame_that_is_damaged_at_the_collector_is_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let stream = made::stream(5, 1000, 900);
    let path = folder.path().join("run.quipu");
    fs::write(&path, &stream).unwrap();
    let running = Running::new(folder.path(), Door::Loopback, Limits::default());
    send_file(&plain(running.address), &path).unwrap();
    running.stop();
    let file = folder.path().join(file_name(5));
    let mut damaged = fs::read(&file).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(&file, &damaged).unwrap();
    let running = Running::new(folder.path(), Door::Loopback, Limits::default());
    let sent = send_file(&plain(running.address), &path).unwrap();
    running.stop();
    assert_eq!(sent.frames, 1, "{sent:?}");
    let (mut times, ..) = made::read(&fs::read(&file).unwrap());
    let (mut wanted, ..) = made::read(&stream);
    times.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(times, wanted);
}

#[test]
fn a_pipe_is_read_while_there_is_no_collector() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let stream = made::stream(6, 20_000, 5000);
    let (reader, mut writer) = std::io::pipe().unwrap();
    // A port that has no listener yet.
    let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let spool = Spool::new(&folder.path().join("spool"), 1 << 20).unwrap();
    let (written, has_written) = std::sync::mpsc::channel();
    let bytes = stream.clone();
    let program = std::thread::spawn(move || {
        writer.write_all(&bytes).unwrap();
        written.send(()).unwrap();
    });
    let file = fs::File::from(std::os::fd::OwnedFd::from(reader));
    let sender = std::thread::spawn(move || {
        send(&plain(address), Input::Pipe(file, Box::new(spool)), &|| false, &mut |_| {})
    });
    // The program has written everything before there is a collector.
    has_written.recv_timeout(Duration::from_secs(20)).unwrap();
    program.join().unwrap();
    let running = Running::at(address, &out, Door::Loopback, Limits::default());
    let sent = sender.join().unwrap().map_err(|(failure, _)| failure).unwrap();
    assert!(sent.is_whole() && sent.records == 40_000, "{sent:?}");
    running.stop();
    assert_eq!(made::read(&fs::read(out.join(file_name(6))).unwrap()), made::read(&stream));
    assert_eq!(fs::read_dir(folder.path().join("spool")).unwrap().count(), 0);
}

#[test]
fn limits_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.quipu");
    let stream = made::stream(5, 3000, 900);
    fs::write(&path, &stream).unwrap();
    let target = |running: &Running| Target { give_up: Some(Duration::ZERO), ..plain(running.address) };
    // A frame larger than allowed is left out, and the sender reports it.
    let wide = folder.path().join("wide.quipu");
    fs::write(&wide, made::stream(5, 3000, 3000)).unwrap();
    let limits = Limits { frame_bytes: 2000, ..Limits::default() };
    let running = Running::new(&folder.path().join("a"), Door::Loopback, limits);
    let sent = send_file(&target(&running), &wide).unwrap();
    assert!(!sent.is_whole() && sent.unsent > 0 && sent.frames > 0, "{sent:?}");
    // So does the collector: the END counts more frames than arrived.
    let (summary, _) = running.stop();
    assert!(summary.files.values().all(|totals| totals.is_ended && totals.gaps > 0), "{summary:?}");
    // A file that reaches its maximum size.
    let limits = Limits { file_bytes: 20_000, ..Limits::default() };
    let running = Running::new(&folder.path().join("b"), Door::Loopback, limits);
    let stopped = Instant::now();
    let is_late = || stopped.elapsed() > Duration::from_secs(1);
    let sent = send(&target(&running), Input::Path(path.clone(), true), &is_late, &mut |_| {});
    assert!(sent.is_err() || sent.is_ok_and(|sent| !sent.is_complete));
    let (_, refused) = running.stop();
    assert!(refused.iter().any(|text| text.contains("larger than 20000 bytes")), "{refused:?}");
    let len = fs::metadata(folder.path().join("b").join(file_name(5))).unwrap().len();
    assert!((15_000..=20_000).contains(&len), "{len}");
    // A limited rate.
    let limits = Limits { rate: Some(200_000), ..Limits::default() };
    let running = Running::new(&folder.path().join("c"), Door::Loopback, limits);
    let begin = Instant::now();
    let sent = send_file(&plain(running.address), &path).unwrap();
    let seconds = begin.elapsed().as_secs_f64();
    assert!(sent.is_whole(), "{sent:?}");
    let least = (sent.bytes as f64 - 50_000.0 - 262_144.0) / 200_000.0;
    assert!(seconds >= least, "{} bytes in {seconds} s", sent.bytes);
    running.stop();
}

#[test]
fn a_sender_too_many_is_told_so_and_comes_later() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("run.quipu"), folder.path().join("other.quipu"));
    let stream = made::stream(5, 500, 900);
    // The sender waits for the rest.
    fs::write(&path, &stream[..stream.len() / 2]).unwrap();
    fs::write(&other, made::stream(6, 500, 900)).unwrap();
    let limits = Limits { connections: 1, ..Limits::default() };
    let running = Running::new(&folder.path().join("out"), Door::Loopback, limits);
    let (target, source) = (plain(running.address), path.clone());
    let first = std::thread::spawn(move || send_file(&target, &source));
    std::thread::sleep(Duration::from_millis(500));
    let impatient = Target { give_up: Some(Duration::ZERO), ..plain(running.address) };
    let failure = send_file(&impatient, &other).unwrap_err();
    assert!(matches!(&failure, Failure::Refused(fault) if fault.text.contains("too many")), "{failure}");
    let target = plain(running.address);
    let second = std::thread::spawn(move || send_file(&target, &other));
    std::thread::sleep(Duration::from_millis(300));
    fs::write(&path, &stream).unwrap();
    for sender in [first, second] {
        let sent = sender.join().unwrap().unwrap();
        assert!(sent.is_whole(), "{sent:?}");
    }
    let (summary, refused) = running.stop();
    assert_eq!((summary.senders, summary.n_ended()), (2, 2));
    assert!(refused.iter().all(|text| text.contains("too many")), "{refused:?}");
}

#[test]
fn a_slow_connection_is_not_a_silent_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.quipu");
    // A frame takes longer than either side waits for the other.
    fs::write(&path, made::stream(5, 12_000, 290_000)).unwrap();
    let second = Duration::from_secs(1);
    let limits =
        Limits { rate: Some(150_000), silence: second, own_silence: second / 4, ..Limits::default() };
    let running = Running::new(&folder.path().join("out"), Door::Loopback, limits);
    let begun = Instant::now();
    let sent = send_file(&Target { silence: second, ..plain(running.address) }, &path).unwrap();
    assert!(sent.is_whole() && sent.reconnects == 0 && sent.bytes > 500_000, "{sent:?}");
    assert!(begun.elapsed() > 3 * second, "{:?}", begun.elapsed());
    let (_, refused) = running.stop();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn a_connection_that_breaks_late_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("run.quipu"), folder.path().join("out"));
    let stream = made::stream(5, 500, 900);
    fs::write(&path, &stream[..stream.len() / 2]).unwrap();
    let running = Running::new(&out, Door::Loopback, Limits::default());
    let address = running.address;
    // The time without a connection counts from the moment when it broke.
    let target = Target { give_up: Some(Duration::from_secs(2)), ..plain(address) };
    let source = path.clone();
    let sender = std::thread::spawn(move || send_file(&target, &source));
    std::thread::sleep(Duration::from_millis(2500));
    running.stop();
    std::thread::sleep(Duration::from_millis(300));
    let running = Running::at(address, &out, Door::Loopback, Limits::default());
    fs::write(&path, &stream).unwrap();
    let sent = sender.join().unwrap().unwrap();
    assert!(sent.is_whole() && sent.reconnects == 1, "{sent:?}");
    running.stop();
}

#[test]
fn another_sender_of_a_producer_takes_over() {
    let folder = tempfile::tempdir().unwrap();
    let stream = made::stream(5, 500, 900);
    let path = folder.path().join("run.quipu");
    // The stream has not ended: the first sender waits for more.
    fs::write(&path, &stream[..stream.len() / 2]).unwrap();
    let running = Running::new(&folder.path().join("out"), Door::Loopback, Limits::default());
    let target = plain(running.address);
    let (first, file) = (target.clone(), path.clone());
    let waiting = std::thread::spawn(move || send_file(&first, &file));
    std::thread::sleep(Duration::from_millis(500));
    let whole = folder.path().join("whole.quipu");
    fs::write(&whole, &stream).unwrap();
    let sent = send_file(&target, &whole).unwrap();
    assert!(sent.is_whole() && sent.already > 0, "{sent:?}");
    let first = waiting.join().unwrap();
    assert!(matches!(&first, Err(Failure::Refused(fault)) if fault.text.contains("another")), "{first:?}");
    running.stop();
    let file = fs::read(folder.path().join("out").join(file_name(5))).unwrap();
    assert_eq!(made::read(&file), made::read(&stream));
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    text.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[test]
fn a_thousand_strangers_cost_little() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let limits = Limits { greeting: Duration::from_secs(2), ..Limits::default() };
    let running = Running::new(&out, Door::Loopback, limits);
    let address = running.address;
    let before = resident();
    let mut open = Vec::new();
    let stream = made::stream(8, 2000, 900);
    let path = folder.path().join("run.quipu");
    fs::write(&path, &stream).unwrap();
    for nth in 0..1000_usize {
        let Ok(mut socket) = TcpStream::connect(address) else { continue };
        socket.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let noise: Vec<u8> = (0..200).map(|n: usize| (n.wrapping_mul(nth + 17) >> 3) as u8).collect();
        let _ = match nth % 5 {
            // Noise; the beginning of a greeting; nothing; a single byte of a greeting; a frame before a greeting.
            0 => socket.write_all(&noise),
            1 => socket.write_all(&[1, 0, 0, 0, 48, 0, 0, 0, b'Q']),
            2 => Ok(()),
            3 => socket.write_all(&[1]),
            _ => socket.write_all(&stream[..200]),
        };
        if nth % 3 == 0 {
            drop(socket);
        } else {
            open.push(socket);
        }
        if nth % 250 == 100 {
            // A legitimate sender is served meanwhile.
            let sent = send_file(&plain(address), &path).unwrap();
            assert!(sent.is_whole(), "{nth}: {sent:?}");
        }
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    // Slow connections are closed in time.
    let begin = Instant::now();
    let mut left = open.last().unwrap();
    left.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let _ = left.read(&mut [0; 64]);
    assert!(begin.elapsed() < Duration::from_secs(8));
    let sent = send_file(&plain(address), &path).unwrap();
    assert!(sent.is_whole() && sent.frames == 0, "{sent:?}");
    let (summary, _) = running.stop();
    assert!(summary.refused > 500, "{}", summary.refused);
    assert_eq!(made::read(&fs::read(out.join(file_name(8))).unwrap()), made::read(&stream));
}
