//! io_uring, as far as it is needed.

use std::{io, os::fd::RawFd, time::Duration};

use io_uring::{IoUring, opcode, squeue, types};

/// How many operations are handed over at once.
const ENTRIES: u32 = 256;

/// A ring, for the thread that made it.
pub struct Ring {
    ring: IoUring,
    completed: Vec<(u64, i32)>, // of the last wait
}

/// Returns an error that says what would help, if the kernel refuses a ring.
pub fn check() -> Result<(), String> {
    Ring::new().map(|_| ()).map_err(|e| {
        format!(
            "io=uring: the kernel refuses io_uring: {e}: it takes Linux 6.1 or newer, the sysctl \
             kernel.io_uring_disabled=0, and in a container a seccomp profile that permits \
             io_uring_setup; io=epoll needs none of it"
        )
    })
}

impl Ring {
    pub fn new() -> io::Result<Ring> {
        // Completions are worked off when this thread waits, and never interrupt it.
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_cqsize(16 * ENTRIES)
            .build(ENTRIES)?;
        Ok(Ring { ring, completed: Vec::new() })
    }

    /// Reads from a socket.
    ///
    /// # Safety
    /// The room must stay where it is, and untouched, until the token comes back.
    pub unsafe fn receive(&mut self, token: u64, from: RawFd, into: *mut [u8]) -> io::Result<()> {
        let operation = opcode::Recv::new(types::Fd(from), into.cast(), into.len() as u32);
        self.push(operation.build().user_data(token))
    }

    /// Sends all of the bytes, as far as the connection lasts.
    ///
    /// # Safety
    /// They must stay where they are, and untouched, until the token comes back.
    pub unsafe fn send(&mut self, token: u64, to: RawFd, bytes: *const [u8]) -> io::Result<()> {
        self.push(Self::sending(token, to, bytes))
    }

    /// Sends, and lets the next operation begin only when all has been sent; otherwise it
    /// comes back as cancelled.
    ///
    /// # Safety
    /// As of send.
    pub unsafe fn send_before_next(&mut self, token: u64, to: RawFd, bytes: *const [u8]) -> io::Result<()> {
        self.reserve(2)?;
        self.push(Self::sending(token, to, bytes).flags(squeue::Flags::IO_LINK))
    }

    fn sending(token: u64, to: RawFd, bytes: *const [u8]) -> squeue::Entry {
        opcode::Send::new(types::Fd(to), bytes.cast(), bytes.len() as u32)
            .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build()
            .user_data(token)
    }

    /// Waits until a descriptor can be read.
    pub fn watch(&mut self, token: u64, fd: RawFd) -> io::Result<()> {
        self.push(opcode::PollAdd::new(types::Fd(fd), libc::POLLIN as u32).build().user_data(token))
    }

    /// Waits until a descriptor can be written, which a socket can when it has connected.
    pub fn watch_connecting(&mut self, token: u64, fd: RawFd) -> io::Result<()> {
        self.push(opcode::PollAdd::new(types::Fd(fd), libc::POLLOUT as u32).build().user_data(token))
    }

    /// Makes room for operations that must be handed over together.
    fn reserve(&mut self, operations: usize) -> io::Result<()> {
        let mut queue = self.ring.submission();
        if queue.capacity() - queue.len() < operations {
            drop(queue);
            self.ring.submit()?;
            queue = self.ring.submission();
        }
        drop(queue);
        Ok(())
    }

    fn push(&mut self, operation: squeue::Entry) -> io::Result<()> {
        self.reserve(1)?;
        // SAFETY: what the operation points to lives until it completes, as the callers promise.
        unsafe { self.ring.submission().push(&operation) }.map_err(io::Error::other)
    }

    /// Hands over what is to be done, waits for a completion, for a time at most, and returns
    /// how many there are.
    pub fn wait(&mut self, at_most: Duration) -> io::Result<usize> {
        self.completed.clear();
        let time = types::Timespec::from(at_most);
        let arguments = types::SubmitArgs::new().timespec(&time);
        match self.ring.submitter().submit_with_args(1, &arguments) {
            Err(e) if ![libc::ETIME, libc::EINTR, libc::EBUSY].contains(&e.raw_os_error().unwrap_or(0)) => {
                return Err(e);
            }
            _ => {}
        }
        self.completed.extend(self.ring.completion().map(|c| (c.user_data(), c.result())));
        Ok(self.completed.len())
    }

    /// One of the last wait's completions: its token, and how many bytes or which error.
    pub fn completion(&self, place: usize) -> (u64, io::Result<usize>) {
        let (token, result) = self.completed[place];
        (token, usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result)))
    }
}
