//! Oncewire's index.

use oncewire_flash::device::FileDevice;
use oncewire_flash::{Answer, Answers, Entries, Index, Keys, Options};
use oncewire_rivals::{Engine, Key, Result, run};

/// Memory of the process besides the index: code, and stacks of the threads that read.
const OTHER: u64 = 6 << 20;
/// Share of the flash that is free after the load: each mix inserts up to a tenth of that.
const ROOM: f64 = 1.4;
/// Bytes of a buffer.
const BUFFER: u64 = 128 << 10;
/// Incarnations of a super table.
const INCARNATIONS: u64 = 56;

struct Ours {
    index: Option<Index>,
    answers: Answers,
}

impl Ours {
    fn index(&mut self) -> Result<&mut Index> {
        Ok(self.index.as_mut().ok_or("closed")?)
    }
}

impl Engine for Ours {
    fn insert(&mut self, key: Key, value: Key) -> Result<()> {
        Ok(self.index()?.insert(&key, &value)?)
    }

    fn get(&mut self, key: Key) -> Result<Option<Key>> {
        match self.index()?.get(&key)? {
            Answer::Value(value) => Ok(Some(value[..].try_into()?)),
            Answer::Absent => Ok(None),
            Answer::Unknown => Err("a page cannot be read".into()),
        }
    }

    fn insert_batch(&mut self, entries: &[(Key, Key)]) -> Result<()> {
        let (keys, values): (Vec<Key>, Vec<Key>) = entries.iter().copied().unzip();
        let entries = Entries { keys: keys.as_flattened(), values: values.as_flattened() };
        Ok(self.index()?.insert_batch(&entries)?)
    }

    fn get_batch(&mut self, keys: &[Key]) -> Result<Vec<Option<Key>>> {
        let index = self.index.as_ref().ok_or("closed")?;
        index.get_batch(&Keys(keys.as_flattened()), &mut self.answers)?;
        let value = |n| self.answers.value(n).map(|value| Ok(value.try_into()?)).transpose();
        (0..keys.len()).map(value).collect()
    }

    fn finish(&mut self) -> Result<()> {
        self.index.take().ok_or("closed")?.close()?;
        Ok(())
    }
}

fn main() -> Result<()> {
    run("oncewire", false, |setup| {
        // 16 bytes a key.
        let flash = (setup.planned as f64 * 16.0 * ROOM) as u64;
        let buffers = (flash / INCARNATIONS).next_multiple_of(BUFFER);
        let device = FileDevice::open(&setup.dir.join("index"), flash + 4 * buffers)?;
        let options =
            Options { memory: setup.memory - OTHER, buffers, buffer: BUFFER, ..Options::default() };
        let (index, _) = Index::open(Box::new(device), &options)?;
        index.load_all();
        Ok(Ours { index: Some(index), answers: Answers::new() })
    })
}
