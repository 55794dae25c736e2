package batchio

import "time"

// A Machine is a protocol's state machine for one connection. It opens no socket, starts no
// goroutine and takes no lock. A Conn calls it with the lock held, once per batch, read or
// call, but never once per frame.
type Machine interface {
	// Pending returns the number of bytes in the output.
	Pending() int
	// TakeOutput returns the output if Pending is not 0. The Conn recycles it.
	TakeOutput() *Output
	// SetOutputLimit changes the number of bytes in the output from which the machine keeps
	// payloads back until the output has been taken.
	SetOutputLimit(bytes int)
	// Ending returns the number of calls that have this end's last frame in the output, and
	// the number of open calls, including these.
	Ending() (waiting, open int)
	// OpenStreams returns the number of open calls.
	OpenStreams() int
	// Feed reads whole frames from buf, at most maxFrames, and returns the number of bytes
	// it used. now is the time since Epoch. After an error, the output is still written.
	Feed(now time.Duration, buf []byte, maxFrames int) (used int, err error)
	// FrameLen returns the length of the frame at the start of buf, or of its header if
	// buf is too short.
	FrameLen(buf []byte) int
	// Throttled reports whether the output must be written before more is fed.
	Throttled() bool
	// Close drops the output. No write is in progress.
	Close()
}

// A Role holds the methods in which a library's clients and servers differ. All methods but
// StartCalls and OnClosed are called with the lock held.
type Role interface {
	// StreamsChanged is called after frames were received or sent, which may have ended
	// calls.
	StreamsChanged()
	// StartCalls runs the calls that received frames have completed.
	StartCalls()
	// ConnLost ends every call because the connection has ended.
	ConnLost(err error)
	// OnClosed is called when the socket has been closed.
	OnClosed()
}
