//! The sizes of a plan's files, and the room that they and their copies need.

use gigae_eval_model::file_figure::FileCell;
use gigae_eval_model::file_job::room;
use gigae_eval_model::service::Sink;
use gigae_eval_services::store::is_kept;

/// With which a kept connection begins: little enough to be over at once.
pub(super) const SMALL: u64 = 1000;

/// The sizes of all files and trees, with their numbers of files; that of kept connections' first
/// one included.
pub(super) fn sizes(cells: &[(FileCell, u32)]) -> Vec<(u64, u32)> {
    let own = cells.iter().map(|(cell, _)| (cell.size, cell.files));
    let mut sizes: Vec<(u64, u32)> = own.chain([(SMALL, 1)]).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Bytes of all files and of the most copies that there are at once.
pub(super) fn needed(cells: &[(FileCell, u32)]) -> u64 {
    let files: u64 = sizes(cells).into_iter().map(|(size, files)| room(size, files)).sum();
    files + cells.iter().map(|(cell, _)| copies(cell)).max().unwrap_or(0)
}

/// Bytes of the copies on a link that stay until the end.
pub(super) fn kept(cells: &[(FileCell, u32)]) -> u64 {
    let kept = cells.iter().filter(|(cell, _)| is_kept(cell.files));
    kept.map(|(cell, times)| copies(cell) * u64::from(*times)).sum()
}

/// Bytes of the copies of one repetition. To null, one copy is compared.
pub(super) fn copies(cell: &FileCell) -> u64 {
    let at_once = if cell.to == Sink::Disk { cell.clients } else { 1 };
    room(cell.size, cell.files) * u64::from(at_once)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gigae_eval_model::file_job::BLOCK;
    use gigae_eval_model::plan::Plan;

    #[test]
    fn room_is_needed_for_all_files_and_the_copies_of_one_repetition() {
        let plan = Plan::load("ftp").unwrap();
        let cells = plan.file_cells(Some(&plan.files[0].links[0]));
        let sizes = sizes(&cells);
        assert!(sizes.contains(&(SMALL, 1)));
        assert!(needed(&cells) > sizes.iter().map(|(size, _)| size).sum::<u64>());
        let (mut null, times) = cells[0].clone();
        (null.size, null.to, null.clients) = (4 << 30, Sink::Null, 16);
        assert_eq!(needed(&[(null.clone(), times)]), SMALL + (8 << 30));
        let tree = FileCell { size: 1, files: 100, to: Sink::Disk, clients: 1, ..null };
        assert_eq!(needed(&[(tree.clone(), times)]), SMALL + 2 * 100 * BLOCK);
        assert_eq!(kept(&[(tree.clone(), 3)]), 0);
        assert_eq!(kept(&[(FileCell { files: 1000, ..tree }, 3)]), 3 * 1000 * BLOCK);
    }
}
