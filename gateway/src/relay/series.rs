//! Pieces and marks merged into the record's chunk series.
//!
//! `written[i]` is the write that carried piece i's last byte to the kernel: the first mark at or
//! past the piece's end. Pieces that left together share it; what never left has none, so the
//! series may be shorter than that of the reads. Offsets are those of what the client gets.

use inferscope_shared::clock::MonoNs;
use inferscope_shared::record::delta;
use inferscope_shared::record::gateway::Chunks;

use super::Piece;
use crate::listener::track::Mark;

/// The record's series, relative to `origin`.
#[must_use]
pub fn chunks(origin: MonoNs, pieces: &[Piece], marks: &[Mark]) -> Chunks {
    // Of a piece that was cut out or held back as a whole nothing ever leaves.
    let mut end = 0;
    let pieces: Vec<&Piece> = pieces
        .iter()
        .filter(|piece| std::mem::replace(&mut end, piece.end_offset) != piece.end_offset)
        .collect();
    let mut marks = marks.iter().peekable();
    let mut written = Vec::with_capacity(pieces.len());
    for piece in &pieces {
        while marks.next_if(|m| m.end_offset < piece.end_offset).is_some() {}
        match marks.peek() {
            Some(mark) => written.push(mark.at.0),
            None => break,
        }
    }
    let read: Vec<u64> = pieces.iter().map(|p| p.read.0).collect();
    let ends: Vec<u64> = pieces.iter().map(|p| p.end_offset).collect();
    Chunks {
        read_ns: delta::encode(origin.0, &read),
        written_ns: delta::encode(origin.0, &written),
        end_offset: delta::encode(0, &ends),
        events: pieces.iter().map(|p| p.events).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(read: u64, end_offset: u64) -> Piece {
        Piece {
            read: MonoNs(read),
            end_offset,
            events: 1,
        }
    }

    fn mark(at: u64, end_offset: u64) -> Mark {
        Mark {
            end_offset,
            at: MonoNs(at),
        }
    }

    #[test]
    fn pieces_that_left_together_share_their_write() {
        let pieces = [piece(110, 10), piece(120, 20), piece(130, 30)];
        let series = chunks(MonoNs(100), &pieces, &[mark(125, 20), mark(140, 30)]);
        assert_eq!(series.read_ns, [10, 10, 10]);
        assert_eq!(series.written_ns, [25, 0, 15]);
        assert_eq!(series.end_offset, [10, 10, 10]);
    }

    #[test]
    fn a_piece_cut_over_several_writes_counts_with_the_last() {
        let series = chunks(
            MonoNs(0),
            &[piece(1, 100)],
            &[mark(5, 40), mark(6, 80), mark(9, 100)],
        );
        assert_eq!(series.written_ns, [9]);
    }

    #[test]
    fn what_never_left_has_no_write() {
        let series = chunks(MonoNs(0), &[piece(1, 10), piece(2, 20)], &[mark(3, 15)]);
        assert_eq!(series.read_ns.len(), 2);
        assert_eq!(series.written_ns, [3]);
    }
}
