/* Tries to go on as a program that is not there, then as the one that it is given, with two arguments. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    execl("/no/such/program", "none", (char *)0);
    if (errno != ENOENT || argc != 2)
        return 9;
    printf("goes on\n");
    fflush(stdout);
    execl(argv[1], "another name", "one", "two", (char *)0);
    return 8;
}
