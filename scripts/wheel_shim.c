/* What archives of newer systems call and the C library of the wheel's build root does not have. */
#include <stddef.h>
#include <stdint.h>
#include <malloc.h>
#include <sys/random.h>

/* 0: other threads may exist. libstdc++ then uses atomic operations. */
char __libc_single_threaded = 0;

uint32_t arc4random(void) {
    uint32_t value = 0;
    while (getrandom(&value, sizeof value, 0) != sizeof value) {}
    return value;
}

/* LLVM asks how much memory it has, for statistics that nobody reads here. */
struct wide { size_t fields[10]; };
struct wide mallinfo2(void) {
    struct mallinfo narrow = mallinfo();
    struct wide all = {{0}};
    all.fields[7] = (unsigned)narrow.uordblks;
    return all;
}
