//! Tests the two sides of a slot in all interleavings of their steps.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p quipu-ring --test model --release`; without the flag, this file is empty.

#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use quipu_ring::{Consumer, Producer, Shape, Shared, SlotState};
use std::time::Duration;

const MOST: Duration = Duration::ZERO;

/// Memory with rings of two words, so that the producer must wait for room and the words wrap around.
fn shared(n_slots: u32) -> Arc<Shared> {
    Arc::new(Shared::create(Shape { n_slots, ring_words: 2, heap_words: 16 }))
}

/// Tries interleavings with up to two preemptions, which find the known failures.
fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(body);
}

/// Reads slot 0 until its thread has left and everything is read.
fn read_all(shared: &Shared) -> Vec<u64> {
    let mut consumer = Consumer::new(shared, 0).unwrap();
    let mut words = Vec::new();
    loop {
        let is_last = consumer.state() == SlotState::Left;
        let n = consumer.take(&mut words, 2);
        if is_last && n == 0 {
            return words;
        }
        if n == 0 {
            consumer.wait(Duration::ZERO);
            thread::yield_now();
        }
    }
}

#[test]
fn words_come_out_once_and_in_order() {
    model(|| {
        let shared = shared(1);
        let other = Arc::clone(&shared);
        let reader = thread::spawn(move || read_all(&other));
        let mut producer = Producer::claim(&shared, 1, 1).unwrap();
        assert!((1..=3).all(|word| producer.push(word)));
        producer.leave();
        assert_eq!(reader.join().unwrap(), [1, 2, 3]);
    });
}

#[test]
fn a_group_is_seen_whole_or_not_at_all() {
    model(|| {
        let shared = shared(1);
        let other = Arc::clone(&shared);
        let reader = thread::spawn(move || {
            let mut words = Vec::new();
            Consumer::new(&other, 0).unwrap().take(&mut words, 2);
            assert!(words.is_empty() || words == [1, 2], "{words:?}");
        });
        let mut producer = Producer::claim(&shared, 1, 1).unwrap();
        assert!(producer.push_group(&[1, 2]));
        reader.join().unwrap();
    });
}

#[test]
fn a_slot_has_one_owner() {
    model(|| {
        let shared = shared(1);
        let other = Arc::clone(&shared);
        let claims = move |tid| {
            let is_mine = Producer::claim(&other, 1, tid).is_some();
            is_mine
        };
        let second = claims.clone();
        let writer = thread::spawn(move || second(2));
        let n_owners = u32::from(claims(1)) + u32::from(writer.join().unwrap());
        assert_eq!(n_owners, 1);
        assert_eq!(shared.n_refused(), 1);
    });
}

#[test]
fn a_producer_that_waits_for_room_goes_on_when_the_recorder_closes() {
    model(|| {
        let shared = shared(1);
        let other = Arc::clone(&shared);
        let writer = thread::spawn(move || {
            let Some(mut producer) = Producer::claim(&other, 1, 1) else { return };
            // Two words fit; a third waits until the recorder has closed.
            let n_written = (1..=3).take_while(|word| producer.push(*word)).count();
            assert!(n_written <= 2);
        });
        shared.close();
        writer.join().unwrap();
    });
}

/// Reads slot 0 in groups like a recorder of all slots: it sleeps until a producer wakes it, and nothing else does.
fn read_groups(shared: &Shared, consumer: &mut Consumer<'_>) -> Vec<u64> {
    let (mut words, mut group) = (Vec::new(), Vec::new());
    loop {
        // The bell must be read before the state: otherwise, the bell of a slot left in between would be missed.
        let bell = shared.bell();
        let is_last = consumer.state() == SlotState::Left;
        if consumer.take_group(&mut group).unwrap() {
            words.append(&mut group);
        } else if is_last {
            return words;
        } else {
            shared.sleep(MOST, || consumer.has_words() || shared.bell() != bell);
        }
    }
}

#[test]
fn a_recorder_of_all_slots_is_woken_by_groups_and_by_leaving() {
    model(|| {
        let shared = shared(1);
        let other = Arc::clone(&shared);
        let mut producer = Producer::claim(&shared, 1, 1).unwrap();
        let reader = thread::spawn(move || {
            let mut consumer = Consumer::new(&other, 0).unwrap();
            read_groups(&other, &mut consumer)
        });
        for group in [[1, 10], [1, 11]] {
            assert!(producer.push_group(&group));
            shared.wake_recorder();
        }
        producer.leave();
        assert_eq!(reader.join().unwrap(), [1, 10, 1, 11]);
    });
}

#[test]
fn a_name_that_two_producers_intern_has_one_number() {
    model(|| {
        let shared = shared(1);
        let other = Arc::clone(&shared);
        let interner = thread::spawn(move || other.heap().unwrap().intern(b"main"));
        let heap = shared.heap().unwrap();
        let number = heap.intern(b"main").unwrap();
        let mut name = Vec::new();
        heap.get(number, &mut name).unwrap();
        assert_eq!(name, b"main");
        assert_eq!(interner.join().unwrap(), Some(number));
    });
}

#[test]
fn a_number_that_was_published_has_its_name() {
    model(|| {
        let shared = shared(1);
        let other = Arc::clone(&shared);
        let reader = thread::spawn(move || {
            let mut group = Vec::new();
            if Consumer::new(&other, 0).unwrap().take_group(&mut group).unwrap() {
                let mut name = Vec::new();
                other.heap().unwrap().get(group[1] as u32, &mut name).unwrap();
                assert_eq!(name, b"f");
            }
        });
        let third = Arc::clone(&shared);
        let interner = thread::spawn(move || {
            third.heap().unwrap().intern(b"f");
        });
        let mut producer = Producer::claim(&shared, 1, 1).unwrap();
        let number = shared.heap().unwrap().intern(b"f").unwrap();
        assert!(producer.push_group(&[1, number.into()]));
        reader.join().unwrap();
        interner.join().unwrap();
    });
}
