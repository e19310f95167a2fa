/* A function of a library, which says where it lies. */
#include <stdio.h>

int twice(int number);

int thrice(int number) { return 3 * number; }

int twice(int number) { return 2 * number; }
