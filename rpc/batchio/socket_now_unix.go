//go:build unix

package batchio

// ReadsNow says that ReadNow and WriteNow are there.
const ReadsNow = true

// ReadNow reads what a socket holds, for loops outside this package. It returns EAGAIN where
// that is nothing, and 0 bytes at the end of the connection. It never waits.
func ReadNow(fd uintptr, p []byte) (int, error) { return readSocket(int(fd), p) }

// WriteNow writes as much as a socket has room for, or returns EAGAIN. It never waits.
func WriteNow(fd uintptr, p []byte) (int, error) { return writeSocket(int(fd), p) }
