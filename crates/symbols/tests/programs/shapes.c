/* Types of C in all their shapes. What the tests say about them is in dwarf.rs. */
typedef struct vec3 {
    double x, y, z;
} vec3;
struct node;
union num {
    int i;
    float f;
    double d;
    char raw[8];
};
struct flags {
    unsigned a : 3;
    unsigned b : 5;
    unsigned : 2;
    unsigned wide : 20;
    long c : 40;
};
struct pad {
    char c;
    long l;
    char d;
};
struct node {
    struct node *next;
    union num n;
    struct flags fl;
    char tag[6];
    short grid[2][3];
    int (*call)(int, const char *);
    vec3 places[2];
    struct {
        int first;
        struct {
            char inner;
            int second;
        };
    };
    enum { RED, GREEN = 7 } colour;
    volatile const int *watch;
    struct pad pads[40];
    char rest[];
};
struct __attribute__((packed)) tight {
    char c;
    long l;
    unsigned bits : 7;
};
typedef struct {
    int only;
} nameless;
struct secret;
struct node global_node;
static struct pad pads[4];
nameless one;
struct tight tight;
struct secret *hidden;
int work(int n) {
    static long counter;
    struct local {
        int a;
        long b;
    } here = {n, n};
    volatile struct pad on_stack = {0};
    counter += here.b + on_stack.l;
    pads[1].l = counter;
    return here.a;
}
int main(void) { return work(0); }
