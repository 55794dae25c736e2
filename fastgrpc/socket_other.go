//go:build !unix

package fastgrpc

import (
	"io"
	"net"
)

// newSocketReader returns what the reader reads from: here it does not spin.
func newSocketReader(nc net.Conn) io.Reader { return nc }

// prompt does not exist here: only the writer writes.
type prompt struct{}

func newPrompt(net.Conn) *prompt { return nil }

func (*prompt) write([]byte) (int, error) { return 0, nil }
