//! One caller of a closed loop: whether it calls again, and what became of its calls.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use super::{Failure, Plan, now, plan::Edges, turns::Place};

/// The number of calls, of all callers, with room before the window opens.
const ROOM: usize = 4 << 20;

/// A call that has ended.
pub struct Call {
    pub sent: i64,
    pub ended: i64,
    /// Which of the caller's failures it was, from 1; 0: none.
    pub failure: u32,
}

pub struct Caller {
    pub index: usize,
    pub calls: Vec<Call>,
    pub failures: Vec<Failure>,
    pub plan: Arc<Plan>,
    edges: Edges,
    quota: Option<u64>,
    counted: u64,
    passed: bool, // no call that began in the window is in flight any more
    place: Place,
    done: Arc<Done>,
}

/// How many calls have ended, and how long they took, on a cache line of their caller's own.
#[repr(align(64))]
#[derive(Default)]
pub struct Done {
    calls: AtomicU64,
    took_ns: AtomicU64,
}

impl Done {
    pub fn get(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub fn took_ns(&self) -> u64 {
        self.took_ns.load(Ordering::Relaxed)
    }
}

/// What a caller does next.
pub enum Next {
    /// A call, which begins at this instant.
    Call(i64),
    /// Nothing before this instant, at which it asks again.
    Rest(i64),
    End,
}

impl Caller {
    pub fn new(plan: &Arc<Plan>, edges: Edges, index: usize, done: Arc<Done>) -> Caller {
        let room = match plan.quota(index) {
            Some(quota) if plan.warm_up_ns() == 0 => quota as usize,
            _ => ROOM / plan.client.clients,
        };
        Caller {
            index,
            calls: Vec::with_capacity(room.clamp(1024, ROOM)),
            failures: Vec::new(),
            plan: plan.clone(),
            edges,
            quota: plan.quota(index),
            counted: 0,
            passed: false,
            place: Place::default(),
            done,
        }
    }

    /// Begins a call, if the caller makes one.
    pub fn begin(&mut self) -> Next {
        let now = now();
        if self.plan.window.is_cancelled() {
            return Next::End;
        }
        if now >= self.edges.rest {
            return self.place.next(self.plan.window.turns.get(), now);
        }
        if now >= self.edges.end {
            self.pass();
            // The others' last calls are measured under the same load as all.
            let others = self.plan.window.remaining.load(Ordering::Relaxed) > 0;
            return if others { Next::Call(now) } else { Next::End };
        }
        if now >= self.edges.begin {
            if self.quota.is_some_and(|quota| self.counted >= quota) {
                self.pass();
                return Next::End;
            }
            self.counted += 1;
        }
        Next::Call(now)
    }

    /// Notes how a call went.
    pub fn end(&mut self, sent: i64, ended: i64, outcome: Result<(), Failure>) {
        let failure = outcome.err().map_or(0, |failure| self.place_of(failure));
        self.calls.push(Call { sent, ended, failure });
        // Nobody else writes it, so an addition need not be atomic.
        self.done.calls.store(self.done.get() + 1, Ordering::Relaxed);
        self.done.took_ns.store(self.done.took_ns() + (ended - sent) as u64, Ordering::Relaxed);
    }

    fn place_of(&mut self, failure: Failure) -> u32 {
        let known = self.failures.iter().position(|f| f.is_like(&failure));
        let place = known.unwrap_or_else(|| {
            self.failures.push(failure);
            self.failures.len() - 1
        });
        place as u32 + 1
    }

    fn pass(&mut self) {
        if !self.passed {
            self.passed = true;
            self.plan.window.remaining.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
