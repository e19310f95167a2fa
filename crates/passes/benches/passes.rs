//! Rows per second of each analysis, on batches like those of a real program: loops over some thousand distinct
//! instructions, accesses to a stack, to hot objects and to a large array.
//!
//! `cargo bench -p quipu-passes`

use divan::Bencher;
use divan::counter::ItemsCount;
use quipu_isa::Arch;
use quipu_model::lens::{AccessKind, CallEdge, InstrClass, Taken, ThreadEvent};
use quipu_model::{Batch, Code, Given, Options, Shard, Tool};
use quipu_testkit::{MemoryShard, MemoryTrace};

fn main() {
    divan::main();
}

/// Number of records in a batch, and of batches.
const RECORDS: u32 = 1024;
const BATCHES: u32 = 512;

/// x86: a no-op, a load, a store, an addition, a conditional jump.
const CODES: [&[u8]; 5] =
    [&[0x90], &[0x48, 0x8b, 0x03], &[0x48, 0x89, 0x03], &[0x48, 0x01, 0xd8], &[0x75, 0x00]];

#[divan::bench(args = quipu_passes::TOOLS.iter().map(|tool| tool.info().name))]
fn consume(bencher: Bencher<'_, '_>, name: &str) {
    let tool =
        quipu_passes::TOOLS.iter().find(|tool| tool.info().name == name).expect("a name from the list");
    let trace =
        MemoryTrace::new(vec![MemoryShard::new("bench")]).with_meta(|meta| meta.arch = Some(Arch::X86_64));
    let proto = tool.build(&Options::default(), &trace).expect("the trace has every column");
    let batches = batches();
    let needs = tool.info().needs;
    let columns = needs.required | needs.optional;
    let rows = batches.iter().map(|batch| {
        let accesses = if columns.has(quipu_model::Columns::ACCESSES) { batch.accesses.len() } else { 0 };
        let instrs = if columns.has(quipu_model::Columns::INSTRS) { batch.instrs.len() } else { 0 };
        let calls = if columns.has(quipu_model::Columns::CALLS) { batch.calls.len() } else { 0 };
        let threads = if columns.has(quipu_model::Columns::THREADS) { batch.threads.len() } else { 0 };
        accesses + instrs + calls + threads
    });
    bencher.counter(ItemsCount::new(rows.sum::<usize>())).bench_local(|| {
        let mut pass = proto.fork(&Shard::default());
        for batch in &batches {
            pass.consume(batch).expect("no analysis fails on rows");
        }
        pass
    });
}

/// Counts and histograms of instructions by their addresses, the keys that repeat most.
#[divan::bench(args = ["count()", "quantize(size)", "count(), sum(size), quantize(size)"])]
fn aggregate_by_pc(bencher: Bencher<'_, '_>, agg: &str) {
    let tool = &quipu_passes::aggregate::Aggregate;
    let trace = MemoryTrace::new(vec![MemoryShard::new("bench")]);
    let given = Given::from([("of", "instrs"), ("by", "pc"), ("agg", agg)]);
    let options = tool.info().parse(&given).expect("options that it has");
    let proto = tool.build(&options, &trace).expect("the trace has every column");
    let batches = batches();
    let rows: usize = batches.iter().map(|batch| batch.instrs.len()).sum();
    bencher.counter(ItemsCount::new(rows)).bench_local(|| {
        let mut pass = proto.fork(&Shard::default());
        for batch in &batches {
            pass.consume(batch).expect("no number overflows");
        }
        pass
    });
}

/// Two thirds instructions, one third data; fetches among the accesses.
fn batches() -> Vec<Batch> {
    let mut random = 1u64;
    let mut next = move |below: u64| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (random >> 33) % below
    };
    let mut codes = quipu_model::CodeTable::default();
    for i in 0..4000u64 {
        let bytes = CODES[(i % 5) as usize];
        codes.push(Code::new(0x40_0000 + 4 * i, bytes.len() as u16, bytes));
    }
    let mut instr = 0;
    (0..BATCHES)
        .map(|number| {
            let mut batch = Batch { codes: codes.clone(), ..Batch::default() };
            batch.span.first_record = u64::from(number) * u64::from(RECORDS);
            batch.span.records = RECORDS;
            batch.span.first_instr = instr;
            let mut loop_start = next(3900);
            for at in 0..RECORDS {
                if at == 0 {
                    for (what, value) in
                        [(ThreadEvent::Clock, 1 + u64::from(number)), (ThreadEvent::Cpu, next(4))]
                    {
                        batch.threads.at.push(at);
                        batch.threads.what.push(what);
                        batch.threads.value.push(value);
                    }
                    batch.calls.function.push(next(20));
                    batch.calls.edge.push(CallEdge::Enter);
                } else if at % 3 == 2 {
                    let (addr, size) = match next(8) {
                        0 => (0x1000_0000 + next(1 << 24), 8),
                        1..4 => (0x2000_0000 + next(1 << 14), 8),
                        _ => (0x7fff_0000 + 8 * next(256), 8),
                    };
                    let kind = if next(3) == 0 { AccessKind::Write } else { AccessKind::Read };
                    push_access(&mut batch, at, kind, addr, size);
                } else {
                    if at % 128 == 0 {
                        loop_start = next(3900);
                    }
                    let index = loop_start + u64::from(at) % 20;
                    push_instr(&mut batch, at, index, next(2) == 0);
                    instr += 1;
                    batch.span.instrs += 1;
                }
            }
            batch
        })
        .collect()
}

fn push_access(batch: &mut Batch, at: u32, kind: AccessKind, addr: u64, size: u32) {
    batch.accesses.at.push(at);
    batch.accesses.addr.push(addr);
    batch.accesses.size.push(size);
    batch.accesses.kind.push(kind);
}

fn push_instr(batch: &mut Batch, at: u32, index: u64, taken: bool) {
    let code = batch.codes.as_slice()[index as usize];
    let class = match index % 5 {
        4 => InstrClass::ConditionalJump,
        0 if index.is_multiple_of(25) => InstrClass::IndirectCall,
        _ => InstrClass::Other,
    };
    push_access(batch, at, AccessKind::Fetch, code.pc, u32::from(code.size));
    let instrs = &mut batch.instrs;
    instrs.at.push(at);
    instrs.pc.push(code.pc);
    instrs.size.push(code.size);
    instrs.flags.push(0);
    instrs.class.push(class);
    instrs.taken.push(if taken { Taken::Yes } else { Taken::No });
    instrs.target.push(if class.is_indirect() { 0x40_0000 + 4 * index } else { 0 });
    instrs.code.push(index as u32);
}
