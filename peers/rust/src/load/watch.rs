//! The watch over a load: it tells the progress, and cancels what does not end.

use std::{
    sync::{Arc, atomic::Ordering, mpsc},
    thread,
    time::Duration,
};

use super::{Plan, caller::Done, now, plan::Edges, turns};
use crate::events;

/// The time between two progress events.
const TELL_NS: i64 = 250_000_000;
const LOOK: Duration = Duration::from_millis(25);
/// How long a client in a block waits for its slices.
const REST_NS: i64 = 600_000_000_000;

/// Watches until `ended` says that all callers have ended, and the other clients of a block have,
/// too. `cancel` is called once, where calls in flight are to be given up.
pub fn watch(plan: &Plan, edges: Edges, done: &[Arc<Done>], ended: &mpsc::Receiver<()>, mut cancel: impl FnMut()) {
    let drain = plan.client.load.drain_ns.max(0);
    let quota: u64 = (0..plan.client.clients).filter_map(|caller| plan.quota(caller)).sum();
    let (mut told, mut before, mut last_done, mut last_ended) = (now(), 0, 0, edges.begin);
    let mut rested = false;
    while goes_on(plan, ended) {
        let instant = now();
        let edges = plan.window.edges().unwrap_or(edges);
        let count: u64 = done.iter().map(|d| d.get()).sum();
        let rests = instant >= edges.rest && edges.begin == i64::MAX;
        if rests && instant - edges.rest > REST_NS {
            crate::stop("no control slices came within ten minutes after the warm-up");
        }
        if rests && !std::mem::replace(&mut rested, true) {
            told = i64::MIN / 2; // whoever gives the slices waits to be told
        }
        if instant < edges.begin {
            before = count;
        }
        if count != last_done || instant < edges.begin {
            (last_done, last_ended) = (count, instant);
        }
        let waited = if quota > 0 { instant - last_ended } else { instant.saturating_sub(edges.end) };
        if waited > drain && !plan.window.cancelled.swap(true, Ordering::Relaxed) {
            cancel();
        }
        if instant - told >= TELL_NS {
            told = instant;
            if rests {
                events::rests(count, done.iter().map(|d| d.took_ns()).sum::<u64>() / count.max(1));
                continue;
            }
            let share = match quota {
                0 => (instant - edges.begin) as f64 / (edges.end - edges.begin) as f64,
                _ => (count - before) as f64 / quota as f64,
            };
            let warming = instant < edges.begin;
            events::progress(warming, count, if warming { 0.0 } else { share.min(1.0) });
        }
    }
}

/// Waits a moment, and returns whether there is still something to watch.
fn goes_on(plan: &Plan, ended: &mpsc::Receiver<()>) -> bool {
    if ended.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
        return true;
    }
    let left = turns::left(plan);
    thread::sleep(left.min(LOOK));
    !left.is_zero()
}
