//! fjall: a log-structured merge tree.

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use oncewire_rivals::{Engine, Key, Result, run};

struct Fjall {
    database: Database,
    keyspace: Keyspace,
}

impl Engine for Fjall {
    fn insert(&mut self, key: Key, value: Key) -> Result<()> {
        Ok(self.keyspace.insert(key, value)?)
    }

    fn get(&mut self, key: Key) -> Result<Option<Key>> {
        Ok(self.keyspace.get(key)?.map(|value| value[..].try_into()).transpose()?)
    }

    fn finish(&mut self) -> Result<()> {
        self.keyspace.rotate_memtable_and_wait()?;
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }
}

fn main() -> Result<()> {
    run("fjall", false, |setup| {
        let database =
            Database::builder(setup.dir.join("fjall")).cache_size(setup.memory / 4).open()?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(setup.memory / 16);
        let keyspace = database.keyspace("index", options)?;
        Ok(Fjall { database, keyspace })
    })
}
