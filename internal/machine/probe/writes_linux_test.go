package probe

import (
	"net"
	"testing"
)

// Every write to a socket counts once.
func TestWritesAreCounted(t *testing.T) {
	if CountWriteCalls() == 0 {
		t.Skip("this kernel keeps no /proc/self/io (CONFIG_TASK_IO_ACCOUNTING)")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	before := CountWriteCalls()
	for range 100 {
		if _, err := conn.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
	}
	if counted := CountWriteCalls() - before; counted < 100 || counted > 110 {
		t.Errorf("100 writes were counted as %d", counted)
	}
}
