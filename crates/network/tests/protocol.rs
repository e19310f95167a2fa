//! Tests of the state machines with arbitrary bytes, split arbitrarily.

use crate::made;
use proptest::prelude::*;
use quipu_network::have::Have;
use quipu_network::message::{self, Code, Fault, From, Parser, Part, Proof, kind};
use quipu_network::receiver::{Event, Receiver};
use quipu_network::sender::{self, Sender, Verdict};
use quipu_network::ship::Shipper;
use quipu_stream::frame::Header;
use quipu_stream::scan::Scanner;

/// The frames of a stream in their form for transit.
fn frames(mut stream: &[u8]) -> Vec<(Header, Vec<u8>)> {
    let (mut scanner, mut shipper, mut all) = (Scanner::new(), Shipper::new(), Vec::new());
    while let Some(found) = scanner.next(&mut stream).unwrap() {
        let at = found.payload_at() as usize;
        let mut stored = stream[at..at + found.header.stored_len as usize].to_vec();
        let mut frame = Vec::new();
        shipper.ship(&found.header, &mut stored, &mut frame).unwrap();
        all.push((Header::read(&frame).unwrap(), frame));
    }
    all
}

/// Feeds a receiver with bytes in pieces of these sizes, in turn, answering like a collector that has `have`. Returns the
/// events, the stored bytes and the receiver.
fn receive(bytes: &[u8], sizes: &[usize], have: &Have) -> (Vec<String>, Vec<u8>, Receiver) {
    let mut receiver = Receiver::new(message::MAX_FRAME_BYTES);
    let (mut said, mut stored) = (Vec::new(), Vec::new());
    let mut rest = bytes;
    let mut sizes = sizes.iter().cycle();
    while !rest.is_empty() {
        let (mut piece, after) = rest.split_at((*sizes.next().unwrap()).clamp(1, rest.len()));
        rest = after;
        loop {
            let begun = match receiver.next(&mut piece) {
                Ok(None) => break,
                Ok(Some(Event::Bytes(bytes))) => {
                    stored.extend_from_slice(bytes);
                    continue;
                }
                Ok(Some(event)) => {
                    said.push(format!("{event:?}"));
                    match event {
                        Event::Hello(_) => None,
                        Event::Begin(producer) => Some(producer),
                        _ => continue,
                    }
                }
                Err(fault) => {
                    said.push(format!("{fault:?}"));
                    return (said, stored, receiver);
                }
            };
            match begun {
                Some(producer) => receiver.have(producer, have),
                None => receiver.welcome(),
            }
        }
        assert!(piece.is_empty(), "bytes are left over");
    }
    (said, stored, receiver)
}

/// All output of a sender to a collector that has nothing, and the shipped frames.
fn said(stream: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut sender = Sender::new(Proof::Token([9; 32]));
    let mut bytes = sender.take_out();
    let mut answers = Vec::new();
    message::put(kind::WELCOME, &[1, 0, 0, 0, 0, 0, 0, 4], &mut answers);
    assert_eq!(sender.next(&mut &answers[..]).unwrap(), Some(sender::Event::Welcome(4 << 24)));
    let mut shipped = Vec::new();
    for (header, frame) in frames(stream) {
        if sender.judge(&header) == Verdict::Wait {
            bytes.extend(sender.take_out());
            let mut answer = Vec::new();
            message::put(kind::HAVE, &Have::default().to_bytes(header.producer), &mut answer);
            assert_eq!(sender.next(&mut &answer[..]).unwrap(), Some(sender::Event::Have(header.producer)));
        }
        assert_eq!(sender.judge(&header), Verdict::Send);
        bytes.extend(sender.frame(frame.len() as u32));
        bytes.extend_from_slice(&frame);
        shipped.extend(frame);
    }
    sender.ping();
    sender.done();
    bytes.extend(sender.take_out());
    (bytes, shipped)
}

#[test]
fn bytes_mean_the_same_wherever_they_are_cut() {
    let (bytes, shipped) = said(&made::stream(5, 40, 400));
    let (whole, stored, receiver) = receive(&bytes, &[usize::MAX], &Have::default());
    assert_eq!(stored, shipped);
    assert!(whole.len() > 20 && receiver.n_frames() > 5, "{whole:?}");
    assert_eq!(whole.last().unwrap(), "Done");
    for size in 1..100 {
        let (events, bytes_of_frames, _) = receive(&bytes, &[size], &Have::default());
        assert_eq!((&events, &bytes_of_frames), (&whole, &shipped), "pieces of {size}");
    }
    for cut in 0..bytes.len() {
        let (events, _, _) = receive(&bytes, &[cut.max(1), usize::MAX], &Have::default());
        assert_eq!(events, whole, "cut at {cut}");
        // Input that ends early gives a prefix of the events.
        let (events, stored, _) = receive(&bytes[..cut], &[usize::MAX], &Have::default());
        assert!(whole.starts_with(&events) && shipped.starts_with(&stored), "ended at {cut}");
    }
}

#[test]
fn a_frame_that_was_changed_on_the_way_is_not_taken() {
    let (bytes, _) = said(&made::stream(5, 10, 400));
    let (whole, ..) = receive(&bytes, &[usize::MAX], &Have::default());
    let n_frames = whole.iter().filter(|event| event.starts_with("FrameEnd")).count();
    // From the first frame to the last: the bytes before and after have no checksum, but are inside TLS.
    let first = bytes.windows(5).position(|five| five == b"\xF5QPU1").unwrap();
    let last = bytes.len() - 16;
    for bit in (first * 8..last * 8).step_by(7) {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let (events, ..) = receive(&changed, &[usize::MAX], &Have::default());
        let n_right = events.iter().filter(|event| event.starts_with("FrameEnd")).count();
        assert!(n_right < n_frames, "bit {bit}: {events:?}");
    }
}

#[test]
fn what_comes_at_the_wrong_time_ends_the_connection() {
    let one = |kind: u8, body: &[u8]| {
        let mut bytes = Vec::new();
        message::put(kind, body, &mut bytes);
        bytes
    };
    let hello = |lowest, highest| {
        one(kind::HELLO, &message::Hello { lowest, highest, proof: Proof::None }.to_bytes())
    };
    let begin = one(kind::BEGIN, &7_u64.to_le_bytes());
    let (_, frame) = frames(&made::stream(5, 1, 400)).remove(0);
    for (bytes, wanted) in [
        (one(kind::PING, &[]), "means nothing"),
        (begin.clone(), "means nothing"),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "kind 71"),
        (hello(2, 9), "version 1"),
        ([hello(1, 1), hello(1, 1)].concat(), "means nothing"),
        ([hello(0, 3), begin.clone(), begin.clone()].concat(), "begun before"),
        ([hello(1, 1), one(kind::FRAME, &frame)].concat(), "not begun"),
        ([hello(1, 1), one(kind::DONE, &[]), one(kind::PING, &[])].concat(), "means nothing"),
        ([hello(1, 1), message::head(kind::FRAME, u32::MAX).to_vec()].concat(), "kind 5"),
        ([hello(1, 1), message::head(kind::BEGIN, 9).to_vec()].concat(), "9 bytes"),
        ([hello(1, 1), one(kind::ACK, &[0; 8])].concat(), "kind 6"),
    ] {
        let (events, ..) = receive(&bytes, &[usize::MAX], &Have::default());
        let last = events.last().unwrap();
        assert!(last.starts_with("Fault") && last.contains(wanted), "{wanted}: {events:?}");
    }
}

#[test]
fn a_sender_believes_no_collector_that_makes_no_sense() {
    let answer = |kind: u8, body: &[u8]| {
        let mut sender = Sender::new(Proof::None);
        let mut bytes = Vec::new();
        message::put(kind::WELCOME, &[1, 0, 0, 0, 0, 0, 0, 4], &mut bytes);
        message::put(kind, body, &mut bytes);
        let mut input = &bytes[..];
        sender.next(&mut input).unwrap();
        sender.next(&mut input)
    };
    for (kind, body) in [
        (kind::ACK, &1_u64.to_le_bytes()[..]),
        (kind::BYE, &0_u64.to_le_bytes()),
        (kind::WELCOME, &[1, 0, 0, 0, 0, 0, 0, 4]),
        (kind::HAVE, &5_u64.to_le_bytes()),
        (kind::HELLO, &[0; 48]),
    ] {
        assert!(answer(kind, body).is_err(), "{kind} {body:?}");
    }
    let refusal = answer(kind::ERROR, &[&2_u16.to_le_bytes()[..], b"no"].concat());
    assert_eq!(refusal, Ok(Some(sender::Event::Refused(Fault::new(Code::Denied, "no")))));
    // Control characters are escaped.
    let colours =
        answer(kind::ERROR, &[&2_u16.to_le_bytes()[..], "a\x1b[31m\n\u{9b}\u{202e}é".as_bytes()].concat());
    let text = "a\\x1b[31m\\x0a\\u{9b}\\u{202e}é";
    assert_eq!(colours, Ok(Some(sender::Event::Refused(Fault::new(Code::Denied, text)))));
}

proptest! {
    /// Frames arrive over connections that break anywhere, in any order: each is stored once.
    #[test]
    fn a_collector_has_each_frame_once(cuts in prop::collection::vec(0..4000_usize, 0..12), skip in 0..4_usize) {
        let all = frames(&made::stream(5, 30, 300));
        let mut have = Have::default();
        let mut stored: Vec<(u32, u64)> = Vec::new();
        for cut in cuts.iter().copied().map(Some).chain([None]) {
            let mut sender = Sender::new(Proof::None);
            let mut bytes = sender.take_out();
            let mut answers = Vec::new();
            message::put(kind::WELCOME, &[1, 0, 0, 0, 0, 0, 0, 4], &mut answers);
            message::put(kind::HAVE, &have.to_bytes(5), &mut answers);
            let mut answers = &answers[..];
            sender.next(&mut answers).unwrap();
            prop_assert_eq!(sender.judge(&all[0].0), Verdict::Wait);
            bytes.extend(sender.take_out());
            sender.next(&mut answers).unwrap();
            // A sender that begins elsewhere sends the other frames first.
            let start = if cut.is_some() { skip.min(all.len()) } else { 0 };
            for (header, frame) in all[start..].iter().chain(&all[..start]) {
                if sender.judge(header) == Verdict::Send {
                    bytes.extend(sender.frame(frame.len() as u32));
                    bytes.extend_from_slice(frame);
                }
            }
            bytes.truncate(cut.unwrap_or(usize::MAX));
            let mut receiver = Receiver::new(message::MAX_FRAME_BYTES);
            let mut input = &bytes[..];
            loop {
                match receiver.next(&mut input).unwrap() {
                    None => break,
                    Some(Event::Hello(_)) => receiver.welcome(),
                    Some(Event::Begin(producer)) => receiver.have(producer, &have),
                    Some(Event::FrameEnd(header)) => {
                        prop_assert!(!have.contains(header.stream, header.seq));
                        have.insert(header.stream, header.seq, quipu_network::have::told(&header)).unwrap();
                        stored.push((header.stream, header.seq));
                    }
                    Some(_) => {}
                }
            }
        }
        stored.sort_unstable();
        let mut wanted: Vec<_> = all.iter().map(|(header, _)| (header.stream, header.seq)).collect();
        wanted.sort_unstable();
        prop_assert_eq!(stored, wanted);
        prop_assert_eq!(Have::read(&have.to_bytes(5)).unwrap(), (5, have));
    }

    /// Any bytes: no panic, no more memory than a message, and the same parts however they are split.
    #[test]
    fn any_bytes_are_taken_apart(bytes in prop::collection::vec(any::<u8>(), 0..300), size in 1..40_usize) {
        for side in [From::Sender, From::Collector] {
            let parts = |size: usize| {
                let mut parser = Parser::new(side);
                let mut all = Vec::new();
                for mut piece in bytes.chunks(size) {
                    loop {
                        match parser.next(&mut piece) {
                            Ok(None) => break,
                            Ok(Some(Part::Bytes(bytes))) => all.extend(bytes.iter().map(|byte| format!("{byte}"))),
                            Ok(Some(part)) => all.push(format!("{part:?}")),
                            Err(fault) => {
                                all.push(fault.text);
                                return all;
                            }
                        }
                    }
                }
                all
            };
            prop_assert_eq!(parts(size), parts(usize::MAX));
        }
    }
}
