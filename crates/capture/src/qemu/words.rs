//! Decodes the words of one thread into a sequence of blocks and system calls.
//!
//! A block is written once its successor is known, because only that shows the outcome of its last instruction, and whether
//! the whole block was executed.

use super::code::{Block, Blocks};
use super::process::Process;
use super::stream::{Next, Stream};
use quipu_model::Result;
use quipu_ring::qemu::{Access, Kind, is_access, parts};
use std::sync::Arc;

/// Decodes one thread's words and passes blocks on to its [`Stream`].
pub(crate) struct Words<'r> {
    blocks: &'r Blocks,
    /// Blocks that this thread has executed, by number.
    mine: Vec<Option<Arc<Block>>>,
    /// The block that is being executed.
    current: Option<u32>,
    pub(crate) stream: Stream<'r>,
    pub(crate) process: Arc<Process>,
    /// Address of a system call that is going to be restarted, as if it had not been interrupted.
    restart: Option<u64>,
    /// Whether the current block only restarts such a call.
    is_restart: bool,
    /// The system call in progress.
    call: Option<Call>,
    /// Whether the last word was the beginning of a system call.
    is_resting: bool,
    /// Whether the thread ended in `exec`.
    pub(crate) has_left: bool,
}

/// A system call.
#[derive(Clone, Copy, Debug)]
struct Call {
    number: u32,
    pc: u64,
    /// Whether its start was recorded.
    is_written: bool,
    /// Whether it starts another process.
    is_fork: bool,
}

/// How far words were processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fed {
    /// Completely.
    All,
    /// Up to this index; the next word is a block that has not been described yet.
    Until(usize),
    /// Up to this index; the rest of the group has not arrived yet.
    Within(usize),
}

/// Result of an interrupted call that is going to be restarted, as the emulator reports it.
const RESTARTS: i64 = -512;

impl<'r> Words<'r> {
    pub(crate) fn new(blocks: &'r Blocks, process: Arc<Process>, stream: Stream<'r>) -> Words<'r> {
        Words {
            blocks,
            mine: Vec::new(),
            current: None,
            stream,
            process,
            restart: None,
            is_restart: false,
            call: None,
            is_resting: false,
            has_left: false,
        }
    }

    /// Processes the next words.
    ///
    /// # Errors
    /// `Io` if the trace cannot be written.
    pub(crate) fn feed(&mut self, words: &[u64]) -> Result<Fed> {
        let mut at = 0;
        self.is_resting &= words.is_empty();
        while let Some(&word) = words.get(at) {
            if is_access(word) {
                self.stream.accesses.push(Access::of(word));
                at += 1;
                continue;
            }
            let (kind, n, value) = parts(word);
            if kind == Some(Kind::Block) {
                if !self.knows(value) {
                    return Ok(Fed::Until(at));
                }
                self.step(value)?;
                at += 1;
                continue;
            }
            // Groups are published as a whole, but may be taken in two parts.
            let Some(rest) = words.get(at + 1..at + 1 + n) else { return Ok(Fed::Within(at)) };
            self.other(kind, value, rest)?;
            at += 1 + n;
        }
        self.stream.flush()?;
        Ok(Fed::All)
    }

    /// Skips blocks that were left out or will never be described: no connection is assumed between the code before and after
    /// them.
    pub(crate) fn pass_over(&mut self) -> Result<()> {
        self.settle(Next::End)?;
        self.stream.lose();
        Ok(())
    }

    /// Whether the block has been described.
    #[inline]
    fn knows(&mut self, number: u32) -> bool {
        let at = number as usize;
        matches!(self.mine.get(at), Some(Some(_))) || self.learn(number)
    }

    #[cold]
    fn learn(&mut self, number: u32) -> bool {
        let Some(block) = self.blocks.get(number) else { return false };
        let at = number as usize;
        if self.mine.len() <= at {
            self.mine.resize(at + 1, None);
        }
        self.mine[at] = Some(block);
        true
    }

    fn block(&self, number: u32) -> Option<&Block> {
        self.mine.get(number as usize)?.as_deref()
    }

    /// Starts the execution of a block.
    #[inline]
    fn step(&mut self, number: u32) -> Result<()> {
        let Some(block) = self.mine.get(number as usize).and_then(|block| block.as_deref()) else {
            return Ok(());
        };
        let pc = block.pc;
        self.is_resting = false;
        match self.current.take() {
            Some(before) => {
                if let Some(before_block) = self.mine.get(before as usize).and_then(|block| block.as_deref())
                {
                    self.stream.leave(before_block, before, Next::Pc(pc), &self.process)?;
                }
            }
            None => {
                if let Some(restart) = self.restart.take() {
                    self.is_restart = restart == pc && block.ops.len() == 1;
                }
                if !self.is_restart {
                    self.stream.arrive(pc, &self.process);
                }
            }
        }
        self.stream.accesses.clear();
        self.current = Some(number);
        Ok(())
    }

    /// Writes the current block.
    fn settle(&mut self, next: Next) -> Result<()> {
        let number = self.current.take();
        if let Some(number) = number.filter(|_| !self.is_restart)
            && let Some(block) = self.mine.get(number as usize).and_then(|block| block.as_deref())
        {
            self.stream.leave(block, number, next, &self.process)?;
        }
        self.stream.accesses.clear();
        Ok(())
    }

    #[cold]
    fn other(&mut self, kind: Option<Kind>, value: u32, rest: &[u64]) -> Result<()> {
        match (kind, rest) {
            (Some(Kind::Wide), [access, addr]) => {
                self.stream.accesses.push(Access { addr: *addr, ..Access::of(*access) });
            }
            (Some(Kind::Clock | Kind::Begin), [micros, cpu, ..]) => self.stream.clock(*micros, *cpu),
            (Some(Kind::Lost), []) => self.pass_over()?,
            (Some(Kind::Handler), [pc]) => self.process.handle(value, *pc),
            (Some(Kind::Syscall), [micros, cpu, args @ ..]) => {
                self.syscall(value, *micros, *cpu, args)?;
                self.is_resting = true;
            }
            (Some(Kind::SyscallEnd), [micros, cpu, result]) => {
                self.is_resting = false;
                self.syscall_end(value, *micros, *cpu, result.cast_signed());
            }
            (Some(Kind::End), [micros, cpu]) => {
                self.settle(Next::End)?;
                self.stream.clock(*micros, *cpu);
            }
            _ => {}
        }
        Ok(())
    }

    fn syscall(&mut self, number: u32, micros: u64, cpu: u64, args: &[u64]) -> Result<()> {
        if self.is_restart {
            self.settle(Next::End)?;
            self.is_restart = false;
            return Ok(());
        }
        let Some(block) = self.current.and_then(|number| self.block(number)) else { return Ok(()) };
        let (pc, end) = (block.pc_of(block.ops.len().saturating_sub(1)), block.end);
        self.settle(Next::Syscall)?;
        let calls = self.stream.calls();
        let is_return = calls.is_sigreturn(number);
        self.has_left = calls.is_exec(number);
        let is_written = self.stream.was_written();
        if is_written {
            self.stream.pair(micros, cpu);
            self.stream.call(number, if is_return { &[] } else { args });
        }
        let is_fork = calls.is_fork(number, args.first().copied().unwrap_or(0));
        self.call = (!is_return).then_some(Call { number, pc, is_written, is_fork });
        if is_return {
            self.stream.go_back(end);
        } else {
            self.stream.expect(end);
        }
        Ok(())
    }

    fn syscall_end(&mut self, number: u32, micros: u64, cpu: u64, result: i64) {
        self.has_left = false;
        let Some(call) = self.call.filter(|call| call.number == number) else { return };
        if result == RESTARTS {
            self.restart = Some(call.pc);
        } else {
            self.call = None;
            if call.is_fork && result > 0 {
                self.process.beget();
            }
            if call.is_written {
                self.stream.result(number, result);
            }
        }
        if call.is_written {
            self.stream.pair(micros, cpu);
        }
    }

    /// Notes that there were no more words at this time.
    ///
    /// # Errors
    /// Errors of the events' destination.
    pub(crate) fn rest(&self, now: u64) -> Result<()> {
        if self.is_resting { self.stream.rest(now) } else { Ok(()) }
    }

    /// Ends the thread after its last word.
    ///
    /// # Errors
    /// `Io` if the trace cannot be written.
    pub(crate) fn finish(mut self) -> Result<Stream<'r>> {
        self.settle(Next::End)?;
        Ok(self.stream)
    }
}
