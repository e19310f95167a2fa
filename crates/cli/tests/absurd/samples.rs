//! Absurd traces of each family, written field by field.

/// A trace with the name of its file.
pub(super) struct Sample {
    pub(super) name: &'static str,
    pub(super) bytes: Vec<u8>,
}

const MAX: u64 = u64::MAX;

/// All samples, grouped by family.
pub(super) fn all() -> Vec<Vec<Sample>> {
    let [entries, din, lackey] = <[_; 3]>::try_from(wide(300)).unwrap();
    let is_din = |(name, _): &(&str, Vec<u8>)| name.ends_with(".din");
    let (mut dins, mut lackeys): (Vec<_>, Vec<_>) = text().into_iter().partition(is_din);
    dins.push(din);
    lackeys.push(lackey);
    let families = [
        [drmemtrace(), vec![entries]].concat(),
        cacheray(),
        apitrace(),
        dins,
        lackeys,
        recordings(),
        streams(),
        dtrace(),
        prism(),
    ];
    let sample = |(name, bytes)| Sample { name, bytes };
    families.into_iter().map(|family| family.into_iter().map(sample).collect()).collect()
}

/// Accesses of 65,535 bytes, each to lines of its own, in families that can represent them.
pub(super) fn wide(n: u64) -> Vec<(&'static str, Vec<u8>)> {
    let addr = |nth: u64| nth << 16;
    let entries =
        (0..n).map(|nth| [instr(nth), entry(0, 65535, addr(nth))].concat()).collect::<Vec<_>>().concat();
    let din: String = (0..n).map(|nth| format!("r {:x} ffff\n", addr(nth))).collect();
    let lackey: String = (0..n).map(|nth| format!(" L {:x},65535\n", addr(nth))).collect();
    vec![
        ("wide.1.0.trace", entries_of(&Head::default(), &entries)),
        ("wide.din", din.into()),
        ("wide.lackey", format!("I  04000,3\n{lackey}").into()),
    ]
}

/// Workload events with the largest possible numbers, in a stream.
fn prism() -> Vec<(&'static str, Vec<u8>)> {
    let slot = |bytes: &[u8]| [bytes, &vec![0xff; 18 - bytes.len()]].concat();
    let access = |addr: u64, size: u16, kind: u8| {
        slot(&[&[1][..], &addr.to_le_bytes(), &size.to_le_bytes(), &[kind]].concat())
    };
    let word = |tag: u8, kind: u8, value: u64| slot(&[&[tag, kind][..], &value.to_le_bytes()].concat());
    let dump =
        |slots: &[Vec<u8>]| [&(slots.len() as u64).to_le_bytes()[..], &[0; 8], &slots.concat()].concat();
    let each = |of: &dyn Fn(u64) -> Vec<u8>| dump(&(0..200).map(of).collect::<Vec<_>>());
    let made = [
        ("top.prism", each(&|nth| access(MAX - nth, u16::MAX, 1 + (nth % 2) as u8))),
        ("threads.prism", each(&|nth| word(5, 5, MAX - nth))),
        ("kinds.prism", each(&|nth| word(5, nth as u8, MAX))),
        ("contexts.prism", each(&|nth| word(4, [1, 2, 5, 200][nth as usize % 4], MAX - nth))),
        ("computations.prism", each(&|nth| slot(&[2, nth as u8, nth as u8]))),
        ("tags.prism", each(&|nth| slot(&[6 + nth as u8]))),
    ];
    let folder = tempfile::tempdir().unwrap();
    let in_stream = |(name, bytes): (&'static str, Vec<u8>)| {
        let [plain, stream] = ["plain", name].map(|name| folder.path().join(name));
        std::fs::write(&plain, bytes).unwrap();
        let mut convert = std::process::Command::new(env!("CARGO_BIN_EXE_quipu"));
        // Events of unknown types are damage, but are copied anyway.
        convert.args(["convert", "-q", "--keep-damaged", "--format", "prism", "--open", "encoding=fixed"]);
        let output = convert.arg(&plain).arg("-o").arg(&stream).output().unwrap();
        assert!(matches!(output.status.code(), Some(0 | 1)), "{name}: {output:?}");
        // If all events are nonsense, nothing is kept.
        Some((name, std::fs::read(stream).ok()?))
    };
    made.into_iter().filter_map(in_stream).collect()
}

fn entry(kind: u16, size: u16, value: u64) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat()
}

fn marker(kind: u16, value: u64) -> Vec<u8> {
    entry(28, kind, value)
}

/// Consecutive instructions of four bytes.
fn instr(nth: u64) -> Vec<u8> {
    entry(10, 4, 0x40_0000 + 4 * nth)
}

/// Header values of a drmemtrace trace.
struct Head {
    thread: u64,
    process: u64,
    file_type: u64,
    line_bytes: u64,
    page_bytes: u64,
    chunk_instrs: u64,
}

impl Default for Head {
    fn default() -> Head {
        Head {
            thread: 1,
            process: 1,
            file_type: 0x40,
            line_bytes: 64,
            page_bytes: 4096,
            chunk_instrs: 10_000_000,
        }
    }
}

fn entries_of(head: &Head, body: &[u8]) -> Vec<u8> {
    let begin = [
        entry(25, 0, 7),
        marker(12, 7),
        marker(9, head.file_type),
        entry(22, 4, head.thread),
        entry(24, 4, head.process),
        marker(10, head.line_bytes),
        marker(20, head.chunk_instrs),
        marker(18, head.page_bytes),
        marker(2, 13_300_000_000_000_000),
        marker(3, 0),
    ];
    [begin.concat(), body.to_vec(), entry(23, 4, head.thread), entry(26, 0, 0)].concat()
}

fn drmemtrace() -> Vec<(&'static str, Vec<u8>)> {
    let each = |n: u64, of: &dyn Fn(u64) -> Vec<Vec<u8>>| (0..n).flat_map(of).collect::<Vec<_>>().concat();
    let usual = |head: Head| entries_of(&head, &[instr(0), entry(0, 8, 0x1000), instr(1)].concat());
    let plain = |body: Vec<u8>| entries_of(&Head::default(), &body);
    let top = each(200, &|nth| vec![instr(nth), entry(0, 65535, MAX - nth)]);
    // From the first address to the last.
    let flushes = each(200, &|nth| vec![instr(nth), entry(20, 0, 0), entry(21, 0, MAX)]);
    let threads = each(200, &|nth| {
        let thread = MAX - 1 - nth;
        vec![entry(22, 4, thread), entry(24, 4, thread), instr(nth), entry(23, 4, thread)]
    });
    let clocks = each(50, &|nth| {
        vec![marker(2, [0, MAX, 1, MAX / 2][nth as usize % 4]), marker(3, MAX - nth), instr(nth)]
    });
    let markers = (0..120).map(|kind| marker(kind, MAX)).collect::<Vec<_>>().concat();
    let functions = each(50, &|nth| vec![marker(4, MAX - nth), marker(5, MAX), marker(6, MAX), instr(nth)]);
    let instrs = each(200, &|nth| vec![entry(10, 65535, nth.wrapping_mul(0x0123_4567_89ab_cdef))]);
    vec![
        ("top.1.0.trace", plain(top)),
        ("flushes.1.0.trace", plain(flushes)),
        ("threads.1.0.trace", plain(threads)),
        ("ids.1.0.trace", usual(Head { thread: MAX - 1, process: MAX, ..Head::default() })),
        ("zero.1.0.trace", usual(Head { line_bytes: 0, page_bytes: 0, chunk_instrs: 0, ..Head::default() })),
        (
            "head.1.0.trace",
            usual(Head { line_bytes: MAX, page_bytes: MAX, chunk_instrs: MAX, ..Head::default() }),
        ),
        ("type.1.0.trace", usual(Head { file_type: MAX, ..Head::default() })),
        ("clocks.1.0.trace", plain(clocks)),
        ("markers.1.0.trace", plain([markers, instr(0)].concat())),
        ("functions.1.0.trace", plain(functions)),
        ("instrs.1.0.trace", plain(instrs)),
    ]
}

fn cacheray() -> Vec<(&'static str, Vec<u8>)> {
    let access = |nth: u64, size: u8, thread: u64| {
        [&[0][..], &(0x7f00_0000_0000 + 0x100 * nth).to_le_bytes(), &[size], &thread.to_le_bytes()].concat()
    };
    let region = |addr: u64, len: u32| {
        let fields = [&[2][..], &addr.to_le_bytes(), &[0; 8], &[0xff; 8], &len.to_le_bytes()];
        [&fields.concat()[..], b"struct.X"].concat()
    };
    let each = |n: u64, of: &dyn Fn(u64) -> Vec<u8>| (0..n).flat_map(of).collect::<Vec<u8>>();
    let usual = each(500, &|nth| access(nth, 8, 0));
    vec![
        ("sizes.cacheray", each(500, &|nth| access(nth, 255, 0))),
        (
            "regions.cacheray",
            each(200, &|nth| [region(0x7f00_0000_0000 + 64 * nth, 8), access(nth, 8, 0)].concat()),
        ),
        ("top.cacheray", each(200, &|nth| [region(MAX - nth, 8), access(nth, 8, 0)].concat())),
        ("name.cacheray", [usual, region(0x7f00_0000_0000, u32::MAX)].concat()),
        ("threads.cacheray", each(200, &|nth| access(nth, 8, (1 << 48) - 1 - nth))),
    ]
}

/// A number in apitrace's encoding.
fn number(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 127 {
        bytes.push(number as u8 & 127 | 128);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A call of `glFoo` with one argument; may contain the signature.
struct Call {
    nth: u64,
    thread: u64,
    signature: u64,
    n_args: u64,
    index: u64,
    value: Vec<u8>,
    /// The call number in the leave event.
    left: u64,
}

impl Call {
    fn new(nth: u64) -> Call {
        let value = [vec![4], number(1)].concat();
        Call { nth, thread: 0, signature: 0, n_args: 1, index: 0, value, left: nth }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = [vec![0], number(self.thread), number(self.signature)].concat();
        if self.nth == 0 {
            bytes.extend([&[5][..], b"glFoo", &number(self.n_args), &[1], b"a"].concat());
        }
        bytes.extend([vec![1], number(self.index), self.value.clone(), vec![0, 1]].concat());
        bytes.extend([number(self.left), vec![0]].concat());
        bytes
    }
}

fn apitrace() -> Vec<(&'static str, Vec<u8>)> {
    let stream = |calls: &[Call]| [vec![5], calls.iter().flat_map(Call::bytes).collect()].concat();
    let one = |change: &dyn Fn(&mut Call)| {
        let mut call = Call::new(0);
        change(&mut call);
        stream(&[call, Call::new(1)])
    };
    let value = |kind: u8, rest: Vec<u8>| one(&|call| call.value = [vec![kind], rest.clone()].concat());
    let threads: Vec<Call> = (0..200).map(|nth| Call { thread: MAX - nth, ..Call::new(nth) }).collect();
    vec![
        ("array.trace", value(11, number(MAX))),
        ("nulls.trace", value(11, [number(100_000), vec![0; 100_000]].concat())),
        ("nested.trace", value(11, [[1, 11].repeat(100_000), vec![0]].concat())),
        ("blob.trace", value(8, number(1 << 40))),
        ("string.trace", value(7, number(MAX))),
        ("index.trace", one(&|call| call.index = MAX)),
        ("n-args.trace", one(&|call| call.n_args = MAX)),
        ("signature.trace", one(&|call| call.signature = MAX)),
        ("left.trace", one(&|call| call.left = MAX)),
        ("threads.trace", stream(&threads)),
    ]
}

fn text() -> Vec<(&'static str, Vec<u8>)> {
    let din = "r 1000 4\nr 2000 ffffffff\nw fffffffffffffff0 100000\ni 4000 80000000\nr ffffffffffffffff 100001\nr 0 0\n";
    let lackey = "I  04000,3\n L 1000,4\n S 2000,4294967295\n M ffffffffffffffff,4294967295\n L fffffffffffffff0,1048576\n";
    let lines = "r 1000 4\n".repeat(20);
    let beyond = format!("{lines}r 10000000000000000 4\nr 1000 10000000000000000\nr 1000 100000000\n{lines}");
    let loads = " L 1000,4\n".repeat(20);
    let loads_beyond = format!(
        "I  04000,3\n{loads} L 10000000000000000,4\n L 1000,18446744073709551616\n L 1000,4294967296\n{loads}"
    );
    vec![
        ("sizes.din", din.into()),
        ("sizes.lackey", lackey.into()),
        ("beyond.din", beyond.into()),
        ("beyond.lackey", loads_beyond.into()),
    ]
}

/// Recordings with cells that no program can write, and with frame headers that contradict their contents.
fn recordings() -> Vec<(&'static str, Vec<u8>)> {
    use quipu_cells::layout::{Frame, encoding, kind};
    use quipu_cells::whole;
    let low = (1 << 48) - 1;
    let store: [u64; 2] = [0x13 << 48 | 0x10_0000, 0x40_0000];
    let access = [[0x501 << 48 | low, low], [MAX, low]];
    let alloc = [[0x602 << 48 | low, low], [MAX, low], [MAX, low]];
    let several = [&[store][..], &access, &alloc, &[store]].concat();
    let stores = [store; 20];
    let range_of = |size: u64| [[0x501 << 48 | 0x10_0000, 0x40_0000], [size, 0x10]];
    let range = [&[store][..], &range_of(1 << 40), &range_of(1 << 24), &range_of(MAX), &[store]].concat();
    let with = |payload: &[u8], records: u32, stream: u32| {
        let mut bytes = whole::head();
        let frame = Frame {
            kind: kind::DATA,
            encoding: encoding::CELLS,
            producer: u64::from_le_bytes(bytes[24..32].try_into().unwrap()),
            stream,
            meta_version: quipu_cells::describe::META_VERSION,
            records,
            times: [0, MAX],
            ..Frame::default()
        };
        whole::put_frame(&mut bytes, frame, payload);
        bytes
    };
    let mut count = whole::payload(&stores);
    count[..8].copy_from_slice(&MAX.to_le_bytes());
    vec![
        ("cells.quipu", whole::recording(&[(1, &[&several])])),
        ("part.quipu", with(&whole::payload(&stores), u32::MAX >> 8, 1)),
        ("count.quipu", with(&count, 20, 1)),
        ("thread.quipu", with(&whole::payload(&stores), 20, u32::MAX)),
        ("range.quipu", whole::recording(&[(1, &[&range])])),
    ]
}

/// Streams of plain rows: accesses and ranges of memory with sizes up to their limits and beyond.
fn streams() -> Vec<(&'static str, Vec<u8>)> {
    let most = 1 << 24;
    let accesses = rows_of(None, &[8, 1 << 40, 1 << 20, MAX, 8]);
    let ranges = rows_of(Some("range"), &[8, 1 << 40, most, MAX, most + 1, u32::MAX.into(), 8]);
    vec![
        ("accesses.quipu", accesses),
        ("ranges.quipu", ranges),
        // About a thousand bytes, with the largest ranges that are allowed.
        ("long.quipu", rows_of(Some("range"), &[most; 12])),
    ]
}

/// A stream with an access of each of these sizes, in a schema of this category.
fn rows_of(category: Option<&str>, sizes: &[u64]) -> Vec<u8> {
    use quipu_stream::codec::Codec;
    use quipu_stream::spec::{SchemaSpec, Ty};
    use quipu_stream::wire::record::{Producer, role};
    use quipu_stream::write::{Options, Writer};
    // Nothing in it depends on the run, so offsets are always the same.
    let producer = Producer { uuid: [7; 16], ..Producer::default() };
    let writer = Writer::new(Vec::new(), Options { producer, codec: Codec::None, ..Options::new("absurd") });
    let names = vec![(0, "read".to_owned()), (1, "write".to_owned())];
    let spec = SchemaSpec::new("access")
        .field("addr", Ty::Address)
        .role(role::ADDRESS)
        .field("size", Ty::Uint(64))
        .role(role::ACCESS_SIZE)
        .field("kind", Ty::Enum { name: "kind".into(), base: Box::new(Ty::Uint(8)), names })
        .role(role::ACCESS_KIND);
    let spec = SchemaSpec { category: category.map(str::to_owned), ..spec };
    let access = writer.schema(&spec).unwrap();
    let mut stream = writer.stream(1).unwrap();
    for (nth, size) in (0_u64..).zip(sizes) {
        let row = stream.row(access, 10 * nth, 24, |body| {
            body.put(0, &(nth << 33).to_le_bytes());
            body.put(8, &size.to_le_bytes());
            body.put(16, &[(nth % 2) as u8]);
        });
        row.unwrap();
    }
    stream.finish().unwrap();
    writer.finish().unwrap();
    writer.into_inner().unwrap()
}

/// Captures of DTrace: descriptions with their buffers, lines, and a buffer that contains descriptions.
fn dtrace() -> Vec<(&'static str, Vec<u8>)> {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let rec = |action: u16, size: u32, offset: u32, format: u16, arg: u64| {
        serde_json::json!({
            "action": action, "size": size, "offset": offset, "alignment": 4, "format": format, "arg": arg,
        })
    };
    let meta = |size: u32, recs: Vec<serde_json::Value>, format: &str, cpu: u32, buffer: &[u8]| {
        let probe =
            serde_json::json!({"id": u32::MAX, "provider": "", "module": "", "function": "f", "name": "n"});
        let meta = serde_json::json!({
            "byte_order": "little", "probes": [probe], "formats": [{"id": 1, "string": format}],
            "eprobes": [{"epid": u32::MAX - 1, "probeid": u32::MAX, "size": size, "recs": recs}],
            "buffers": [{"cpu": cpu, "file": "b", "hex": hex(buffer), "drops": MAX, "errors": MAX}],
        });
        meta.to_string().into_bytes()
    };
    let record = words(&[u32::MAX - 1, u32::MAX, u32::MAX, u32::MAX]);
    let value = vec![rec(3, 4, 12, 1, 0)];
    let numbers = meta(16, value.clone(), "%u\n", u32::MAX, &record.repeat(50));
    let widths = meta(16, value.clone(), "%999999999999999999999u", 0, &record.repeat(500));
    let size = meta(u32::MAX, value, "%u", 0, &record);
    let dump = meta(1 << 24, vec![rec(6, (1 << 24) - 12, 12, 0, 0)], "", 0, &record);
    let stack = meta(16, vec![rec(0x401, 4, 12, 0, MAX)], "", 0, &record);
    let cells = 1000 << 48 | 12 << 16 | 1000;
    let cells = serde_json::json!({
        "byte_order": "big", "probes": [], "eprobes": [],
        "aggregations": [{
            "id": u32::MAX, "epid": 1, "varid": MAX, "size": u32::MAX,
            "recs": [rec(1, 8, 8, 0, 0), rec(0x709, u32::MAX - 16, 16, 0, cells)],
        }],
    });
    let sample = |speculation: u32| {
        let raw = hex(&words(&[16, speculation, u32::MAX, 1, u32::MAX]));
        format!("{{\"t\":\"sample\",\"cpu\":{},\"raw\":\"{raw}\"}}\n", u32::MAX)
    };
    let statement = "{\"t\":\"datadesc\",\"stid\":1,\"recs\":[{\"action\":1,\"size\":4,\"offset\":16,\"alignment\":4}]}\n";
    let held: String = (0..200).map(|nth| sample(u32::MAX - nth)).collect();
    vec![
        ("numbers.json", numbers),
        ("widths.json", widths),
        ("size.json", size),
        ("dump.json", dump),
        ("stack.json", stack),
        ("cells.json", cells.to_string().into_bytes()),
        ("held.jsonl", format!("{statement}{held}{}", sample(0)).into_bytes()),
        ("length.midbuf", [words(&[u32::MAX, 0, 0, 0, 1, u32::MAX]), vec![0; 64]].concat()),
    ]
}
