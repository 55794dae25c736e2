// Package bulk plays much traffic over one connection, of grpc-go, fastgrpc and creditrpc by
// turns, and prints the cost of each. The honest grid wants every call to succeed and compares
// CPU time and P99; the hostile grid sends calls whose answers nobody reads and compares the
// server's heap with the bound in SECURITY.md.
//
//	test ── commands as lines of JSON ──> server process (one per library)
//	     ── commands as lines of JSON ──> client process (one per library)
//
// Both ends are processes, so that the CPU time and memory of each are its own.
package bulk

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/rpc/creditrpc"
	"wirelab.dev/rpc/fastgrpc"
)

// A process that a test starts plays one of the roles.
const roleVariable = "BULK_ROLE"

func TestMain(m *testing.M) {
	role := os.Getenv(roleVariable)
	if role == "" {
		os.Exit(m.Run())
	}
	debug.SetMemoryLimit(16 << 30) // a fault must not take the machine with it
	if err := play(role); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// settings are the options of a server and its clients. Zero fields are defaults.
type settings struct {
	MaxReceive int
	Window     int // of streams and of the connection, in bytes
	Calls      int // that a server takes at once; only creditrpc has a limit by default
	Library    string
}

// An order tells a process what to do.
type order struct {
	Do       string // listen, cpu, live, stop or run
	Settings settings
	Address  string
	Load     load
	// Answer and After shape a server's answers to unary calls that ask for none.
	Answer int
	After  time.Duration
}

// usage holds the CPU time and memory that a process has used.
type usage struct {
	CPU            time.Duration
	Heap, PeakHeap uint64 // live bytes now; the largest since the last order to listen
	PeakRSS        uint64
}

// A report answers an order.
type report struct {
	Address string
	Usage   usage
	Result  result
	Error   string
}

// play reads orders until there are no more.
func play(role string) error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	var s *served
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("%s: bad order: %w", role, err)
		}
		var r report
		var err error
		switch o.Do {
		case "listen":
			s, r.Address, err = listen(&o)
		case "stop":
			s.stop()
			s = nil
			settle()
		case "cpu":
			r.Usage = measure(s)
		case "live":
			settle()
			r.Usage = measure(s)
		case "run":
			r.Result, err = run(&o)
		default:
			err = fmt.Errorf("unknown order %q", o.Do)
		}
		if err != nil {
			r.Error = err.Error()
		}
		out, err := json.Marshal(r)
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stdout, string(out))
	}
	return lines.Err()
}

// settle collects garbage, and makes the process's peaks begin here.
func settle() {
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // else peaks are of the whole life
}

func measure(s *served) usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u := usage{CPU: cpuTime(), Heap: m.HeapAlloc, PeakRSS: peakRSS()}
	if s != nil {
		u.PeakHeap = s.peakHeap.Load()
	}
	return u
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no other error than a bad argument
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// peakRSS returns the most memory the process has had since settle; 0 where /proc has none.
func peakRSS() uint64 {
	text, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	value, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	kib, _ := strconv.ParseUint(value, 10, 64)
	return kib << 10
}

// server has the methods that the servers of all libraries share.
type server interface {
	grpc.ServiceRegistrar
	Serve(net.Listener) error
	Stop()
}

// client has the methods that the clients of all libraries share.
type client interface {
	grpc.ClientConnInterface
	Close() error
}

const (
	grpcGo  = "grpc-go"
	fast    = "fastgrpc"
	credits = "creditrpc"
)

func newServer(s settings) server {
	most, window := s.MaxReceive, s.Window
	switch s.Library {
	case fast:
		opts := []fastgrpc.ServerOption{}
		if most > 0 {
			opts = append(opts, fastgrpc.MaxRecvMsgSize(most))
		}
		if window > 0 {
			opts = append(opts, fastgrpc.Windows(window, window))
		}
		return fastgrpc.NewServer(opts...)
	case credits:
		opts := []creditrpc.ServerOption{}
		if s.Calls > 0 {
			opts = append(opts, creditrpc.MaxCalls(s.Calls))
		}
		if most > 0 {
			opts = append(opts, creditrpc.MaxReceive(most))
		}
		return creditrpc.NewServer(opts...)
	}
	opts := []grpc.ServerOption{}
	if most > 0 {
		opts = append(opts, grpc.MaxRecvMsgSize(most))
	}
	if window > 0 {
		opts = append(opts, grpc.InitialWindowSize(int32(window)), grpc.InitialConnWindowSize(int32(window)))
	}
	return grpc.NewServer(opts...)
}

func newClient(address string, s settings) (client, error) {
	most, window := s.MaxReceive, s.Window
	target := "passthrough:///" + address
	switch s.Library {
	case fast:
		opts := []fastgrpc.ClientOption{fastgrpc.WithTransportCredentials(insecure.NewCredentials())}
		if most > 0 {
			opts = append(opts, fastgrpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(most)))
		}
		if window > 0 {
			opts = append(opts, fastgrpc.WithWindows(window, window))
		}
		return fastgrpc.NewClient(target, opts...)
	case credits:
		opts := []creditrpc.ClientOption{}
		if most > 0 {
			opts = append(opts, creditrpc.WithMaxReceive(most))
		}
		return creditrpc.NewClient(address, opts...)
	}
	opts := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if most > 0 {
		opts = append(opts, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(most)))
	}
	if window > 0 {
		opts = append(opts, grpc.WithInitialWindowSize(int32(window)), grpc.WithInitialConnWindowSize(int32(window)))
	}
	return grpc.NewClient(target, opts...)
}

// served is a server that runs.
type served struct {
	server   server
	over     chan struct{}
	peakHeap atomic.Uint64
}

func listen(o *order) (*served, string, error) {
	lis, err := net.Listen("tcp", o.Address)
	if err != nil {
		return nil, "", err
	}
	settle()
	s := &served{server: newServer(o.Settings), over: make(chan struct{})}
	register(s.server, o)
	go func() { _ = s.server.Serve(lis) }() // ends with stop
	go s.watchHeap()
	return s, lis.Addr().String(), nil
}

// watchHeap keeps the largest heap until stop.
func (s *served) watchHeap() {
	for {
		if now := heapObjects(); now > s.peakHeap.Load() {
			s.peakHeap.Store(now)
		}
		select {
		case <-s.over:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *served) stop() {
	close(s.over)
	s.server.Stop()
}

// process is a process in a role.
type process struct {
	ask     io.WriteCloser
	answers *bufio.Reader
}

// start starts a process, in a network if enter is not nil.
func start(t *testing.T, role string, enter func() error) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Stderr = os.Stderr
	ask, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begin := cmd.Start
	if enter != nil {
		begin = func() error {
			return host.OnDisposableThread(func() error { return errors.Join(enter(), cmd.Start()) })
		}
	}
	if err := begin(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(ask.Close(), cmd.Wait()); err != nil {
			t.Errorf("%s: %v", role, err)
		}
	})
	return &process{ask: ask, answers: bufio.NewReader(out)}
}

// do gives an order and returns the report.
func (p *process) do(t *testing.T, o order) report {
	t.Helper()
	line, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(p.ask, string(line)); err != nil {
		t.Fatal(err)
	}
	answer, err := p.answers.ReadBytes('\n')
	if err != nil {
		t.Fatalf("%s %+v: the process ended: %v", o.Do, o.Load, err)
	}
	var r report
	if err := json.Unmarshal(answer, &r); err != nil {
		t.Fatal(err)
	}
	if r.Error != "" {
		t.Fatalf("%s: %s", o.Do, r.Error)
	}
	return r
}
