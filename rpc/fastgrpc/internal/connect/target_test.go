package connect

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
)

// TestTunnelLeavesTheServersBytes checks that a tunnel carries the bytes that a server sends right
// behind the proxy's reply.
func TestTunnelLeavesTheServersBytes(t *testing.T) {
	near, far := net.Pipe()
	const first = "SETTINGS"
	answered := make(chan error, 1)
	go func() {
		_, err := http.ReadRequest(bufio.NewReader(far))
		if err == nil {
			_, err = io.WriteString(far, "HTTP/1.1 200 OK\r\nVia: proxy\r\n\r\n"+first)
		}
		answered <- err
	}()
	if err := openTunnel(near, nil, "server:443", "agent"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(first))
	if _, err := io.ReadFull(near, got); err != nil || string(got) != first {
		t.Errorf("read %q behind the reply, want %q: %v", got, first, err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
