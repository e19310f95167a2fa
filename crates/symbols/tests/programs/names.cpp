// Types with long names. It prints how compilers write some of them, as annotations do. What the tests say about it is in
// names.rs.
#include <cstdio>
#include <map>
#include <string>
#include <vector>
namespace lib {
inline namespace v1 {
struct Plain {
    int number;
};
template <typename T, int N = 3> struct Box {
    T items[N];
    struct Inner {
        T *owner;
    } inner;
};
} // namespace v1
namespace v2 {
struct Plain {
    long number;
};
} // namespace v2
} // namespace lib
template <typename T> const char *name_of(const T &) {
    return __PRETTY_FUNCTION__;
}
lib::Plain plain;
lib::v2::Plain other;
lib::Box<lib::Plain> box;
lib::Box<lib::Plain>::Inner inner;
lib::Box<std::string, 4> strings;
std::vector<std::string> words;
std::map<std::string, lib::Plain> plains;
int main() {
    std::puts(name_of(plain));
    std::puts(name_of(other));
    std::puts(name_of(box));
    std::puts(name_of(inner));
    std::puts(name_of(strings));
    std::puts(name_of(words));
    std::puts(name_of(plains));
}
