// Loadtruth measures how well wirelab load recovers known times:
//
//	loadtruth -wirelab bin/wirelab -window 5s
//
// It is the service, too. The service knows how long it took for each answer. For each load it prints
// what theory expects, what the service itself recorded, and what wirelab printed. It makes no judgement
// of its own.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		fmt.Fprintln(os.Stderr, "loadtruth:", serve())
		os.Exit(1)
	}
	var t truth
	flag.StringVar(&t.wirelab, "wirelab", "bin/wirelab", "the `program` to examine")
	flag.DurationVar(&t.window, "window", 5*time.Second, "length of each `window`")
	flag.StringVar(&t.only, "only", "", "measure only the loads whose `name` contains this")
	flag.Parse()
	if err := t.measure(); err != nil {
		fmt.Fprintln(os.Stderr, "loadtruth:", err)
		os.Exit(1)
	}
}

type truth struct {
	wirelab, only string
	window        time.Duration
	proto         string // file with the description of the gRPC service
}

// A load is what is measured: its name, the flags of wirelab load, the path, and what theory expects.
type load struct {
	name, flags, path string
	expected          figures
}

// What theory expects, in milliseconds. A call in a stall waits for its end, so its time is uniform up to
// 200 ms in a fifth of the calls. A closed loop has one call per client in each stall.
var (
	stalling    = figures{Mean: 20, P50: 0, P90: 100, P99: 190, Max: 200}
	exponential = figures{Mean: 5, P50: 3.47, P90: 11.5, P99: 23.0}
	ticking     = figures{Mean: 5, P50: 5, P90: 5, P99: 5}
)

var loads = []load{
	{"stall, HTTP, open, 1,000/s", "--rps 1000 --arrivals constant -c 300", "/stall", stalling},
	{"stall, HTTP, open, 500/s, 3 trials", "--rps 500 --arrivals constant -c 200 --repeat 3", "/stall", stalling},
	{"stall, gRPC streams, open, 1,000/s", "--streams --rps 1000 --arrivals constant -c 300", "/truth.v1.Truth/Stall", stalling},
	{"exponential, HTTP, open, 500/s, 3 trials", "--rps 500 -c 100 --repeat 3", "/exponential", exponential},
	{"exponential, HTTP, closed, 3 trials", "-c 10 --repeat 3", "/exponential", exponential},
	{"exponential, HTTP, closed, by slices", "-c 10 --repeat 3 --against {}", "/exponential", exponential},
	{"exponential, HTTP, open, by slices", "--rps 500 -c 100 --repeat 3 --against {}", "/exponential", exponential},
	{"exponential, gRPC streams, open, 500/s, 3 trials", "--streams --rps 500 -c 100 --repeat 3", "/truth.v1.Truth/Exponential", exponential},
	{"exponential, gRPC streams, closed, 3 trials", "--streams -c 10 --repeat 3", "/truth.v1.Truth/Exponential", exponential},
	{"5 ms between messages, one in 1,000 dropped", "--streams --exchange receive -c 50 --sequence json(.seq)", "/truth.v1.Truth/Tick", ticking},
	{"one slow stream among 1,000", "--streams -c 1000 --message-rate 1 --arrivals constant", "/truth.v1.Truth/OneSlow", figures{}},
}

func (t *truth) measure() error {
	folder, err := os.MkdirTemp("", "loadtruth-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	t.proto = filepath.Join(folder, "truth.proto")
	if err := os.WriteFile(t.proto, []byte(description), 0o600); err != nil {
		return err
	}
	fmt.Fprintf(os.Stdout, "%-58s %9s %9s %9s %9s %9s\n", "in ms", "mean", "P50", "P90", "P99", "max")
	for _, l := range loads {
		if strings.Contains(l.name, t.only) {
			if err := t.run(l); err != nil {
				return fmt.Errorf("%s: %w", l.name, err)
			}
		}
	}
	return nil
}

// run measures a load of a new service.
func (t *truth) run(l load) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	service := exec.Command(self, "serve") //nolint:gosec // this program
	service.Stderr = os.Stderr
	out, err := service.StdoutPipe()
	if err != nil {
		return err
	}
	if err := service.Start(); err != nil {
		return err
	}
	defer func() {
		_ = service.Process.Kill()
		_ = service.Wait() // it was killed
	}()
	var address string
	if _, err := fmt.Fscanln(out, &address); err != nil {
		return err
	}
	target := "http://" + address + l.path
	arguments := []string{"load", "--json", "--no-save", "-z", t.window.String()}
	if strings.Contains(l.flags, "--streams") {
		target = "grpc://" + address + l.path
		arguments = append(arguments, "--proto", t.proto, "-d", "{}")
	}
	arguments = append(append(arguments, strings.Fields(strings.ReplaceAll(l.flags, "{}", target))...), target)
	command := exec.Command(t.wirelab, arguments...) //nolint:gosec // the program under test
	output, err := command.Output()
	const cannotTell = 4
	if failed, is := errors.AsType[*exec.ExitError](err); is && failed.ExitCode() != cannotTell {
		return fmt.Errorf("%w: %s", err, failed.Stderr)
	} else if err != nil && !is {
		return err
	}
	var printed struct{ Cells []cell }
	if err := json.Unmarshal(output, &printed); err != nil {
		return err
	}
	own, err := recorded(address)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, l.name)
	if l.expected != (figures{}) {
		l.expected.printRow("theory")
	}
	own.Figures.printRow(fmt.Sprintf("the service, %d calls", own.Calls))
	for _, c := range printed.Cells {
		c.printRow(own)
	}
	return nil
}

// A cell is what wirelab printed, in microseconds.
type cell struct {
	Requests, Errors int64
	Valid            bool
	Response         figures `json:"response_us"`
	Warnings         []string
	Streams          *struct {
		Sequence  struct{ Missing, Duplicate, Reordered int64 }
		PerStream *struct {
			Fastest float64 `json:"fastest_mean_us"`
			Slowest float64 `json:"slowest_mean_us"`
		} `json:"per_stream"`
	}
}

func (c cell) printRow(own record) {
	said := ""
	if !c.Valid {
		said = ", not valid"
	}
	c.Response.times(1e-3).printRow(fmt.Sprintf("wirelab, %d calls%s", c.Requests, said))
	if c.Errors > 0 {
		fmt.Fprintf(os.Stdout, "    %d failed: %s\n", c.Errors, strings.Join(c.Warnings, "; "))
	}
	if s := c.Streams; s != nil && own.Dropped > 0 {
		fmt.Fprintf(os.Stdout, "    %d dropped by the service; wirelab: %d missing, %d duplicate, %d reordered\n", own.Dropped, s.Sequence.Missing, s.Sequence.Duplicate, s.Sequence.Reordered)
	}
	if s := c.Streams; s != nil && s.PerStream != nil && own.SlowMeanMS > 0 {
		fmt.Fprintf(os.Stdout, "    the slow stream: %.1f by the service, %.1f by wirelab; the fastest %.2f\n", own.SlowMeanMS, s.PerStream.Slowest/1e3, s.PerStream.Fastest/1e3)
	}
}

// recorded asks the service what it recorded.
func recorded(address string) (r record, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/record", nil)
	if err != nil {
		return r, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return r, err
	}
	defer func() { _ = answer.Body.Close() }() // nothing is written
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}
