package conn

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

func TestSourcesCount(t *testing.T) {
	for _, test := range []struct {
		connections, ports, want int
	}{
		{0, 0, 1},
		{500, 28_232, 1},
		{14_116, 28_232, 1},
		{14_117, 28_232, 2},
		{20_000, 2_000, 20},
		{3, 1, 3},
	} {
		if got := (Sources{Connections: test.connections, Ports: test.ports}).Count(); got != test.want {
			t.Errorf("%d connections, %d ports an address: %d addresses, want %d", test.connections, test.ports, got, test.want)
		}
	}
}

func TestSourceOf(t *testing.T) {
	for _, test := range []struct {
		n       uint32
		address string
		want    string
	}{
		{0, "127.0.0.1:80", "127.0.0.1"},
		{255, "127.0.0.1:80", "127.0.1.0"},
		{1<<24 - 3, "127.0.0.1:80", "127.255.255.254"},
		{1<<24 - 2, "127.0.0.1:80", "127.0.0.1"},
		{7, "[::1]:80", ""},
		{7, "192.0.2.1:80", ""},
		{7, "localhost:80", ""},
	} {
		ip, found := sourceAddress(test.n, test.address)
		if got := ip.String(); found != (test.want != "") || found && got != test.want {
			t.Errorf("source %d to %s: %s, %v; want %q", test.n, test.address, got, found, test.want)
		}
	}
}

// dialMany opens and closes n connections to a server of its own at address and
// returns how often each source came, and how many the server saw reset.
func dialMany(t *testing.T, d *Dialer, address string, n int) (sources map[string]int, resets int) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	sources = map[string]int{}
	for range n {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		conn, err := d.DialContext(ctx, "tcp", listener.Addr().String())
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		served, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		from, _, err := net.SplitHostPort(served.RemoteAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		sources[from]++
		conn.Close()
		if _, err := served.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			resets++
		}
		served.Close()
	}
	return sources, resets
}

func TestDialerUsesSourcesInTurns(t *testing.T) {
	if !manyLoopbackAddresses {
		t.Skip("loopback has one address on this system")
	}
	sources, resets := dialMany(t, &Dialer{Sources: 4}, "127.0.0.1:0", 12)
	if len(sources) != 4 || resets != 0 {
		t.Errorf("sources %v, %d reset; want four and none", sources, resets)
	}
	for source, count := range sources {
		if count != 3 {
			t.Errorf("%s came %d times of 12, want a fourth", source, count)
		}
	}
}

func TestDialerWithoutSourcesLeavesChoiceToKernel(t *testing.T) {
	sources, resets := dialMany(t, &Dialer{}, "127.0.0.1:0", 3)
	if sources["127.0.0.1"] != 3 || resets != 0 {
		t.Errorf("sources %v, %d reset; want the one and none", sources, resets)
	}
}

func TestConnectionsAreResetWithoutSpareSources(t *testing.T) {
	listener, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skipf("this machine has no IPv6 loopback: %v", err)
	}
	defer listener.Close()
	if _, resets := dialMany(t, &Dialer{Sources: 4}, "[::1]:0", 3); resets != 3 {
		t.Errorf("%d of 3 connections ended with a reset, want all", resets)
	}
}

// What a connection costs that is opened, greeted and closed, by where it comes
// from and how it ends.
func BenchmarkDial(b *testing.B) {
	for _, bench := range []struct {
		name    string
		sources int
		network string
	}{{"kernel's-choice", 0, "127.0.0.1:0"}, {"spread-100", 100, "127.0.0.1:0"}, {"reset", 100, "[::1]:0"}, {"kernel's-choice-v6", 0, "[::1]:0"}} {
		b.Run(bench.name, func(b *testing.B) {
			listener, err := net.Listen("tcp", bench.network)
			if err != nil {
				b.Skip(err)
			}
			defer listener.Close()
			go func() { // ends with the listener
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, conn)
					conn.Close()
				}
			}()
			d := &Dialer{Sources: bench.sources}
			for b.Loop() {
				conn, err := d.DialContext(b.Context(), "tcp", listener.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				if _, err := conn.Write([]byte{1}); err != nil {
					b.Fatal(err)
				}
				conn.Close()
			}
		})
	}
}
