package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"wirelab.dev/fastgrpc"
)

// chunksAPut is how many chunks one stream carries: 16 MiB of the usual size.
const chunksAPut = 1024

func runRole(role string, s spec) error {
	switch role {
	case "server":
		return runServer(s)
	case "client":
		return runClient(s)
	}
	return fmt.Errorf("unknown role %q", role)
}

// runServer serves until its input ends.
func runServer(s spec) error {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(lis.Addr().String()); err != nil {
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- serve(lis, s) }()
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		ended <- err
	}()
	return <-ended
}

func serve(lis net.Listener, s spec) error {
	switch s.Server {
	case "grpc":
		server := grpc.NewServer()
		server.RegisterService(&serviceDesc, benchService{})
		return server.Serve(lis)
	case "fast":
		server := fastgrpc.NewServer(fastgrpc.AliasRequests())
		server.RegisterService(&serviceDesc, benchService{})
		return server.Serve(lis)
	}
	return serveTCP(lis, s)
}

func dial(s spec) (grpc.ClientConnInterface, error) {
	creds := insecure.NewCredentials()
	if s.Client == "grpc" {
		return grpc.NewClient("passthrough:///"+s.Address, grpc.WithTransportCredentials(creds))
	}
	return fastgrpc.NewClient("passthrough:///"+s.Address,
		fastgrpc.WithTransportCredentials(creds), fastgrpc.WithAliasedResponses())
}

// job is one unit of work: a call, or a stream of so many bytes.
type job func(caller int) (units float64, err error)

func runClient(s spec) error {
	work, err := newJob(s)
	if err != nil {
		return err
	}
	if _, err := work(0); err != nil {
		return err
	}
	l := &loop{work: work, timed: s.Callers == 1 || s.Size >= 64<<10}
	l.start(s.Callers)
	time.Sleep(s.Window / 3)
	before, units, began := cpuTimes(s.PID), l.begin(), time.Now()
	time.Sleep(s.Window)
	units = l.units() - units
	after, elapsed := cpuTimes(s.PID), time.Since(began)
	latencies, err := l.stop()
	if err != nil {
		return err
	}
	if units == 0 {
		return fmt.Errorf("nothing ended within %v; use a longer -window", s.Window)
	}
	r := result{
		PerSecond: units / elapsed.Seconds(),
		ClientCPU: (after[0] - before[0]) / units,
		ServerCPU: (after[1] - before[1]) / units,
	}
	// In a closed loop the mean follows from the rate.
	r.Mean = time.Duration(float64(s.Callers) / r.PerSecond * float64(time.Second))
	if n := len(latencies); n > 0 {
		slices.Sort(latencies)
		r.P50, r.P99 = latencies[n/2], latencies[n*99/100]
	}
	return json.NewEncoder(os.Stdout).Encode(r)
}

func newJob(s spec) (job, error) {
	if s.Client == "tcp" {
		return tcpJob(s)
	}
	stubs := make([]stub, s.Conns)
	for i := range stubs {
		cc, err := dial(s)
		if err != nil {
			return nil, err
		}
		stubs[i] = stub{cc}
	}
	ctx := context.Background()
	in := wrapperspb.Bytes(make([]byte, s.Size))
	gigabytes := float64(chunksAPut*s.Size) / 1e9
	switch s.Work {
	case "put":
		return func(int) (float64, error) { return gigabytes, put(ctx, stubs[0], in) }, nil
	case "get":
		return func(int) (float64, error) { return gigabytes, get(ctx, stubs[0], s.Size) }, nil
	}
	return func(caller int) (float64, error) {
		out, err := stubs[caller%len(stubs)].Echo(ctx, in)
		if err == nil && len(out.Value) != s.Size {
			err = fmt.Errorf("%d bytes came back as %d", s.Size, len(out.Value))
		}
		return 1, err
	}, nil
}

func put(ctx context.Context, c stub, in *wrapperspb.BytesValue) error {
	s, err := c.NewStream(ctx, &putDesc, methodPut)
	if err != nil {
		return err
	}
	for range chunksAPut {
		if err := s.SendMsg(in); err != nil {
			return err
		}
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	out := new(wrapperspb.BytesValue)
	if err := s.RecvMsg(out); err != nil {
		return err
	}
	if got := binary.BigEndian.Uint64(out.Value); got != uint64(chunksAPut*len(in.Value)) {
		return fmt.Errorf("server counted %d bytes", got)
	}
	return nil
}

func get(ctx context.Context, c stub, size int) error {
	s, err := c.NewStream(ctx, &getDesc, methodGet)
	if err != nil {
		return err
	}
	ask := binary.BigEndian.AppendUint32(nil, chunksAPut)
	if err := s.SendMsg(wrapperspb.Bytes(binary.BigEndian.AppendUint32(ask, uint32(size)))); err != nil {
		return err
	}
	if err := s.CloseSend(); err != nil {
		return err
	}
	total := 0
	m := new(wrapperspb.BytesValue)
	for {
		if err := s.RecvMsg(m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		total += len(m.Value)
	}
	if total != chunksAPut*size {
		return fmt.Errorf("got %d bytes", total)
	}
	return nil
}

// loop keeps a number of callers busy and counts.
type loop struct {
	work    job
	timed   bool
	callers []callerState
	running sync.WaitGroup
	quit    chan struct{}
}

// callerState is one caller's own: nothing is shared while it runs.
type callerState struct {
	mu        sync.Mutex
	units     float64
	latencies []time.Duration
	err       error
	_         [64]byte
}

func (l *loop) start(n int) {
	l.callers = make([]callerState, n)
	l.quit = make(chan struct{})
	for i := range l.callers {
		l.running.Add(1)
		go l.call(i)
	}
}

func (l *loop) call(i int) {
	defer l.running.Done()
	c := &l.callers[i]
	for {
		select {
		case <-l.quit:
			return
		default:
		}
		var began time.Time
		if l.timed {
			began = time.Now()
		}
		units, err := l.work(i)
		c.mu.Lock()
		c.units += units
		if l.timed {
			c.latencies = append(c.latencies, time.Since(began))
		}
		c.err = err
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

func (l *loop) units() float64 {
	total := 0.0
	for i := range l.callers {
		c := &l.callers[i]
		c.mu.Lock()
		total += c.units
		c.mu.Unlock()
	}
	return total
}

// begin forgets the warm-up's latencies and returns its units.
func (l *loop) begin() float64 {
	for i := range l.callers {
		l.callers[i].mu.Lock()
		l.callers[i].latencies = nil
		l.callers[i].mu.Unlock()
	}
	return l.units()
}

func (l *loop) stop() ([]time.Duration, error) {
	close(l.quit)
	l.running.Wait()
	var all []time.Duration
	for i := range l.callers {
		if err := l.callers[i].err; err != nil {
			return nil, err
		}
		all = append(all, l.callers[i].latencies...)
	}
	return all, nil
}

// cpuTimes are the seconds on a CPU of this process and of another.
func cpuTimes(other int) [2]float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for the caller itself
	own := time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
	return [2]float64{own, schedTime(other)}
}

// schedTime sums the run time of a process's threads, from schedstat.
func schedTime(pid int) float64 {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, _ := os.ReadDir(dir)
	total := 0.0
	for _, t := range tasks {
		data, err := os.ReadFile(dir + "/" + t.Name() + "/schedstat")
		if err != nil {
			continue // the thread has ended
		}
		var ns float64
		if _, err := fmt.Sscan(strings.Fields(string(data))[0], &ns); err == nil {
			total += ns
		}
	}
	return total / 1e9
}
