//! LMDB: a B-tree in mapped memory. Its reads and writes go through the page cache, which counts
//! as memory of the process.

use heed::byteorder::BE;
use heed::types::{Bytes, U64};
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, RoTxn, RwTxn, WithTls};
use oncewire_rivals::{Engine, Key, Result, run};

/// Inserts of a transaction, which keeps the pages that it changes in memory.
const BATCH: u64 = 1_000;

struct Lmdb {
    env: &'static Env,
    database: Database<'static, U64<BE>, Bytes>,
    write: Option<RwTxn<'static>>,
    read: Option<RoTxn<'static, WithTls>>,
    pending: u64,
}

impl Engine for Lmdb {
    fn insert(&mut self, key: Key, value: Key) -> Result<()> {
        self.read = None;
        if self.write.is_none() {
            self.write = Some(self.env.write_txn()?);
        }
        if let Some(transaction) = &mut self.write {
            self.database.put(transaction, &u64::from_be_bytes(key), &value)?;
        }
        self.pending += 1;
        if self.pending >= BATCH {
            self.commit()?;
        }
        Ok(())
    }

    fn get(&mut self, key: Key) -> Result<Option<Key>> {
        let key = u64::from_be_bytes(key);
        let found = if let Some(transaction) = &self.write {
            self.database.get(transaction, &key)?
        } else {
            if self.read.is_none() {
                self.read = Some(self.env.read_txn()?);
            }
            match &self.read {
                Some(transaction) => self.database.get(transaction, &key)?,
                None => None,
            }
        };
        Ok(found.map(|value| value.try_into()).transpose()?)
    }

    fn finish(&mut self) -> Result<()> {
        self.read = None;
        self.commit()?;
        Ok(self.env.force_sync()?)
    }
}

impl Lmdb {
    fn commit(&mut self) -> Result<()> {
        self.pending = 0;
        self.write.take().map_or(Ok(()), |transaction| Ok(transaction.commit()?))
    }
}

fn main() -> Result<()> {
    run("lmdb", true, |setup| {
        let dir = setup.dir.join("lmdb");
        std::fs::create_dir_all(&dir)?;
        let mut options = EnvOpenOptions::new();
        options.map_size((setup.planned as usize * 160).next_multiple_of(4096).max(1 << 30));
        // SAFETY: no other process opens this file, and nothing else changes it. Without syncs, a
        // crash of the machine would lose the file; this program starts with a new one.
        let env = unsafe {
            options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_READ_AHEAD);
            options.open(dir)?
        };
        let env: &'static Env = Box::leak(Box::new(env));
        let database = env
            .create_databases_and_commit(env.write_txn()?, |opener, transaction| {
                opener.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
            })?
            .unwrap_commit();
        Ok(Lmdb { env, database, write: None, read: None, pending: 0 })
    })
}
