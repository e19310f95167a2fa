/* Sends workload events to Quipu. docs/formats/prism.md, "Delivery", describes what goes through the memory.
 *
 *     cc -I include front_end.c libquipu_prism_c.a -lpthread -ldl -lm
 *
 * A process opens the memory once; each thread that sends events opens a producer, which nothing but this thread uses. Events
 * are collected and published some thousand at a time, when quipu_prism_flush is called, and when the producer is closed. When
 * the analysis is slower, producers wait for it; when it has ended or was killed, they go on and count what they drop.
 *
 * A child that fork made may go on with the producer of the thread that called fork: it gets a ring of its own with its first
 * event, and sends none of its parent's events.
 *
 * Functions that give an int give 0 (QUIPU_PRISM_OK) or one of the negative numbers below. */
#ifndef QUIPU_PRISM_H
#define QUIPU_PRISM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header. */
#define QUIPU_PRISM_VERSION 1

typedef struct quipu_prism quipu_prism;
typedef struct quipu_prism_producer quipu_prism_producer;

enum {
    QUIPU_PRISM_OK = 0,
    QUIPU_PRISM_ERROR_ARGUMENT = -1,   /* an argument cannot be */
    QUIPU_PRISM_DROPPED = -2,          /* nothing reads events any more: this one was counted */
    QUIPU_PRISM_NO_ROOM = -3           /* the encoding has no room for the event: it was counted, too */
};

/* How events are encoded: 18 bytes each; or 1 to 258, with sizes that are powers of two of at most 128 and addresses of at
 * most 56 bits. */
enum { QUIPU_PRISM_FIXED = 1, QUIPU_PRISM_VARIABLE = 2 };

/* Kinds of events, for quipu_prism_wants and quipu_prism_configure. */
enum {
    QUIPU_PRISM_MEMORY = 0, QUIPU_PRISM_COMPUTE = 1, QUIPU_PRISM_SYNC = 2, QUIPU_PRISM_CONTEXT = 3, QUIPU_PRISM_CONTROL = 4
};

/* Fields of events, by kind. */
enum {
    QUIPU_PRISM_TYPE = 0x80,                                                   /* memory, compute (format), control */
    QUIPU_PRISM_SIZE = 0x40, QUIPU_PRISM_ADDRESS = 0x20, QUIPU_PRISM_ID = 0x10,  /* memory */
    QUIPU_PRISM_WIDTH = 0x40, QUIPU_PRISM_OPERATION = 0x20, QUIPU_PRISM_ARITY = 0x10, QUIPU_PRISM_IDS = 0x08, /* compute */
    QUIPU_PRISM_TAKEN = 0x40, QUIPU_PRISM_TARGET = 0x20, QUIPU_PRISM_INDIRECT = 0x10                          /* control */
};

#define QUIPU_PRISM_NO_OUTCOME (-1)
#define QUIPU_PRISM_NO_TARGET UINT64_MAX

enum { QUIPU_PRISM_LOAD = 1, QUIPU_PRISM_STORE = 2 };
enum { QUIPU_PRISM_INTEGER = 1, QUIPU_PRISM_FLOAT = 2 };
enum {
    QUIPU_PRISM_ADD = 1, QUIPU_PRISM_SUBTRACT = 2, QUIPU_PRISM_MULTIPLY = 3, QUIPU_PRISM_DIVIDE = 4, QUIPU_PRISM_SHIFT = 5,
    QUIPU_PRISM_MOVE = 6
};
enum {
    QUIPU_PRISM_CREATE = 1, QUIPU_PRISM_JOIN = 2, QUIPU_PRISM_BARRIER = 3, QUIPU_PRISM_OTHER_SYNC = 4, QUIPU_PRISM_SWAP = 5,
    QUIPU_PRISM_LOCK = 6, QUIPU_PRISM_UNLOCK = 7, QUIPU_PRISM_WAIT = 8, QUIPU_PRISM_SIGNAL = 9, QUIPU_PRISM_BROADCAST = 10,
    QUIPU_PRISM_SPIN_LOCK = 11, QUIPU_PRISM_SPIN_UNLOCK = 12
};
enum {
    QUIPU_PRISM_INSTRUCTION = 1, QUIPU_PRISM_BLOCK = 2, QUIPU_PRISM_ENTER = 3, QUIPU_PRISM_EXIT = 4, QUIPU_PRISM_THREAD = 5,
    QUIPU_PRISM_NET_ENTER = 6, QUIPU_PRISM_NET_EXIT = 7, QUIPU_PRISM_OPERATOR_ENTER = 8, QUIPU_PRISM_OPERATOR_EXIT = 9
};
enum { QUIPU_PRISM_JUMP = 1, QUIPU_PRISM_BRANCH = 2, QUIPU_PRISM_CALL = 3, QUIPU_PRISM_RETURN = 4 };

/* Maps the memory of an analysis. `path` may be NULL: then the environment variable QUIPU_PRISM names it. NULL if there is none,
 * or its analysis speaks another version. */
quipu_prism *quipu_prism_open(const char *path);

/* Unmaps the memory. All its producers have to be closed before. */
void quipu_prism_close(quipu_prism *prism);

/* The fields of a kind that the analysis asks for. What it does not ask for need not be found out: it is not sent. With
 * QUIPU_PRISM_NO_EVENTS, no event of the kind is: its function does nothing, and gives 0. Swaps are sent nevertheless. */
enum { QUIPU_PRISM_NO_EVENTS = 0x01 };
unsigned quipu_prism_wants(const quipu_prism *prism, int kind);

/* The number of a name in the heap that all processes share, for quipu_prism_context_interned; 0 if there is no room. */
uint32_t quipu_prism_intern(quipu_prism *prism, const char *name, size_t length);

/* A producer for the calling thread. NULL if no ring is free, or the analysis has ended or does not take the encoding. */
typedef struct {
    int encoding;       /* QUIPU_PRISM_FIXED or QUIPU_PRISM_VARIABLE */
    uint64_t thread;    /* the thread that events belong to until a swap, or 0 for a number that no other producer has */
    int has_clocks;     /* whether each event has a clock reading */
    uint8_t memory, compute, control;  /* fields that this front end can give */
} quipu_prism_options;
quipu_prism_producer *quipu_prism_producer_open(quipu_prism *prism, const quipu_prism_options *options);

/* Publishes what was collected and leaves the ring. The producer is gone afterwards. In a child that fork made, the producers
 * of the parent's other threads need not be closed. */
void quipu_prism_producer_close(quipu_prism_producer *producer);

/* The thread that events of this producer belong to until a swap. */
uint64_t quipu_prism_thread(const quipu_prism_producer *producer);

/* Events that did not get through: nothing read them, or the encoding had no room for them. */
uint64_t quipu_prism_dropped(const quipu_prism_producer *producer);

/* Publishes what was collected. */
int quipu_prism_flush(quipu_prism_producer *producer);

/* Sets the clock of the events that follow. */
void quipu_prism_clock(quipu_prism_producer *producer, uint64_t clock);

/* Events. Fields that are not asked for may be anything. */
int quipu_prism_memory(quipu_prism_producer *producer, int type, unsigned size, uint64_t address);
int quipu_prism_memory_id(quipu_prism_producer *producer, int type, unsigned size, uint64_t address, uint8_t id);
int quipu_prism_compute(quipu_prism_producer *producer, int format, unsigned width, int operation, int arguments);
/* `ids` has as many elements as there are arguments. */
int quipu_prism_compute_ids(quipu_prism_producer *producer, int format, unsigned width, int operation, int arguments,
                            const uint8_t *ids);
/* `is_taken` may be QUIPU_PRISM_NO_OUTCOME for QUIPU_PRISM_BRANCH, `target` QUIPU_PRISM_NO_TARGET: unknown. */
int quipu_prism_control(quipu_prism_producer *producer, int type, int is_taken, int is_indirect, uint64_t target);
/* `second` is the mutex of QUIPU_PRISM_WAIT. */
int quipu_prism_sync(quipu_prism_producer *producer, int type, uint64_t data, uint64_t second);
int quipu_prism_context(quipu_prism_producer *producer, int type, uint64_t address);
int quipu_prism_context_name(quipu_prism_producer *producer, int type, const char *name, size_t length);
int quipu_prism_context_interned(quipu_prism_producer *producer, int type, uint32_t number);
/* Changes the fields of a kind from here on: QUIPU_PRISM_VARIABLE only. */
int quipu_prism_configure(quipu_prism_producer *producer, int kind, unsigned fields);

#ifdef __cplusplus
}
#endif

#endif
