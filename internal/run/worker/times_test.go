package worker_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/run/worker/body"
	"wirelab.dev/internal/run/worker/conform"
)

// lies are wirelab's own worker with a false result: the part of the test program is the name. Each gets a
// client's result and the service times in it, the shortest first, and returns other times.
var lies = map[string]func(c *worker.ClientResult, times []int64) []int64{
	"halves":  func(c *worker.ClientResult, times []int64) []int64 { return multiplied(c, times, 0.5) },
	"doubles": func(c *worker.ClientResult, times []int64) []int64 { return multiplied(c, times, 2) },
	// The slowest 1 % are said to have been fast.
	"polishes": func(_ *worker.ClientResult, times []int64) []int64 {
		for i := len(times) * 99 / 100; i < len(times); i++ {
			times[i] = int64(40 * time.Microsecond)
		}
		return times
	},
	// The slowest 1 % are left out, and the counts agree.
	"drops": func(c *worker.ClientResult, times []int64) []int64 {
		kept := len(times) * 99 / 100
		c.Requests, c.Completed = int64(kept), c.Completed-int64(len(times)-kept)
		return times[:kept]
	},
	// One call of twenty is left out, whatever it took.
	"thins": func(c *worker.ClientResult, times []int64) []int64 {
		var kept []int64
		for i, took := range times {
			if i%20 != 0 || i > len(times)*9/10 {
				kept = append(kept, took)
			}
		}
		c.Requests, c.Completed = int64(len(kept)), c.Completed-int64(len(times)-len(kept))
		return kept
	},
	// Callers are said to be idle for half of the time.
	"idles": func(c *worker.ClientResult, times []int64) []int64 {
		c.InFlight /= 20 // on a busy machine, handlers take a small part of a call
		return times
	},
}

// multiplied multiplies the times, and what Little's law compares with them.
func multiplied(c *worker.ClientResult, times []int64, factor float64) []int64 {
	c.InFlight *= factor
	c.StraddlingNS = int64(factor * float64(c.StraddlingNS))
	for i := range times {
		times[i] = int64(factor * float64(times[i]))
	}
	return times
}

// lieAbout runs wirelab's own worker, and distorts the result that it prints.
func lieAbout(lie func(*worker.ClientResult, []int64) []int64) {
	from, to := io.Pipe()
	ended := make(chan error)
	go func() {
		err := body.Main(context.Background(), os.Stdin, to)
		_ = to.Close()
		ended <- err
	}()
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if bytes.HasPrefix(line, []byte(`{"event":"result"`)) {
			line = distorted(line, lie)
		}
		_, _ = os.Stdout.Write(line)
		if err != nil {
			break
		}
	}
	if err := <-ended; err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func distorted(line []byte, lie func(*worker.ClientResult, []int64) []int64) []byte {
	var event worker.Event
	if err := json.Unmarshal(line, &event); err != nil {
		panic(err)
	}
	c := event.Result.Client
	if c == nil {
		return line
	}
	h, err := c.Service.Decode()
	if err != nil {
		panic(err)
	}
	var times []int64
	for at, count := range h.Counts() {
		for range count {
			times = append(times, int64(at))
		}
	}
	r := latency.NewRecorder()
	defer r.Close()
	for _, took := range lie(c, times) {
		r.Record(took)
	}
	if c.Service, err = latency.NewHistogram(r).Distribution(); err != nil {
		panic(err)
	}
	if c.Response != nil {
		c.Response = new(c.Service)
	}
	line, err = json.Marshal(event)
	if err != nil {
		panic(err)
	}
	return append(line, '\n')
}

// A worker whose result is false may agree with itself. Only what the check knows of its calls contradicts it:
// the time that answers were held back, the check's clock, and the server's own count and times.
func TestFalseResultsAreFound(t *testing.T) {
	for part, wants := range map[string]map[string][]string{
		"halves": {
			"client/times":      {"the shortest service time is", "each answer was held back for 20ms", "the times are too short"},
			"client/slow calls": {"of the client's calls took so long"},
		},
		"doubles":  {"client/times": {"calls in flight"}},
		"polishes": {"client/slow calls": {"of the client's calls took so long: slow calls are missing"}},
		"drops":    {"client/slow calls": {"of the client's calls took so long: slow calls are missing", "in the client's window, but the result has 1188"}},
		"thins":    {"client/slow calls": {"calls in the client's window, but the result has 11"}},
		"idles":    {"client/slow calls": {"calls in flight, but the server's handlers alone had"}},
		"worker":   nil,
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel() // nothing is measured
			for _, check := range conform.Checks(conform.Peer{Command: self(t, part), Reference: self(t, "worker"), Stack: "tcp", Client: true}) {
				if check.Name != "client/times" && check.Name != "client/slow calls" {
					continue
				}
				err := check.RunOutsideTests(t.Context())
				if part == "worker" && err != nil {
					t.Errorf("%s: %v", check.Name, err)
				}
				for _, want := range wants[check.Name] {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%s: the error does not say %q: %v", check.Name, want, err)
					}
				}
			}
		})
	}
}
