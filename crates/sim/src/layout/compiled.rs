//! Compiles declarations and checks that the compiler places every member where the layout does.

use super::arrange::{Arrangement, Gap, Room};
use super::declare::declaration;
use super::source;
use super::text::Language;
use super::units::{Members, UnitKind};
use quipu_symbols::attribute::Types;
use quipu_symbols::dwarf::DebugInfo;
use quipu_symbols::dwarf::types::{MemberKind, Type};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const C: &str = r#"
struct bits { unsigned a:3; unsigned b:7; unsigned long c:40; char d; int e:5; signed long long f:1; unsigned :0; unsigned char g:2; };
struct __attribute__((packed)) pk { char a; int b; short c; unsigned d:3; };
struct __attribute__((packed, aligned(4))) pk4 { char a; long b; };
union u { int i; double d; char raw[12]; struct { short s1, s2; }; };
typedef struct { int anon_a; char anon_b; double anon_c; } td_t;
struct al { char c; _Alignas(64) int hot; char e; };
struct __attribute__((aligned(128))) wide { char a; int b; short c; };
enum e { A, B = 1000, C = -3 };
struct P { double x; char k; };
struct Q { struct P p[2]; int n; char c; struct P one; short s; };
struct all {
    char first; struct pk p; enum e en; struct bits b; union u u; struct all *n; td_t t; struct al al;
    union { int left; double right; struct { short lo, hi; } both; }; struct { char in1; long in2; };
    struct { short x; int y; } pairs[3]; void (*fp)(int); int (*rows)[3]; char *(*handlers[2])(const char *);
    const char *const s; volatile int vv; td_t arr[3]; _Bool bo; long double ld; _Complex double cd; short grid[2][3];
    struct wide w; char name[6];
};
struct __attribute__((packed)) odd {
    _Bool m0; short m1; double m2; unsigned m3:16; struct al al; struct pk4 pk4; char one[1]; _Alignas(8) int own; char last;
};
struct odd o0; struct bits o1; struct pk o2; struct pk4 o3; td_t o4; struct al o5; struct wide o6; struct Q o7; struct all o8;
"#;

const CPP: &str = r#"
namespace n {
struct Base { long a; int b; char c; };
struct Tail { Tail(); long a; char b; };
struct Empty {};
template <class T, int N> struct Box { T t[N]; };
class Derived : public Base, public Empty { public: char d; Box<int, 3> box; bool flag; double weight; decltype(nullptr) null; };
struct Pointing { bool b; double d; void (Base::*f)(); char c; int Base::*m; };
struct Reuser : Tail { char mine; short other; long more; };
}
struct Shared { long s; };
struct Middle : virtual Shared { int m; };
struct Bottom : Middle { char b; double d; };
n::Pointing o0; Bottom o3; n::Derived o1; int use(n::Reuser *p) { return p->mine; }
"#;

/// Compiles a source and reads its debug information; prints a note and returns `None` if the compiler is missing.
fn compiled(compiler: &str, folder: &Path, source: &str) -> Option<DebugInfo> {
    let name = if compiler.ends_with('+') { "source.cpp" } else { "source.c" };
    std::fs::write(folder.join(name), source).unwrap();
    // Emit debug information also for types that are declared but not used.
    let all = if compiler.starts_with("clang") {
        "-fstandalone-debug"
    } else {
        "-fno-eliminate-unused-debug-types"
    };
    let args = ["-g", all, "-c", "-w", name, "-o", "source.o"];
    let Ok(output) = Command::new(compiler).current_dir(folder).args(args).output() else {
        eprintln!("passed over: no `{compiler}` here");
        return None;
    };
    assert!(output.status.success(), "{}\n{source}", String::from_utf8_lossy(&output.stderr));
    Some(DebugInfo::open(&folder.join("source.o")).unwrap())
}

/// Bit offset of each member by name. Unnamed members are numbered in their order.
fn of_compiler(ty: &Type) -> BTreeMap<String, u64> {
    let named = |member: &quipu_symbols::dwarf::types::Member| {
        let name = match (&member.name, &member.kind) {
            (_, MemberKind::Base) => format!("{}::", member.text),
            (Some(name), _) => name.clone(),
            (None, _) => format!("at {}", member.bit_offset?),
        };
        Some((name, member.bit_offset?))
    };
    let is_room = |name: &str| name.strip_prefix("room").is_some_and(|n| n.parse::<u32>().is_ok());
    ty.members.iter().filter_map(named).filter(|(name, _)| !is_room(name)).collect()
}

/// The same for a layout.
fn of_layout(members: &Members, arrangement: &Arrangement) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for (unit, place) in members.units.iter().zip(&arrangement.places) {
        let start = place.offset * 8;
        match &unit.what {
            UnitKind::Bits(bits) => {
                all.extend(bits.iter().map(|of| (of.name.clone(), start + of.bit_start - unit.start * 8)));
            }
            UnitKind::Body(..) if unit.name.contains('|') => {
                all.insert(format!("at {start}"), start);
            }
            _ => {
                all.insert(unit.name.clone(), start);
            }
        }
    }
    // Base classes without members are at offset 0.
    all.extend(members.empty.iter().filter(|of| of.name.ends_with("::")).map(|of| (of.name.clone(), 0)));
    all
}

fn check(compiler: &str, source: &str, name: &str, language: Language) {
    let folder = tempfile::tempdir().unwrap();
    let Some(info) = compiled(compiler, folder.path(), source) else { return };
    let mut types = Types::of_program(Arc::new(info));
    let (shape, _) = types.find(name.as_bytes()).unwrap();
    let info = types.shared_program().unwrap();
    let members =
        Members::of(types.shape(shape), &source::of_program(&info, info.find(name).unwrap())).unwrap();
    assert_eq!(members.language, language);
    let n = members.units.len();
    let mut back: Vec<usize> = (0..n).filter(|unit| members.units[*unit].is_pinned).collect();
    back.extend((0..n).rev().filter(|unit| !members.units[*unit].is_pinned));
    let forth: Vec<usize> = (0..n).collect();
    let none = Room::default();
    let pads = Room { gaps: (0..n).map(|at| (at, Gap::Bytes(at as u64 % 4))).collect(), ..none.clone() };
    let lines = Room { gaps: vec![(0, Gap::Line)], align: 256, ..none.clone() };
    let ordered =
        |order: &[usize], room: &Room| Arrangement::ordered(&members, order, room, 64, String::new());
    let same = Arrangement::same(&members);
    let layouts = [
        ordered(&back, &none),
        ordered(&back, &lines),
        ordered(&forth, &none),
        Arrangement::widened(&members, &pads, 64, String::new()),
        Arrangement::widened(&members, &lines, 64, String::new()),
    ];
    for (at, layout) in std::iter::once(&same).chain(&layouts).enumerate() {
        let text = declaration(&members, layout, language, false);
        let own = name.rsplit_once("::").map_or(name, |(_, own)| own).trim_start_matches("struct ");
        let text = match name.contains("::") {
            true => format!(
                "#define {own} {own}_old\n{source}\n#undef {own}\nnamespace n {{\n{text}}}\nint probing({name} *p) {{ return sizeof *p; }}"
            ),
            false => format!("#define {own} {own}_old\n{source}\n#undef {own}\n{text}\n{name} probe;"),
        };
        let info = compiled(compiler, folder.path(), &text).unwrap();
        let id = info.find(name).unwrap();
        let ty = info.read(id).unwrap();
        assert_eq!(of_compiler(&ty), of_layout(&members, layout), "layout {at}: {text}");
        assert_eq!(ty.size, Some(layout.parts[0].stride), "layout {at}: {text}");
        assert_eq!(info.alignment_of(id).bytes, layout.parts[0].align, "layout {at}: {text}");
    }
}

#[test]
fn compilers_lay_members_of_c_out_as_declared() {
    for compiler in ["gcc", "clang"] {
        for name in [
            "struct odd",
            "struct bits",
            "struct pk",
            "struct pk4",
            "td_t",
            "struct al",
            "struct wide",
            "struct Q",
            "struct all",
        ] {
            check(compiler, C, name, Language::C);
        }
    }
}

#[test]
fn compilers_lay_members_of_cpp_out_as_declared() {
    for compiler in ["g++", "clang++"] {
        for name in ["n::Derived", "n::Reuser", "n::Pointing"] {
            check(compiler, CPP, name, Language::Cpp);
        }
    }
}

/// Members that are arrays: of unnamed structures, of aligned and of packed members.
const ARRAYS: &str = r#"
struct mixed { char tag; struct { short x; int y; } pairs[4]; double w[4]; _Alignas(16) int hot[4]; char c[4]; union { int i; float f; } u[4]; long n; };
struct __attribute__((packed)) tight { char tag, more; struct { short x; char y; } pairs[3]; double w[3]; char c[3]; int n; };
struct __attribute__((aligned(128))) wide { int keys[2]; struct { struct { char a; } in[2]; long b; } vals[2]; char last; };
typedef struct { int a[5]; struct { char c; long l; } b[5]; } td_t;
struct mixed o0; struct tight o1; struct wide o2; td_t o3;
"#;

#[test]
fn compilers_lay_structures_inside_out_as_declared() {
    for compiler in ["gcc", "clang"] {
        for (name, own) in
            [("struct mixed", "mixed"), ("struct tight", "tight"), ("struct wide", "wide"), ("td_t", "td_t")]
        {
            let folder = tempfile::tempdir().unwrap();
            let Some(info) = compiled(compiler, folder.path(), ARRAYS) else { continue };
            let mut types = Types::of_program(Arc::new(info));
            let (shape, _) = types.find(name.as_bytes()).unwrap();
            let info = types.shared_program().unwrap();
            let declared = source::of_program(&info, info.find(name).unwrap());
            let members = Members::of(types.shape(shape), &declared).unwrap();
            let layout = Arrangement::inside(&members).unwrap();
            let text = declaration(&members, &layout, Language::C, false);
            assert!(!text.contains("unsigned char"), "{text}");
            let text = format!(
                "#define {own} {own}_old\n{ARRAYS}\n#undef {own}\n{text}\n{name} probe; struct {own}_element of;"
            );
            let info = compiled(compiler, folder.path(), &text).unwrap();
            let (whole, element) = (info.find(name).unwrap(), info.find(&format!("{own}_element")).unwrap());
            let mut found = of_compiler(&info.read(whole).unwrap());
            assert_eq!(found.remove("elements"), Some(0), "{text}");
            let element = info.read(element).unwrap();
            found.extend(of_compiler(&element));
            assert_eq!(found, of_layout(&members, &layout), "{text}");
            let arrays = declaration(&members, &Arrangement::arrays(&members), Language::C, false);
            assert!(!arrays.contains("unsigned char"), "{arrays}");
            let sizes: String = members
                .units
                .iter()
                .map(|of| {
                    let name = &of.name;
                    format!(
                        "_Static_assert(sizeof *((struct {own}s *)0)->{name} == {}, \"{name}\");\n",
                        of.bytes
                    )
                })
                .collect();
            assert!(
                compiled(compiler, folder.path(), &format!("{arrays}\n{sizes}struct {own}s probe;"))
                    .is_some()
            );
            let stride = layout.places.iter().zip(&members.units).find(|(place, of)| place.step != of.step);
            assert_eq!(element.size, stride.map(|(place, _)| place.step), "{text}");
            assert_eq!(info.read(whole).unwrap().size, Some(layout.parts[0].stride), "{text}");
            assert_eq!(info.alignment_of(whole).bytes, layout.parts[0].align, "{text}");
        }
    }
}

/// Most kinds of members that Rust has.
const RUST: &str = r#"
#![allow(dead_code)]
use std::{any::Any, cell::*, collections::*, marker::PhantomData, num::NonZeroU32, rc::Rc, sync::*};
pub mod shapes {
    pub struct Point<T> { pub x: T, pub y: T }
    pub trait Draw { fn draw(&self) -> i32; }
    impl Draw for Point<u32> { fn draw(&self) -> i32 { 1 } }
    pub enum Kind { A, B(u32) }
}
use shapes::*;
pub struct All {
    pub bytes: Vec<u8>, pub name: String, pub text: &'static str, pub slice: &'static [u16], pub muts: &'static mut [u8],
    pub object: Box<dyn Draw>, pub by_ref: &'static dyn Draw, pub call: fn(i32, &str) -> u8,
    pub foreign: Option<unsafe extern "C" fn(*const u8) -> i32>, pub never: Option<fn() -> !>,
    pub points: Vec<Point<u32>>, pub kind: Kind, pub opt: Option<Box<Kind>>, pub map: HashMap<String, Vec<u8>>,
    pub tree: BTreeMap<u32, String>, pub queue: VecDeque<u8>, pub set: HashSet<u64>, pub rc: Rc<RefCell<u32>>,
    pub arc: Arc<Mutex<Vec<u8>>>, pub cell: Cell<u8>, pub tuple: (u8, u32, String), pub array: [Point<u8>; 3],
    pub grid: [[u8; 2]; 3], pub raw: *const Point<u32>, pub raw_mut: *mut u8, pub unit: (), pub letter: char,
    pub result: Result<u32, String>, pub path: std::path::PathBuf, pub atomic: std::sync::atomic::AtomicU64,
    pub number: NonZeroU32, pub any: Box<dyn Any + Send>, pub closure: Box<dyn Fn(u8) -> u8>, pub letters: Box<str>,
    pub fat: Box<[u32]>, pub phantom: PhantomData<u8>, pub wide: u128, pub flag: bool,
    pub cow: std::borrow::Cow<'static, str>, pub last: u16,
}
fn main() {
    let all: Option<All> = None;
    std::hint::black_box(&all);
}
"#;

#[test]
fn rustc_lays_members_out_as_declared() {
    let folder = tempfile::tempdir().unwrap();
    let rustc = |source: &str, args: &[&str]| {
        std::fs::write(folder.path().join("prog.rs"), source).unwrap();
        let mut command = Command::new("rustc");
        command.current_dir(folder.path()).args(["--edition", "2021", "prog.rs"]).args(args);
        let output = command.output().ok()?;
        assert!(output.status.success(), "{}\n{source}", String::from_utf8_lossy(&output.stderr));
        Some(())
    };
    if rustc(RUST, &["-g"]).is_none() {
        eprintln!("passed over: no `rustc` here");
        return;
    }
    let mut types = Types::of_program(Arc::new(DebugInfo::open(&folder.path().join("prog")).unwrap()));
    let (shape, _) = types.find(b"prog::All").unwrap();
    let info = types.shared_program().unwrap();
    let declared = source::of_program(&info, info.find("prog::All").unwrap());
    let members = Members::of(types.shape(shape), &declared).unwrap();
    assert_eq!(members.language, Language::Rust);
    let back: Vec<usize> = (0..members.units.len()).rev().collect();
    let room = Room { gaps: vec![(0, Gap::Line)], align: 256, ..Room::default() };
    for layout in [
        Arrangement::same(&members),
        Arrangement::ordered(&members, &back, &Room::default(), 64, String::new()),
        Arrangement::ordered(&members, &back, &room, 64, String::new()),
    ] {
        let text = declaration(&members, &layout, Language::Rust, false);
        let mut asked = format!("assert!(size_of::<proposed::All>() == {});\n", layout.parts[0].stride);
        for (name, start) in of_layout(&members, &layout) {
            let offset = start / 8;
            asked += &format!("assert!(std::mem::offset_of!(proposed::All, {name}) == {offset});\n");
        }
        let source = format!("{RUST}\nmod proposed {{\n{text}}}\nconst _: () = {{\n{asked}}};\n");
        rustc(&source, &["--emit=metadata"]).unwrap();
        // The only byte array is padding: every member has its type.
        let n_bytes = text.lines().filter(|line| line.contains("[u8; ") && !line.contains("_room")).count();
        assert_eq!(n_bytes, 1, "{text}");
    }
}

#[test]
fn bases_of_bases_that_are_shared_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for compiler in ["g++", "clang++"] {
        let Some(info) = compiled(compiler, folder.path(), CPP) else { continue };
        for name in ["Middle", "Bottom"] {
            let refusal = source::of_program(&info, info.find(name).unwrap()).refusal;
            assert!(refusal.is_some_and(|why| why.contains("virtual base classes")), "{name}: {refusal:?}");
        }
    }
}

#[test]
fn members_have_all_of_their_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let Some(info) = compiled("gcc", folder.path(), C) else { return };
    let mut types = Types::of_program(Arc::new(info));
    let (shape, _) = types.find(b"struct.Q").unwrap();
    let info = types.shared_program().unwrap();
    let members =
        Members::of(types.shape(shape), &source::of_program(&info, info.find("Q").unwrap())).unwrap();
    let units = members.units.iter().map(|unit| (&*unit.name, unit.start, unit.bytes, unit.n()));
    // Computed by hand: `P` has 9 bytes and 7 of padding.
    let all = [("p", 0, 32, 2), ("n", 32, 4, 1), ("c", 36, 1, 1), ("one", 40, 16, 1), ("s", 56, 2, 1)];
    assert_eq!(units.collect::<Vec<_>>(), all);
}
