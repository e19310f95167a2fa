/* Two threads count in neighbouring members, and take turns at one lock. Half of the notes are never freed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 2000, NOTES = 10 };

struct counters {
    long first;
    long second;
    long both;
};

struct note {
    long round;
    char text[40];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

struct job {
    volatile long *own;
    struct counters *counters;
};

static void *count(void *argument) {
    struct job *job = argument;
    for (int round = 0; round < ROUNDS; round++) {
        ++*job->own;
        if (round % 100 == 0) {
            pthread_mutex_lock(&lock);
            job->counters->both++;
            pthread_mutex_unlock(&lock);
        }
    }
    return NULL;
}

int main(void) {
    struct counters *counters = calloc(1, sizeof *counters);
    struct job jobs[2] = { { &counters->first, counters }, { &counters->second, counters } };
    pthread_t threads[2];
    struct note *notes[NOTES];
    for (int i = 0; i < NOTES; i++) {
        notes[i] = malloc(sizeof *notes[i]);
        notes[i]->round = i;
    }
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, count, &jobs[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < NOTES; i += 2)
        free(notes[i]);
    printf("%ld %ld\n", counters->first + counters->second, counters->both);
    free(counters);
    return 0;
}
