/* The types of the sample program `reorder`. */
typedef struct OrderA {
    int a;
    char pad[60];
    int b;
    char pad2[60];
} order_a_t;
typedef struct OrderB {
    int a;
    int b;
    char pad[60];
    char pad2[60];
} order_b_t;
int main(void) {
    order_a_t *a = 0;
    order_b_t *b = 0;
    return a || b;
}
