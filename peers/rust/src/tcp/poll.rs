//! epoll and eventfd, as far as they are needed: all that is unsafe is here.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    time::Duration,
};

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Event(u32);

impl Event {
    pub const READ: Event = Event(libc::EPOLLIN as u32);
    pub const WRITE: Event = Event(libc::EPOLLOUT as u32);
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A set of descriptors to wait for, level-triggered.
pub struct Poll {
    set: OwnedFd,
    events: Vec<libc::epoll_event>, // those of the last wait
}

/// How many events a wait returns at most.
const EVENTS: usize = 256;

impl Poll {
    pub fn new() -> io::Result<Poll> {
        // SAFETY: a new descriptor that nobody else owns.
        let set = unsafe { OwnedFd::from_raw_fd(checked(libc::epoll_create1(libc::EPOLL_CLOEXEC))?) };
        Ok(Poll { set, events: Vec::with_capacity(EVENTS) })
    }

    pub fn add(&self, fd: RawFd, token: usize, wanted: Event) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, token, wanted)
    }

    pub fn change(&self, fd: RawFd, token: usize, wanted: Event) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, token, wanted)
    }

    fn control(&self, operation: libc::c_int, fd: RawFd, token: usize, wanted: Event) -> io::Result<()> {
        let mut event = libc::epoll_event { events: wanted.0, u64: token as u64 };
        // SAFETY: the event lives as long as the call.
        checked(unsafe { libc::epoll_ctl(self.set.as_raw_fd(), operation, fd, &mut event) }).map(|_| ())
    }

    /// Waits for events, for a time at most, and returns how many there are. A descriptor that
    /// is broken is ready for whatever was wanted of it.
    pub fn wait(&mut self, at_most: Option<Duration>) -> io::Result<usize> {
        self.events.clear();
        let milliseconds = at_most.map_or(-1, |d| d.as_micros().div_ceil(1000) as libc::c_int);
        // SAFETY: the vector has the given number of places, and the counted ones are filled.
        let count = unsafe {
            let set = self.set.as_raw_fd();
            let count = libc::epoll_wait(set, self.events.as_mut_ptr(), EVENTS as libc::c_int, milliseconds);
            self.events.set_len(count.max(0) as usize);
            count
        };
        match checked(count) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
            counted => counted.map(|count| count as usize),
        }
    }

    /// The token of one of the last wait's events.
    pub fn event(&self, place: usize) -> usize {
        self.events[place].u64 as usize
    }
}

/// Wakes a thread from its Poll.
pub struct Wake(OwnedFd);

impl Wake {
    pub fn new() -> io::Result<Wake> {
        // SAFETY: a new descriptor that nobody else owns.
        let made = unsafe { checked(libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)) };
        Ok(Wake(unsafe { OwnedFd::from_raw_fd(made?) }))
    }

    pub fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub fn wake(&self) {
        let one = 1u64;
        // SAFETY: eight bytes are there. If it is full, the thread is awake.
        unsafe { libc::write(self.descriptor(), (&raw const one).cast(), 8) };
    }

    pub fn reset(&self) {
        let mut count = 0u64;
        // SAFETY: there is room for eight bytes.
        unsafe { libc::read(self.descriptor(), (&raw mut count).cast(), 8) };
    }
}
