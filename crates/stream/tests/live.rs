//! Streams that are read while they are written: sockets, growing files, flight recorders.

use crate::vectors::summary_of;
use quipu_stream::codec::Codec;
use quipu_stream::follow::Follow;
use quipu_stream::input::Pipe;
use quipu_stream::reader::{Content, StreamReader};
use quipu_stream::recorder::{Segments, overwritten};
use quipu_stream::scan::Scanner;
use quipu_stream::spec::{SchemaSpec, Ty};
use quipu_stream::write::{Options, Writer};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Timeout for something that should happen at once.
const PATIENCE: Duration = Duration::from_secs(60);

fn options() -> Options {
    Options { codec: Codec::Zstd(1), frame_bytes: 3000, ..Options::new("test") }
}

/// Writes each number of a range as a record of stream 1.
fn write_numbers(writer: &Writer<impl Write>, numbers: std::ops::Range<u64>) {
    let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
    let mut stream = writer.stream(1).unwrap();
    for n in numbers {
        stream.row(id, n, 8, |body| body.put(0, &n.to_le_bytes())).unwrap();
    }
    stream.finish().unwrap();
}

/// Returns the times of all records and the findings; calls `tell` with each time as its record arrives.
fn read_all(source: impl Read, mut tell: impl FnMut(u64)) -> (Vec<u64>, Vec<String>) {
    let mut reader = StreamReader::once(Pipe::new(source));
    let mut times = Vec::new();
    while let Some(part) = reader.next_part().unwrap() {
        if let Content::Rows(batch) = part.content {
            for (rows, row) in batch.in_order() {
                times.push(rows.times[row]);
                tell(rows.times[row]);
            }
        }
    }
    (times, reader.session().findings.iter().map(ToString::to_string).collect())
}

#[test]
fn records_come_through_a_socket_while_the_program_still_writes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (told, hears) = channel();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let writer = Writer::new(TcpStream::connect(address).unwrap(), options());
            // The reader receives each record before the writer continues.
            for n in 0..20 {
                write_numbers(&writer, n..n + 1);
                assert_eq!(hears.recv_timeout(PATIENCE), Ok(n));
            }
            write_numbers(&writer, 20..2000);
            writer.finish().unwrap();
        });
        let (socket, _) = listener.accept().unwrap();
        let (times, findings) = read_all(socket, |time| {
            let _ = told.send(time);
        });
        assert_eq!((times, findings), ((0..2000).collect(), vec![]));
    });
}

#[test]
fn a_file_that_grows_is_followed_to_the_end_of_its_producer() {
    let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
    let writer = Writer::new(Vec::new(), options());
    write_numbers(&writer, 0..2000);
    writer.finish().unwrap();
    let whole = writer.into_inner().unwrap();
    let (told, hears) = channel();
    std::thread::scope(|scope| {
        let (path, whole) = (&path, &whole);
        scope.spawn(move || {
            let mut file = File::options().write(true).open(path).unwrap();
            // First half a frame, then the rest of it, with room claimed for the frames after it.
            file.write_all(&whole[..whole.len() / 2 + 17]).unwrap();
            assert!(hears.recv_timeout(PATIENCE).is_ok(), "nothing came");
            file.set_len(whole.len() as u64).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            file.seek(SeekFrom::Start(whole.len() as u64 / 2 + 17)).unwrap();
            file.write_all(&whole[whole.len() / 2 + 17..]).unwrap();
        });
        let follow = Follow::new(File::open(path).unwrap(), || false);
        let (times, findings) = read_all(follow, |time| {
            let _ = told.send(time);
        });
        assert_eq!((times, findings), ((0..2000).collect(), vec![]));
    });
}

#[test]
fn a_followed_file_whose_program_dies_gives_what_is_in_it() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let writer = Writer::new(Vec::new(), options());
    write_numbers(&writer, 0..2000);
    let whole = writer.into_inner().unwrap();
    file.write_all(&whole[..whole.len() - 10]).unwrap();
    let is_dead = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_dead);
    let follow = Follow::new(file.reopen().unwrap(), move || asked.swap(true, Ordering::Relaxed));
    let (times, findings) = read_all(follow, |_| {});
    assert!(is_dead.load(Ordering::Relaxed) && times.len() > 1500 && times.len() < 2000, "{}", times.len());
    assert!(findings.iter().any(|finding| finding.starts_with("truncated-frame")), "{findings:?}");
}

#[test]
fn a_flight_recorder_keeps_the_newest_segments_and_says_what_went() {
    let folder = tempfile::tempdir().unwrap();
    const N: u64 = 100_000;
    let segments = Segments::new(folder.path(), 3, 40_000).unwrap();
    let writer = Writer::new(segments, Options { snapshot_bytes: 20_000, codec: Codec::None, ..options() });
    write_numbers(&writer, 0..N);
    writer.finish().unwrap();
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 4, "{names:?}");
    assert_eq!(names[0], "lost.quipu");
    let files: Vec<Vec<u8>> =
        names.iter().map(|name| std::fs::read(folder.path().join(name)).unwrap()).collect();
    for segment in &files[1..] {
        assert!(segment.len() < 100_000, "{} bytes", segment.len());
        // Each segment can be read alone.
        let summary = summary_of(segment);
        let n = summary["records_decoded"].as_u64().unwrap();
        assert!(n > 0 && !summary["findings"].to_string().contains("metadata-gap"), "{n} records");
        let first = Scanner::new().next(&mut &segment[..]).unwrap().unwrap();
        assert!(first.header.has(quipu_stream::frame::flag::SNAPSHOT_START));
    }
    let summary = summary_of(&files.concat());
    let n = summary["records_decoded"].as_u64().unwrap();
    assert!((1000..N / 2).contains(&n), "{n} records");
    assert_eq!(summary["records"][n as usize - 1]["n"], N - 1);
    assert_eq!(summary["lost"]["1"], N - n, "{}", summary["findings"]);
    assert_eq!(summary["losses"][0]["kind"], "overwritten");
    let findings = summary["findings"].as_array().unwrap();
    assert!(findings.iter().all(|finding| finding["name"] == "sequence-gap"), "{findings:?}");
}

#[test]
fn a_flight_recorder_adds_what_a_writer_lost_to_what_went() {
    let folder = tempfile::tempdir().unwrap();
    const N: u64 = 40_000;
    let segments = Segments::new(folder.path(), 2, 20_000).unwrap();
    let writer = Writer::new(
        segments,
        Options { snapshot_bytes: 10_000, frame_bytes: 2000, codec: Codec::None, ..options() },
    );
    let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
    let mut stream = writer.stream(1).unwrap();
    for n in 0..N {
        // Losses occur in every frame, so also in the first one that is left.
        if n % 10 == 0 {
            stream.lose(3);
        }
        stream.row(id, n, 8, |body| body.put(0, &n.to_le_bytes())).unwrap();
    }
    stream.finish().unwrap();
    writer.finish().unwrap();
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let gone = overwritten(&read("lost.quipu"));
    let mut names: Vec<_> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let all = names.iter().flat_map(|name| read(name)).collect::<Vec<u8>>();
    let summary = summary_of(&all);
    let n = summary["records_decoded"].as_u64().unwrap();
    assert!((500..N / 2).contains(&n), "{n} records");
    assert_eq!(summary["lost"]["1"].as_u64(), Some(N - n + 3 * N / 10), "{}", summary["findings"]);
    let [gone] = gone.into_values().collect::<Vec<_>>()[..] else { panic!() };
    let segments = names[1..].iter().flat_map(|name| read(name)).collect::<Vec<u8>>();
    let (mut scanner, mut input) = (Scanner::new(), &segments[..]);
    let first = loop {
        let header = scanner.next(&mut input).unwrap().unwrap().header;
        if header.kind == quipu_stream::frame::kind::DATA && header.stream == 1 {
            break header;
        }
    };
    assert_eq!((first.lost.into(), first.seq), (gone.records, gone.last + 1));
}

#[test]
fn a_live_stream_gives_away_its_records_once_they_are_old() {
    let age = std::time::Duration::from_millis(20);
    let writer = Writer::new(Vec::new(), Options { flush_after: Some(age), ..Options::live("test") });
    let id = writer.schema(&SchemaSpec::new("tick").field("n", Ty::Uint(64))).unwrap();
    let mut stream = writer.stream(1).unwrap();
    let mut add = |n: u64| stream.row(id, n, 8, |body| body.put(0, &n.to_le_bytes())).unwrap();
    // The clock is read at every 64th record.
    (0..100).for_each(&mut add);
    std::thread::sleep(age);
    (100..200).for_each(&mut add);
    std::thread::sleep(age);
    stream.flush_old().unwrap();
    stream.finish().unwrap();
    writer.finish().unwrap();
    let bytes = writer.into_inner().unwrap();
    let mut reader = StreamReader::new(&bytes[..]);
    let frames = reader.data_frames().unwrap();
    let records: Vec<u32> = frames.iter().map(|frame| frame.header.records).collect();
    assert_eq!(records.iter().sum::<u32>(), 200);
    // On a slow machine the records may be old even before the pauses.
    assert!(records.len() >= 2 && records[0] <= 129, "{records:?}");
}
