// A child of a process with four threads starts twelve threads of its own, four at a time, and ends with 7; the parent ends with
// what the child ended with.
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WAITERS = 3, ROUNDS = 3, AT_A_TIME = 4 };

static sem_t end;

static void *wait_for_end(void *argument) {
    sem_wait(&end);
    return argument;
}

static void *work(void *argument) {
    for (volatile int i = 0; i < 1000; i++) {}
    return argument;
}

int main(void) {
    pthread_t waiters[WAITERS], workers[AT_A_TIME];
    sem_init(&end, 0, 0);
    for (int i = 0; i < WAITERS; i++) pthread_create(&waiters[i], 0, wait_for_end, 0);
    pid_t child = fork();
    if (child == 0) {
        for (int round = 0; round < ROUNDS; round++) {
            for (int i = 0; i < AT_A_TIME; i++) pthread_create(&workers[i], 0, work, 0);
            for (int i = 0; i < AT_A_TIME; i++) pthread_join(workers[i], 0);
        }
        _exit(7);
    }
    int status = 0;
    waitpid(child, &status, 0);
    for (int i = 0; i < WAITERS; i++) sem_post(&end);
    for (int i = 0; i < WAITERS; i++) pthread_join(waiters[i], 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
