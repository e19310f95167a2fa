//! Examples of the rules of DynamoRIO's tools, run as whole command lines.

use super::{
    Head, archive, clock, coded, entry, head, launch, marker, nops, printed, put, quipu, tail, told,
};

#[test]
fn a_name_listed_twice_is_printed_once() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("funclist.log"), "1,1,0x10,lib!f\n1,1,0x10,lib!f\n").unwrap();
    put(folder.path(), "a.trace", &[head(10, 1000, None), nops(0x1000, 1), tail(10)]);
    let text = printed(folder.path(), "-indir . -tool func_view");
    assert!(text.contains("Function id=1: lib!f\n"), "{text}");
}

/// Instructions as accesses: line 0x1000 twice, 0x1040 and 0x1080, with two lines kept; another thread uses only 0x1000.
#[test]
fn a_line_that_one_thread_has_dropped_counts_where_it_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let dropping = [head(10, 1000, None), nops(0x1000, 2), nops(0x1040, 1), nops(0x1080, 1), tail(10)];
    put(folder.path(), "a.trace", &dropping);
    put(folder.path(), "b.trace", &[head(11, 1000, None), nops(0x1000, 1), tail(11)]);
    let text = printed(folder.path(), "-indir . -tool reuse_distance -reuse_distance_limit 2");
    let total = text.split("=====").next().unwrap();
    assert!(total.contains("\n            0x1000:            1,            0\n"), "{text}");
}

#[test]
fn cores_without_traced_processors_have_no_list() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.trace", &[head(10, 1000, None), nops(0x1000, 1), tail(10)]);
    let text = printed(folder.path(), "-indir . -cpu_scheduling -cores 2");
    let cores: Vec<&str> = text.lines().filter(|line| line.starts_with("Core #")).collect();
    assert_eq!(cores, ["Core #0 (1 traced CPU(s): #0)", "Core #1 (0 traced CPU(s))"]);
}

/// Hints have one category, regardless of their operands; even with a memory operand they read nothing.
#[test]
fn hints_are_counted_as_other() {
    let folder = tempfile::tempdir().unwrap();
    let hints: [&[u8]; 12] = [
        // rdsspq %rax, endbr64, nopl (%rax), nopl %eax
        &[0xf3, 0x48, 0x0f, 0x1e, 0xc8],
        &[0xf3, 0x0f, 0x1e, 0xfa],
        &[0x0f, 0x1f, 0x00],
        &[0x0f, 0x1f, 0xc0],
        // 0f 18 /4 to /7 and 0f 19, of memory and of registers
        &[0x0f, 0x18, 0x20],
        &[0x0f, 0x18, 0x28],
        &[0x0f, 0x18, 0x30],
        &[0x0f, 0x18, 0xf8],
        &[0x0f, 0x19, 0x00],
        &[0x0f, 0x19, 0xc0],
        // 0f 1d and 0f 1e
        &[0x0f, 0x1d, 0x00],
        &[0x0f, 0x1e, 0x00],
    ];
    let mut parts = vec![head(10, 1000, None)];
    let mut pc = 0x1000;
    for hint in hints {
        parts.push(coded(10, pc, hint));
        pc += hint.len() as u64;
    }
    parts.push(tail(10));
    put(folder.path(), "a.trace", &parts);
    let text = printed(folder.path(), "-indir . -tool opcode_mix");
    let (_, categories) = text.split_once("\n\n").unwrap();
    let rows: Vec<Vec<&str>> = categories.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[1], ["12", ":", "other"], "{text}");
    // A prefetch is not one of them.
    put(folder.path(), "a.trace", &[head(10, 1000, None), coded(10, 0x1000, &[0x0f, 0x18, 0x08]), tail(10)]);
    let text = printed(folder.path(), "-indir . -tool opcode_mix");
    assert!(!text.contains(" other\n"), "{text}");
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Encodings of instructions, compared by bytes in the file that the filter writes.
#[test]
fn dependencies_are_written_as_dynamorio_writes_them() {
    let cases = [
        ("48f7e2", "220104000602040204000000"),
        ("f0410fb107", "2119000004020211"),
        ("660f164f08", "114c000006490900"),
        ("4898", "1100000003020200"),
        ("f2ae", "420b00000603090203092200"),
        ("f30f1efa", "1000080004040000"),
        ("62e17f2a6f16", "21480000215a086a"),
        ("c4e2dd9104c8", "3248000021484c02494c0000"),
        ("c4e1f97ec0", "1140000006024800"),
        ("c4e3e922c701", "214000000648094a"),
        ("c4e3f916c201", "1140000006044800"),
    ];
    let folder = tempfile::tempdir().unwrap();
    let mut parts = vec![head(10, 1000, None)];
    parts.extend((0..).zip(cases).map(|(i, (code, _))| coded(10, 0x1000 + 16 * i, &bytes(code))));
    parts.push(tail(10));
    put(folder.path(), "a.trace", &parts);
    printed(folder.path(), "-tool record_filter -infile a.trace -outdir out -filter_encodings2regdeps");
    let mut found: Vec<String> = vec![String::new()];
    for entry in std::fs::read(folder.path().join("out/a.trace")).unwrap().chunks(12) {
        let [kind, size] = [[entry[0], entry[1]], [entry[2], entry[3]]].map(u16::from_le_bytes);
        match kind {
            47 => entry[4..4 + usize::from(size)].iter().for_each(|byte| {
                let last = found.len() - 1;
                found[last] += &format!("{byte:02x}");
            }),
            10 => found.push(String::new()),
            _ => {}
        }
    }
    assert_eq!(found[..cases.len()], cases.map(|(_, expected)| expected.to_owned()));
}

/// Both switches, each in a member with its own header; they end in `iretq` with one read of 40 bytes.
#[test]
fn templates_whose_members_have_headers_pass() {
    let folder = tempfile::tempdir().unwrap();
    let template = |kind: u64, end: Vec<Vec<u8>>| {
        let first = Head { tid: 1, filetype: Some(0x4240), ..Head::OF_THREAD }.entries();
        let pop = [coded(10, 0x9000, &[0x58]), vec![entry(0, 8, 0x7000)]].concat();
        let mut returns = coded(16, 0x9001, &[0x48, 0xcf]);
        returns.insert(0, marker(29, 0xf00d));
        let read = vec![entry(0, 40, 0x7008), marker(35, kind)];
        [first, vec![marker(34, kind)], pop, returns, read, end].concat()
    };
    let members = [template(1, vec![marker(21, 0)]), template(2, tail(1))];
    archive(&folder.path().join("switches.zip"), &members);
    let text = printed(folder.path(), "-infile switches.zip -tool invariant_checker");
    assert_eq!(text, "Trace invariant checks passed\n");
    let output = quipu(folder.path(), "check switches.zip");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The record columns do not depend on the syntax; a note names an unsupported one once.
#[test]
fn a_syntax_that_is_not_here_is_taken_with_a_note() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.trace", &[head(10, 1000, None), nops(0x1000, 2), tail(10)]);
    let usual = printed(folder.path(), "-indir . -tool view");
    for name in ["dr", "arm", "riscv"] {
        let text = printed(folder.path(), &format!("-indir . -tool view -view_syntax {name}"));
        let (note, rest) = text.split_once('\n').unwrap();
        assert!(note.starts_with("note: ") && note.contains(&format!("`{name}`")), "{text}");
        assert_eq!(rest, usual);
    }
    let text = told(folder.path(), "-indir . -tool view -view_syntax masm", 2);
    assert!(text.contains("`masm`"), "{text}");
    // REGDEPS has no syntax other than DynamoRIO's.
    printed(folder.path(), "-tool record_filter -infile a.trace -outdir out -filter_encodings2regdeps");
    let text = printed(folder.path(), "-infile out/a.trace -tool view -view_syntax dr");
    assert!(text.starts_with("Output format:\n"), "{text}");
}

/// A file of an early version in which two threads take turns. DynamoRIO attributes all of it to the first thread.
#[test]
fn a_file_of_several_threads_is_one_shard() {
    let folder = tempfile::tempdir().unwrap();
    let turns = |tid: u64, time: u64, pc: u64| {
        let mut entries = vec![entry(22, 4, tid), entry(24, 4, 7)];
        entries.extend(clock(time, None));
        entries.push(entry(10, 4, pc));
        entries
    };
    let parts = [
        vec![entry(25, 0, 1)],
        turns(8, 100, 0x1000),
        turns(7, 110, 0x1000),
        turns(8, 120, 0x1004),
        vec![entry(0, 8, 0x2000), entry(23, 4, 8), entry(22, 4, 7), entry(23, 4, 7), entry(26, 0, 0)],
    ];
    put(folder.path(), "a.trace", &parts);
    let text = printed(folder.path(), "-indir . -tool basic_counts");
    let (total, shard) = text.split_once("Thread 8 counts:\n").unwrap();
    assert!(!shard.contains("counts:"), "{text}");
    for line in [
        "           3 (fetched) instructions\n",
        "           2 unique (fetched) instructions\n",
        "           1 data loads\n",
        "           2 threads\n",
        "           6 timestamp + cpuid markers\n",
    ] {
        assert!(shard.contains(line), "{line}: {text}");
    }
    assert!(total.contains("           2 total threads\n"), "{text}");
    let text = printed(folder.path(), "-indir . -tool reuse_distance");
    assert!(!text.contains("results for shard"), "{text}");
    // Our own verb names each thread.
    let output = quipu(folder.path(), "analyze counts .");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(" 7 ") && text.contains(" 8 "), "{text}");
}

#[test]
fn options_that_are_refused_by_name_say_why() {
    let folder = tempfile::tempdir().unwrap();
    put(folder.path(), "a.trace", &[head(10, 1000, None), nops(0x1000, 1), tail(10)]);
    for (tool, option, why) in [
        ("basic_counts -core_serial", "-sched_switch_file x", "no kernel code of switches"),
        ("basic_counts -core_serial", "-sched_syscall_file x", "no kernel code of system calls"),
        ("basic_counts", "-syscall_template_file x", "no kernel code of system calls"),
        ("basic_counts -core_serial", "-record_file x", "schedules are not recorded"),
        ("basic_counts -core_serial", "-replay_file x", "schedules are not replayed"),
        ("basic_counts -core_serial", "-add_noise_generator", "nothing is put into a trace"),
        ("record_filter -outdir out", "-chunk_instr_count 5", "--chunk-instrs"),
        ("record_filter -outdir out", "-compress gzip", "--container"),
        ("basic_counts -core_serial", "-scale_timers 2", "times are those of the trace"),
        ("basic_counts -core_serial", "-scale_timeouts 2", "times are those of the trace"),
        ("basic_counts -core_sharded", "-max_load_imbalance 2", "cores advance side by side"),
    ] {
        let line = format!("-indir . -tool {tool} {option}");
        let output = launch(folder.path(), &line);
        let said = String::from_utf8_lossy(&output.stderr);
        let name = option.split(' ').next().unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains(&format!("option `{name}` of drmemtrace is not available")), "{line}: {said}");
        assert!(said.contains(why), "{line}: {said}");
    }
}

/// DynamoRIO's disassembler would write `mov    %rsp -> %rbp`.
#[test]
fn instructions_are_printed_in_the_usual_text_of_their_architecture() {
    let folder = tempfile::tempdir().unwrap();
    let mov = coded(10, 0x1000, &[0x48, 0x89, 0xe5]);
    put(folder.path(), "a.trace", &[head(10, 1000, None), mov, tail(10)]);
    let text = printed(folder.path(), "-indir . -tool view");
    let line = text.lines().find(|line| line.contains("ifetch")).unwrap();
    assert!(
        line.ends_with("ifetch       3 byte(s) @ 0x0000000000001000 48 89 e5             mov    %rsp,%rbp"),
        "{line}"
    );
}
