// What stands in functions and classes. What the tests say about it is in src/dwarf/tests.rs.
namespace outer {
extern int declared_inside;
enum Kind { First, Second };
typedef int (*Called)(int, Kind);
class Counter {
public:
    int next(int by);
    static long total;
    struct Inner {
        Kind kind;
        char text[3];
    } inner;
    Called called;
};
static inline __attribute__((always_inline)) int inlined(int by) {
    static volatile int times;
    struct Step {
        int by;
    } step = {by};
    times += step.by;
    return times * 2;
}
} // namespace outer
int outer::declared_inside = 5;
long outer::Counter::total = 7;
__attribute__((noinline)) int outer::Counter::next(int by) {
    static volatile int calls;
    struct Local {
        int by;
        double scale;
    };
    volatile Local local = {by, 0.5};
    calls += inlined(local.by) + int(local.scale);
    total += calls;
    return calls + declared_inside;
}
int main(int argc, char **) {
    outer::Counter counter = {};
    return counter.next(argc) + outer::inlined(argc);
}
