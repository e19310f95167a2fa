/* The types of the sample program `structs`. */
struct Basic {
    int a;
    long b;
    char *c;
};
typedef struct TdBasic {
    int at;
    int bt;
} TheTdBasic;
struct Deep {
    int a;
    struct Basic b;
    struct Basic *c;
    TheTdBasic d;
    TheTdBasic *e;
};
int main(void) {
    struct Basic *basic = 0;
    TheTdBasic *td = 0;
    struct Deep *deep = 0;
    return basic || td || deep;
}
