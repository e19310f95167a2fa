//! Compares decodes of real AArch64 instructions with the records of a trace of their execution.
//!
//! See the head of the data file for its origin.

// The lint allows panics in test functions, not in their helpers.
use quipu_isa::{Access, Arch, Class, Decoder, Instr, Syntax};

const DATA: &str = include_str!("data/aarch64.records.txt");

/// The data records that an execution of `instr` leaves, spelled as in the data file.
fn records(instr: &Instr) -> Vec<String> {
    // A block of `dc zva` has 64 bytes on the machine that made the trace; the encoding does not give the size.
    let bytes = |bytes: u16| if bytes == 0 { 64 } else { bytes };
    let of = |letter: char, want: fn(Access) -> bool| {
        instr
            .mems()
            .iter()
            .filter(move |mem| want(mem.access))
            .map(move |mem| format!("{letter}{}", bytes(mem.bytes)))
    };
    of('r', Access::is_read)
        .chain(of('p', |access| access == Access::Prefetch))
        .chain(of('w', Access::is_write))
        .collect()
}

#[test]
fn kinds_and_data_records_are_explained() {
    let mut decoder = Decoder::new(Arch::Aarch64, Syntax::Att).unwrap();
    let lines: Vec<&str> = DATA.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(lines.len() > 400, "{}", lines.len());
    for line in lines {
        let mut columns = line.split(' ');
        let mut hex = || columns.next().unwrap();
        let pc = u64::from_str_radix(hex(), 16).unwrap();
        let word = u32::from_str_radix(hex(), 16).unwrap().to_be_bytes();
        let class = columns.next().unwrap().replace('-', " ");
        let instr = decoder.decode(pc, &word).unwrap();
        // The trace records a system call as an ordinary fetch.
        let ours = if instr.class == Class::Syscall { Class::Other } else { instr.class };
        assert_eq!(ours.name(), class, "{line}");
        assert_eq!(records(&instr), columns.collect::<Vec<_>>(), "{line}");
    }
}
