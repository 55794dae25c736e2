//! epoll and eventfd, as far as they are needed: all that is unsafe is here.

use std::{
    io,
    os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
    time::Duration,
};

use bytes::BytesMut;

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
pub struct Poll(OwnedFd);

impl Poll {
    pub fn new() -> io::Result<Poll> {
        // SAFETY: a new descriptor that nobody else owns.
        unsafe { Ok(Poll(OwnedFd::from_raw_fd(checked(libc::epoll_create1(libc::EPOLL_CLOEXEC))?))) }
    }

    pub fn add(&self, fd: RawFd, wanted: Event) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, wanted)
    }

    pub fn change(&self, fd: RawFd, wanted: Event) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, wanted)
    }

    fn control(&self, operation: libc::c_int, fd: RawFd, wanted: Event) -> io::Result<()> {
        let mut event = libc::epoll_event { events: wanted.0, u64: fd as u64 };
        // SAFETY: the event lives as long as the call.
        checked(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), operation, fd, &mut event) }).map(|_| ())
    }

    /// Waits for events, for a time at most, and hands over each. A descriptor that is
    /// broken is ready for whatever was wanted of it.
    pub fn wait(&self, at_most: Option<Duration>, mut each: impl FnMut(RawFd, Event)) -> io::Result<()> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 256];
        let milliseconds = at_most.map_or(-1, |d| d.as_millis() as libc::c_int);
        // SAFETY: the array has as many places as are told.
        let count = unsafe {
            libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), events.len() as libc::c_int, milliseconds)
        };
        match checked(count) {
            Ok(count) => events[..count as usize].iter().for_each(|e| each(e.u64 as RawFd, Event(e.events))),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }
}

/// Reads what there is into a buffer that gets so much room: 0 bytes at the end.
pub fn read_into(from: &impl AsRawFd, buffer: &mut BytesMut, room: usize) -> io::Result<usize> {
    buffer.reserve(room);
    let spare = buffer.spare_capacity_mut();
    // SAFETY: the room is the buffer's, and as many bytes of it are filled as are counted.
    unsafe {
        let read = libc::read(from.as_raw_fd(), spare.as_mut_ptr().cast(), spare.len());
        if read < 0 {
            return Err(io::Error::last_os_error());
        }
        buffer.set_len(buffer.len() + read as usize);
        Ok(read as usize)
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
