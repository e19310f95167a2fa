// Types of C++ in all their shapes. What the tests say about them is in dwarf.rs.
namespace ns {
class Base {
public:
    virtual ~Base() {}
    int number = 0;
    static long shared;
};
long Base::shared = 3;
template <typename T, int N> struct Box {
    T items[N];
    struct Inner {
        T value;
        Box *owner;
    } inner;
};
class Derived : public Base {
public:
    struct Nested {
        char c;
        int i;
    };
    Nested nested;
    Box<Nested, 2> box;
    int &reference = number;
    enum class Colour : unsigned char { Red, Green } colour = Colour::Green;
    int Base::*pointer = nullptr;
};
} // namespace ns
namespace {
struct Hidden {
    short s;
};
} // namespace
Hidden hidden;
ns::Derived global_derived;
ns::Box<int, 3> box;
ns::Box<int, 3>::Inner inner;
int main() { return hidden.s; }
