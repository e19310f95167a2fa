//! Tests of what a collector does with existing files when a sender connects.

use crate::loopback::{Running, plain, send_file};
use crate::made;
use quipu_network::collect::{Door, Limits};
use quipu_network::send::{Failure, Target};
use quipu_network::store::{file_name, make_folder};
use std::fs;
use std::time::Duration;

#[test]
fn bytes_that_are_no_whole_frame_are_cut_off_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let stream = made::stream(5, 300, 900);
    let (path, file) = (folder.path().join("run.quipu"), folder.path().join(file_name(5)));
    fs::write(&path, &stream).unwrap();
    let running = Running::new(folder.path(), Door::Loopback, Limits::default());
    send_file(&plain(running.address), &path).unwrap();
    running.stop();
    let whole = fs::read(&file).unwrap();
    let half = whole.len() / 2;
    let last = whole[..half].windows(4).rposition(|bytes| bytes == b"QPUE").unwrap() + 4;
    for (there, cut) in [
        // An unfinished frame; bytes after the last one; the beginning of the first one; room that was never written.
        (whole[..half].to_vec(), last..half),
        ([&whole[..], b"more"].concat(), whole.len()..whole.len() + 4),
        (whole[..50].to_vec(), 0..50),
        (whole[..3].to_vec(), 0..3),
        (vec![0; 300_000], 0..300_000),
    ] {
        fs::write(&file, &there).unwrap();
        let running = Running::new(folder.path(), Door::Loopback, Limits::default());
        send_file(&plain(running.address), &path).unwrap();
        let (_, said) = running.stop();
        assert_eq!(said, [format!("cut {}..{}", cut.start, cut.end)]);
        assert!(fs::read(&file).unwrap() == whole, "{cut:?}");
    }
}

#[test]
fn a_file_that_no_collector_wrote_for_the_producer_stays_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let (path, file) = (folder.path().join("run.quipu"), folder.path().join(file_name(5)));
    fs::write(&path, made::stream(5, 300, 900)).unwrap();
    let other = made::stream(6, 300, 900);
    let mut room_and_more = vec![0; 300_000];
    room_and_more.extend(b"a diary");
    for there in [
        b"a diary\n".to_vec(),
        b"x".to_vec(),
        room_and_more,
        other.clone(),
        other[..100].to_vec(),
        [&made::stream(5, 300, 900)[..], &other].concat(),
    ] {
        fs::write(&file, &there).unwrap();
        let running = Running::new(folder.path(), Door::Loopback, Limits::default());
        let target = Target { give_up: Some(Duration::ZERO), ..plain(running.address) };
        let failure = send_file(&target, &path).unwrap_err();
        // The sender reports the reason, too.
        assert!(
            matches!(&failure, Failure::Refused(fault) if fault.text.contains("stays as it is")),
            "{failure}"
        );
        let (summary, said) = running.stop();
        assert!(
            summary.files.is_empty() && said.iter().all(|text| text.contains("no file of this producer"))
        );
        assert!(fs::read(&file).unwrap() == there);
    }
}

#[test]
fn folders_are_made_as_deep_as_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("a/b/c");
    make_folder(&deep).unwrap();
    make_folder(&deep).unwrap();
    assert!(deep.is_dir());
    fs::write(folder.path().join("file"), "").unwrap();
    assert!(make_folder(&folder.path().join("file/below")).is_err());
}
