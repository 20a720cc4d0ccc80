//! Transcoded literals: section 7.

use super::fields::Fields;
use super::symbols::Section;
use super::*;

/// The models of a context.
#[derive(Clone)]
pub struct TranscodeModels {
    pub operation: [Model; 5],
    run: [Number; 4],
    before: [Number; 2],
    skip: Model,
    change: Model,
    larger: Number,
    smaller: Number,
    bend: Model,
    farther: Number,
    nearer: Number,
    behind: Number,
    code: [Model; 2],
    known: Number,
    here: Number,
    place: Number,
    back: Model,
    forward: Number,
    backward: Number,
    copied: Number,
}

impl Default for TranscodeModels {
    fn default() -> Self {
        Self::new()
    }
}

impl TranscodeModels {
    pub fn new() -> TranscodeModels {
        TranscodeModels {
            operation: std::array::from_fn(|_| Model::new()),
            run: std::array::from_fn(|i| Number::new(format!("run[{i}]"))),
            before: std::array::from_fn(|i| Number::new(format!("before[{i}]"))),
            skip: Model::new(),
            change: Model::new(),
            larger: Number::new("larger"),
            smaller: Number::new("smaller"),
            bend: Model::new(),
            farther: Number::new("farther"),
            nearer: Number::new("nearer"),
            behind: Number::new("behind"),
            code: std::array::from_fn(|_| Model::new()),
            known: Number::new("known"),
            here: Number::new("here"),
            place: Number::new("place"),
            back: Model::new(),
            forward: Number::new("forward"),
            backward: Number::new("backward"),
            copied: Number::new("copied"),
        }
    }
}

/// Bits of a string, one by one.
#[derive(Clone, Debug)]
struct Bits {
    bits: Vec<bool>,
    at: usize,
}

impl Bits {
    fn of(bytes: &[u8]) -> Bits {
        let bits = bytes.iter().flat_map(|byte| (0..8).map(move |i| byte >> i & 1 == 1)).collect();
        Bits { bits, at: 0 }
    }

    fn bit(&mut self) -> Result<bool, No> {
        let bit = *self.bits.get(self.at).ok_or(Invalid("bits missing"))?;
        self.at += 1;
        Ok(bit)
    }

    /// Numbers of deflate begin with their lowest bit.
    fn number(&mut self, count: usize) -> Result<usize, No> {
        (0..count).try_fold(0, |value, i| Ok(value | usize::from(self.bit()?) << i))
    }
}

/// RFC 1951, section 3.2.2: the words of a code, as `(length, word)`.
#[derive(Clone, Debug)]
struct Words(Vec<(usize, usize)>);

impl Words {
    fn new(lengths: &[usize], must_be_complete: bool) -> Result<Words, No> {
        let used: Vec<usize> = lengths.iter().copied().filter(|&length| length > 0).collect();
        let room: usize = used.iter().map(|&length| 1 << (15 - length)).sum();
        let small = !must_be_complete && (used.is_empty() || used == [1]);
        if room != 1 << 15 && !small {
            return Err(Invalid("not a complete code"));
        }
        let (mut code, mut next) = (0, vec![0; 17]);
        for (bits, first) in next.iter_mut().enumerate().take(16).skip(1) {
            let shorter = lengths.iter().filter(|&&length| length > 0 && length == bits - 1);
            code = (code + shorter.count()) << 1;
            *first = code;
        }
        let mut words = Vec::new();
        for &length in lengths {
            words.push((length, next[length]));
            next[length] += 1;
        }
        Ok(Words(words))
    }

    fn symbol(&self, bits: &mut Bits) -> Result<usize, No> {
        let (mut length, mut word) = (0, 0);
        while length < 15 {
            word = word << 1 | usize::from(bits.bit()?);
            length += 1;
            if let Some(symbol) = self.0.iter().position(|&known| known == (length, word)) {
                return Ok(symbol);
            }
        }
        Err(Invalid("no such word"))
    }

    fn write(&self, symbol: usize, out: &mut Vec<bool>) -> Result<(), No> {
        let &(length, word) = self
            .0
            .get(symbol)
            .filter(|word| word.0 > 0)
            .ok_or(Invalid("a symbol without a word"))?;
        out.extend((0..length).rev().map(|i| word >> i & 1 == 1));
        Ok(())
    }
}

#[derive(Clone, Debug)]
struct Code {
    literals: Words,
    distances: Words,
}

#[derive(Clone, Copy, Debug)]
enum Token {
    Literal(usize),
    Copy { symbol: usize, extra: usize, distance: usize },
}

/// RFC 1951, section 3.2.5.
fn length_bits(symbol: usize) -> usize {
    match symbol {
        265..=284 => (symbol - 261) / 4,
        _ => 0,
    }
}

fn base_length(symbol: usize) -> usize {
    match symbol {
        285 => 258,
        _ => 3 + (257..symbol).map(|symbol| 1 << length_bits(symbol)).sum::<usize>(),
    }
}

fn distance_bits(symbol: usize) -> usize {
    (symbol / 2).saturating_sub(1)
}

fn base_distance(symbol: usize) -> usize {
    (0..symbol).map(|symbol| 1 << distance_bits(symbol)).sum::<usize>() + 1
}

impl Code {
    fn fixed() -> Code {
        let lengths: Vec<usize> = (0..288)
            .map(|symbol| match symbol {
                0..=143 => 8,
                144..=255 => 9,
                256..=279 => 7,
                _ => 8,
            })
            .collect();
        let distances = Words::new(&[5; 32], true).unwrap();
        Code { literals: Words::new(&lengths, true).unwrap(), distances }
    }

    /// RFC 1951, section 3.2.7.
    fn described(bits: &mut Bits) -> Result<Code, No> {
        let (literals, distances, count) =
            (bits.number(5)? + 257, bits.number(5)? + 1, bits.number(4)? + 4);
        if literals > 286 || distances > 30 {
            return Err(Invalid("HLIT or HDIST"));
        }
        let order = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
        let mut lengths = [0; 19];
        for &symbol in &order[..count] {
            lengths[symbol] = bits.number(3)?;
        }
        let words = Words::new(&lengths, true)?;
        let mut lengths = Vec::new();
        while lengths.len() < literals + distances {
            let (length, times) = match words.symbol(bits)? {
                length @ 0..=15 => (length, 1),
                16 => (*lengths.last().ok_or(Invalid("nothing to repeat"))?, 3 + bits.number(2)?),
                17 => (0, 3 + bits.number(3)?),
                _ => (0, 11 + bits.number(7)?),
            };
            lengths.extend(std::iter::repeat_n(length, times));
        }
        if lengths.len() > literals + distances || lengths[256] == 0 {
            return Err(Invalid("code lengths"));
        }
        Ok(Code {
            literals: Words::new(&lengths[..literals], false)?,
            distances: Words::new(&lengths[literals..], false)?,
        })
    }

    /// Whether all words are as long as those of another code.
    fn has_lengths_of(&self, other: &Code) -> bool {
        let same = |one: &Words, other: &Words| {
            let length =
                |words: &Words, symbol: usize| words.0.get(symbol).map_or(0, |word| word.0);
            (0..288).all(|symbol| length(one, symbol) == length(other, symbol))
        };
        same(&self.literals, &other.literals) && same(&self.distances, &other.distances)
    }

    fn read(&self, bits: &mut Bits) -> Result<Token, No> {
        match self.literals.symbol(bits)? {
            literal @ 0..=255 => Ok(Token::Literal(literal)),
            symbol @ 257..=285 => {
                let extra = bits.number(length_bits(symbol))?;
                let distance = self.distances.symbol(bits)?;
                if distance > 29 {
                    return Err(Invalid("distance symbol"));
                }
                let distance = base_distance(distance) + bits.number(distance_bits(distance))?;
                Ok(Token::Copy { symbol, extra, distance })
            }
            _ => Err(Invalid("not a token")),
        }
    }

    fn write(&self, token: Token, out: &mut Vec<bool>) -> Result<(), No> {
        match token {
            Token::Literal(literal) => self.literals.write(literal, out),
            Token::Copy { symbol, extra, distance } => {
                self.literals.write(symbol, out)?;
                out.extend((0..length_bits(symbol)).map(|i| extra >> i & 1 == 1));
                let symbol =
                    (0..30).rev().find(|&symbol| base_distance(symbol) <= distance).unwrap();
                self.distances.write(symbol, out)?;
                let extra = distance - base_distance(symbol);
                out.extend((0..distance_bits(symbol)).map(|i| extra >> i & 1 == 1));
                Ok(())
            }
        }
    }
}

enum Where {
    Same,
    Fixed,
    Known(u64),
    Here(u64),
    Source(i128),
}

impl std::fmt::Display for Where {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Where::Same => f.write_str("same"),
            Where::Fixed => f.write_str("fixed"),
            Where::Known(back) => write!(f, "known {back}"),
            Where::Here(back) => write!(f, "here {back}"),
            Where::Source(bits) => write!(f, "source {bits}"),
        }
    }
}

struct State {
    sources: Vec<Bits>,
    residual: Bits,
    written: Vec<bool>,
    limit: usize,
    codes: Vec<Code>,
    code_place: i128,
    at: i64,
    /// Place and change.
    bends: Vec<(i64, i64)>,
    work: Work,
}

impl State {
    /// Tokens of the source, which become the next of the literals.
    fn count_tokens(&mut self, run: u64) -> Result<(), No> {
        let each = if self.bends.is_empty() { 1 } else { 4 };
        self.work.count(run.saturating_mul(each))
    }

    fn expected(&mut self, token: Token) -> Token {
        let here = self.at;
        match token {
            Token::Literal(_) => {
                self.at += 1;
                token
            }
            Token::Copy { symbol, extra, distance } => {
                self.at += (base_length(symbol) + extra) as i64;
                let from = here - distance as i64;
                let crossed = self.bends.iter().filter(|(place, _)| *place > from);
                let changed = distance as i64 + crossed.map(|(_, change)| change).sum::<i64>();
                let known = (1..=32768).contains(&changed);
                Token::Copy {
                    symbol,
                    extra,
                    distance: if known { changed as usize } else { distance },
                }
            }
        }
    }

    /// The source that has a bit, there.
    fn source(&self, bit: i128) -> Result<(usize, Bits), No> {
        let mut first = 0;
        for (i, source) in self.sources.iter().enumerate() {
            let end = first + source.bits.len() as i128;
            if (first..end).contains(&bit) {
                return Ok((i, Bits { at: (bit - first) as usize, ..source.clone() }));
            }
            first = end;
        }
        Err(Invalid("not a source bit"))
    }

    fn first_bit(&self, source: usize) -> i128 {
        self.sources[..source].iter().map(|source| source.bits.len() as i128).sum()
    }

    fn code(&mut self, place: Where, in_part: bool) -> Result<Code, No> {
        let mut bits = match place {
            Where::Same => return Err(Invalid("no code")),
            Where::Fixed => return Ok(Code::fixed()),
            Where::Known(back) => {
                let nth = (self.codes.len() as u64).checked_sub(back.saturating_add(1));
                return Ok(self.codes[nth.ok_or(Invalid("a code not named"))? as usize].clone());
            }
            Where::Here(back) if in_part => {
                let at = (self.written.len() as u64).checked_sub(back);
                Bits { bits: self.written.clone(), at: at.ok_or(Invalid("here"))? as usize }
            }
            Where::Here(_) => return Err(Invalid("here, in a jump")),
            Where::Source(bits) => {
                let at = self.code_place + bits;
                let source = self.source(at)?.1;
                self.code_place = at;
                source
            }
        };
        if self.codes.len() == 128 {
            return Err(Invalid("too many codes"));
        }
        self.work.count(512)?;
        let code = Code::described(&mut bits)?;
        if !self.codes.iter().any(|known| known.has_lengths_of(&code)) {
            self.work.count(2048)?;
        }
        self.codes.push(code.clone());
        Ok(code)
    }

    fn write(&mut self, token: Token, target: &Code) -> Result<(), No> {
        target.write(token, &mut self.written)?;
        if self.written.len() > self.limit { Err(Invalid("too many literals")) } else { Ok(()) }
    }

    fn residual_tokens(&mut self, count: u64, target: &Code) -> Result<(), No> {
        self.work.count(count)?;
        for _ in 0..count {
            let token = target.read(&mut self.residual)?;
            self.write(token, target)?;
        }
        Ok(())
    }

    fn residual_bits(&mut self, count: u64) -> Result<(), No> {
        if count > (self.limit - self.written.len()) as u64 {
            return Err(Invalid("too many literals"));
        }
        if count >= 64 {
            while self.residual.at % 8 != self.written.len() % 8 {
                self.residual.at += 1;
            }
        }
        for _ in 0..count {
            let bit = self.residual.bit()?;
            self.written.push(bit);
        }
        Ok(())
    }
}

impl TranscodeModels {
    fn name(&mut self, r: &mut Section<'_>, role: usize) -> Result<Where, No> {
        Ok(match r.symbol(&mut self.code[role], || format!("code[{role}]"))? {
            0 => Where::Fixed,
            1 => Where::Known(r.number(&mut self.known)?),
            2 => Where::Here(r.number(&mut self.here)?),
            3 => Where::Source(r.number(&mut self.place)?.into()),
            4 => Where::Source(-i128::from(r.number(&mut self.place)?)),
            5 => Where::Same,
            _ => return Err(Invalid("code")),
        })
    }

    fn changed(&mut self, r: &mut Section<'_>, changes: &mut Vec<i64>) -> Result<i64, No> {
        let s = r.symbol(&mut self.change, || "change".into())?;
        let change = match s {
            14 => r.number(&mut self.larger)? as i64 + 1,
            15 => -(r.number(&mut self.smaller)? as i64 + 1),
            _ if s < changes.len() => changes.remove(s),
            _ => return Err(Invalid("change")),
        };
        if change.abs() >= 1 << 31 {
            return Err(Invalid("change"));
        }
        changes.insert(0, change);
        changes.truncate(14);
        Ok(change)
    }

    /// The `l` literals of a section.
    // More than 100 lines: it reads as the section of FORMAT.md does, in its order.
    pub(super) fn read(
        &mut self,
        fields: &Fields<'_>,
        sources: &[Vec<u8>],
        residual: &[u8],
        l: usize,
        work: Work,
        trace: &mut Option<Vec<String>>,
    ) -> Result<Vec<u8>, No> {
        let mut section = Section::begin(fields.operations, trace)?;
        let r = &mut section;
        let mut state = State {
            sources: sources.iter().map(|source| Bits::of(source)).collect(),
            residual: Bits::of(residual),
            written: Vec::new(),
            limit: 8 * l,
            codes: Vec::new(),
            code_place: 0,
            at: 0,
            bends: Vec::new(),
            work,
        };
        state.work.count(16 * sources.len() as u64)?;
        let (mut before, mut idle, mut changes) = (4, 0, Vec::new());
        let (mut target, mut code): (Option<Code>, Option<Code>) = (None, None);
        // Where the source stands, and which source it is in.
        let (mut source, mut reader): (i128, Option<(usize, Bits)>) = (0, None);
        loop {
            let position = state.written.len();
            state.work.count(16)?;
            let operation =
                r.symbol(&mut self.operation[before], || format!("operation[{before}]"))?;
            let run;
            match operation {
                0 => {
                    let change = self.changed(r, &mut changes)?;
                    run = r.number(&mut self.run[0])?;
                    r.note(|| format!("moved {change} {run}"));
                    let (Some(target), Some(code)) = (&target, &code) else {
                        return Err(Invalid("no code"));
                    };
                    state.work.count(4)?;
                    let from = &mut reader.as_mut().ok_or(Invalid("no source"))?.1;
                    let token = state.expected(code.read(from)?);
                    let Token::Copy { symbol, extra, distance } = token else {
                        return Err(Invalid("a literal moved"));
                    };
                    let distance = distance as i64 + change;
                    if !(1..=32768).contains(&distance) {
                        return Err(Invalid("distance"));
                    }
                    state.write(
                        Token::Copy { symbol, extra, distance: distance as usize },
                        target,
                    )?;
                }
                1 => {
                    let gap = r.number(&mut self.before[0])?;
                    let skip = r.symbol(&mut self.skip, || "skip".into())?;
                    run = r.number(&mut self.run[1])?;
                    r.note(|| format!("near {gap} {skip} {run}"));
                    let (Some(target), Some(code)) = (&target, &code) else {
                        return Err(Invalid("no code"));
                    };
                    state.residual_tokens(gap, target)?;
                    let from = &mut reader.as_mut().ok_or(Invalid("no source"))?.1;
                    state.work.count(4 * skip as u64)?;
                    for _ in 0..skip {
                        state.expected(code.read(from)?);
                    }
                }
                2 => {
                    let gap = r.number(&mut self.before[1])?;
                    let place = self.name(r, 0)?;
                    let back = r.symbol(&mut self.back, || "back".into())?;
                    let distance = match back {
                        0 => i128::from(r.number(&mut self.forward)?),
                        1 => -i128::from(r.number(&mut self.backward)?),
                        _ => return Err(Invalid("back")),
                    };
                    run = r.number(&mut self.run[2])?;
                    r.note(|| format!("jump {gap} {place} {distance} {run}"));
                    state.residual_tokens(gap, target.as_ref().ok_or(Invalid("no target"))?)?;
                    if !matches!(place, Where::Same) {
                        code = Some(state.code(place, false)?);
                    }
                    if code.is_none() {
                        return Err(Invalid("no code"));
                    }
                    reader = Some(state.source(source + distance)?);
                }
                3 => {
                    let size = match r.symbol(&mut self.bend, || "bend".into())? {
                        0 => r.number(&mut self.farther)? as i64 + 1,
                        1 => -(r.number(&mut self.nearer)? as i64 + 1),
                        _ => return Err(Invalid("bend")),
                    };
                    let behind = r.number(&mut self.behind)?;
                    if size.abs() >= 1 << 31 || behind >= 1 << 32 {
                        return Err(Invalid("bend"));
                    }
                    run = r.number(&mut self.run[3])?;
                    r.note(|| format!("bend {size} {behind} {run}"));
                    if target.is_none() || code.is_none() {
                        return Err(Invalid("no code"));
                    }
                    let at = state.at;
                    state.bends.retain(|(place, _)| place + 32768 > at);
                    if state.bends.len() == 16 {
                        state.bends.remove(0);
                    }
                    state.bends.push((at - behind as i64, size));
                }
                4 => {
                    let place = self.name(r, 1)?;
                    let copied = r.number(&mut self.copied)?;
                    r.note(|| format!("part {place} {copied}"));
                    state.residual_bits(copied)?;
                    target = Some(state.code(place, true)?);
                    run = 0;
                }
                5 => {
                    r.note(|| "end".into());
                    break;
                }
                _ => return Err(Invalid("operation")),
            }
            if let (Some((nth, from)), Some(code), Some(target)) = (&mut reader, &code, &target) {
                state.count_tokens(run)?;
                for _ in 0..run {
                    let token = state.expected(code.read(from)?);
                    state.write(token, target)?;
                }
                source = state.first_bit(*nth) + from.at as i128;
            }
            before = operation;
            idle = if state.written.len() == position { idle + 1 } else { 0 };
            if idle > 2 {
                return Err(Invalid("idle operations"));
            }
        }
        r.note(|| format!("work {}", state.work.done));
        section.finish()?;
        let left =
            state.limit.checked_sub(state.written.len()).ok_or(Invalid("too many literals"))?;
        state.residual_bits(left as u64)?;
        if state.residual.at.div_ceil(8) != residual.len() {
            return Err(Invalid("residual left over"));
        }
        let byte = |bits: &[bool]| (0..8).fold(0, |byte, i| byte | u8::from(bits[i]) << i);
        Ok(state.written.chunks(8).map(byte).collect())
    }
}
