//! The turns of a client in a block: after its warm-up it rests, and then it calls in its slices
//! alone.

use std::{sync::Arc, thread, time::Duration};

use super::{Plan, caller::Next, now, plan::Edges};
use crate::contract::{Order, Slice};

/// How often a caller asks for its turns until they are known.
const ASK_NS: i64 = 25_000_000;

/// The slices of a client, and the instant at which the last one of all clients ends.
pub struct Turns {
    slices: Vec<Slice>,
    over: i64,
}

impl Turns {
    fn of(order: Order) -> Result<Turns, String> {
        let turns = Turns { slices: order.slices, over: order.at_ns };
        let instants: Vec<i64> = turns.slices.iter().flat_map(|s| [s.send_ns, s.from_ns, s.to_ns]).collect();
        match turns.slices.first() {
            None => Err("control slices: there is none".into()),
            Some(_) if !instants.is_sorted() => Err("control slices: their instants do not increase".into()),
            Some(first) if first.from_ns <= now() => {
                Err("control slices: they came after the first should have begun".into())
            }
            Some(_) => Ok(turns),
        }
    }

    /// The edges of the window that the slices make.
    pub fn edges(&self, edges: Edges) -> Edges {
        Edges { begin: self.slices[0].from_ns, end: self.slices[self.slices.len() - 1].to_ns, ..edges }
    }
}

/// A caller's place in the turns. The slices before it are over.
#[derive(Default)]
pub struct Place(usize);

impl Place {
    pub fn next(&mut self, turns: Option<&Turns>, now: i64) -> Next {
        let Some(turns) = turns else { return Next::Rest(now + ASK_NS) };
        while turns.slices.get(self.0).is_some_and(|s| s.to_ns <= now) {
            self.0 += 1;
        }
        match turns.slices.get(self.0) {
            None => Next::End,
            Some(slice) if now < slice.send_ns => Next::Rest(slice.send_ns),
            Some(_) => Next::Call(now),
        }
    }
}

/// Gives the client its turns. Whoever waits for one on tokio, whose timers are too coarse, is woken
/// by a thread.
pub fn take(plan: &Arc<Plan>, order: Order) -> Result<(), String> {
    let turns = Turns::of(order)?;
    let begins: Vec<i64> = turns.slices.iter().map(|s| s.send_ns).collect();
    if plan.window.turns.set(turns).is_err() {
        return Ok(()); // only the first ones count
    }
    let plan = plan.clone();
    thread::spawn(move || {
        for begin in begins {
            thread::sleep(Duration::from_nanos((begin - now()).max(0) as u64));
            plan.window.turn.notify_waiters();
        }
    });
    Ok(())
}

/// How long the result still has to wait for the other clients' slices.
pub fn left(plan: &Plan) -> Duration {
    let over = plan.window.turns.get().map_or(0, |turns| turns.over);
    Duration::from_nanos((over - now()).max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(instants: &[[i64; 3]]) -> Result<Turns, String> {
        let slice = |s: &[i64; 3]| format!(r#"{{"send_ns":{},"from_ns":{},"to_ns":{}}}"#, s[0], s[1], s[2]);
        let slices: Vec<_> = instants.iter().map(slice).collect();
        let line = format!(r#"{{"control":"slices","at_ns":1,"slices":[{}]}}"#, slices.join(","));
        Turns::of(Order::parse(&line).expect("a control"))
    }

    #[test]
    fn calls_begin_in_slices_alone() {
        let soon = now() + 1_000_000_000_000;
        let turns = turns(&[[soon, soon + 2, soon + 9], [soon + 20, soon + 22, soon + 29]]).expect("good slices");
        let mut place = Place::default();
        assert!(matches!(place.next(None, soon), Next::Rest(_)));
        let mut seen = String::new();
        for after in -1..30 {
            seen.push(match place.next(Some(&turns), soon + after) {
                Next::Call(at) if at == soon + after => 'c',
                Next::Rest(until) if until == soon || until == soon + 20 => '.',
                Next::End => '|',
                _ => '?',
            });
        }
        assert_eq!(seen, ".ccccccccc...........ccccccccc|");
    }

    #[test]
    fn slices_that_cannot_be() {
        let soon = now() + 1_000_000_000_000;
        assert!(turns(&[]).is_err());
        assert!(turns(&[[1, 2, 3]]).is_err());
        assert!(turns(&[[soon, soon + 2, soon + 1]]).is_err());
        assert!(turns(&[[soon, soon, soon + 9], [soon + 8, soon + 8, soon + 20]]).is_err());
        assert!(Order::parse(r#"{"control":"pause"}"#).is_none());
        assert!(Order::parse(r#"{"control":"end","at_ns":0,"slices":[]}"#).is_none());
    }
}
