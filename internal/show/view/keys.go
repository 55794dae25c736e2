package view

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// ctrlC is the byte that Ctrl-C sends on a raw terminal (ASCII's ETX), where it is no signal.
const ctrlC = 3

// keys reads single keys from a terminal, which is raw meanwhile.
type keys struct {
	terminal *os.File
	before   *term.State
	restore  sync.Once
	quit     chan struct{}
	ended    chan struct{}
}

// keysEvery is the time of one poll for a key, in milliseconds. A blocking read could not be ended.
const keysEvery = 50

// readKeys calls press with each key until that returns false, the run is told to end, or
// close. It returns nil where there is no terminal to read from.
func readKeys(from *os.File, ending <-chan struct{}, press func(byte) bool) *keys {
	if from == nil || !term.IsTerminal(int(from.Fd())) {
		return nil
	}
	before, err := term.MakeRaw(int(from.Fd()))
	if err != nil {
		return nil // a view without keys is one, too
	}
	k := &keys{terminal: from, before: before, quit: make(chan struct{}), ended: make(chan struct{})}
	go k.read(ending, press) // ends with close, at the latest
	return k
}

func (k *keys) read(ending <-chan struct{}, press func(byte) bool) {
	defer close(k.ended)
	defer k.giveBack() // also of a panic
	var key [1]byte
	for {
		select {
		case <-k.quit:
			return
		case <-ending:
			return
		default:
		}
		look := []unix.PollFd{{Fd: int32(k.terminal.Fd()), Events: unix.POLLIN}} //nolint:gosec // a file descriptor is small
		if n, err := unix.Poll(look, keysEvery); n <= 0 || err != nil {
			if err != nil && err != unix.EINTR {
				return
			}
			continue
		}
		n, err := k.terminal.Read(key[:])
		if err != nil || n == 0 {
			return // the terminal went away
		}
		if key[0] == 'q' || key[0] == ctrlC {
			k.giveBack() // before a signal can end this program
		}
		if !press(key[0]) {
			return
		}
	}
}

// giveBack makes the terminal what it was.
func (k *keys) giveBack() {
	k.restore.Do(func() { _ = term.Restore(int(k.terminal.Fd()), k.before) })
}

// close ends the reading and gives the terminal back.
func (k *keys) close() {
	if k == nil {
		return
	}
	close(k.quit)
	<-k.ended
}

// interruptSelf does what Ctrl-C does on a terminal that is not raw.
func interruptSelf() { _ = syscall.Kill(os.Getpid(), syscall.SIGINT) }
