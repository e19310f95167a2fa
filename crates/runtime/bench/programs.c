/*
 * Programs whose accesses are known, for `run.sh`. Prints nanoseconds of this thread's processor time for each of them, or with WALL in
 * the environment of the wall clock, the least of some rounds, and how many there were in all rounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIDE = 160, NODES = 100000, CELLS = 1 << 16 };

/* For others to see, so that nothing that is done to them is left out. */
double a[SIDE * SIDE], b[SIDE * SIDE], c[SIDE * SIDE];
long cells[CELLS];
struct node {
    struct node *next;
    long value;
};
static struct node nodes[NODES];

/* Two reads for each step, and a write for each element: through one row and down one column. */
__attribute__((noinline)) static long product(void) {
    for (int i = 0; i < SIDE; i++)
        for (int j = 0; j < SIDE; j++) {
            double sum = 0;
            for (int k = 0; k < SIDE; k++) sum += a[i * SIDE + k] * b[k * SIDE + j];
            c[i * SIDE + j] = sum;
        }
    return 2L * SIDE * SIDE * SIDE + SIDE * SIDE;
}

/* Two reads for each node, in an order that nothing predicts. */
__attribute__((noinline)) static long list(void) {
    long sum = 0;
    for (struct node *node = nodes; node; node = node->next) sum += node->value;
    cells[0] = sum;
    return 2L * NODES + 1;
}

/* A read and a write for each element, one behind the other. */
__attribute__((noinline)) static long array(void) {
    for (int i = 0; i < CELLS; i++) cells[i] = cells[i] * 3 + 1;
    return 2L * CELLS;
}

/* A step through a table of 512 KiB for each element, at places that nothing predicts: a read and a write. */
__attribute__((noinline)) static long scatter(void) {
    unsigned long at = 1;
    for (int i = 0; i < CELLS; i++) {
        at = at * 6364136223846793005UL + 1442695040888963407UL;
        cells[at >> 48] += i;
    }
    return 2L * CELLS;
}

/* A list through all nodes in random order: a cycle without its last link. */
static void shuffle(void) {
    int *order = malloc(NODES * sizeof *order);
    for (int i = 0; i < NODES; i++) order[i] = i;
    for (int i = NODES - 1; i > 1; i--) {
        int j = 1 + rand() % i, at = order[i];
        order[i] = order[j];
        order[j] = at;
    }
    for (int i = 0; i < NODES; i++) nodes[order[i]].next = i + 1 < NODES ? &nodes[order[i + 1]] : 0;
    free(order);
}

static double now(void) {
    struct timespec time;
    clock_gettime(getenv("WALL") ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &time);
    return 1e9 * time.tv_sec + time.tv_nsec;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        long (*run)(void);
        int times;
    } programs[] = {{"product", product, 1}, {"list", list, 40}, {"array", array, 60}, {"scatter", scatter, 60}};
    int n_rounds = argc > 2 ? atoi(argv[2]) : 9;
    shuffle();
    for (size_t which = 0; which < sizeof programs / sizeof *programs; which++) {
        if (argc < 2 || strcmp(argv[1], programs[which].name)) continue;
        double least = 1e30;
        long n_all = 0;
        for (int round = 0; round < n_rounds; round++) {
            long n_accesses = 0;
            double start = now();
            for (int time = 0; time < programs[which].times; time++) n_accesses += programs[which].run();
            double each = (now() - start) / n_accesses;
            if (each < least) least = each;
            n_all += n_accesses;
        }
        printf("%.3f %ld\n", least, n_all);
        return 0;
    }
    return 2;
}
