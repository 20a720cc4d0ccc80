//! redb: a copy-on-write B-tree.

use oncewire_rivals::{Engine, Key, Result, run};
use redb::{
    Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction,
};

const TABLE: TableDefinition<'_, u64, u64> = TableDefinition::new("index");
/// Inserts of a transaction, which keeps the pages that it changes in memory.
const BATCH: u64 = 1_000;

struct Redb {
    database: Database,
    open: Option<WriteTransaction>,
    pending: u64,
}

impl Redb {
    fn commit(&mut self) -> Result<()> {
        if let Some(transaction) = self.open.take() {
            transaction.commit()?;
        }
        self.pending = 0;
        Ok(())
    }
}

impl Engine for Redb {
    fn insert(&mut self, key: Key, value: Key) -> Result<()> {
        if self.open.is_none() {
            let mut transaction = self.database.begin_write()?;
            transaction.set_durability(Durability::None)?;
            self.open = Some(transaction);
        }
        if let Some(transaction) = &self.open {
            let mut table = transaction.open_table(TABLE)?;
            table.insert(u64::from_be_bytes(key), u64::from_be_bytes(value))?;
        }
        self.pending += 1;
        if self.pending >= BATCH {
            self.commit()?;
        }
        Ok(())
    }

    fn get(&mut self, key: Key) -> Result<Option<Key>> {
        let key = u64::from_be_bytes(key);
        let found = match &self.open {
            Some(transaction) => transaction.open_table(TABLE)?.get(key)?.map(|it| it.value()),
            None => {
                let transaction = self.database.begin_read()?;
                transaction.open_table(TABLE)?.get(key)?.map(|it| it.value())
            }
        };
        Ok(found.map(u64::to_be_bytes))
    }

    fn finish(&mut self) -> Result<()> {
        self.commit()?;
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        transaction.open_table(TABLE)?;
        transaction.commit()?;
        Ok(())
    }
}

fn main() -> Result<()> {
    run("redb", true, |setup| {
        let mut builder = Database::builder();
        builder.set_cache_size((setup.memory / 4) as usize);
        let database = builder.create(setup.dir.join("redb"))?;
        Ok(Redb { database, open: None, pending: 0 })
    })
}
