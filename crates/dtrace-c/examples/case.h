/* What the device of a classic system gives, as lines of a text: so that the examples and a fake device need no kernel.
 *
 *   options TEXT | session BEGAN ENDED STOPPED | base N | symbol FROM TO USER OBJECT NAME | format ID HEX
 *   service PORT NAME | host ADDRESS NAME
 *   probe HEX | eprobe HEX | agg VARIABLE HEX | status HEX | buf CPU DROPS OLDEST HEX | aggbuf CPU DROPS 0 HEX
 *
 * HEX may be `-` for no bytes.
 */
#ifndef CASE_H
#define CASE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct line {
    char *words[8];
    int n_words;
    unsigned char *bytes;
    size_t n_bytes;
};

struct text {
    struct line *lines;
    size_t n_lines;
};

static unsigned digit(char letter)
{
    return letter <= '9' ? (unsigned)(letter - '0') : (unsigned)(letter - 'a' + 10);
}

/* Reads a text; the last word of a line that is hexadecimal is made bytes of. */
static struct text read_text(const char *path)
{
    struct text text = {NULL, 0};
    FILE *file = fopen(path, "r");
    char *row = NULL;
    size_t room = 0;
    ssize_t length;
    if (!file)
        return text;
    while ((length = getline(&row, &room, file)) > 0) {
        struct line line = {{NULL}, 0, NULL, 0};
        char *rest = row;
        row[strcspn(row, "\n")] = 0;
        for (char *word; line.n_words < 8 && (word = strsep(&rest, " ")) != NULL;)
            line.words[line.n_words++] = strdup(word);
        const char *hex = line.words[line.n_words - 1];
        line.n_bytes = strcmp(hex, "-") == 0 ? 0 : strlen(hex) / 2;
        line.bytes = calloc(line.n_bytes + 1, 1);
        for (size_t at = 0; at < line.n_bytes; at++)
            line.bytes[at] = (unsigned char)(digit(hex[2 * at]) << 4 | digit(hex[2 * at + 1]));
        text.lines = realloc(text.lines, (text.n_lines + 1) * sizeof line);
        text.lines[text.n_lines++] = line;
    }
    free(row);
    fclose(file);
    return text;
}

static int is(const struct line *line, const char *kind)
{
    return strcmp(line->words[0], kind) == 0;
}

static unsigned long long number(const struct line *line, int at)
{
    return strtoull(line->words[at], NULL, 0);
}

#endif
