/* Berkeley DB: a hash table, or a B-tree if BERKELEY_TYPE is "btree". No log and no transactions.
   Debian's is built without direct input and output, so it uses the page cache, too. */
#include "workload.h"

#include <db.h>

static DB_ENV *environment;
static DB *db;
static uint64_t expected;
static int btree;

static void check(int status) {
    if (status) fail(db_strerror(status));
}

/* Keys are random already. */
static u_int32_t hash(DB *table, const void *bytes, u_int32_t len) {
    u_int32_t number = 0;
    (void)table;
    for (u_int32_t n = 0; n < 4 && n < len; n++)
        number = number << 8 | ((const unsigned char *)bytes)[n];
    return number;
}

/* Buckets are the low bits of the hash: in their order, a table is loaded page by page. */
static int by_bucket(const void *a, const void *b) {
    uint32_t mask = 1;
    /* 4 KiB pages hold about 100 entries. */
    while ((uint64_t)mask < expected / 64) mask = mask << 1 | 1;
    uint32_t x = (uint32_t)(*(const uint64_t *)a >> 32) & mask;
    uint32_t y = (uint32_t)(*(const uint64_t *)b >> 32) & mask;
    return x < y ? -1 : x > y;
}

static void open_db(const struct setup *setup) {
    const char *path = btree ? "berkeley-btree" : "berkeley-hash";
    expected = setup->keys;
    check(db_env_create(&environment, 0));
    check(environment->set_cachesize(environment, 0, (u_int32_t)(setup->memory / 2), 1));
    check(environment->open(environment, setup->dir, DB_CREATE | DB_INIT_MPOOL | DB_PRIVATE, 0600));
    check(db_create(&db, environment, 0));
    check(db->set_pagesize(db, 4096));
    if (!btree) {
        check(db->set_h_hash(db, hash));
        check(db->set_h_nelem(db, (u_int32_t)setup->keys));
        check(db->set_h_ffactor(db, 100));
    }
    check(db->open(db, NULL, path, NULL, btree ? DB_BTREE : DB_HASH, DB_CREATE, 0600));
}

static void insert(const unsigned char *key, const unsigned char *value) {
    DBT k = {0}, v = {0};
    k.data = (void *)key, k.size = 8;
    v.data = (void *)value, v.size = 8;
    check(db->put(db, NULL, &k, &v, 0));
}

static int get(const unsigned char *key, unsigned char *value) {
    DBT k = {0}, v = {0};
    k.data = (void *)key, k.size = 8;
    v.data = value, v.ulen = 8, v.flags = DB_DBT_USERMEM;
    int status = db->get(db, NULL, &k, &v, 0);
    if (status == DB_NOTFOUND) return 0;
    check(status);
    return 1;
}

static void finish(void) {
    check(db->close(db, 0));
    check(environment->close(environment, 0));
}

int main(int argc, char **argv) {
    const char *type = getenv("BERKELEY_TYPE");
    btree = type && !strcmp(type, "btree");
    const struct engine engine = {btree ? "berkeley-btree" : "berkeley-hash", 1,
                                  btree ? 0 : by_bucket, insert, get, finish, 0, 0};
    return workload_run(argc, argv, open_db, &engine);
}
