package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"

	"wirelab.dev/rpc/fastgrpc"
)

const many = 10000

// libraryVariable is whose server the role serve has.
const libraryVariable = "FASTGRPC_LOAD_LIBRARY"

// serveConnections is the role serve: it prints its address, and with each line that it
// reads the bytes in its heap, until there are no more lines.
func serveConnections() error {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p := allPeers[0]
	if os.Getenv(libraryVariable) == theirs.name {
		p = theirs
	}
	s := p.newServer(insecure.NewCredentials(), keepalive.ServerParameters{})
	testgrpc.RegisterTestServiceServer(s, service{})
	go func() { _ = s.Serve(lis) }() // ends with Stop
	defer s.Stop()
	fmt.Fprintln(os.Stdout, lis.Addr())
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Fprintln(os.Stdout, heap())
	}
	return nil
}

// heap returns the bytes in use after a collection, without the buffers in pools.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// perConnection and perStream bound the memory, heap and stacks, of an end for one that is
// idle.
const (
	perConnection = 32 << 10
	perStream     = 24 << 10
)

// TestManyConnections opens 10,000 connections to one server, with a call on each, and calls
// on all of them again.
func TestManyConnections(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: 10,000 connections take some seconds")
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < many+100 {
		t.Skipf("a process may open %d files here (error %v), and it takes %d: raise ulimit -n", limit.Cur, err, many+100)
	}
	ours := manyConnections(t, allPeers[0], perConnection)
	if os.Getenv("JUDGES") == "" {
		return
	}
	than := manyConnections(t, theirs, 3*perConnection)
	if ours.server > than.server || ours.client > than.client {
		t.Errorf("a connection costs %+v bytes, grpc-go's %+v", ours, than)
	}
}

// connectionBytes returns the memory of an idle connection at both ends.
type connectionBytes struct{ server, client int64 }

func manyConnections(t *testing.T, p peers, most int) (each connectionBytes) {
	t.Helper()
	server := startServer(t, p.name)
	idle, ownIdle := server.heap(t), heap()
	conns := make([]connection, many)
	for i := range conns {
		conn, err := p.connect("passthrough:///"+server.address, insecure.NewCredentials(), nil)
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = conn
	}
	for range 2 {
		if err := onEach(conns, func(c connection) error {
			_, err := testgrpc.NewTestServiceClient(c).UnaryCall(t.Context(), &testgrpc.SimpleRequest{Payload: content(1, 64)})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	each.server = checkMemory(t, "a connection of "+p.name+"'s server", server.heap(t), idle, most)
	each.client = checkMemory(t, "a connection of "+p.name+"'s client", heap(), ownIdle, most)
	if err := onEach(conns, connection.Close); err != nil {
		t.Fatal(err)
	}
	clear(conns)
	gone := server.heap(t)
	for range 100 { // until the server has seen that its connections are closed
		if gone < idle+many*uint64(most)/10 {
			break
		}
		gone = server.heap(t)
	}
	checkMemory(t, "a connection that was closed, at the server", gone, idle, most/10)
	checkMemory(t, "a connection that was closed, at the client", heap(), ownIdle, most/10)
	return each
}

// onEach does something with all connections, some at a time.
func onEach(conns []connection, do func(connection) error) error {
	var workers sync.WaitGroup
	failures := make(chan error, atOnce)
	for w := range atOnce {
		workers.Go(func() {
			for i := w; i < len(conns); i += atOnce {
				if err := do(conns[i]); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	workers.Wait()
	close(failures)
	return <-failures // nil without any
}

func checkMemory(t *testing.T, what string, now, before uint64, most int) (each int64) {
	t.Helper()
	each = (int64(now) - int64(before)) / many
	t.Logf("%s: %d bytes", what, each)
	if each > int64(most) {
		t.Errorf("%s has %d bytes, want at most %d", what, each, most)
	}
	return each
}

// TestManyStreams has 10,000 calls open on one connection.
func TestManyStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: 10,000 streams take some seconds")
	}
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := fastgrpc.NewServer(fastgrpc.MaxConcurrentStreams(many))
	testgrpc.RegisterTestServiceServer(s, service{})
	go func() { _ = s.Serve(lis) }() // ends with Stop
	t.Cleanup(s.Stop)
	c, err := fastgrpc.NewClient("passthrough:///"+lis.Addr().String(), fastgrpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	idle := heap()
	streams := make([]testgrpc.TestService_FullDuplexCallClient, many)
	for i := range streams {
		if streams[i], err = testgrpc.NewTestServiceClient(c).FullDuplexCall(ctx); err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
	}
	for range 2 {
		for i, s := range streams {
			if err := s.Send(&testgrpc.StreamingOutputCallRequest{Payload: content(uint64(i), 64)}); err != nil {
				t.Fatalf("stream %d: %v", i, err)
			}
		}
		for i, s := range streams {
			if out, err := s.Recv(); err != nil || !isContent(out.GetPayload(), uint64(i), 64) {
				t.Fatalf("stream %d: %v", i, err)
			}
		}
	}
	if n := len(c.Conns()); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	checkMemory(t, "a stream, both ends", heap(), idle, perStream)
	for i, s := range streams {
		if err := s.CloseSend(); err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
		if err := end(s); err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
	}
	clear(streams)
	checkMemory(t, "a stream that has ended", heap(), idle, perStream/2)
}

// serverProcess is a process in the role serve.
type serverProcess struct {
	address string
	ask     io.WriteCloser
	answers *bufio.Reader
}

func startServer(t *testing.T, library string) *serverProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=serve", libraryVariable+"="+library)
	cmd.Stderr = os.Stderr
	ask, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(ask.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	p := &serverProcess{ask: ask, answers: bufio.NewReader(out)}
	p.address = p.line(t)
	return p
}

func (p *serverProcess) line(t *testing.T) string {
	t.Helper()
	line, err := p.answers.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

func (p *serverProcess) heap(t *testing.T) (bytes uint64) {
	t.Helper()
	if _, err := fmt.Fprintln(p.ask); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(p.line(t), &bytes); err != nil {
		t.Fatal(err)
	}
	return bytes
}
