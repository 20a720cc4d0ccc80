/* The workload that all programs of this workspace run, in C; src/lib.rs is the same in Rust.
   An engine defines the functions declared below, and `main` that calls `workload_run`. */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

/* Numbers of keys that are never inserted start here. */
#define ABSENT (1ull << 40)
#define GOLDEN 0x9E3779B97F4A7C15ull

struct setup {
    const char *dir;
    /* Bytes of memory of the whole process. */
    uint64_t memory;
    /* Keys that the index is going to hold. */
    uint64_t keys;
    uint64_t seed;
    int create;
};

struct engine {
    const char *name;
    /* Whether keys are loaded in order. `order` compares them, or is 0 for their bytes. */
    int sorted;
    int (*order)(const void *, const void *);
    /* All return 0, or end the program. */
    void (*insert)(const unsigned char *key, const unsigned char *value);
    int (*get)(const unsigned char *key, unsigned char *value); /* 1 if it is there */
    void (*finish)(void);
    /* Keys, and values beside them, one after another; 0 to do it one by one. `found` is 1 for each
       key that is there. */
    void (*insert_batch)(unsigned count, const unsigned char *keys, const unsigned char *values);
    void (*get_batch)(unsigned count, const unsigned char *keys, unsigned char *values, int *found);
};

#define MOST_BATCH 4096

static inline uint64_t mix(uint64_t bits) {
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9ull;
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EBull;
    return bits ^ bits >> 31;
}

static inline uint64_t key_of(uint64_t seed, uint64_t n) { return mix(seed + (n + 1) * GOLDEN); }

static inline void big_endian(uint64_t number, unsigned char *into) {
    for (int n = 7; n >= 0; n--, number >>= 8) into[n] = (unsigned char)number;
}

static inline void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static inline double seconds_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* Latencies by powers of two of nanoseconds, each in eight parts. A batch counts as all of its
   operations, each with the time of the batch. */
struct latencies {
    uint64_t counts[512], total;
};

static inline void latency_add(struct latencies *all, uint64_t ns, unsigned operations) {
    if (ns < 8) ns = 8;
    unsigned power = 63u - (unsigned)__builtin_clzll(ns);
    all->counts[power * 8 + (ns >> (power - 3) & 7)] += operations;
    all->total += operations;
}

static inline double latency_at(const struct latencies *all, double share) {
    uint64_t left = (uint64_t)((double)all->total * share);
    for (unsigned place = 0; place < 512; place++) {
        if (all->counts[place] > left)
            return (double)(1ull << place / 8) * (1.0 + (place % 8 + 1) / 8.0) / 1e3;
        left -= all->counts[place];
    }
    return 0;
}

static inline void io_bytes(uint64_t *read, uint64_t *written) {
    char line[128];
    FILE *file = fopen("/proc/self/io", "r");
    *read = *written = 0;
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "read_bytes: %lu", read);
        sscanf(line, "write_bytes: %lu", written);
    }
    if (file) fclose(file);
}

static int by_bytes(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void insert_number(const struct engine *engine, uint64_t key) {
    unsigned char bytes[8], value[8];
    big_endian(key, bytes);
    big_endian(key << 32 | key >> 32, value);
    engine->insert(bytes, value);
}

/* Reads the command line; `open` makes the engine. */
static int workload_run(int argc, char **argv, void (*open)(const struct setup *),
                        const struct engine *engine) {
    const char *usage =
        "usage: DIR MEMORY SEED load KEYS | mix KEYS SECONDS LOOK-UPS FOUND BATCH | vector";
    if (argc < 5) fail(usage);
    uint64_t seed = strtoull(argv[3], 0, 10);
    if (!strcmp(argv[4], "vector")) {
        for (uint64_t n = 0; n < 4; n++) printf("%016lx\n", key_of(seed, n));
        return 0;
    }
    int load = !strcmp(argv[4], "load");
    if (argc != (load ? 6 : 10) || (!load && strcmp(argv[4], "mix"))) fail(usage);
    uint64_t keys = strtoull(argv[5], 0, 10), next = keys, found = 0;
    char plan[4096];
    snprintf(plan, sizeof plan, "%s/keys", argv[1]);
    FILE *file = fopen(plan, load ? "w" : "r");
    if (!file) fail("DIR has no file `keys`: load first");
    uint64_t planned = keys;
    if (load ? fprintf(file, "%lu", keys) < 0 : fscanf(file, "%lu", &planned) != 1) fail(plan);
    fclose(file);
    uint64_t most = keys + planned / 10;
    struct setup setup = {argv[1], strtoull(argv[2], 0, 10), keys, seed, load};
    static struct latencies look_ups, inserts;
    uint64_t read, written, read_after, written_after;
    open(&setup);
    io_bytes(&read, &written);
    double begun = seconds_of(CLOCK_MONOTONIC), cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    if (load && engine->sorted) {
        uint64_t *all = (uint64_t *)malloc(8 * keys);
        if (!all) fail("no memory");
        for (uint64_t n = 0; n < keys; n++) all[n] = key_of(seed, n);
        qsort(all, keys, 8, engine->order ? engine->order : by_bytes);
        for (uint64_t n = 0; n < keys; n++) insert_number(engine, all[n]);
        free(all);
    } else if (load) {
        for (uint64_t n = 0; n < keys; n++) insert_number(engine, key_of(seed, n));
    } else {
        double share = strtod(argv[7], 0), hits = strtod(argv[8], 0);
        uint64_t limit = (uint64_t)(1e9 * strtod(argv[6], 0)), start = now_ns(), now = start;
        uint64_t state = mix(seed ^ keys);
#define UNIFORM() mix(state += GOLDEN)
#define BELOW(share) ((double)(UNIFORM() >> 11) < (share) * 9007199254740992.0)
        unsigned batch = (unsigned)strtoul(argv[9], 0, 10);
        static unsigned char asked[8 * MOST_BATCH], values[8 * MOST_BATCH], right[8 * MOST_BATCH];
        static int hit[MOST_BATCH], there[MOST_BATCH];
        if (!batch || batch > MOST_BATCH) fail("a batch has 1 to 4096 operations");
        while (now - start < limit && next < most) {
            uint64_t then = now;
            int look_up = BELOW(share);
            for (unsigned n = 0; n < batch; n++) {
                uint64_t number = next;
                if (look_up) {
                    hit[n] = BELOW(hits);
                    found += (uint64_t)hit[n];
                    number = UNIFORM();
                    number = hit[n] ? number % keys : ABSENT + number % ABSENT;
                } else {
                    next++;
                }
                uint64_t key = key_of(seed, number);
                big_endian(key, asked + 8 * n);
                big_endian(key << 32 | key >> 32, right + 8 * n);
            }
            if (look_up) {
                if (batch > 1 && engine->get_batch)
                    engine->get_batch(batch, asked, values, there);
                else
                    for (unsigned n = 0; n < batch; n++)
                        there[n] = engine->get(asked + 8 * n, values + 8 * n);
                for (unsigned n = 0; n < batch; n++)
                    if (there[n] != hit[n] || (hit[n] && memcmp(values + 8 * n, right + 8 * n, 8)))
                        fail("a wrong answer");
            } else if (batch > 1 && engine->insert_batch) {
                engine->insert_batch(batch, asked, right);
            } else {
                for (unsigned n = 0; n < batch; n++) engine->insert(asked + 8 * n, right + 8 * n);
            }
            now = now_ns();
            latency_add(look_up ? &look_ups : &inserts, now - then, batch);
        }
    }
    engine->finish();
    cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    begun = seconds_of(CLOCK_MONOTONIC) - begun;
    io_bytes(&read_after, &written_after);
    printf("{\"engine\":\"%s\",\"keys\":%lu,\"seconds\":%.6f,\"cpu_seconds\":%.6f,"
           "\"read_bytes\":%lu,\"written_bytes\":%lu,\"found\":%lu",
           engine->name, next, begun, cpu, read_after - read, written_after - written, found);
    struct latencies *rows[] = {&look_ups, &inserts};
    const char *names[] = {"look_ups", "inserts"};
    for (int n = 0; n < 2; n++)
        printf(",\"%s\":{\"operations\":%lu,\"median_us\":%.3f,\"p99_us\":%.3f}", names[n],
               rows[n]->total, latency_at(rows[n], 0.5), latency_at(rows[n], 0.99));
    printf("}\n");
    return 0;
}

#endif
