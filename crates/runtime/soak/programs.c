/*
 * What the runtime has to stand, for `soak.sh`: threads, locks, atomics, allocations, signals, jumps out of them, forks, another
 * program in place of this one, limits of the file. `programs NAME ROUNDS` runs one of them; 0 if all is as C wants it.
 */
#define _GNU_SOURCE
#include "../include/quipu.h"
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(truth) \
    do { \
        if (!(truth)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #truth); \
            exit(1); \
        } \
    } while (0)

enum { N_THREADS = 8, CELLS = 4096 };

struct node {
    struct node *next;
    long value;
    char name[16];
};

static int n_rounds;
static char **own_argv;
static volatile long cells[N_THREADS][CELLS];
static atomic_long total;
static _Atomic(unsigned char) small;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_barrier_t barrier;
static sem_t semaphore;
static pthread_key_t key;
static long n_done;

static void fill(long which, long n) {
    for (long i = 0; i < n; i++) cells[which][i & (CELLS - 1)] += i;
}

static void *accesses(void *which) {
    QUIPU_THREAD_NAME("accesses");
    for (int i = 0; i < n_rounds; i++) {
        fill((long)which, 20000);
        QUIPU_MARK("round");
        QUIPU_PAUSE();
        fill((long)which, 100);
        QUIPU_RESUME();
    }
    return which;
}

static void *locks(void *which) {
    for (int i = 0; i < 500 * n_rounds; i++) {
        pthread_mutex_lock(&mutex);
        n_done++;
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&mutex);
        if (i % 3 == 0) pthread_rwlock_rdlock(&rwlock); else pthread_rwlock_wrlock(&rwlock);
        pthread_rwlock_unlock(&rwlock);
        if (pthread_mutex_trylock(&mutex) == 0) pthread_mutex_unlock(&mutex);
        pthread_spin_lock(&spin);
        cells[0][0]++;
        pthread_spin_unlock(&spin);
        sem_post(&semaphore);
        sem_wait(&semaphore);
        struct timespec soon;
        clock_gettime(CLOCK_REALTIME, &soon);
        soon.tv_nsec = (soon.tv_nsec + 1000) % 1000000000;
        if (i % 50 == 0) {
            pthread_mutex_lock(&mutex);
            pthread_cond_timedwait(&condition, &mutex, &soon);
            pthread_mutex_unlock(&mutex);
        }
    }
    pthread_barrier_wait(&barrier);
    return which;
}

static void *atomics(void *which) {
    for (int i = 0; i < 5000 * n_rounds; i++) {
        atomic_fetch_add(&total, 1);
        long seen = atomic_load_explicit(&total, memory_order_acquire);
        atomic_compare_exchange_strong(&total, &seen, seen);
        atomic_exchange(&small, (unsigned char)i);
        atomic_fetch_xor_explicit(&small, 3, memory_order_relaxed);
        atomic_thread_fence(memory_order_seq_cst);
    }
    return which;
}

static void *allocations(void *which) {
    struct node *list = 0;
    for (int i = 0; i < 300 * n_rounds; i++) {
        struct node *node = i % 2 ? malloc(sizeof *node) : calloc(1, sizeof *node);
        QUIPU_REGION(node, 1, struct node);
        node->next = list;
        node->value = i;
        strcpy(node->name, "node");
        list = node;
        void *aligned = 0;
        CHECK(posix_memalign(&aligned, 64, 100) == 0 && (uintptr_t)aligned % 64 == 0);
        memset(aligned, i, 100);
        free(aligned);
        aligned = aligned_alloc(32, 64);
        free(aligned);
        char *grown = malloc(8);
        memset(grown, 7, 8);
        for (size_t n = 16; n < 20000; n *= 3) {
            grown = realloc(grown, n);
            CHECK(grown[0] == 7 && grown[7] == 7);
            grown[n - 1] = 1;
        }
        grown = reallocarray(grown, 10, 10);
        CHECK(grown && !reallocarray(0, SIZE_MAX, 2) && errno == ENOMEM);
        free(grown);
        free(0);
        if (i % 100 == 99)
            for (struct node *next; list; list = next) {
                next = list->next;
                QUIPU_REGION_END(list);
                free(list);
            }
    }
    for (struct node *next; list; list = next) {
        next = list->next;
        free(list);
    }
    pthread_setspecific(key, (void *)(which ? which : &key));
    return which;
}

/* Called when a thread ends, after the runtime's own has been called for the first time. */
static void at_end(void *which) {
    fill(0, 100);
    free(malloc(10));
    (void)which;
}

static int in_threads(void *(*work)(void *)) {
    pthread_t threads[N_THREADS];
    for (long i = 0; i < N_THREADS; i++) CHECK(pthread_create(threads + i, 0, work, (void *)i) == 0);
    for (long i = 0; i < N_THREADS; i++) {
        void *result;
        CHECK(pthread_join(threads[i], &result) == 0 && result == (void *)i);
    }
    return 0;
}

static sigjmp_buf place;
static volatile sig_atomic_t n_signals;
static volatile sig_atomic_t may_jump;

static void on_signal(int signal) {
    fill(1, 50);
    n_signals++;
    (void)signal;
    if (may_jump && n_signals % 4 == 0) siglongjmp(place, 1);
}

/* Handlers that access interrupt accesses, and every fourth leaves by a jump. */
static int signals(void) {
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    signal(SIGALRM, on_signal);
    setitimer(ITIMER_REAL, &often, 0);
    volatile int rounds = 0;
    while (rounds < 50 * n_rounds) {
        if (sigsetjmp(place, 1) == 0) {
            may_jump = 1;
            fill(0, 5000);
        }
        may_jump = 0;
        rounds++;
    }
    setitimer(ITIMER_REAL, &never, 0);
    return 0;
}

static jmp_buf back;

__attribute__((noinline)) static void deep(int depth) {
    volatile char room[200];
    memset((void *)room, depth, sizeof room);
    cells[2][depth] = depth;
    if (depth == 0) longjmp(back, 1);
    deep(depth - 1);
    room[0]++;
}

static int jumps(void) {
    for (volatile int i = 0; i < 200 * n_rounds; i++)
        if (setjmp(back) == 0) deep(50);
    return 0;
}

/* Children while threads access: each child accesses, starts threads, forks again. */
static int forks(void) {
    pthread_t threads[N_THREADS];
    for (long i = 0; i < N_THREADS; i++) pthread_create(threads + i, 0, accesses, (void *)i);
    for (int i = 0; i < 5 * n_rounds; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            n_rounds = 1;
            fill(0, 1000);
            in_threads(i % 2 ? atomics : allocations);
            if (i % 3 == 0) {
                pid_t next = fork();
                if (next == 0) {
                    fill(1, 100);
                    _exit(3);
                }
                int status;
                CHECK(waitpid(next, &status, 0) == next && WEXITSTATUS(status) == 3);
            }
            if (i % 2) exit(3);
            _exit(3);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    }
    for (long i = 0; i < N_THREADS; i++) pthread_join(threads[i], 0);
    return 0;
}

/* Goes on as itself, with another program's name. */
static int execs(void) {
    fill(0, 1000);
    char *arguments[] = {own_argv[0], "jumps", "1", 0};
    execv("/proc/self/exe", arguments);
    return 1;
}

/* Threads that end by other ways than by returning. */
static void *cancelled(void *which) {
    for (;;) {
        fill((long)which, 100);
        pthread_testcancel();
    }
    return which;
}

static void *exits(void *which) {
    fill((long)which, 100);
    pthread_exit(which);
}

static int ends(void) {
    for (int i = 0; i < 10 * n_rounds; i++) {
        pthread_t one, two;
        void *result;
        CHECK(pthread_create(&one, 0, cancelled, (void *)1) == 0);
        CHECK(pthread_create(&two, 0, exits, (void *)2) == 0);
        CHECK(pthread_cancel(one) == 0);
        CHECK(pthread_join(one, &result) == 0 && result == PTHREAD_CANCELED);
        CHECK(pthread_join(two, &result) == 0 && result == (void *)2);
    }
    return 0;
}

/* No file may grow any more: nothing more is recorded, and the program goes on. */
static int disk_full(void) {
    struct rlimit limit = {3 << 20, 3 << 20};
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    return in_threads(accesses);
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    own_argv = argv;
    n_rounds = atoi(argv[2]);
    CHECK(pthread_spin_init(&spin, 0) == 0 && sem_init(&semaphore, 0, 0) == 0);
    CHECK(pthread_barrier_init(&barrier, 0, N_THREADS) == 0 && pthread_key_create(&key, at_end) == 0);
    const char *name = argv[1];
    if (!strcmp(name, "accesses")) return in_threads(accesses);
    if (!strcmp(name, "locks")) return in_threads(locks);
    if (!strcmp(name, "atomics")) return in_threads(atomics);
    if (!strcmp(name, "allocations")) return in_threads(allocations);
    if (!strcmp(name, "signals")) return signals();
    if (!strcmp(name, "jumps")) return jumps();
    if (!strcmp(name, "forks")) return forks();
    if (!strcmp(name, "execs")) return execs();
    if (!strcmp(name, "ends")) return ends();
    if (!strcmp(name, "disk_full")) return disk_full();
    return 2;
}
