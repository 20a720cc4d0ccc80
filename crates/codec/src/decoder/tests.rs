use super::assembler::repeat;

#[test]
fn repeat_is_byte_after_byte() {
    for (from, to, len) in [(0, 1, 20), (2, 5, 14), (0, 10, 10), (3, 4, 1), (0, 7, 0)] {
        let mut block: Vec<u8> = (0..25).collect();
        let mut naive = block.clone();
        for i in 0..len {
            naive[to + i] = naive[from + i];
        }
        repeat(&mut block, from, to, len);
        assert_eq!(block, naive);
    }
}
