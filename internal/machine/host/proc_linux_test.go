package host

import (
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"testing"
)

// The kernel's list of listening sockets has the same ones as its tables.
func TestListeningTCP(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:0", "[::]:0"} {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err) // without IPv6
			continue
		}
		defer func() { _ = listener.Close() }()
		port := listener.Addr().(*net.TCPAddr).Port
		listed, err := procFiles{}.listeningTCP(uint16(port))
		if err != nil {
			t.Skipf("this kernel lists no sockets: %v", err)
		}
		var wanted []string
		for _, table := range socketTables["tcp"] {
			wanted = append(wanted, table.listeningInodes(Proc(), fmt.Sprintf(":%04X", port))...)
		}
		if len(wanted) == 0 || !slices.Equal(listed, wanted) {
			t.Errorf("%s: listed %v, want %v", address, listed, wanted)
		}
	}
}

// A request is unread until the server reads it, also if the connection is not accepted.
func TestQueuedConnections(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	port := uint16(listener.Addr().(*net.TCPAddr).Port)
	want := func(unread int) {
		t.Helper()
		found, unacknowledged, err := QueuedConnections(port)
		if err != nil {
			t.Skipf("this kernel lists no sockets: %v", err)
		}
		if found != unread || unacknowledged != 0 {
			t.Errorf("%d connections have unread requests, want %d, and %d answers that are not acknowledged", found, unread, unacknowledged)
		}
	}
	for range 3 {
		client, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		if _, err := client.Write([]byte("request")); err != nil {
			t.Fatal(err)
		}
	}
	want(3)
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	if _, err := io.ReadFull(server, make([]byte, len("request"))); err != nil {
		t.Fatal(err)
	}
	want(2)
}

// The files of /proc are the same as by package os.
func TestProc(t *testing.T) {
	t.Parallel()
	own := strconv.Itoa(os.Getpid())
	want, _ := os.ReadFile("/proc/self/limits")
	got, err := fs.ReadFile(Proc(), own+"/limits")
	if err != nil || string(got) != string(want) {
		t.Errorf("read %q (%v), want %q", got, err, want)
	}
	// Longer than one read, and than the first buffer.
	if symbols, err := fs.ReadFile(Proc(), "kallsyms"); err == nil && len(symbols) < 10_000 {
		t.Errorf("/proc/kallsyms has only %d bytes", len(symbols))
	}
	all, err := fs.ReadDir(Proc(), ".")
	if err != nil || !slices.ContainsFunc(all, func(e fs.DirEntry) bool { return e.Name() == own }) {
		t.Errorf("/proc has %v (%v), want %s among them", all, err, own)
	}
	if _, err := fs.ReadFile(Proc(), "none/stat"); !os.IsNotExist(err) {
		t.Errorf("a process that does not exist gives %v", err)
	}
}
