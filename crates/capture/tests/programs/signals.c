// Signals of every kind: sent by the program to itself, by a timer anywhere, by accesses and divisions that fail, and a
// handler that is left by a jump.
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

static volatile int ticks, sent;
static char *page;
static sigjmp_buf back;

static void on_tick(int signal) { (void)signal; ticks++; }
static void on_sent(int signal) { (void)signal; sent++; }
static void on_fault(int signal) { (void)signal; mprotect(page, 4096, PROT_READ | PROT_WRITE); }
static void on_division(int signal) { (void)signal; siglongjmp(back, 1); }

static void handle(int signal, void (*handler)(int)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(signal, &action, 0);
}

__attribute__((noinline)) static int choose(int x) { return x % 3 ? x + 1 : x * 2; }

int main(void) {
    struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
    int (*volatile call)(int) = choose;
    volatile int sum = 0, many = 100, zero = 0;
    handle(SIGALRM, on_tick);
    handle(SIGUSR1, on_sent);
    handle(SIGSEGV, on_fault);
    handle(SIGFPE, on_division);
    setitimer(ITIMER_REAL, &often, 0);
    for (int i = 0; ticks < 20; i++) sum += call(i);
    setitimer(ITIMER_REAL, &never, 0);
    for (int i = 0; i < 5; i++) kill(getpid(), SIGUSR1);
    page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[17] = 1;
    if (!sigsetjmp(back, 1)) sum = many / zero;
    return sent == 5 && page[17] == 1 ? 0 : 1;
}
