//! A packing program: what the interior point method solves.

pub(crate) use super::interior::solve;

/// Maximise the weights of the columns, each group's adding up to at most 1, each row's to at most
/// its limit.
pub(crate) struct Packing {
    /// Limit of each row.
    pub limits: Vec<f64>,
    /// The columns.
    pub groups: Groups,
}

/// Columns in groups, with the rows that each has a coefficient in.
#[derive(Clone, Default)]
pub(crate) struct Groups {
    /// Group g's columns are `columns[g]..columns[g + 1]`.
    pub columns: Vec<u32>,
    /// Group g's rows are `rows[row_offsets[g]..row_offsets[g + 1]]`, ascending.
    pub row_offsets: Vec<u32>,
    pub rows: Vec<u32>,
    /// Column j's entries are `entries[j]..entries[j + 1]`.
    pub entries: Vec<u32>,
    /// Row of an entry, as its place among the group's rows.
    pub local: Vec<u32>,
    pub coefficients: Vec<f64>,
    pub weights: Vec<f64>,
    /// Column of the program, or [`NONE`] for the column of link load.
    pub origin: Vec<u32>,
}

impl Groups {
    pub(crate) fn new() -> Self {
        Self { columns: vec![0], row_offsets: vec![0], entries: vec![0], ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.columns.len() - 1
    }

    pub(crate) fn column_count(&self) -> usize {
        self.weights.len()
    }

    /// Adds a column to the group that is not closed yet.
    pub(crate) fn column(
        &mut self,
        origin: u32,
        weight: f64,
        entries: impl Iterator<Item = (u32, f64)>,
    ) {
        for (row, coefficient) in entries {
            self.local.push(row);
            self.coefficients.push(coefficient);
        }
        self.entries.push(self.local.len() as u32);
        self.weights.push(weight);
        self.origin.push(origin);
    }

    /// Ends a group whose entries' rows are still numbers of the whole program's.
    pub(crate) fn close(&mut self) {
        let first = self.entries[self.columns[self.len()] as usize] as usize;
        let mut rows = self.local[first..].to_vec();
        rows.sort_unstable();
        rows.dedup();
        for row in &mut self.local[first..] {
            *row = rows.binary_search(row).expect("all rows are listed") as u32;
        }
        self.rows.extend(rows);
        self.row_offsets.push(self.rows.len() as u32);
        self.columns.push(self.weights.len() as u32);
    }

    /// In `parts` of about as many columns.
    pub(crate) fn split(&self, parts: usize) -> Vec<Self> {
        let target = self.column_count().div_ceil(parts).max(1);
        let mut all = Vec::new();
        let mut from = 0;
        while from < self.len() {
            let end = self.columns[from] as usize + target;
            let to =
                self.columns.partition_point(|&at| (at as usize) < end).clamp(from + 1, self.len());
            all.push(self.part(from, to));
            from = to;
        }
        all
    }

    fn part(&self, from: usize, to: usize) -> Self {
        let (first, last) = (self.columns[from] as usize, self.columns[to] as usize);
        let (first_row, last_row) = (self.row_offsets[from], self.row_offsets[to]);
        let (first_entry, last_entry) = (self.entries[first], self.entries[last]);
        let from_here = |offsets: &[u32], by: u32| offsets.iter().map(|at| at - by).collect();
        Self {
            columns: from_here(&self.columns[from..=to], first as u32),
            row_offsets: from_here(&self.row_offsets[from..=to], first_row),
            rows: self.rows[first_row as usize..last_row as usize].to_vec(),
            entries: from_here(&self.entries[first..=last], first_entry),
            local: self.local[first_entry as usize..last_entry as usize].to_vec(),
            coefficients: self.coefficients[first_entry as usize..last_entry as usize].to_vec(),
            weights: self.weights[first..last].to_vec(),
            origin: self.origin[first..last].to_vec(),
        }
    }
}
