package host

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A socket of this test's own is found as this process's, and one that is gone as nobody's.
func TestListeners(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"tcp", "udp", "unix"} {
		address := "127.0.0.1:0"
		if network == "unix" {
			address = filepath.Join(t.TempDir(), "s")
		}
		var closer interface{ Close() error }
		if network == "udp" {
			conn, err := net.ListenPacket(network, address)
			if err != nil {
				t.Fatal(err)
			}
			closer, address = conn, conn.LocalAddr().String()
		} else {
			listener, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			closer, address = listener, listener.Addr().String()
		}
		if found := FindListeners(network, address); !slices.Contains(found, os.Getpid()) {
			t.Errorf("%s: found %v, want this process, %d", network, found, os.Getpid())
		}
		_ = closer.Close()
		if found := FindListeners(network, address); len(found) > 0 {
			t.Errorf("%s: found %v where nothing listens any more", network, found)
		}
	}
}
