// A child that does some work and ends with 3; the parent ends with what the child ended with.
#include <sys/wait.h>
#include <unistd.h>

static volatile long cells[16];

int main(void) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 5000; i++) cells[i & 15] = i;
        _exit(3);
    }
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
}
