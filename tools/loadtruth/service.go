package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

const description = `syntax = "proto3";
package truth.v1;
service Truth {
  rpc Stall(stream Message) returns (stream Message);
  rpc Exponential(stream Message) returns (stream Message);
  rpc OneSlow(stream Message) returns (stream Message);
  rpc Tick(Message) returns (stream Message);
}
message Message { int32 seq = 1; }
`

const (
	stallLength = 200 * time.Millisecond // of each second
	meanTime    = 5 * time.Millisecond
	tick        = 5 * time.Millisecond
	dropEvery   = 1000
	slowStream  = 500
	slowTime    = 300 * time.Millisecond
)

// figures holds the times of a distribution. An unknown one is 0.
type figures struct{ Mean, P50, P90, P99, Max float64 }

func (f figures) times(n float64) figures {
	return figures{f.Mean * n, f.P50 * n, f.P90 * n, f.P99 * n, f.Max * n}
}

func (f figures) printRow(name string) {
	fmt.Fprintf(os.Stdout, "  %-56s", name)
	for _, v := range []float64{f.Mean, f.P50, f.P90, f.P99, f.Max} {
		fmt.Fprintf(os.Stdout, " %9.2f", v)
	}
	fmt.Fprintln(os.Stdout)
}

// A record holds what the service did, in milliseconds.
type record struct {
	Calls      int
	Figures    figures
	Dropped    int64
	SlowMeanMS float64
}

// A service takes known times for its answers, and keeps them.
type service struct {
	mu      sync.Mutex
	took    []time.Duration
	slow    []time.Duration // of the slow stream
	dropped int64
	streams int
}

func serve() error {
	s := &service{}
	site := http.NewServeMux()
	site.HandleFunc("/record", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(s.summary()) // the client may be gone
	})
	for path, wait := range map[string]func(){"/stall": stall, "/exponential": exponentialWait} {
		site.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			s.keep(&s.took, wait)
			_, _ = w.Write([]byte("ok")) // the client may be gone
		})
	}
	for method, wait := range map[string]func(){"Stall": stall, "Exponential": exponentialWait} {
		s.handleStreams(site, method, func(int) { s.keep(&s.took, wait) })
	}
	s.handleStreams(site, "OneSlow", func(stream int) {
		if stream == slowStream {
			s.keep(&s.slow, func() { time.Sleep(slowTime) })
			return
		}
		s.keep(&s.took, func() {})
	})
	site.HandleFunc("/truth.v1.Truth/Tick", s.sendTicks)
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // the program ends with it
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, listener.Addr())
	server := &http.Server{Handler: site, Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 2000}, ReadHeaderTimeout: time.Minute}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return server.Serve(listener)
}

// stall waits for the end of the stall, if there is one now.
func stall() {
	if into := time.Duration(time.Now().Nanosecond()); into < stallLength {
		time.Sleep(stallLength - into)
	}
}

func exponentialWait() { time.Sleep(time.Duration(rand.ExpFloat64() * float64(meanTime))) } //nolint:gosec // no secret

// keep adds the time that wait takes.
func (s *service) keep(to *[]time.Duration, wait func()) {
	began := time.Now()
	wait()
	took := time.Since(began)
	s.mu.Lock()
	defer s.mu.Unlock()
	*to = append(*to, took)
}

// handleStreams answers each message of a stream after a wait.
func (s *service) handleStreams(site *http.ServeMux, method string, wait func(stream int)) {
	site.HandleFunc("/truth.v1.Truth/"+method, func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		stream := s.streams // 0 is the stream of the first call
		s.streams++
		s.mu.Unlock()
		answer := beginStream(w)
		messages := bufio.NewReader(r.Body)
		for n := int32(1); ; n++ {
			if !skipMessage(messages) {
				return
			}
			wait(stream)
			answer(n)
		}
	})
}

// sendTicks sends numbered messages, and drops one in 1,000. It keeps the times between them.
func (s *service) sendTicks(w http.ResponseWriter, r *http.Request) {
	answer := beginStream(w)
	due := time.Now()
	last := due
	for n := int32(1); r.Context().Err() == nil; n++ {
		due = due.Add(tick)
		time.Sleep(time.Until(due))
		if n%dropEvery == dropEvery/2 {
			s.mu.Lock()
			s.dropped++
			s.mu.Unlock()
			continue
		}
		now := time.Now()
		s.mu.Lock()
		s.took = append(s.took, now.Sub(last))
		s.mu.Unlock()
		last = now
		answer(n)
	}
}

// beginStream begins an answer of gRPC, and returns a function that sends a message.
func beginStream(w http.ResponseWriter) func(n int32) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	flush := http.NewResponseController(w).Flush
	_ = flush() // a client that is gone ends the stream
	return func(n int32) {
		field := binary.AppendUvarint([]byte{0x08}, uint64(n)) //nolint:gosec // above zero
		_, _ = w.Write(append([]byte{0, 0, 0, 0, byte(len(field))}, field...))
		_ = flush()
	}
}

// skipMessage reads a message of gRPC, and reports whether there was one.
func skipMessage(from *bufio.Reader) bool {
	var prefix [5]byte
	if _, err := io.ReadFull(from, prefix[:]); err != nil {
		return false
	}
	_, err := io.CopyN(io.Discard, from, int64(binary.BigEndian.Uint32(prefix[1:])))
	return err == nil
}

func (s *service) summary() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return record{Calls: len(s.took), Figures: figuresOf(s.took), Dropped: s.dropped, SlowMeanMS: figuresOf(s.slow).Mean}
}

func figuresOf(took []time.Duration) (f figures) {
	if len(took) == 0 {
		return f
	}
	sorted := slices.Sorted(slices.Values(took))
	inMS := func(d time.Duration) float64 { return float64(d) / 1e6 }
	at := func(share float64) float64 { return inMS(sorted[int(share*float64(len(sorted)-1))]) }
	for _, one := range took {
		f.Mean += inMS(one) / float64(len(took))
	}
	f.P50, f.P90, f.P99, f.Max = at(.5), at(.9), at(.99), at(1)
	return f
}
