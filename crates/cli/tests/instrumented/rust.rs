//! Programs in Rust, and the crate with which they annotate their memory.

use crate::instrumented::*;

/// Compiles Rust with the flags that `quipu rustc-flags` prints.
fn compile_rust(scene: &Scene, source: &str, name: &str, more: &[&str]) {
    fs::write(scene.path(name), source).unwrap();
    let flags = quipu().arg("rustc-flags").output().unwrap();
    let flags = String::from_utf8(flags.stdout).unwrap();
    let mut rustc = rustc(scene);
    rustc.args(flags.split_whitespace()).args(["-O", "--edition=2024", name]).args(more);
    assert!(rustc.status().unwrap().success());
}

fn rustc(scene: &Scene) -> Command {
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    rustc.current_dir(&scene.folder);
    rustc
}

#[test]
fn programs_in_rust_are_recorded_by_a_stable_compiler() {
    const SOURCE: &str = r#"
        static mut CELLS: [u64; 1000] = [0; 1000];
        #[inline(never)]
        fn sum(cells: &[u64]) -> u64 { let mut sum = 0u64; for cell in cells { sum = std::hint::black_box(sum + *cell); } sum }
        fn main() {
            let cells = unsafe { &mut *(&raw mut CELLS) };
            for (i, cell) in cells.iter_mut().enumerate() { *cell = std::hint::black_box(i as u64); }
            let sum = sum(cells);
            let heap = std::hint::black_box(vec![1u8; 12345]);
            println!("{:p} {sum} {:p}", cells.as_ptr(), heap.as_ptr());
        }"#;
    let scene = Scene::new("rustc");
    compile_rust(&scene, SOURCE, "prog.rs", &[]);
    let run = scene.run("prog");
    let [cells, sum, heap] = run.numbers()[..] else { panic!("{}", run.printed) };
    assert_eq!(sum, 499_500);
    let expected = (0..1000).map(|i| (1, 8 * i, 8)).chain((0..1000).map(|i| (0, 8 * i, 8)));
    assert_eq!(run.accesses(cells, 8000), expected.collect::<Vec<_>>());
    assert!(run.regions("u8").contains(&(heap, 1, 12345)), "{:?}", run.records);
    assert!(run.records.iter().any(|record| record.tag == 3 && record.addr == heap));
}

#[test]
fn a_program_in_rust_says_what_its_memory_is() {
    const SOURCE: &str = r#"
        use std::hint::black_box;
        struct Node { next: u32, key: u64 }
        fn main() {
            assert!(quipu_annotate::is_recordable());
            let mut pool: Vec<Node> = (0..100).map(|key| Node { next: 0, key }).collect();
            let region = quipu_annotate::region(&pool);
            quipu_annotate::thread_name("boss");
            quipu_annotate::mark("sum");
            let sum: u64 = black_box(&pool).iter().map(|node| node.key + u64::from(node.next)).sum();
            { let _pause = quipu_annotate::pause(); black_box(&mut pool)[3].key = 7; }
            drop(region);
            black_box(&mut pool)[4].key = 7;
            let room: Vec<[f32; 3]> = Vec::with_capacity(10);
            quipu_annotate::typed_at(room.as_ptr(), room.capacity());
            quipu_annotate::Region::named(room.as_ptr().cast(), 24, 5, "struct pair").keep();
            println!("{:p} {sum} {:p}", pool.as_ptr(), room.as_ptr());
        }"#;
    let scene = Scene::new("rustc");
    let library = concat!(env!("CARGO_MANIFEST_DIR"), "/../annotate/src/lib.rs");
    let library = rustc(&scene)
        .args(["--edition=2024", "-O", "--crate-type=rlib", "--crate-name=quipu_annotate", library])
        .status();
    assert!(library.unwrap().success());
    compile_rust(&scene, SOURCE, "prog.rs", &["--extern=quipu_annotate=libquipu_annotate.rlib"]);
    let run = scene.run("prog");
    let [pool, sum, room] = run.numbers()[..] else { panic!("{}", run.printed) };
    assert_eq!(sum, 4950);
    assert_eq!(run.regions("prog::Node"), [(pool, 16, 100)]);
    assert_eq!(run.regions("[f32; 3]"), [(room, 12, 10)]);
    assert_eq!(run.regions("struct pair"), [(room, 24, 5)]);
    // Between the start and the end of the region, each node is read; the write during the pause is missing.
    let begin = run.records.iter().position(|record| record.region.2 == "prog::Node").unwrap();
    let end = begin
        + run.records[begin..].iter().position(|record| record.tag == 3 && record.addr == pool).unwrap();
    let inside = pool..pool + 1600;
    let writes: Vec<u64> = run.records[begin..]
        .iter()
        .filter(|record| record.tag & 0x3f == 1 && inside.contains(&record.addr))
        .map(|record| record.addr - pool)
        .collect();
    assert_eq!(writes, [4 * 16]);
    let reads = run.records[begin..end]
        .iter()
        .filter(|record| record.tag & 0x3f == 0 && inside.contains(&record.addr));
    assert_eq!(reads.count(), 200);
    // Fields are named if the program has debug information, as it does with these flags.
    let analyzed = quipu()
        .current_dir(&scene.folder)
        .args(["analyze", "types", "--json", "--binary", "prog", "prog.trace"])
        .output()
        .unwrap();
    assert!(analyzed.status.success(), "{analyzed:?}");
    let text = String::from_utf8(analyzed.stdout).unwrap();
    assert!(text.contains("\"prog::Node\"") && text.contains("\"next\""), "{text}");
    // The same program without the flags: nothing is recorded.
    let plain = rustc(&scene)
        .args([
            "--edition=2024",
            "-O",
            "prog.rs",
            "-o",
            "plain",
            "--extern=quipu_annotate=libquipu_annotate.rlib",
        ])
        .status();
    assert!(plain.unwrap().success());
    let failed = scene.program("plain").output().unwrap();
    assert!(String::from_utf8_lossy(&failed.stderr).contains("is_recordable"), "{failed:?}");
}
