//! Types of memory: annotations, allocations, objects.

use crate::instrumented::*;

#[test]
fn annotations_and_allocations_have_their_types() {
    const SOURCE: &str = r#"
        #include <quipu.h>
        #include <stdio.h>
        #include <stdlib.h>
        struct node { struct node *next; int key; };
        typedef struct { double x, y, z; } body;
        static struct node *make(int key) {
            struct node *n = malloc(sizeof *n);
            n->key = key;
            return n;
        }
        int main(void) {
            static char pool[3 * sizeof(struct node)];
            QUIPU_REGION(pool, 3, struct node);
            QUIPU_REGION_END(pool);
            __malloc_recorded(24, "struct.by.hand", pool);
            __calloc_recorded(3, 8, "i64", pool + 24);
            __free_recorded(pool);
            struct node *first = make(1), *second = make(2);
            body *bodies = calloc(10, sizeof(body));
            int *plain = malloc(40);
            bodies = realloc(bodies, 20 * sizeof(body));
            QUIPU_PAUSE();
            plain[0] = 1;
            QUIPU_RESUME();
            plain[1] = 2;
            printf("%p %p %p %p %p\n", (void *)pool, (void *)first, (void *)second, (void *)bodies, (void *)plain);
            free(first); free(second); free(bodies); free(plain);
            return 0;
        }"#;
    for_each(C, SOURCE, "prog.c", &["-O0"], |scene, run| {
        let compiler = scene.compiler;
        let [pool, first, second, bodies, plain] = run.numbers()[..] else { panic!("{}", run.printed) };
        assert_eq!(run.regions("struct node"), [(pool, 16, 3)], "{compiler}");
        assert_eq!(run.regions("struct.by.hand"), [(pool, 24, 1)]);
        assert_eq!(run.regions("i64"), [(pool + 24, 8, 3)]);
        assert_eq!(run.regions("struct.node"), [(first, 16, 1), (second, 16, 1)], "{compiler}");
        let found = run.regions("body").into_iter().chain(run.regions("struct.body")).collect::<Vec<_>>();
        assert_eq!(found.len(), 2, "{compiler}");
        assert_eq!(found[1], (bodies, 24, 20));
        let removed =
            run.records.iter().filter(|record| record.tag == 3).map(|record| record.addr).collect::<Vec<_>>();
        for addr in [first, second, bodies, plain] {
            assert_eq!(removed.iter().filter(|known| **known == addr).count(), 1, "{compiler} {addr:#x}");
        }
        assert_eq!(run.accesses(plain, 40), [(1, 4, 4)], "{compiler}");
    });
}

#[test]
fn programs_in_cxx_have_objects_virtual_tables_and_exceptions() {
    const SOURCE: &str = r#"
        #include <quipu.h>
        #include <cstdio>
        #include <stdexcept>
        struct Shape { long area = 3; virtual long get() const { return area; } virtual ~Shape() {} };
        struct Square : Shape { long get() const override { return 2 * area; } };
        __attribute__((noinline)) long ask(const Shape *shape) { return shape->get(); }
        __attribute__((noinline)) void fail(int n) { if (n == 0) throw std::runtime_error("zero"); fail(n - 1); }
        int main() {
            Shape *shape = new Square;
            long n = ask(shape);
            double local[4] = {};
            { quipu::region region(local, 4); local[n - 6] = 1; }
            try { fail(3); } catch (const std::exception &) { n++; }
            std::printf("%p %p %ld\n", (void *)shape, (void *)local, n);
            delete shape;
        }"#;
    for_each(CXX, SOURCE, "prog.cpp", &["-O1", "-std=c++17"], |scene, run| {
        let compiler = scene.compiler;
        let [shape, local, n] = run.numbers()[..] else { panic!("{}", run.printed) };
        assert_eq!(n, 7);
        assert_eq!(run.regions("struct.Square"), [(shape, 16, 1)], "{compiler}");
        assert_eq!(run.regions("double"), [(local, 8, 4)], "{compiler}");
        // The pointer to the virtual table is written by constructors and read by the call.
        assert!(run.accesses(shape, 8).contains(&(0, 0, 8)), "{compiler}");
        assert!(run.accesses(shape, 8).contains(&(1, 0, 8)), "{compiler}");
        // The memory is freed by `delete`, at its line in the source.
        let freed = quipu()
            .current_dir(&scene.folder)
            .args(["view", "--json", "--kind", "free", "--addr", &format!("{shape:#x}"), "prog.quipu"])
            .output()
            .unwrap();
        let freed: Value = serde_json::from_slice(&freed.stdout).unwrap();
        assert_eq!(freed["call"], "delete", "{compiler}");
    });
}

#[test]
fn containers_that_were_inlined_have_their_types() {
    const SOURCE: &str = r#"
        #include <cstdio>
        #include <list>
        #include <memory>
        #include <vector>
        namespace game { struct Body { double x, y, z; int id; }; }
        int main() {
            std::vector<game::Body> bodies(10);
            auto one = std::make_unique<game::Body>();
            std::list<game::Body> list;
            list.push_back({});
            one->id = 3;
            bodies[2].id = one->id;
            std::printf("%p %p %p\n", (void *)bodies.data(), (void *)one.get(), (void *)&list.front());
        }"#;
    for_each(CXX, SOURCE, "prog.cpp", &["-O2", "-std=c++17"], |scene, run| {
        let compiler = scene.compiler;
        let [bodies, one, listed] = run.numbers()[..] else { panic!("{}", run.printed) };
        let mut regions = run.regions("struct.game::Body");
        regions.sort();
        let mut expected = vec![(bodies, 32, 10), (one, 32, 1)];
        expected.sort();
        assert_eq!(
            regions,
            expected,
            "{compiler}: {:?}",
            run.records.iter().filter(|r| r.tag == 2).collect::<Vec<_>>()
        );
        // A list stores each element in a node.
        let node = run.records.iter().find(|record| record.tag == 2 && record.addr == listed - 16).unwrap();
        assert_eq!(node.region, (48, 1, "struct.std::_List_node<game::Body>".to_owned()), "{compiler}");
    });
}

#[test]
fn no_allocation_has_the_type_of_another() {
    const SOURCE: &str = r#"
        #include <stdio.h>
        #include <stdlib.h>
        struct node { struct node *next; int key; };
        typedef struct { float re, im; } cplx;
        static void *xmalloc(size_t n) {
            return malloc(n);
        }
        static struct node *parse(int n) {
            void *scratch = malloc(96);
            char **tab = malloc(n * sizeof *tab);
            printf("%p %p ", scratch, (void *)tab);
            return 0;
        }
        int main(void) {
            struct node *none = parse(16);
            struct node *one = xmalloc(sizeof(struct node));
            char **list = calloc(16, sizeof(char *));
            int *ia = malloc(30 * sizeof(int)); cplx *cx = calloc(10, sizeof(cplx));
            long *numbers = malloc(sizeof(long) * 10);
            printf("%p %p %p %p %p\n", (void *)one, (void *)list, (void *)ia, (void *)cx, (void *)numbers);
            return none != 0;
        }"#;
    for_each(C, SOURCE, "prog.c", &["-O0"], |scene, run| {
        let compiler = scene.compiler;
        let numbers = run.numbers();
        let of = |addr: u64| {
            let record = run.records.iter().find(|record| record.tag == 2 && record.addr == addr).unwrap();
            record.region.clone()
        };
        let [scratch, tab, one, list, ia, cx, longs] = numbers[..] else { panic!("{}", run.printed) };
        assert_eq!(of(scratch), (96, 1, "void*".into()), "{compiler}");
        assert_eq!(of(tab), (8, 16, "char**".into()), "{compiler}");
        assert_eq!(of(one), (16, 1, "struct.node".into()), "{compiler}");
        assert_eq!(of(list), (8, 16, "char**".into()), "{compiler}");
        // Two calls in one line: the type of the first is uncertain.
        assert_eq!(of(ia), (120, 1, "void*".into()), "{compiler}");
        let cx = of(cx);
        assert!(cx.2.ends_with("cplx") && (cx.0, cx.1) == (8, 10), "{compiler}: {cx:?}");
        let longs = of(longs);
        assert!(longs.2.starts_with("long") && (longs.0, longs.1) == (8, 10), "{compiler}: {longs:?}");
    });
}

#[test]
fn what_a_program_said_of_a_block_ends_with_it() {
    const SOURCE: &str = r#"
        #include <quipu.h>
        #include <stdio.h>
        #include <stdlib.h>
        struct v { double x, y; };
        int main(void) {
            char *p = malloc(5000);
            QUIPU_REGION(p, 2, struct v);
            QUIPU_REGION_END(p);
            QUIPU_REGION(p, 4, struct v);
            QUIPU_REGION(p + 640, 4, struct v);
            printf("%p\n", (void *)p);
            free(p);
            return 0;
        }"#;
    for_each(C, SOURCE, "prog.c", &["-O0"], |scene, run| {
        let block = run.numbers()[0];
        let told: Vec<(u8, u64)> = run
            .records
            .iter()
            .filter(|record| matches!(record.tag, 2 | 3) && (block..block + 5000).contains(&record.addr))
            .map(|record| (record.tag, record.addr - block))
            .collect();
        assert_eq!(told, [(2, 0), (3, 0), (2, 0), (2, 640), (3, 0), (3, 640)], "{}", scene.compiler);
    });
}

#[test]
fn annotations_of_cxx_do_not_record_their_own_work() {
    const SOURCE: &str = r#"
        #include <quipu.h>
        struct Vec { double x, y; };
        static Vec cells[3];
        int main() {
            quipu::typed(cells, 3);
            quipu::region region(cells, 3);
            quipu::pause pause;
        }"#;
    for flags in ["-O0", "-O2"] {
        for_each(CXX, SOURCE, "prog.cpp", &[flags, "-std=c++17"], |scene, run| {
            assert_eq!(run.summary["accesses"], 0, "{} {flags}: {:?}", scene.compiler, run.records);
        });
    }
}

#[test]
fn a_recording_whose_types_are_not_found_says_so() {
    const SOURCE: &str = r#"
        #include <stdlib.h>
        struct node { struct node *next; long key; };
        struct node *volatile head;
        int main(void) {
            struct node *node = malloc(sizeof *node);
            node->key = 3;
            head = node;
            return 0;
        }"#;
    // gcc and clang put debug information beside the object, but make none for this option alone.
    for flags in [&["-O1"][..], &["-O1", "-gsplit-dwarf"]] {
        for_each(C, SOURCE, "prog.c", flags, |scene, run| {
            let compiler = scene.compiler;
            assert_eq!(run.summary["typed_allocations"], 1, "{compiler} {flags:?}");
            fs::create_dir(scene.path("moved")).unwrap();
            fs::rename(scene.path("prog.c"), scene.path("moved/prog.c")).unwrap();
            let said = |args: &[&str]| {
                let output = quipu().current_dir(&scene.folder).args(args).output().unwrap();
                assert!(output.status.success(), "{compiler}: {args:?}: {output:?}");
                String::from_utf8(output.stderr).unwrap()
            };
            const WARNING: &str = "no allocation has a type";
            let recorded = said(&["record", "-o", "kept.trace", "--", "./prog"]);
            assert!(recorded.contains(WARNING), "{compiler}: {recorded}");
            let folder = scene.folder.path().canonicalize().unwrap().display().to_string();
            let map = format!("{folder}={folder}/moved");
            let convert =
                ["convert", "--to", "cacheray", "kept.quipu", "-o", "mapped.trace", "--source-map", &map];
            let mapped = said(&convert);
            assert!(!mapped.contains(WARNING), "{compiler}: {mapped}");
        });
    }
}

#[test]
fn layout_records_and_reports_in_one() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tutorial/list.c");
    let source = fs::read_to_string(source).unwrap();
    for compiler in compilers(C) {
        let scene = Scene::new(compiler);
        scene.compile(&source, "list.c", &["-O1", "-g"]);
        let layout = |args: &[&str]| {
            let output = quipu().current_dir(&scene.folder).arg("layout").args(args).output().unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            (output.status.code(), text(output.stdout), text(output.stderr))
        };
        let (code, answer, said) = layout(&["--json", "-o", "list.trace", "--", "./list"]);
        assert_eq!(code, Some(0), "{compiler}: {said}");
        // The number that the program prints does not get into the answer.
        assert!(said.contains("recorded: ") && said.contains("`list.trace`"), "{compiler}: {said}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["trace"], "list.trace");
        assert_eq!(answer["results"]["types"]["types"][0]["name"], "person", "{compiler}");
        assert_eq!(answer["results"]["layout"]["type"], "person", "{compiler}");
        assert!(answer["results"]["layout"]["layouts"].as_array().unwrap().len() > 2, "{compiler}");
        let (code, answer, said) =
            layout(&["--force", "-o", "list.trace", "--type", "person", "--", "./list"]);
        assert_eq!(code, Some(0), "{compiler}: {said}");
        assert!(answer.contains("struct person *next;"), "{compiler}: {answer}");
        let recording = ["analyze", "types", "--json", "list.quipu"];
        let output = quipu().current_dir(&scene.folder).args(recording).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success() && said.contains("-o NAME.trace --to "), "{compiler}: {said}");
        let (code, answer, said) = layout(&["--", "true"]);
        assert_eq!((code, answer.as_str()), (Some(2), ""), "{said}");
        assert!(said.contains("was not compiled to record") && said.contains("`quipu cc -g`"), "{said}");
    }
}
