//! Producers and receivers in separate processes: many events, and killed processes.

use super::{Order, SMALL, all_left, example, folders, producer, when_ended};
use quipu_prism::Detail;
use quipu_prism::delivery::Receiver;
use quipu_prism::delivery::producer::SHAPE;
use quipu_prism::delivery::receiver::{End, Seen, Wish};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Four producers, of both encodings, in three processes, with one receiver.
fn from_four(n_events: u64, stall: Option<(u64, Duration)>) {
    let base = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut receiver = Receiver::create_in(base.path(), SHAPE, Detail::COMMUNICATION).unwrap();
    let path = receiver.path().to_owned();
    let begun = Instant::now();
    let mut children: Vec<_> = [("fixed", 1), ("variable", 1), ("variable", 2)]
        .into_iter()
        .map(|(encoding, n_threads)| producer(&path, encoding, n_events, n_threads).spawn().unwrap())
        .collect();
    let mut order = Order { stall, ..Order::default() };
    let outcome = receiver.run(&mut order, &mut when_ended(4)).unwrap();
    assert!(all_left(&outcome), "{outcome:?}");
    assert!(outcome.producers.iter().all(|producer| producer.n_events == n_events), "{outcome:?}");
    assert_eq!(order.next, (1..=4).map(|thread| (thread, n_events)).collect());
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let rate = 4.0 * n_events as f64 / begun.elapsed().as_secs_f64();
    println!("{} events from 4 producers, stalls {stall:?}, {:.1} million/s", 4 * n_events, rate / 1e6);
}

#[test]
fn four_producers_lose_nothing_and_keep_their_order() {
    from_four(100_000, None);
    from_four(100_000, Some((20, Duration::from_millis(10))));
}

#[test]
#[ignore = "a hundred million events take a release build: cargo test --release -p quipu-prism -- --ignored"]
fn four_producers_lose_nothing_of_a_hundred_million_events() {
    from_four(25_000_000, None);
    // The receiver stalls for two seconds, 20 ms at a time, and the producers wait for it.
    from_four(25_000_000, Some((100, Duration::from_millis(20))));
}

/// Kills a producer after a while, `n` times. The events that it published are delivered in order, and another producer
/// loses nothing.
fn killed(n: u64) {
    let base = tempfile::tempdir_in("/dev/shm").unwrap();
    let (mut n_whole, mut n_delivered) = (0, 0);
    for round in 0..n {
        let mut receiver = Receiver::create_in(base.path(), SMALL, Detail::COMMUNICATION).unwrap();
        let path = receiver.path().to_owned();
        let encoding = if round % 2 == 0 { "fixed" } else { "variable" };
        let mut victim = producer(&path, encoding, u64::MAX, 1).spawn().unwrap();
        let mut other = producer(&path, "variable", 50_000, 1).spawn().unwrap();
        // Microseconds that differ from round to round, from before its first event to far after it.
        let moment = Duration::from_micros(round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48);
        let begun = Instant::now();
        let mut order = Order::default();
        let mut is_killed = false;
        let mut end = |seen: Seen| {
            if !is_killed && begun.elapsed() >= moment {
                victim.kill().unwrap();
                is_killed = true;
            }
            // The victim may have been killed before it connected.
            let has_other = seen.n_producers > 0 && matches!(other.try_wait(), Ok(Some(_)));
            if is_killed && has_other { Wish::Drain } else { Wish::Wait }
        };
        let outcome = receiver.run(&mut order, &mut end).unwrap();
        victim.wait().unwrap();
        for producer in &outcome.producers {
            assert_eq!(order.next.get(&producer.thread).copied().unwrap_or(0), producer.n_events);
            n_delivered += producer.n_events;
            if producer.process == victim.id() {
                assert_eq!(producer.end, End::Died);
                n_whole += 1;
            } else {
                assert_eq!((&producer.end, producer.n_events), (&End::Left, 50_000));
            }
        }
    }
    println!("{n} producers killed, {n_whole} of them with a ring; {n_delivered} events");
    assert!(folders(base.path()).is_empty());
}

#[test]
fn a_producer_that_is_killed_ends_cleanly() {
    killed(5);
}

#[test]
#[ignore = "a hundred kills take half a minute; five of them run always"]
fn a_hundred_producers_that_are_killed_end_cleanly() {
    killed(100);
}

/// The receiver example, run in `base`, with the path of its file.
fn receiver(base: &Path, pause: u64) -> (Child, PathBuf, impl BufRead + use<>) {
    let mut command = example("receiver");
    command.arg(pause.to_string()).env("PRISM_SHM_DIR", base).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut path = String::new();
    said.read_line(&mut path).unwrap();
    (child, path.trim_end().into(), said)
}

fn said(child: &mut Child) -> String {
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

#[test]
fn the_examples_understand_each_other() {
    let base = tempfile::tempdir().unwrap();
    let (mut receiver, path, mut rest) = receiver(base.path(), 0);
    let mut sender = producer(&path, "variable", 100_000, 1).spawn().unwrap();
    assert_eq!(said(&mut sender), "dropped 0\n");
    assert!(sender.wait().unwrap().success() && receiver.wait().unwrap().success());
    let mut text = String::new();
    rest.read_to_string(&mut text).unwrap();
    assert_eq!(text, "100000 events, Left\n100000 accesses\n");
    assert!(folders(base.path()).is_empty());
}

#[test]
fn a_receiver_that_is_killed_lets_producers_go_on_and_the_next_one_removes_its_folder() {
    let base = tempfile::tempdir().unwrap();
    let (mut receiver, path, _) = receiver(base.path(), 60_000);
    // More events than a ring has room for: the producer waits until the receiver has ended.
    let mut sender = producer(&path, "fixed", 1_000_000, 1).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert!(sender.try_wait().unwrap().is_none(), "it waits");
    let before = super::on_processor(&sender.id().to_string());
    std::thread::sleep(Duration::from_millis(500));
    let busy = super::on_processor(&sender.id().to_string()) - before;
    assert!(busy < 100_000_000, "a waiting producer sleeps: {busy}");
    receiver.kill().unwrap();
    receiver.wait().unwrap();
    let text = said(&mut sender);
    assert!(sender.wait().unwrap().success());
    let n_dropped: u64 = text.trim_end().strip_prefix("dropped ").unwrap().parse().unwrap();
    assert!((900_000..1_000_000).contains(&n_dropped), "{n_dropped}");

    let left = folders(base.path());
    assert_eq!(left, [path.parent().unwrap()], "a process that is killed removes nothing");
    let alive = Receiver::create_in(base.path(), SMALL, Detail::ALL).unwrap();
    assert_eq!(folders(base.path()), [alive.folder()]);
    let second = Receiver::create_in(base.path(), SMALL, Detail::ALL).unwrap();
    assert_eq!(folders(base.path()).len(), 2, "the first one's owner lives");
    drop((alive, second));
}
