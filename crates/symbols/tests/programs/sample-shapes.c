/* The types of the sample program `shapes`. */
struct vec3 {
    double x, y, z;
};
typedef struct body {
    struct vec3 pos, vel;
    float mass;
    int id;
} body_t;
union num {
    int i;
    float f;
    double d;
    char raw[8];
};
struct flags {
    unsigned a : 3, b : 5;
    long c : 40;
};
struct node {
    struct node *next;
    union num n;
    struct flags fl;
    char tag[6];
};
struct pad {
    char c;
    long l;
    char d;
};
int main(void) {
    body_t *body = 0;
    struct node *node = 0;
    struct pad *pad = 0;
    return body || node || pad;
}
