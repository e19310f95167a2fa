/* People in a linked list: who is the oldest? */
#include <stdio.h>
#include <stdlib.h>

struct person {
    int age;
    char name[60];
    char address[52];
    struct person *next;
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
    struct person *people = NULL;
    for (int i = 0; i < PEOPLE; i++) {
        struct person *one = malloc(sizeof *one);
        one->age = i % 97;
        snprintf(one->name, sizeof one->name, "person %d", i);
        one->address[0] = '\0';
        one->next = people;
        people = one;
    }
    int sum = 0;
    for (int round = 0; round < ROUNDS; round++)
        sum += oldest(people);
    printf("%d\n", sum);
    return 0;
}
