//! The two sides of a slot in every order of their steps.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p quipu-ring --test model --release`; without the flag there is nothing here.

#![cfg(loom)]

use loom::sync::Arc;
use loom::thread;
use quipu_ring::{Consumer, Producer, Shape, Shared, SlotState};
use std::time::Duration;

/// A ring of two words, so that the producer has to wait for room and the words wrap around.
fn shared(n_slots: u32) -> Arc<Shared> {
    Arc::new(Shared::create(Shape { n_slots, ring_words: 2 }))
}

/// Tries orders with up to two switches away from a thread that could have run on, which finds what is known to go wrong.
fn model(body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(body);
}

/// Reads slot 0 until its thread has left and all is read.
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
