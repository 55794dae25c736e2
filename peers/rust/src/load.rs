//! The closed loop: callers that call, the window that is measured, and its report.
//!
//! 1. `plan.rs` turns the spec into a Plan, whose window is fixed before the first call.
//! 2. A stack opens its connections, counted in `connections.rs`, and starts a `caller.rs` for
//!    each client: on tokio by `tasks.rs`, over bare TCP on its own threads.
//! 3. `watch.rs` tells the progress, and cancels what does not end.
//! 4. `turns.rs` lets the callers of a block rest between their slices.
//! 5. `result.rs` writes the calls file and makes the result.

pub mod caller;
pub mod connections;
pub mod failure;
pub mod filling;
pub mod plan;
mod result;
pub mod tasks;
pub mod turns;
pub mod watch;

pub use caller::{Caller, Next};
pub use connections::Connections;
pub use failure::Failure;
pub use filling::{Filling, Message};
pub use plan::{Mode, Plan, Window};
pub use result::report;

/// CLOCK_MONOTONIC, in nanoseconds.
pub fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
