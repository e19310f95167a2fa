// Threads, each of which writes every element of its own row some times; prints where the rows are.
#include <pthread.h>
#include <stdio.h>

#ifndef THREADS
#define THREADS 4
#define ROUNDS 1000
#endif
enum { ELEMENTS = 64 };
static volatile long rows[THREADS][ELEMENTS];

static void *work(void *row) {
    volatile long *mine = row;
    for (long round = 0; round < ROUNDS; round++)
        for (int i = 0; i < ELEMENTS; i++) mine[i] = round;
    return 0;
}

int main(int argc, char **argv) {
    FILE *out = fopen(argv[1], "w");
    pthread_t threads[THREADS];
    (void)argc;
    for (int i = 0; i < THREADS; i++) fprintf(out, "%lx\n", (unsigned long)&rows[i][0]);
    fclose(out);
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, work, (void *)rows[i]);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    return 7;
}
