/* A front end: two threads and a child send their events. */
#include "quipu_prism.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static quipu_prism *prism;

static quipu_prism_producer *producer(int encoding, uint64_t thread)
{
    quipu_prism_options options = {encoding, thread, 0, 0xff, 0xff, 0xff};
    return quipu_prism_producer_open(prism, &options);
}

/* Sums an array, and says so. */
static void *sum(void *argument)
{
    quipu_prism_producer *events = producer(QUIPU_PRISM_FIXED, 2);
    if (!events)
        return NULL;
    uint32_t name = quipu_prism_intern(prism, "sum", 3);
    quipu_prism_context_interned(events, QUIPU_PRISM_ENTER, name);
    for (uint64_t n = 0; n < 100000; n++) {
        quipu_prism_memory(events, QUIPU_PRISM_LOAD, 8, 0x10000 + 8 * n);
        quipu_prism_compute(events, QUIPU_PRISM_INTEGER, 8, QUIPU_PRISM_ADD, 2);
    }
    quipu_prism_context_interned(events, QUIPU_PRISM_EXIT, name);
    quipu_prism_producer_close(events);
    return argument;
}

int main(void)
{
    prism = quipu_prism_open(NULL);
    if (!prism)
        return 1;
    quipu_prism_producer *events = producer(QUIPU_PRISM_VARIABLE, 1);
    if (!events)
        return 1;
    int wants_addresses = (quipu_prism_wants(prism, QUIPU_PRISM_MEMORY) & QUIPU_PRISM_ADDRESS) != 0;

    quipu_prism_context_name(events, QUIPU_PRISM_ENTER, "main", 4);
    pthread_t thread;
    if (pthread_create(&thread, NULL, sum, prism) != 0)
        return 1;
    quipu_prism_sync(events, QUIPU_PRISM_CREATE, 2, 0);
    quipu_prism_control(events, QUIPU_PRISM_BRANCH, 1, 0, 0x401000);
    /* Whether it is taken, and where it leads, may be unknown; an outcome is unknown of branches only. */
    quipu_prism_control(events, QUIPU_PRISM_BRANCH, QUIPU_PRISM_NO_OUTCOME, 0, QUIPU_PRISM_NO_TARGET);
    int outcome = quipu_prism_control(events, QUIPU_PRISM_CALL, QUIPU_PRISM_NO_OUTCOME, 0, 0x401000);
    int is_wanted = (quipu_prism_wants(prism, QUIPU_PRISM_CONTROL) & QUIPU_PRISM_TAKEN) != 0;
    /* What is not wanted is not sent, and need not be found out. */
    if (quipu_prism_wants(prism, QUIPU_PRISM_CONTEXT) != QUIPU_PRISM_NO_EVENTS)
        quipu_prism_context_name(events, QUIPU_PRISM_ENTER, "wanted", 6);
    void *result = NULL;
    pthread_join(thread, &result);
    quipu_prism_sync(events, QUIPU_PRISM_JOIN, 2, 0);

    /* What was sent so far is the parent's alone. The child goes on with the same producer. */
    pid_t child = fork();
    if (child == 0) {
        for (int n = 0; n < 3; n++)
            quipu_prism_memory(events, QUIPU_PRISM_STORE, 4, wants_addresses ? 0x2000 + 4 * (uint64_t)n : 0);
        printf("child: thread %s\n", quipu_prism_thread(events) > 2 ? "of its own" : "of its parent");
        fflush(stdout);
        quipu_prism_producer_close(events);
        _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);

    /* Types have five bits in this encoding. */
    int refused = quipu_prism_sync(events, 32, 0, 0) == QUIPU_PRISM_NO_ROOM;
    int wrong = quipu_prism_memory(events, -1, 4, 0) == QUIPU_PRISM_ERROR_ARGUMENT;
    quipu_prism_context_name(events, QUIPU_PRISM_EXIT, "main", 4);
    printf("dropped %d\n", (int)quipu_prism_dropped(events));
    quipu_prism_producer_close(events);
    quipu_prism_close(prism);
    return result && status == 0 && refused && wrong && outcome == (is_wanted ? QUIPU_PRISM_NO_ROOM : QUIPU_PRISM_OK) ? 0 : 1;
}
