//! sled: a log-structured B-tree.

use oncewire_rivals::{Engine, Key, Result, run};

/// Keys and values of a leaf.
const LEAF: usize = 128;

struct Sled(sled::Db<LEAF>);

impl Engine for Sled {
    fn insert(&mut self, key: Key, value: Key) -> Result<()> {
        self.0.insert(key, &value)?;
        Ok(())
    }

    fn get(&mut self, key: Key) -> Result<Option<Key>> {
        Ok(self.0.get(key)?.map(|value| value[..].try_into()).transpose()?)
    }

    fn finish(&mut self) -> Result<()> {
        self.0.flush()?;
        Ok(())
    }
}

fn main() -> Result<()> {
    run("sled", true, |setup| {
        let config = sled::Config::new()
            .path(setup.dir.join("sled"))
            .cache_capacity_bytes((setup.memory / 8) as usize)
            .flush_every_ms(Some(500));
        Ok(Sled(config.open()?))
    })
}
