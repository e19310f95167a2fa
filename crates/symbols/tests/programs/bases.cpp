// Classes whose members lie in unusual places. It prints where each member lies: class, member, offset, bytes. What the tests say
// about it is in bases.rs.
#include <cstdio>
struct Empty {};
struct Tail {
    Tail() {}
    long a = 0;
    char b = 0;
};
struct Overlaid {
    [[no_unique_address]] Empty none;
    int x;
    [[no_unique_address]] Tail tail;
    char c;
    [[no_unique_address]] Empty also;
};
struct Shared {
    long s;
};
struct Short {
    Short() {}
    int i = 0;
    char k = 0;
};
struct Table {
    virtual void f() {}
};
struct Middle : virtual Shared {
    int m;
};
struct Other : virtual Shared, virtual Short {
    short o;
};
struct Bottom : Middle, Other {
    char b;
    double d;
};
struct Nearly : virtual Table {
    int n;
};
struct Deep : Nearly, virtual Bottom, virtual Empty {
    char last;
};
struct Holder {
    char first;
    Middle middle;
    Bottom pair[2];
};
Overlaid overlaid;
Middle middle;
Bottom bottom;
Nearly nearly;
Deep deep;
Holder holder;
template <typename T, typename M> void at(const char *name, const char *path, const T &whole, const M &member) {
    std::printf("%s %s %ld %zu\n", name, path, (long)((const char *)&member - (const char *)&whole), sizeof(M));
}
int main() {
    at("Overlaid", "x", overlaid, overlaid.x);
    at("Overlaid", "tail.a", overlaid, overlaid.tail.a);
    at("Overlaid", "tail.b", overlaid, overlaid.tail.b);
    at("Overlaid", "c", overlaid, overlaid.c);
    at("Middle", "m", middle, middle.m);
    at("Middle", "Shared::s", middle, middle.s);
    at("Bottom", "Middle::m", bottom, bottom.m);
    at("Bottom", "Other::o", bottom, bottom.o);
    at("Bottom", "b", bottom, bottom.b);
    at("Bottom", "d", bottom, bottom.d);
    at("Bottom", "Shared::s", bottom, bottom.s);
    at("Bottom", "Short::i", bottom, bottom.i);
    at("Bottom", "Short::k", bottom, bottom.k);
    at("Nearly", "n", nearly, nearly.n);
    at("Deep", "Nearly::n", deep, deep.n);
    at("Deep", "last", deep, deep.last);
    at("Deep", "Bottom::Middle::m", deep, deep.m);
    at("Deep", "Bottom::Other::o", deep, deep.o);
    at("Deep", "Bottom::b", deep, deep.b);
    at("Deep", "Bottom::d", deep, deep.d);
    at("Deep", "Shared::s", deep, deep.s);
    at("Deep", "Short::i", deep, deep.i);
    at("Deep", "Short::k", deep, deep.k);
    at("Holder", "first", holder, holder.first);
    at("Holder", "middle.m", holder, holder.middle.m);
    at("Holder", "middle.Shared::s", holder, holder.middle.s);
    at("Holder", "pair[1].Shared::s", holder, holder.pair[1].s);
}
