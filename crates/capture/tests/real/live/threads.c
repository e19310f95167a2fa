/* Four threads that work on parts of an array, add up under a lock, and meet at a barrier. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 4

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static double *values;
static long n, total;

static void *work(void *number)
{
    for (int round = 0; round < 4; round++) {
        double sum = 0;
        for (long i = (long)number; i < n; i += THREADS) {
            values[i] = values[i] * 0.5 + (double)i;
            sum += values[i];
        }
        pthread_mutex_lock(&lock);
        total += (long)sum;
        pthread_mutex_unlock(&lock);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    n = argc > 1 ? atol(argv[1]) : 100000;
    values = calloc((size_t)n, sizeof *values);
    pthread_barrier_init(&barrier, NULL, THREADS);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%ld\n", total);
    return 0;
}
