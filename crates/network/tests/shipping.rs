//! Tests of frames in transit, full spools, and the ends of streams.

use crate::loopback::{Running, plain, send_file};
use crate::made;
use quipu_network::collect::{Door, Limits};
use quipu_network::send::{Input, Target, send};
use quipu_network::since;
use quipu_network::source::{Item, Source};
use quipu_network::spool::Spool;
use quipu_stream::codec::Codec;
use quipu_stream::recorder::Segments;
use quipu_stream::scan::Scanner;
use quipu_stream::spec::{SchemaSpec, Ty};
use quipu_stream::wire::record::Clock;
use quipu_stream::write::{Options, StreamWriter, Writer};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// All files of a spool, in order.
fn spooled(folder: &Path) -> Vec<u8> {
    let mut source = Source::open(folder).unwrap();
    let mut all = Vec::new();
    loop {
        match source.next(true).unwrap() {
            Item::FileEnd(path) => all.extend(fs::read(path).unwrap()),
            Item::End => return all,
            Item::Nothing => panic!("nothing more will come"),
            Item::Frame(_) | Item::Closed(..) => {}
        }
    }
}

#[test]
fn a_spool_has_what_came_however_it_came() {
    let stream = made::stream(5, 2000, 700);
    let (wanted, findings, _) = made::read(&stream);
    assert_eq!((wanted.len(), findings.len()), (4000, 0));
    for size in [1, 13, 4096, usize::MAX] {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(folder.path(), 1 << 30).unwrap();
        // Bytes before and after the frames are skipped and counted.
        let bytes = [b"noise", &stream[..], b"\xF5QPU1 is no frame"].concat();
        for piece in bytes.chunks(size) {
            spool.take(piece).unwrap();
        }
        spool.finish();
        assert_eq!(spool.other_bytes, 22, "pieces of {size}");
        let (got, findings, lost) = made::read(&spooled(folder.path()));
        assert_eq!((&got, findings, lost), (&wanted, Vec::new(), 0), "pieces of {size}");
    }
}

#[test]
fn a_full_spool_drops_records_and_says_how_many() {
    let stream = made::stream(5, 2000, 700);
    for most in [0, 10_000, 60_000] {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(folder.path(), most).unwrap();
        stream.chunks(999).for_each(|piece| spool.take(piece).unwrap());
        spool.finish();
        let (records, frames) = spool.n_dropped();
        assert!(frames > 0 && records > 0, "{most}");
        let (got, findings, lost) = made::read(&spooled(folder.path()));
        // No frame is missing: the stream is whole, and its losses are the dropped records.
        assert_eq!((findings, lost), (Vec::new(), records), "{most}");
        assert_eq!(got.len() as u64 + records, 4000, "{most}");
    }
}

#[test]
fn a_spool_that_is_found_again_is_continued() {
    let folder = tempfile::tempdir().unwrap();
    let stream = made::stream(5, 500, 700);
    let half = stream.len() / 2;
    let mut spool = Spool::new(folder.path(), 1 << 30).unwrap();
    spool.take(&stream[..half]).unwrap();
    drop(spool);
    let mut spool = Spool::new(folder.path(), 1 << 30).unwrap();
    spool.take(&stream[half..]).unwrap();
    let (got, findings, _) = made::read(&spooled(folder.path()));
    // The unfinished frame was lost with the sender.
    assert!(got.len() > 900 && !findings.is_empty(), "{} {findings:?}", got.len());
    // Not counting the lock file.
    let n_files = || fs::read_dir(folder.path()).unwrap().count() - 1;
    assert_eq!(n_files(), 2);
    let mut source = Source::open(folder.path()).unwrap();
    while !matches!(source.next(true).unwrap(), Item::FileEnd(path) if spool.remove(&path).is_ok()) {}
    assert_eq!(n_files(), 1);
}

#[test]
fn a_spool_has_one_sender() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::new(folder.path(), 1 << 30).unwrap();
    let refused = Spool::new(folder.path(), 1 << 30).unwrap_err();
    assert!(refused.to_string().contains("another sender uses this spool"), "{refused}");
    drop(spool);
    // The lock file is removed, and one left by a killed sender is no obstacle.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    fs::write(folder.path().join(".lock"), "").unwrap();
    Spool::new(folder.path(), 1 << 30).unwrap();
}

#[test]
fn a_flight_recorder_that_is_faster_than_the_network_says_what_went() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = folder.path().join("recorder");
    const N: u64 = 40_000;
    let segments = Segments::new(&recorder, 3, 40_000).unwrap();
    let options =
        Options { codec: Codec::None, frame_bytes: 2000, snapshot_bytes: 20_000, ..Options::new("test") };
    let writer = Writer::new(segments, options);
    let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
    let mut stream = writer.stream(1).unwrap();
    // The sender needs some time to catch up, and loses its connection meanwhile.
    let limits = Limits { rate: Some(400_000), ..Limits::default() };
    let out = folder.path().join("out");
    let mut running = Some(Running::new(&out, Door::Loopback, limits));
    let address = running.as_ref().unwrap().address;
    let (path, target) = (recorder.clone(), Target { give_up: None, ..plain(address) });
    let sender = std::thread::spawn(move || send_file(&target, &path));
    for n in 0..N {
        stream.row(id, n, 8, |body| body.put(0, &n.to_le_bytes())).unwrap();
        if n % 500 == 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        if n == N / 3 {
            running.take().unwrap().stop();
        }
        if n == N / 2 {
            running = Some(Running::at(address, &out, Door::Loopback, limits));
        }
    }
    stream.finish().unwrap();
    writer.finish().unwrap();
    let sent = sender.join().unwrap().unwrap();
    running.unwrap().stop();
    let file = fs::read_dir(&out).unwrap().next().unwrap().unwrap().path();
    let (got, findings, lost) = made::read(&fs::read(file).unwrap());
    assert!(sent.reconnects > 0 && lost > 1000 && got.len() > 4000, "{} {lost} {sent:?}", got.len());
    assert_eq!(got.len() as u64 + lost, N, "{findings:?}");
}

#[test]
fn the_last_seconds_are_a_stream_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.quipu");
    let options = Options { codec: Codec::Zstd(1), frame_bytes: 400, ..Options::new("test") };
    let writer = Writer::new(fs::File::create(&path).unwrap(), options);
    writer.define(Clock { id: 1, ticks_per_s: 10, ..Clock::default() }).unwrap();
    let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
    let mut stream = writer.stream(1).unwrap();
    for n in 0..1000_u64 {
        stream.row(id, n, 8, |body| body.put(0, &n.to_le_bytes())).unwrap();
    }
    stream.finish().unwrap();
    for is_ended in [false, true] {
        if is_ended {
            writer.finish().unwrap();
        }
        let out = folder.path().join("cut.quipu");
        since::cut(&path, Duration::from_secs(30), &out).unwrap();
        let (got, findings, _) = made::read(&fs::read(&out).unwrap());
        // 300 ticks, and the rest of the frame in which they begin.
        assert!((300..400).contains(&got.len()) && got.last() == Some(&999), "{}", got.len());
        // The gap before these frames is reported, since the first frame of the producer is present.
        let wanted: &[&str] = if is_ended { &["sequence-gap"] } else { &["sequence-gap", "no-end-frame"] };
        assert_eq!(findings.len(), wanted.len(), "{findings:?}");
        assert!(findings.iter().zip(wanted).all(|(finding, name)| finding.starts_with(name)), "{findings:?}");
    }
}

#[test]
fn the_rest_can_be_sent_after_the_last_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.quipu");
    let options =
        Options { codec: Codec::Zstd(1), frame_bytes: 400, with_index: false, ..Options::new("test") };
    let writer = Writer::new(fs::File::create(&path).unwrap(), options);
    writer.define(Clock { id: 1, ticks_per_s: 10, ..Clock::default() }).unwrap();
    let first = writer.schema(&SchemaSpec::new("first").field("n", Ty::Uint(64))).unwrap();
    let mut stream = writer.stream(1).unwrap();
    let mut write = |id, from: u64| {
        for n in from..from + 500 {
            stream.row(id, n, 8, |body| body.put(0, &n.to_le_bytes())).unwrap();
        }
    };
    write(first, 0);
    // All metadata are sent with the end of the stream, in frames that keep their numbers.
    let attached = vec![7; 3000];
    writer.attach("notes", Some("text/plain"), &attached).unwrap();
    let second = writer.schema(&SchemaSpec::new("second").field("n", Ty::Uint(64))).unwrap();
    write(second, 500);
    stream.finish().unwrap();
    writer.finish().unwrap();
    let cut = folder.path().join("cut.quipu");
    since::cut(&path, Duration::from_secs(30), &cut).unwrap();
    let out = folder.path().join("out");
    let running = Running::new(&out, Door::Loopback, Limits::default());
    let end = send_file(&plain(running.address), &cut).unwrap();
    let rest = send_file(&plain(running.address), &path).unwrap();
    assert!(end.is_whole() && (300..400).contains(&end.records), "{end:?}");
    assert!(rest.is_whole() && rest.records + end.records == 1000 && rest.already == end.frames, "{rest:?}");
    let (summary, _) = running.stop();
    let (file, totals) = summary.files.into_iter().next().unwrap();
    assert!(totals.is_ended && totals.gaps == 0 && totals.lost == 0, "{totals:?}");
    assert_eq!((totals.frames, totals.records), (end.frames + rest.frames, 1000));
    let numbers = |path: &Path| {
        let bytes = fs::read(path).unwrap();
        let (mut scanner, mut all, mut input) = (Scanner::new(), Vec::new(), &bytes[..]);
        while let Some(found) = scanner.next(&mut input).unwrap() {
            all.push((found.header.stream, found.header.seq, found.header.payload_crc));
        }
        all.sort_unstable();
        all
    };
    // The frames are the same, including payloads.
    assert_eq!(numbers(&file), numbers(&path));
}

/// A flight recorder with three segments, and its writer.
struct Recorder {
    writer: Writer<Segments>,
    stream: StreamWriter<Segments>,
    id: u32,
    n: u64,
}

impl Recorder {
    fn new(folder: &Path) -> Recorder {
        let segments = Segments::new(folder, 3, 35_000).unwrap();
        let options = Options {
            codec: Codec::None,
            frame_bytes: 2000,
            snapshot_bytes: 10_000,
            ..Options::new("recorder")
        };
        let writer = Writer::new(segments, options);
        writer.define(Clock { id: 1, ticks_per_s: 10, ..Clock::default() }).unwrap();
        let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
        let stream = writer.stream(1).unwrap();
        Recorder { writer, stream, id, n: 0 }
    }

    fn write(&mut self, n: u64) {
        for _ in 0..n {
            // Values that do not repeat, so that they compress badly.
            let value = self.n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            self.stream.row(self.id, self.n, 8, |body| body.put(0, &value.to_le_bytes())).unwrap();
            self.n += 1;
        }
        self.stream.flush().unwrap();
    }
}

#[test]
fn what_another_run_has_sent_of_a_flight_recorder_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = folder.path().join("recorder");
    let out = folder.path().join("out");
    let mut recording = Recorder::new(&recorder);
    // A run knows nothing about earlier runs, nor does a new collector about earlier ones.
    let run = |is_cut: bool| {
        let running = Running::new(&out, Door::Loopback, Limits::default());
        let cut = folder.path().join("cut");
        let input = match is_cut {
            true => {
                fs::create_dir_all(&cut).unwrap();
                since::cut(&recorder, Duration::from_secs(1 << 30), &cut.join("since.quipu")).unwrap();
                Input::Cut(cut, recorder.clone())
            }
            false => Input::Path(recorder.clone(), false),
        };
        send(&plain(running.address), input, &|| false, &mut |_| {}).unwrap();
        let (summary, _) = running.stop();
        let (file, totals) = summary.files.into_iter().next().unwrap();
        let (times, findings, lost) = made::read(&fs::read(file).unwrap());
        assert_eq!((times.len() as u64, lost), (totals.records, totals.lost), "{findings:?}");
        (totals.records, totals.lost)
    };
    recording.write(3000);
    assert_eq!(run(false), (3000, 0));
    // Only records that earlier runs have sent are overwritten.
    recording.write(1500);
    assert_eq!(run(false), (4500, 0));
    recording.write(1500);
    assert_eq!(run(true), (6000, 0));
    assert!(recorder.join("lost.quipu").exists());
    // Now segments are overwritten that no run has read.
    recording.write(20_000);
    let (records, lost) = run(false);
    assert!(lost > 10_000 && records + lost == 26_000, "{records} {lost}");
    // These losses are not reported again, but further losses of the writer are.
    recording.stream.lose(300);
    recording.write(1500);
    assert_eq!(run(false), (records + 1500, lost + 300));
    recording.write(1500);
    recording.stream.lose(77);
    recording.write(20_000);
    let (all, all_lost) = run(false);
    assert!(all_lost > lost + 10_000 && all + all_lost == 26_000 + 3000 + 20_000 + 377, "{all} {all_lost}");
    recording.stream.finish().unwrap();
    recording.writer.finish().unwrap();
    assert_eq!(run(false), (all, all_lost));
}
