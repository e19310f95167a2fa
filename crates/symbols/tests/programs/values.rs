//! Rust types of all kinds. The tests that check them are in `tests/dwarf`.
pub mod shapes {
    pub struct Point<T> {
        pub flag: bool,
        pub x: T,
        pub y: T,
    }
    pub enum Shape {
        Circle(f64),
        Rect { w: u32, h: u64 },
        Nothing,
    }
    pub enum Plain {
        A,
        B = 5,
    }
}
use shapes::*;
#[unsafe(no_mangle)]
pub static TABLE: [u16; 4] = [1, 2, 3, 4];
fn main() {
    let point = Point { flag: true, x: 1u32, y: 2u32 };
    let list = [Shape::Circle(1.0), Shape::Rect { w: 1, h: 2 }, Shape::Nothing];
    let some: Option<&Point<u32>> = Some(&point);
    let plain = [Plain::A, Plain::B];
    std::hint::black_box((&list, &some, &plain, &TABLE));
}
