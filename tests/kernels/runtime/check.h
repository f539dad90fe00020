/* What the checks written in C share.
 *
 * Takes: a condition. Gives: a line and a count for one that does not hold. */
#include <stdio.h>

static int failures;
#define CHECK(condition)                                           \
    do {                                                           \
        if (!(condition)) {                                        \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            failures++;                                            \
        }                                                          \
    } while (0)
