/* Tools for `quipu run --tool`: a library that takes workload events. docs/hooks.md is a tutorial.
 *
 *     cc -shared -fPIC -O2 -I include my_tool.c -o libmy_tool.so
 *     quipu run --tool ./libmy_tool.so TRACE
 *
 * A library has one function, quipu_tool_table, which gives a table of functions. Size and version stand first in it, and later
 * versions append to each structure: a program takes tools that are older than it is, and refuses newer ones with a sentence.
 *
 * Functions that give a text give NULL if all is well; a text ends the run, and is its message. It has to live until the next
 * call. Texts are UTF-8. An instance is called by one thread at a time, not always by the same one. */
#ifndef QUIPU_TOOL_H
#define QUIPU_TOOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUIPU_TOOL_VERSION 1

/* Kinds of events. */
enum {
    QUIPU_MEMORY = 0, QUIPU_COMPUTE = 1, QUIPU_SYNC = 2, QUIPU_CONTEXT = 3, QUIPU_CONTROL = 4, QUIPU_CONFIG = 5,
    QUIPU_UNKNOWN = 255
};

/* Fields of events, by kind: which ones an event has, and which ones a tool asks for. */
enum {
    QUIPU_TYPE = 0x80,                                                      /* memory, compute (its format), control */
    QUIPU_SIZE = 0x40, QUIPU_ADDRESS = 0x20, QUIPU_ID = 0x10,               /* memory */
    QUIPU_WIDTH = 0x40, QUIPU_OPERATION = 0x20, QUIPU_ARITY = 0x10, QUIPU_IDS = 0x08,       /* compute */
    QUIPU_HAS_TAKEN = 0x40, QUIPU_HAS_TARGET = 0x20, QUIPU_HAS_INDIRECT = 0x10,             /* control */
    QUIPU_HAS_SECOND = 0x80,                                                /* sync: two objects */
    QUIPU_HAS_NAME = 0x80                                                   /* context: a name in place of an address */
};

/* Types. */
enum { QUIPU_LOAD = 1, QUIPU_STORE = 2 };
enum { QUIPU_INTEGER = 1, QUIPU_FLOAT = 2 };
enum {
    QUIPU_ADD = 1, QUIPU_SUBTRACT = 2, QUIPU_MULTIPLY = 3, QUIPU_DIVIDE = 4, QUIPU_SHIFT = 5, QUIPU_MOVE = 6
};
enum {
    QUIPU_CREATE = 1, QUIPU_JOIN = 2, QUIPU_BARRIER = 3, QUIPU_OTHER_SYNC = 4, QUIPU_SWAP = 5, QUIPU_LOCK = 6,
    QUIPU_UNLOCK = 7, QUIPU_WAIT = 8, QUIPU_SIGNAL = 9, QUIPU_BROADCAST = 10, QUIPU_SPIN_LOCK = 11, QUIPU_SPIN_UNLOCK = 12
};
enum { QUIPU_INSTRUCTION = 1, QUIPU_BLOCK = 2, QUIPU_ENTER = 3, QUIPU_EXIT = 4, QUIPU_THREAD = 5 };
enum { QUIPU_JUMP = 1, QUIPU_BRANCH = 2, QUIPU_CALL = 3, QUIPU_RETURN = 4 };
enum { QUIPU_IS_TAKEN = 1, QUIPU_IS_INDIRECT = 2 };

/* An event. Values whose fields are not set are 0. */
typedef struct {
    uint8_t kind;
    uint8_t type;             /* of memory, sync, context, control; the format of a computation; the kind that is configured */
    uint8_t fields;           /* which of its values are known */
    uint8_t operation;        /* of a computation; the fields of a configuration */
    uint16_t size;            /* bytes of an access, or of a computation's result */
    uint8_t arguments;        /* of a computation */
    uint8_t flags;            /* of control flow: QUIPU_IS_TAKEN, QUIPU_IS_INDIRECT */
    uint8_t id;               /* of an access */
    uint8_t ids[4];           /* of a computation's arguments */
    uint8_t unused[3];
    uint64_t data;            /* an address or target; what is synchronized; the thread of a swap */
    uint64_t second;          /* of sync: the mutex of QUIPU_WAIT */
    uint32_t name_start;      /* of context: where its name begins in the names of the batch */
    uint32_t name_length;
} quipu_event;

/* Events of one thread, in order. */
typedef struct {
    uint32_t size;
    uint32_t event_size;
    uint64_t first;           /* the position of the first event among all, from 0 */
    uint64_t thread;
    uint32_t has_thread;      /* 0 before a swap says which thread it is */
    uint32_t unused;
    uint64_t n_events;
    const quipu_event *events;
    const uint64_t *clocks;   /* a clock reading for each event, or NULL */
    const char *names;        /* not ended by zeros */
    uint64_t n_name_bytes;
} quipu_batch;

/* What the program does for a tool. It lives as long as the instance. */
typedef struct {
    uint32_t size;
    uint32_t version;         /* that the program speaks */
    void *context;
    void (*print)(void *context, const char *text, size_t length);  /* a part of the results, on standard output */
    const char *folder;       /* where files go, or NULL if the run has no `-o` */
} quipu_host;

/* Fields that a tool looks at. QUIPU_NO_EVENTS for a kind: front ends send no events of it, but swaps, which say whose the others
 * are. Tools of one run get what any of them asks for. */
enum { QUIPU_NO_EVENTS = 0x01 };
typedef struct {
    uint8_t memory, compute, control, sync, context;
} quipu_detail;

/* How many instances a run may have: one; one each time that the run names the tool; one for each thread of the events. */
enum { QUIPU_ONE = 0, QUIPU_MANY = 1, QUIPU_PER_THREAD = 2 };

typedef struct {
    uint32_t size;            /* sizeof(quipu_tool) */
    uint32_t version;         /* QUIPU_TOOL_VERSION */
    const char *name;         /* letters, digits, - and _ */
    uint32_t instances;
    uint32_t unused;
    /* `options` is what follows the first comma of --tool LIBRARY,OPTIONS, or empty. */
    const char *(*create)(const quipu_host *host, const char *options, void **tool);
    const char *(*take)(void *tool, const quipu_batch *batch);
    void (*destroy)(void *tool);
    /* What follows may be NULL. */
    void (*needs)(const void *tool, quipu_detail *detail);      /* all fields if NULL */
    const char *(*start)(void *tool);                           /* before the first batch */
    const char *(*finish)(void *tool);                          /* after the last one */
    const char *(*finish_all)(void *const *tools, size_t n);    /* once, with all instances */
} quipu_tool;

/* What a library has. */
const quipu_tool *quipu_tool_table(void);

/* Event by event: functions that are NULL are not called. Where `hooks` is a constant of the same file, compilers put the
 * functions into the loop, so that an event costs no call. */
typedef struct {
    const char *(*on_memory)(void *tool, const quipu_batch *batch, const quipu_event *event);
    const char *(*on_compute)(void *tool, const quipu_batch *batch, const quipu_event *event);
    const char *(*on_sync)(void *tool, const quipu_batch *batch, const quipu_event *event);
    const char *(*on_context)(void *tool, const quipu_batch *batch, const quipu_event *event, const char *name, size_t length);
    const char *(*on_control_flow)(void *tool, const quipu_batch *batch, const quipu_event *event);
    const char *(*on_config)(void *tool, const quipu_batch *batch, const quipu_event *event);
} quipu_hooks;

/* The position of an event among all, and its clock reading (0 if there is none). */
static inline uint64_t quipu_ordinal(const quipu_batch *batch, const quipu_event *event)
{
    return batch->first + (uint64_t)(event - batch->events);
}

static inline uint64_t quipu_clock(const quipu_batch *batch, const quipu_event *event)
{
    return batch->clocks ? batch->clocks[event - batch->events] : 0;
}

static inline const char *quipu_each(void *tool, const quipu_batch *batch, const quipu_hooks hooks)
{
    const quipu_event *event = batch->events, *end = event + batch->n_events;
    for (; event < end; event++) {
        const char *message = NULL;
        switch (event->kind) {
        case QUIPU_MEMORY: if (hooks.on_memory) message = hooks.on_memory(tool, batch, event); break;
        case QUIPU_COMPUTE: if (hooks.on_compute) message = hooks.on_compute(tool, batch, event); break;
        case QUIPU_SYNC: if (hooks.on_sync) message = hooks.on_sync(tool, batch, event); break;
        case QUIPU_CONTEXT:
            if (hooks.on_context)
                message = hooks.on_context(tool, batch, event, batch->names + event->name_start, event->name_length);
            break;
        case QUIPU_CONTROL: if (hooks.on_control_flow) message = hooks.on_control_flow(tool, batch, event); break;
        case QUIPU_CONFIG: if (hooks.on_config) message = hooks.on_config(tool, batch, event); break;
        default: break;
        }
        if (message)
            return message;
    }
    return NULL;
}

#ifdef __cplusplus
}
#endif

#endif
