/* The other file of `parts.c`. */
static volatile char bytes[8];

__attribute__((noinline)) static void begin_part(void) {
    for (int i = 0; i < 7; i++) bytes[i] = (char)i;
}

void other_part(void) {
    begin_part();
}
