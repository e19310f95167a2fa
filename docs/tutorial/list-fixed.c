/* People in a linked list, with what the search reads in a place of its own: who is the oldest? */
#include <stdio.h>
#include <stdlib.h>

struct details {
    char name[60];
    char address[52];
};

struct person {
    int age;
    struct person *next;
    struct details *details;
};

enum { PEOPLE = 2000, ROUNDS = 20 };

static int oldest(const struct person *person)
{
    int age = 0;
    for (; person; person = person->next)
        if (person->age > age)
            age = person->age;
    return age;
}

int main(void)
{
    struct person *all = malloc(PEOPLE * sizeof *all);
    struct person *people = NULL;
    for (int i = 0; i < PEOPLE; i++) {
        struct person *one = &all[i];
        one->age = i % 97;
        one->details = malloc(sizeof *one->details);
        snprintf(one->details->name, sizeof one->details->name, "person %d", i);
        one->details->address[0] = '\0';
        one->next = people;
        people = one;
    }
    int sum = 0;
    for (int round = 0; round < ROUNDS; round++)
        sum += oldest(people);
    printf("%d\n", sum);
    return 0;
}
