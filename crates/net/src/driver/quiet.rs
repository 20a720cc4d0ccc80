//! What rests gives its memory back to the system.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Others that rest soon, too, are waited for, and as much time passes between two passes.
const GATHER: Duration = Duration::from_secs(5);

/// Whether a pass will come.
static IS_DUE: AtomicBool = AtomicBool::new(false);

/// While it exists, a pass will come.
struct Due;

impl Drop for Due {
    fn drop(&mut self) {
        IS_DUE.store(false, Ordering::Relaxed);
    }
}

/// Gives what was freed back to the system, a little later and once for all who ask until then.
pub(super) fn give_back_soon() {
    if IS_DUE.swap(true, Ordering::Relaxed) {
        return;
    }
    // Dropped with the task, too, if the runtime ends first.
    let due = Due;
    tokio::spawn(async move {
        tokio::time::sleep(GATHER).await;
        drop(due);
        // It takes milliseconds on a large hub. Whether it was done is of no interest.
        let _ = tokio::task::spawn_blocking(oncewire_codec::give_back_heap).await;
    });
}
