//! A queue of bytes that is read from the front as one slice.

/// A queue of bytes. Each byte is moved at most once before it is popped.
#[derive(Debug, Default)]
pub(crate) struct ByteQueue {
    bytes: Vec<u8>,
    start: usize,
}

impl ByteQueue {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        // Moves the remaining bytes to the front only when they are no more than those popped.
        if self.start > 0 && self.len() <= self.start {
            self.bytes.copy_within(self.start.., 0);
            self.bytes.truncate(self.len());
            self.start = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// As [`ByteQueue::push`] for all of `bytes`, which is emptied: without a copy if the queue is
    /// empty.
    pub(crate) fn append(&mut self, bytes: &mut Vec<u8>) {
        if self.is_empty() {
            self.clear();
            std::mem::swap(&mut self.bytes, bytes);
        } else {
            self.push(bytes);
            bytes.clear();
        }
    }

    /// Removes `len` bytes at the front.
    pub(crate) fn pop(&mut self, len: usize) {
        self.start += len;
        if self.start == self.bytes.len() {
            self.clear();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.start = 0;
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let mut queue = ByteQueue::default();
        let (mut pushed, mut popped) = (0u32, 0u32);
        for step in 0..2000u32 {
            let bytes: Vec<u8> = (0..step % 37).map(|i| (pushed + i) as u8).collect();
            queue.push(&bytes);
            pushed += bytes.len() as u32;
            let take = (step as usize * 7 % 41).min(queue.len());
            assert!(
                queue.bytes()[..take]
                    .iter()
                    .enumerate()
                    .all(|(i, &byte)| byte == (popped + i as u32) as u8)
            );
            queue.pop(take);
            popped += take as u32;
            assert_eq!(queue.len() as u32, pushed - popped);
        }
    }
}
