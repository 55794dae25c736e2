package life

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

const (
	playServer   = "WIRELAB_PLAY_SERVER"
	requestBytes = 64
)

// TestMain is the server, too: it prints its port, answers on one connection, and then prints
// when it handled each call.
func TestMain(m *testing.M) {
	if os.Getenv(playServer) == "" {
		os.Exit(m.Run())
	}
	if err := serve(); err != nil {
		println(err.Error())
		os.Exit(1)
	}
	os.Exit(0)
}

func serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	var handled strings.Builder
	var request [requestBytes]byte
	for {
		if _, err := io.ReadFull(conn, request[:]); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		fmt.Fprintln(&handled, clock.Now())
		if _, err := conn.Write(request[:]); err != nil {
			return err
		}
	}
	_, err = fmt.Print(handled.String())
	return err
}

// TestASplitRequestIsItsSending writes each request in two parts. With Nagle's algorithm the
// second waits for the first one's acknowledgement, which the server delays for 40 ms.
func TestASplitRequestIsItsSending(t *testing.T) {
	const calls = 20
	watch, err := Start()
	if errors.Is(err, host.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	server := exec.CommandContext(t.Context(), os.Args[0])
	server.Env = append(os.Environ(), playServer+"=1")
	output, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(watch.AddProcess(probe.Server, server.Process.Pid), watch.AddProcess(probe.Client, os.Getpid())); err != nil {
		t.Fatal(err)
	}
	var m probe.MeasuredWindow
	if _, err := fmt.Fscanln(output, &m.Port); err != nil {
		t.Fatal(err)
	}
	if err := watch.(probe.PortWatch).SetServerPort(m.Port); err != nil {
		t.Fatal(err)
	}
	m.BeginNS = clock.Now()
	m.Calls = callInParts(t, m.Port, calls)
	m.EndNS = clock.Now()
	for range calls {
		var at int64
		if _, err := fmt.Fscanln(output, &at); err != nil {
			t.Fatal(err)
		}
		m.Handled = append(m.Handled, [2]int64{at, 0})
	}
	if err := server.Wait(); err != nil {
		t.Fatal(err)
	}
	findings, err := watch.Stop(m)
	if err != nil {
		t.Fatal(err)
	}
	life := findings.Life
	// A turn lasts 100 ms. Calls at its edges are neither in Calls nor in Untold.
	if len(life.Calls) < calls/10 || life.Untold > calls/10 {
		t.Fatalf("%d calls have stages, %d have none", len(life.Calls), life.Untold)
	}
	var delayed, sending int
	for _, call := range life.Calls {
		var sent, all time.Duration
		for i, stage := range call {
			all += time.Duration(stage)
			if name := life.Stages[i]; name == "send request" || name == "wake server" {
				sent += time.Duration(stage)
			}
		}
		// Most of a delayed acknowledgement: a busy machine makes other stages longer, not this one shorter.
		const held = 30 * time.Millisecond
		if all > held {
			delayed++
		}
		if sent > held {
			sending++
		}
	}
	if delayed == 0 {
		t.Skipf("this kernel acknowledges at once: %v", life.Calls)
	}
	if sending < delayed/2 { // others may hold up a call elsewhere
		t.Errorf("of %d calls that were delayed, %d were in their sending: %v %v", delayed, sending, life.Stages, life.Calls)
	}
}

// callInParts returns the begin of each call, and how long it took.
func callInParts(t *testing.T, port, calls int) (all [][2]int64) {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).SetNoDelay(false); err != nil {
		t.Fatal(err)
	}
	var message [requestBytes]byte
	for range calls {
		begin := clock.Now()
		for _, part := range [][]byte{message[:1], message[1:]} {
			if _, err := conn.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := io.ReadFull(conn, message[:]); err != nil {
			t.Fatal(err)
		}
		all = append(all, [2]int64{begin, clock.Now() - begin})
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	return all
}
