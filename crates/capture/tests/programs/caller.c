/* Writes the address of a library's function to a file, then calls it; ends with what that gives. */
#include <stdio.h>

int twice(int number);

int main(int argc, char **argv) {
    FILE *file = fopen(argv[1], "w");
    fprintf(file, "%lx\n", (unsigned long)twice);
    fclose(file);
    return twice(twice(10) + argc);
}
