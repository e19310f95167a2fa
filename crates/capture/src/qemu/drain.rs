//! Empties the rings, with one thread of the recorder for each thread of the program.

use super::code::Block;
use super::modules::Mapping;
use super::order;
use super::process::Process;
use super::session::{Image, Session, ThreadResult};
use super::stream::Stream;
use super::target::Target;
use super::words::{Fed, Words};
use quipu_isa::{Decoder, Syntax};
use quipu_model::Result;
use quipu_ring::qemu::{Kind, parts};
use quipu_ring::{Consumer, SlotState};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Number of words taken from a ring at once.
const TAKE_WORDS: usize = 64 << 10;
/// Most words that are buffered while waiting for the description of a block.
const MOST_KEPT: usize = 16 * TAKE_WORDS;
/// Time to wait for new words before checking whether the program still exists.
const NAP: Duration = Duration::from_millis(20);
/// Poll interval while waiting for the description of a block, which arrives through another ring.
const SHORT_NAP: Duration = Duration::from_micros(100);
/// Time after which a missing description is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads a slot until it ends, and frees it.
///
/// # Errors
/// `Io` if the trace cannot be written. The slot is read to its end even then, so that the program is not blocked.
pub(crate) fn drain(session: &Session, mut consumer: Consumer<'_>) -> Result<()> {
    let (pid, tid) = consumer.owner();
    let drained = if tid == 0 {
        drain_code(session, &mut consumer, pid);
        Ok(())
    } else {
        drain_thread(session, &mut consumer, pid, tid)
    };
    if drained.is_err() {
        let mut words = Vec::new();
        while !has_ended(session, &consumer, pid) {
            consumer.take(&mut words, TAKE_WORDS);
            words.clear();
            consumer.wait(NAP);
        }
    }
    session.lose(consumer.n_dropped());
    consumer.free();
    drained
}

/// Whether nothing more will be written to the slot. Call this before taking the last words.
fn has_ended(session: &Session, consumer: &Consumer<'_>, pid: u32) -> bool {
    consumer.state() == SlotState::Left || session.is_gone(pid)
}

/// Reads descriptions of blocks, and of the files of their code.
fn drain_code(session: &Session, consumer: &mut Consumer<'_>, pid: u32) {
    let mut decoder = session.machine.arch().and_then(|arch| Decoder::new(arch, Syntax::Att).ok());
    let mut words = Vec::new();
    let mut may_end = false;
    loop {
        let n = consumer.take(&mut words, usize::MAX);
        let mut at = 0;
        while let Some(&word) = words.get(at) {
            let (kind, n, number) = parts(word);
            let rest = words.get(at + 1..at + 1 + n).unwrap_or_default();
            match kind {
                Some(Kind::Code) => {
                    if let Some(block) = Block::new(rest, decoder.as_mut(), session.has_accesses()) {
                        session.blocks.insert(number, block);
                    }
                }
                // Arrives before the description of the first block of the module, so no thread can have passed a function of
                // it yet.
                Some(Kind::Module) => {
                    if let Some(mapping) = Mapping::of(rest) {
                        session.map(Image { pid, number: number.into() }, &mapping);
                    }
                }
                _ => {}
            }
            at += 1 + n;
        }
        words.clear();
        if n == 0 {
            if may_end {
                return;
            }
            consumer.wait(NAP);
            may_end = has_ended(session, consumer, pid);
        }
    }
}

fn drain_thread(session: &Session, consumer: &mut Consumer<'_>, pid: u32, tid: u32) -> Result<()> {
    let mut buffer = Vec::with_capacity(TAKE_WORDS);
    let mut may_end = false;
    let mut words: Option<Words<'_>> = None;
    // When waiting for a description began.
    let mut waits: Option<Instant> = None;
    loop {
        if let Some(words) = &words
            && words.stream.is_ahead()?
        {
            std::thread::sleep(SHORT_NAP);
            continue;
        }
        let now = order::now();
        let n = if buffer.len() < MOST_KEPT { consumer.take(&mut buffer, TAKE_WORDS) } else { 0 };
        if session.gate.is_over() {
            buffer.clear();
        }
        if words.is_none()
            && let Some(begin) = whole_group(&buffer)
        {
            let process = begun(session, pid, begin);
            let stream = Stream::new(Target::new(session, process.clone(), tid), &session.gate);
            words = Some(Words::new(&session.blocks, process, stream));
        }
        if let Some(words) = &mut words {
            match words.feed(&buffer)? {
                Fed::All => {
                    buffer.clear();
                    waits = None;
                }
                Fed::Within(at) => {
                    buffer.drain(..at);
                    waits = None;
                }
                Fed::Until(at) => {
                    buffer.drain(..at);
                    if at > 0 {
                        waits = None;
                    }
                    if waits.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                        words.pass_over()?;
                        buffer.remove(0);
                    } else {
                        std::thread::sleep(SHORT_NAP);
                    }
                    continue;
                }
            }
        }
        if n == 0 {
            if may_end {
                break;
            }
            if let Some(words) = &words {
                words.rest(now)?;
            }
            consumer.wait(NAP);
            may_end = has_ended(session, consumer, pid);
        }
    }
    let Some(words) = words else { return Ok(()) };
    let (has_left, process) = (words.has_left, words.process.clone());
    if let Some(written) = words.finish()?.finish()? {
        session.note(ThreadResult { process, written, has_left });
    }
    Ok(())
}

/// The words after the first of a group, if all of them have arrived.
fn whole_group(words: &[u64]) -> Option<&[u64]> {
    let (_, n, _) = parts(*words.first()?);
    words.get(1..1 + n)
}

/// The process named in a thread's first group.
fn begun(session: &Session, pid: u32, begin: &[u64]) -> Arc<Process> {
    let word = |at: usize| begin.get(at).copied().unwrap_or(0);
    let bytes: Vec<u8> = begin.iter().skip(5).flat_map(|word| word.to_le_bytes()).collect();
    let name = String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default());
    // A process id has 32 bits.
    session.process(Image { pid, number: word(4) }, word(3) as u32, &name)
}
