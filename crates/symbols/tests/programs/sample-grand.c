/* The types of the sample program `grand`. */
struct Link {
    struct Link *next;
    int data;
};
int main(void) {
    struct Link *link = 0;
    return link != 0;
}
