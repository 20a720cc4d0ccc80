//! Finite state entropy: RFC 8878, section 4.1.

use super::Stop;
use super::bits::{BackReader, Reader, Take, Writer};

/// Largest accuracy log of any table: those for lengths.
const MAX_LOG: u32 = 9;
/// Symbols of any table, at most: lengths of matches.
const MAX_SYMBOLS: usize = 53;

/// A state when reading.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    pub(super) symbol: u8,
    bits: u8,
    baseline: u16,
}

/// How a symbol is written.
#[derive(Clone, Copy, Debug, Default)]
struct Symbol {
    /// Its number of states; 0 if it has none.
    states: u16,
    /// From this and a state follows how many bits the state writes: one of two numbers.
    bits_delta: u32,
    /// Where its states begin in `next`, less what the shifted state is at least.
    next_delta: i32,
}

/// A table, to read and to write.
#[derive(Clone, Debug)]
pub(super) struct Table {
    log: u32,
    states: Vec<State>,
    symbols: Vec<Symbol>,
    /// States by symbol.
    next: Vec<u16>,
}

impl Table {
    /// Memory of a table in bytes, at most.
    pub(super) const MEMORY: usize = size_of::<Table>()
        + (1 << MAX_LOG) * (size_of::<State>() + size_of::<u16>())
        + MAX_SYMBOLS * size_of::<Symbol>();

    /// Reads a description (section 4.1.1) at the front of `data`. Returns its length as well.
    pub(super) fn read(data: &[u8], max_log: u32, symbols: usize) -> Result<(Table, usize), Stop> {
        let mut reader = Reader::new(data);
        let log = 5 + reader.peek(4);
        reader.skip(4);
        if log > max_log {
            return Err(Stop);
        }
        let mut counts = Vec::with_capacity(symbols);
        let mut left = 1i32 << log;
        while left > 0 {
            if counts.len() == symbols {
                return Err(Stop);
            }
            // Values up to `left + 1`; the lower ones take one bit less, as far as there is room.
            let bits = (left + 1).ilog2() + 1;
            let short = (1 << bits) - 1 - (left + 1);
            let low = reader.peek(bits - 1) as i32;
            let value = if low < short {
                reader.skip(bits - 1);
                low
            } else {
                let value = reader.peek(bits) as i32;
                reader.skip(bits);
                if value >= 1 << (bits - 1) { value - short } else { value }
            };
            let count = value - 1;
            counts.push(count as i16);
            left -= count.abs();
            if count == 0 {
                loop {
                    let zeros = reader.peek(2) as usize;
                    reader.skip(2);
                    counts.resize(counts.len() + zeros, 0);
                    if counts.len() > symbols {
                        return Err(Stop);
                    }
                    if zeros < 3 {
                        break;
                    }
                }
            }
        }
        if left < 0 {
            return Err(Stop);
        }
        let used = reader.bytes()?;
        Ok((Table::new(&counts, log), used))
    }

    /// A table of one symbol, which takes no bits.
    pub(super) fn of_one(symbol: u8) -> Table {
        let mut symbols = vec![Symbol::default(); usize::from(symbol) + 1];
        symbols[usize::from(symbol)].states = 1;
        let states = vec![State { symbol, bits: 0, baseline: 0 }];
        Table { log: 0, states, symbols, next: vec![1] }
    }

    /// The table of normalized counts, -1 for "less than 1". They sum up to `1 << log`.
    pub(super) fn new(counts: &[i16], log: u32) -> Table {
        let size = 1usize << log;
        let mut of = vec![0u8; size];
        // Symbols of less than 1 at the end, the others spread over the rest.
        let mut high = size;
        for (symbol, &count) in counts.iter().enumerate() {
            if count == -1 {
                high -= 1;
                of[high] = symbol as u8;
            }
        }
        let (mut at, step) = (0, (size >> 1) + (size >> 3) + 3);
        for (symbol, &count) in counts.iter().enumerate() {
            for _ in 0..count.max(0) {
                of[at] = symbol as u8;
                at = (at + step) & (size - 1);
                while at >= high {
                    at = (at + step) & (size - 1);
                }
            }
        }
        let mut symbols = Vec::with_capacity(counts.len());
        let mut firsts = Vec::with_capacity(counts.len());
        let mut total = 0;
        for &count in counts {
            let states = count.unsigned_abs();
            firsts.push(total);
            symbols.push(match states {
                0 => Symbol::default(),
                1 => Symbol {
                    states,
                    bits_delta: (log << 16) - (1 << log),
                    next_delta: i32::from(total) - 1,
                },
                _ => {
                    let most = log - u32::from(states - 1).ilog2();
                    Symbol {
                        states,
                        bits_delta: (most << 16) - (u32::from(states) << most),
                        next_delta: i32::from(total) - i32::from(states),
                    }
                }
            });
            total += states;
        }
        let mut next = vec![0; size];
        let mut states = Vec::with_capacity(size);
        let mut seen: Vec<u16> = symbols.iter().map(|symbol| symbol.states).collect();
        for (at, &symbol) in of.iter().enumerate() {
            let nth = usize::from(symbol);
            let value = seen[nth];
            seen[nth] += 1;
            next[usize::from(firsts[nth] + value - symbols[nth].states)] = (size + at) as u16;
            let bits = log - u32::from(value).ilog2();
            let baseline = (u32::from(value) << bits) as usize - size;
            states.push(State { symbol, bits: bits as u8, baseline: baseline as u16 });
        }
        Table { log, states, symbols, next }
    }

    /// Its states.
    pub(super) fn entries(&self) -> usize {
        self.states.len()
    }

    /// The first state.
    pub(super) fn begin(&self, reader: &mut BackReader<'_>) -> State {
        self.states[reader.take(self.log) as usize & (self.states.len() - 1)]
    }

    /// The state after another one.
    #[inline(always)]
    pub(super) fn follow(&self, state: State, reader: &mut impl Take) -> State {
        let bits = reader.take(u32::from(state.bits)) as usize;
        self.states[(usize::from(state.baseline) + bits) & (self.states.len() - 1)]
    }

    fn symbol(&self, symbol: u8) -> Result<Symbol, Stop> {
        let found = self.symbols.get(usize::from(symbol)).filter(|symbol| symbol.states > 0);
        found.copied().ok_or(Stop)
    }

    fn state(&self, symbol: Symbol, before: u32) -> u32 {
        let at = (before as i32 + symbol.next_delta) as usize;
        u32::from(self.next[at & (self.next.len() - 1)])
    }

    /// The state that the last symbol is written with, which comes first. There is a choice; the
    /// reference encoder takes the lowest.
    pub(super) fn last(&self, symbol: u8) -> Result<u32, Stop> {
        let found = self.symbol(symbol)?;
        Ok(if self.log == 0 { 0 } else { self.state(found, u32::from(found.states)) })
    }

    /// Writes the symbol that precedes that of a state.
    #[inline(always)]
    pub(super) fn write(
        &self,
        symbol: u8,
        state: u32,
        writer: &mut Writer<'_>,
    ) -> Result<u32, Stop> {
        let found = self.symbol(symbol)?;
        if self.log == 0 {
            return Ok(0);
        }
        let bits = (state + found.bits_delta) >> 16;
        writer.put(u64::from(state), bits);
        Ok(self.state(found, state >> bits))
    }

    /// Writes the state of the first symbol.
    pub(super) fn end(&self, state: u32, writer: &mut Writer<'_>) {
        writer.put(u64::from(state), self.log);
    }
}
