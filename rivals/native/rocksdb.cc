// RocksDB, tuned for small entries and little memory: no log, direct input and output, ribbon
// filters and indexes in partitions of which the top level is pinned, universal or leveled
// compaction: ROCKSDB_COMPACTION is "level" (or not set) or "universal".
#include "workload.h"

#include <chrono>
#include <memory>
#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>
#include <string>
#include <thread>
#include <vector>

static std::unique_ptr<rocksdb::DB> db;
static rocksdb::WriteOptions writes;
static rocksdb::ReadOptions reads;

static void check(const rocksdb::Status &status) {
    if (!status.ok()) fail(status.ToString().c_str());
}

static void open_db(const struct setup *setup) {
    const char *style = getenv("ROCKSDB_COMPACTION");
    rocksdb::Options options;
    options.create_if_missing = true;
    options.use_direct_reads = true;
    options.use_direct_io_for_flush_and_compaction = true;
    options.compression = rocksdb::kNoCompression;
    options.IncreaseParallelism(2);
    options.max_open_files = -1;
    options.write_buffer_size = setup->memory / 8;
    options.max_write_buffer_number = 2;
    options.target_file_size_base = 32 << 20;
    options.max_bytes_for_level_base = 4 * options.write_buffer_size;
    options.compaction_readahead_size = 1 << 20;
    options.avoid_unnecessary_blocking_io = true;
    if (style && !strcmp(style, "universal"))
        options.compaction_style = rocksdb::kCompactionStyleUniversal;
    rocksdb::BlockBasedTableOptions table;
    table.block_size = 4096;
    table.filter_policy.reset(rocksdb::NewRibbonFilterPolicy(10));
    table.optimize_filters_for_memory = true;
    table.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
    table.partition_filters = true;
    table.metadata_block_size = 4096;
    table.cache_index_and_filter_blocks = true;
    table.cache_index_and_filter_blocks_with_high_priority = true;
    table.pin_top_level_index_and_filter = true;
    table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
    table.block_cache = rocksdb::NewLRUCache(setup->memory / 2, 2, false, 0.9);
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    writes.disableWAL = true;
    reads.verify_checksums = true;
    reads.async_io = true;
    rocksdb::DB *opened;
    check(rocksdb::DB::Open(options, std::string(setup->dir) + "/rocksdb", &opened));
    db.reset(opened);
}

static void insert(const unsigned char *key, const unsigned char *value) {
    check(db->Put(writes, rocksdb::Slice((const char *)key, 8),
                  rocksdb::Slice((const char *)value, 8)));
}

static int get(const unsigned char *key, unsigned char *value) {
    rocksdb::PinnableSlice found;
    rocksdb::Status status = db->Get(reads, db->DefaultColumnFamily(),
                                     rocksdb::Slice((const char *)key, 8), &found);
    if (status.IsNotFound()) return 0;
    check(status);
    if (found.size() != 8) fail("a value of another length");
    memcpy(value, found.data(), 8);
    return 1;
}

static void insert_batch(unsigned count, const unsigned char *keys, const unsigned char *values) {
    rocksdb::WriteBatch batch;
    for (unsigned n = 0; n < count; n++)
        check(batch.Put(rocksdb::Slice((const char *)keys + 8 * n, 8),
                        rocksdb::Slice((const char *)values + 8 * n, 8)));
    check(db->Write(writes, &batch));
}

static void get_batch(unsigned count, const unsigned char *keys, unsigned char *values, int *found) {
    std::vector<rocksdb::Slice> slices(count);
    std::vector<rocksdb::PinnableSlice> answers(count);
    std::vector<rocksdb::Status> statuses(count);
    for (unsigned n = 0; n < count; n++) slices[n] = rocksdb::Slice((const char *)keys + 8 * n, 8);
    db->MultiGet(reads, db->DefaultColumnFamily(), count, slices.data(), answers.data(),
                 statuses.data());
    for (unsigned n = 0; n < count; n++) {
        found[n] = !statuses[n].IsNotFound();
        if (!found[n]) continue;
        check(statuses[n]);
        if (answers[n].size() != 8) fail("a value of another length");
        memcpy(values + 8 * n, answers[n].data(), 8);
    }
}

// Compaction that inserts made necessary is part of their cost.
static void finish(void) {
    check(db->Flush(rocksdb::FlushOptions()));
    // Universal compaction may say forever that it has more to do.
    for (int idle = 0; idle < 20;) {
        uint64_t running = 0, pending = 0;
        db->GetIntProperty("rocksdb.num-running-compactions", &running);
        db->GetIntProperty("rocksdb.compaction-pending", &pending);
        if (!running && !pending) break;
        idle = running ? 0 : idle + 1;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    check(db->Close());
    db.reset();
}

int main(int argc, char **argv) {
    const char *style = getenv("ROCKSDB_COMPACTION");
    const char *name = style && !strcmp(style, "universal") ? "rocksdb-universal" : "rocksdb-level";
    const struct engine engine = {name, 0, nullptr, insert, get, finish, insert_batch, get_batch};
    return workload_run(argc, argv, open_db, &engine);
}
