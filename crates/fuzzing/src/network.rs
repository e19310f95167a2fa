//! Targets for both sides of the network protocol: any bytes from the other side.

use crate::folder::Folder;
use quipu_network::have::Have;
use quipu_network::message::{self, MAX_FRAME_BYTES, Proof, VERSION, kind};
use quipu_network::receiver::{Event, Receiver};
use quipu_network::sender::Sender;
use quipu_network::spool::Spool;
use quipu_stream::frame::Header;

/// Feeds a collector with bytes from a sender in pieces of this size. Returns the events and the stored bytes.
fn received(bytes: &[u8], piece: usize) -> (Vec<String>, Vec<u8>) {
    let mut receiver = Receiver::new(MAX_FRAME_BYTES);
    let (mut said, mut stored) = (Vec::new(), Vec::new());
    for mut piece in bytes.chunks(piece) {
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
                    said.push(fault.text);
                    // The amount received of a refused frame depends on the pieces.
                    stored.clear();
                    return (said, stored);
                }
            };
            match begun {
                Some(producer) => receiver.have(producer, &Have::default()),
                None => receiver.welcome(),
            }
        }
    }
    (said, stored)
}

/// Feeds a collector with any bytes: unchanged, after a greeting, and as a frame with corrected checksums. The result must
/// not depend on how the bytes are split. A spool receives them, too.
///
/// # Panics
/// If a promise is broken.
pub fn collector(bytes: &[u8]) {
    let hello = message::Hello { lowest: VERSION, highest: VERSION, proof: Proof::None };
    let mut greeted = Vec::new();
    message::put(kind::HELLO, &hello.to_bytes(), &mut greeted);
    let repaired = crate::streams::repaired(bytes);
    let after = [&greeted[..], bytes].concat();
    let mut framed = greeted;
    if let Ok(header) = Header::read(&repaired) {
        message::put(kind::BEGIN, &header.producer.to_le_bytes(), &mut framed);
    }
    message::put(kind::FRAME, &repaired, &mut framed);
    for all in [bytes, &after, &framed] {
        let whole = received(all, usize::MAX);
        for piece in [1, 7, 97] {
            assert_eq!(received(all, piece), whole, "pieces of {piece}");
        }
    }
    let parent = Folder::new();
    let folder = parent.path("spool");
    for most in [0, u64::MAX] {
        let mut spool = Spool::new(&folder, most).expect("a folder can be made");
        for piece in repaired.chunks(61) {
            spool.take(piece).expect("it can be written");
        }
        spool.finish();
    }
}

/// Feeds a sender with any bytes from a collector, unchanged and after a welcome.
///
/// # Panics
/// If a promise is broken.
pub fn sender(bytes: &[u8]) {
    let mut welcome = Vec::new();
    message::put(kind::WELCOME, &[1, 0, 0, 0, 0, 0, 0, 4], &mut welcome);
    welcome.extend_from_slice(bytes);
    for all in [bytes, &welcome] {
        let said = |piece: usize| {
            let mut sender = Sender::new(Proof::None);
            let header = Header { producer: 7, ..Header::default() };
            let _ = sender.judge(&header);
            let mut said = Vec::new();
            for mut piece in all.chunks(piece) {
                loop {
                    match sender.next(&mut piece) {
                        Ok(None) => break,
                        Ok(Some(event)) => {
                            said.push(format!("{event:?}"));
                            sender.frame(104);
                            assert!(sender.n_unacked() <= sender.n_sent());
                        }
                        Err(fault) => {
                            said.push(fault.text);
                            return said;
                        }
                    }
                }
            }
            said
        };
        let whole = said(usize::MAX);
        for piece in [1, 5, 33] {
            assert_eq!(said(piece), whole, "pieces of {piece}");
        }
    }
}
