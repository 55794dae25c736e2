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

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/run/worker/body"
	"wirelab.dev/internal/run/worker/conform"
)

// distortTimes is wirelab's own worker, but all times of its result are multiplied by a factor: the
// distributions, and what Little's law compares with them.
func distortTimes(factor float64) {
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
			line = distorted(line, factor)
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

func distorted(line []byte, factor float64) []byte {
	var event worker.Event
	if err := json.Unmarshal(line, &event); err != nil {
		panic(err)
	}
	c := event.Result.Client
	if c == nil {
		return line
	}
	for _, d := range []*latency.Distribution{&c.Service, c.Response} {
		if d == nil {
			continue
		}
		h, err := d.Decode()
		if err != nil {
			panic(err)
		}
		r := latency.NewRecorder()
		for at, count := range h.Counts() {
			for range count {
				r.Record(int64(factor * float64(at)))
			}
		}
		if *d, err = latency.NewHistogram(r).Distribution(); err != nil {
			panic(err)
		}
		r.Close()
	}
	c.InFlight *= factor
	c.StraddlingNS = int64(factor * float64(c.StraddlingNS))
	line, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	return append(line, '\n')
}

// A worker whose times are all wrong by the same factor agrees with itself. Only the time that its
// answers were held back, and the check's clock, contradict the worker.
func TestWrongTimesAreFound(t *testing.T) {
	for part, wants := range map[string][]string{
		"halves":  {"the shortest service time is", "each answer was held back for 20ms", "the times are too short"},
		"doubles": {"calls in flight"},
		"worker":  nil,
	} {
		t.Run(part, func(t *testing.T) {
			t.Parallel() // nothing is measured
			for _, check := range conform.Checks(conform.Peer{Command: self(t, part), Reference: self(t, "worker"), Stack: "tcp", Client: true}) {
				if check.Name != "client/times" && check.Name != "client/requests" {
					continue
				}
				err := check.RunOutsideTests(t.Context())
				if check.Name == "client/requests" || len(wants) == 0 {
					if err != nil {
						t.Errorf("%s: %v", check.Name, err)
					}
					continue
				}
				for _, want := range wants {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("the error does not say %q: %v", want, err)
					}
				}
			}
		})
	}
}
