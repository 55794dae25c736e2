// Levertruth plants known causes, lets wirelab look for the lever, and counts how often it names the
// right one:
//
//	levertruth -wirelab bin/wirelab -runs 1 -budget 90s
//
// Each plant is a variant with a bad setting, or one that no lever moves. It prints one line per run
// and the counts, and makes no judgement of its own.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A plant is a known cause: the arguments of compare and of explain, and the right options. The best
// lever must be one of these options. Without options, no lever may be named.
type plant struct {
	name             string
	compare, explain []string
	options          []string
}

var plants = []plant{
	{"a collector with a small heap", []string{"--stack", "grpc:gogc=10", "--size", "64", "-c", "4", "--probe", "life,cpu"}, nil, []string{"gogc", "gomemlimit"}},
	{"a collector with little memory", []string{"--stack", "tcp:gomemlimit=4MiB", "--size", "64KiB", "-c", "8", "--probe", "cpu"}, nil, []string{"gomemlimit", "buffers", "gogc"}},
	{"a small flow-control window", []string{"--stack", "grpc:window=64KiB", "--size", "1MiB", "-c", "1"}, nil, []string{"window"}},
	{"one buffer per frame", []string{"--stack", "tcp", "--size", "1MiB", "-c", "4", "--probe", "cpu"}, nil, []string{"buffers"}},
	{"a slow certificate", []string{"--stack", "h1:cert=rsa,tls=on", "--size", "64", "-c", "4", "--conn", "new"}, nil, []string{"cert", "conn", "tls"}},
	{"the service computes", []string{"--stack", "tcp", "--workload", "echo:compute=200us", "--size", "64", "-c", "1", "--probe", "life,cpu"}, nil, nil},
	{"levers that change nothing", []string{"--stack", "fake:delay=2ms", "--size", "64", "-c", "1"}, []string{"--levers", "gogc=200,gogc=400,gomemlimit=256MiB,inflight=9"}, nil},
}

func main() {
	wirelab := flag.String("wirelab", "bin/wirelab", "the `program` to examine")
	runs := flag.Int("runs", 1, "number of `runs` of each plant")
	budget := flag.Duration("budget", 90*time.Second, "`time` for the levers of a run")
	of := flag.String("of", "mean", "the `figure` that the levers shall move")
	only := flag.String("only", "", "only the plants whose names contain this `text`")
	flag.Parse()
	if err := (truth{*wirelab, *only, *of, *runs, *budget}).measure(); err != nil {
		fmt.Fprintln(os.Stderr, "levertruth:", err)
		os.Exit(1)
	}
}

// truth holds the flags.
type truth struct {
	wirelab, only, of string
	runs              int
	budget            time.Duration
}

func (t truth) measure() error {
	counts := map[string]int{}
	for _, p := range plants {
		if !strings.Contains(p.name, t.only) {
			continue
		}
		for range t.runs {
			began := time.Now()
			found, err := t.try(p)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			outcome := p.judge(found)
			counts[outcome]++
			fmt.Fprintf(os.Stdout, "%-32s %-6s in %v: %s\n", p.name, outcome, time.Since(began).Round(time.Second), strings.Join(found.texts(), "; "))
		}
	}
	fmt.Fprintf(os.Stdout, "right %d, missed %d, wrong %d\n", counts["right"], counts["missed"], counts["wrong"])
	return nil
}

// judge compares the best lever with the plant.
func (p plant) judge(found answer) string {
	best := found.best()
	switch {
	case best == "" && len(p.options) == 0:
		return "right"
	case best == "":
		return "missed"
	case slices.ContainsFunc(p.options, func(option string) bool { return strings.Contains(best, option+"=") }):
		return "right"
	}
	return "wrong"
}

// An answer is what explain --try --json prints.
type answer struct {
	Levers []struct {
		Levers []struct {
			Name, Verdict string
			Ratio         *float64
		}
	}
}

// best returns the lever that is proven to help most, or "".
func (a answer) best() string {
	if len(a.Levers) == 0 || len(a.Levers[0].Levers) == 0 || a.Levers[0].Levers[0].Verdict != "faster" {
		return ""
	}
	return a.Levers[0].Levers[0].Name
}

func (a answer) texts() (all []string) {
	if len(a.Levers) == 0 {
		return nil
	}
	for _, l := range a.Levers[0].Levers {
		if l.Ratio != nil {
			all = append(all, fmt.Sprintf("%s %.2f (%s)", l.Name, *l.Ratio, l.Verdict))
		}
	}
	return all
}

// try measures a plant, and lets wirelab look for its lever.
func (t truth) try(p plant) (found answer, err error) {
	folder, err := os.MkdirTemp("", "levertruth-")
	if err != nil {
		return found, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	run := filepath.Join(folder, "run")
	compare := append([]string{"compare", "--repeat", "3", "-o", run}, p.compare...)
	if _, err := output(t.wirelab, compare...); err != nil {
		return found, err
	}
	explain := append([]string{"explain", run, "--try", "--json", "--of", t.of, "--budget", t.budget.String(), "-o", filepath.Join(folder, "levers")}, p.explain...)
	text, err := output(t.wirelab, explain...)
	if err != nil {
		return found, err
	}
	return found, json.Unmarshal(text, &found)
}

// output runs wirelab. That the trials are not valid is no error: other programs may run.
func output(wirelab string, arguments ...string) ([]byte, error) {
	const cannotTell = 4
	text, err := exec.Command(wirelab, arguments...).Output() //nolint:gosec // the program under test
	if failed, is := errors.AsType[*exec.ExitError](err); is && failed.ExitCode() != cannotTell {
		return nil, fmt.Errorf("%w: %s", err, failed.Stderr)
	} else if err != nil && !is {
		return nil, err
	}
	return text, nil
}
