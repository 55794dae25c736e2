//! A client over bare TCP: callers and connections spread over threads. A connection carries a
//! call at a time; where there are fewer than callers, they wait in turn.

use std::{
    collections::VecDeque,
    io,
    net::{SocketAddr, TcpStream},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use socket2::{Domain, Socket, Type};

use super::{
    epoll_client,
    exchange::{Asking, Exchange},
    uring_client, uses_uring,
};
use crate::{
    contract::Variant,
    events,
    load::{
        Caller, Connections, Failure, Mode, Next, Plan, Window, caller::Done, connections::Open, now, report,
        watch::watch,
    },
    settings,
};

/// How soon a thread without answers notices that they are no more waited for.
const LOOK: Duration = Duration::from_millis(25);
/// How long a connection may take to be there before the load begins.
const CONNECT: Duration = Duration::from_secs(10);

/// A thread's callers and connections.
pub struct Crew {
    pub plan: Arc<Plan>,
    pub callers: Vec<Asking>,
    pub slots: Vec<Slot>,
    waiting: VecDeque<usize>, // callers
    resting: Vec<usize>,      // callers
    until: i64,               // when they may go on
    busy: usize,              // slots
    address: SocketAddr,
    connections: Arc<Connections>,
}

/// A place for a connection, and the call that it carries.
#[derive(Default)]
pub struct Slot {
    pub stream: Option<TcpStream>,
    open: Option<Open>,
    pub caller: Option<usize>,
    pub exchange: Exchange,
}

pub fn measure(variant: &Variant, plan: Arc<Plan>) -> Result<(), String> {
    let run = if uses_uring(variant)? { uring_client::run } else { epoll_client::run };
    let address = plan.address.parse().map_err(|e| format!("address {}: {e}", plan.address))?;
    let connections = Connections::new(&plan);
    let slots = open(&plan, &address, &connections).map_err(|e| format!("connect to {address}: {e}"))?;
    events::ready(&plan.address, None, settings::of(plan.carrier, "client"));
    let edges = Window::open(&plan);
    let threads = crate::threads().min(slots.len()).min(plan.client.clients);
    let mut crews: Vec<Crew> = (0..threads).map(|_| Crew::new(&plan, address, &connections)).collect();
    for (index, slot) in slots.into_iter().enumerate() {
        crews[index % threads].slots.push(slot);
    }
    let mut done = Vec::new();
    for index in 0..plan.client.clients {
        let count = Arc::new(Done::default());
        done.push(count.clone());
        let asking = Asking::new(&plan, Caller::new(&plan, edges, index, count));
        crews[index % threads].add(asking);
    }
    let (say_ended, ended) = mpsc::channel();
    let running: Vec<_> = crews
        .into_iter()
        .map(|mut crew| {
            let say_ended = say_ended.clone();
            thread::spawn(move || {
                thread::sleep(Duration::from_nanos((edges.first_call - now()).max(0) as u64));
                let run = run(&mut crew);
                drop(say_ended); // the last one ends the watch
                run.map(|()| crew)
            })
        })
        .collect();
    drop(say_ended);
    watch(&plan, edges, &done, &ended, || {});
    let mut callers = Vec::new();
    let mut kept = Vec::new(); // open until they are counted
    for thread in running {
        let crew = thread.join().expect("no crew panics").map_err(|e| format!("a thread of the client: {e}"))?;
        callers.extend(crew.callers.into_iter().map(|c| c.caller));
        kept.extend(crew.slots);
    }
    report(&plan, callers, &connections)
}

/// Opens the connections that are kept. A mode that keeps none has a slot for each caller, and
/// opens one all the same, to fail early if none can be.
fn open(plan: &Plan, address: &SocketAddr, connections: &Arc<Connections>) -> io::Result<Vec<Slot>> {
    let open = || {
        let stream = connect(connections, address, Socket::connect_timeout, CONNECT)?;
        Ok(Slot { stream: Some(stream), open: Some(connections.opened()), ..Slot::default() })
    };
    match plan.mode {
        Mode::New => open().map(|_| (0..plan.client.clients).map(|_| Slot::default()).collect()),
        kept => (0..kept.want(plan.client.clients)).map(|_| open()).collect(),
    }
}

/// Opens a connection, by a function that may wait or not.
fn connect<A>(
    connections: &Connections,
    address: &SocketAddr,
    connect: impl Fn(&Socket, &socket2::SockAddr, A) -> io::Result<()>,
    how: A,
) -> io::Result<TcpStream> {
    let opening = || {
        let socket = Socket::new(Domain::for_address(*address), Type::STREAM, None)?;
        socket.set_tcp_nodelay(true)?;
        if let Some(source) = connections.source() {
            crate::dial::take_port_late(&socket)?;
            socket.bind(&SocketAddr::from((source, 0)).into())?;
        }
        connect(&socket, &(*address).into(), how)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    opening().inspect_err(|_| connections.failed())
}

impl Crew {
    fn new(plan: &Arc<Plan>, address: SocketAddr, connections: &Arc<Connections>) -> Crew {
        Crew {
            plan: plan.clone(),
            callers: Vec::new(),
            slots: Vec::new(),
            waiting: VecDeque::new(),
            resting: Vec::new(),
            until: 0,
            busy: 0,
            address,
            connections: connections.clone(),
        }
    }

    /// Adds a caller, which rests until the crew goes on.
    fn add(&mut self, caller: Asking) {
        self.resting.push(self.callers.len());
        self.callers.push(caller);
    }

    /// Lets callers make their next requests if their rest is over. It returns whether any did:
    /// then free slots are to take them.
    pub fn go_on(&mut self) -> bool {
        if self.resting.is_empty() || now() < self.until && !self.plan.window.is_cancelled() {
            return false;
        }
        for caller in std::mem::take(&mut self.resting) {
            self.next(caller);
        }
        !self.waiting.is_empty()
    }

    fn next(&mut self, caller: usize) {
        match self.callers[caller].next() {
            Next::Call(_) => self.waiting.push_back(caller),
            Next::Rest(until) => {
                self.resting.push(caller);
                self.until = until;
            }
            Next::End => {}
        }
    }

    /// The slots that carry no call.
    pub fn free_slots(&self) -> Vec<usize> {
        (0..self.slots.len()).filter(|&slot| self.slots[slot].caller.is_none()).collect()
    }

    /// How long there is nothing to do but to take answers.
    pub fn patience(&self) -> Duration {
        match self.resting.is_empty() {
            true => LOOK,
            false => LOOK.min(Duration::from_nanos((self.until - now()).max(0) as u64)),
        }
    }

    /// Whether no answer is to come before the rest is over.
    pub fn rests(&self) -> bool {
        self.busy == 0 && self.waiting.is_empty() && !self.resting.is_empty()
    }

    /// Gives a free slot the call that has waited longest, if there is one.
    pub fn take(&mut self, slot: usize) -> bool {
        let Some(caller) = self.waiting.pop_front() else { return false };
        self.busy += 1;
        self.slots[slot].caller = Some(caller);
        self.slots[slot].exchange.begin(self.callers[caller].request());
        true
    }

    /// Whether no call is in flight, and none will be.
    pub fn is_done(&self) -> bool {
        self.busy == 0 && self.waiting.is_empty() && self.resting.is_empty()
    }

    pub fn request(&self, slot: usize) -> &[u8] {
        let caller = self.slots[slot].caller.expect("a busy slot has a caller");
        &self.callers[caller].request()[self.slots[slot].exchange.sent..]
    }

    /// Begins to open the slot's connection, which can be written once it is open. If it fails,
    /// the call fails.
    pub fn dial(&mut self, slot: usize) -> Result<(), Failure> {
        let begin = |socket: &Socket, address: &socket2::SockAddr, ()| {
            socket.set_nonblocking(true)?;
            match socket.connect(address) {
                Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
                other => other,
            }
        };
        let stream = connect(&self.connections, &self.address, begin, ()).map_err(|e| Failure::of(&e))?;
        self.slots[slot].stream = Some(stream);
        Ok(())
    }

    /// Counts the slot's connection once it is there.
    pub fn connected(&mut self, slot: usize) -> Result<(), Failure> {
        let place = &mut self.slots[slot];
        if place.open.is_some() {
            return Ok(());
        }
        let error = place.stream.as_ref().map(TcpStream::take_error);
        if let Some(Ok(Some(e)) | Err(e)) = error {
            self.connections.failed();
            return Err(Failure::of(&e));
        }
        place.open = Some(self.connections.opened());
        Ok(())
    }

    /// Takes bytes that were read into the slot's room, and returns whether that ended the call.
    pub fn received(&mut self, slot: usize, count: usize) -> bool {
        let place = &mut self.slots[slot];
        let Some(answer) = place.exchange.received(count) else { return false };
        let caller = place.caller.expect("a busy slot has a caller");
        // An answer that says that the call has failed leaves the connection as it is.
        let broken = answer.as_ref().is_err_and(|f| f.class != "application");
        self.callers[caller].end(answer);
        self.free(slot, broken);
        true
    }

    /// Ends the slot's call with the connection's failure.
    pub fn failed(&mut self, slot: usize, failure: Failure) {
        let caller = self.slots[slot].caller.expect("a busy slot has a caller");
        self.callers[caller].end(Err(failure));
        self.free(slot, true);
    }

    /// The slot's call has ended: its caller makes the next.
    fn free(&mut self, slot: usize, broken: bool) {
        self.busy -= 1;
        let place = &mut self.slots[slot];
        let caller = place.caller.take().expect("a busy slot has a caller");
        if broken || self.plan.mode == Mode::New {
            (place.stream, place.open) = (None, None);
        }
        self.next(caller);
    }

    /// Ends all calls that are in flight or wait.
    pub fn cancel(&mut self) {
        for slot in 0..self.slots.len() {
            if self.slots[slot].caller.is_some() {
                self.failed(slot, Failure::cancelled());
            }
        }
        while let Some(caller) = self.waiting.pop_front() {
            self.callers[caller].end(Err(Failure::cancelled()));
        }
    }
}
