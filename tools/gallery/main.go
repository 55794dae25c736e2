// Command gallery makes the reports that the site shows, each from a real run, one after the other:
// the comparison of each guide, examples of the commands, and a replication of the published studies.
//
//	commands ──> runs in a folder ──> each guide's chart, and the claims' outcomes, into the documents
//
// It takes about half an hour. A run that was interrupted continues, and one that is done stays.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A gallery holds what the flags say.
type gallery struct{ wirelab, root, out, only, budget string }

// A job is one command, and its run.
type job struct {
	name    string // of the run's folder
	line    string
	shorter string // what a budget adds to the line; $BUDGET is its time
	guide   string // the document that gets the chart; empty if none
	service string // the command of the service that the job loads; $ADDRESS in the line is its address
}

const short = "-z 100ms --warm-up 300ms"

// examples are the runs that show what the commands do. The replication takes longest, and is last.
var examples = []job{
	{name: "default", line: "compare", shorter: short + " --budget $BUDGET"},
	{name: "link", line: "compare --stack h2,h3,grpc --tls --link delay=5ms,loss=1% -c 16", shorter: short + " --budget $BUDGET"},
	{name: "try", line: "compare --stack grpc --size 1MiB -c 4 --try", shorter: "--budget $BUDGET"},
	{name: "load", line: "load -c 20 -z 10s http://$ADDRESS/users/user-0000042", shorter: "-z 1s", service: "serve --stack rest-json --workload users --json"},
	{name: "replicate", line: "replicate --quick", shorter: "--budget $BUDGET"},
}

func main() {
	var g gallery
	flag.StringVar(&g.wirelab, "wirelab", "bin/wirelab", "the `program` to run")
	flag.StringVar(&g.root, "root", ".", "`folder` of the repository")
	flag.StringVar(&g.out, "out", "gallery", "`folder` of the runs")
	flag.StringVar(&g.only, "only", "", "`name` of the one run to make")
	flag.StringVar(&g.budget, "budget", "", "`time` of each run, to try this program; the documents stay as they are")
	flag.Parse()
	if err := g.run(); err != nil {
		fmt.Fprintln(os.Stderr, "gallery:", err)
		os.Exit(1)
	}
}

var commandOfGuide = regexp.MustCompile(`(?m)^    wirelab (compare .*)$`)

// jobs returns the comparisons of the guides, as these write them, and the examples.
func (g *gallery) jobs() ([]job, error) {
	var jobs []job
	guides, _ := filepath.Glob(filepath.Join(g.root, "docs", "guides", "*.md")) // the pattern is well formed
	for _, file := range guides {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if line := commandOfGuide.FindSubmatch(text); line != nil {
			jobs = append(jobs, job{name: strings.TrimSuffix(filepath.Base(file), ".md"), line: string(line[1]), shorter: short + " --repeat 3", guide: file})
		}
	}
	jobs = append(jobs, examples...)
	names := ""
	for _, j := range jobs {
		names += " " + j.name
	}
	if jobs = slices.DeleteFunc(jobs, func(j job) bool { return g.only != "" && j.name != g.only }); len(jobs) == 0 {
		return nil, fmt.Errorf("no run is named %s: name one of%s", g.only, names)
	}
	return jobs, nil
}

// run runs all jobs. It goes on after one that failed, and ends after Ctrl-C, which the running command gets too.
func (g *gallery) run() error {
	jobs, err := g.jobs()
	if err != nil {
		return err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	for i, j := range jobs {
		began := time.Now()
		fmt.Fprintf(os.Stderr, "run %d of %d, %s: wirelab %s\n", i+1, len(jobs), j.name, j.line)
		failed := g.measure(&j)
		if len(interrupted) > 0 {
			return errors.Join(err, errors.New("interrupted: make gallery continues here"))
		}
		// A replication names the studies that failed, and the outcomes of the others are worth showing.
		if g.budget == "" && (failed == nil || has(filepath.Join(g.out, j.name), "claims.md")) {
			failed = errors.Join(failed, g.publish(&j))
		}
		if failed != nil {
			failed = fmt.Errorf("%s: %w", j.name, failed)
			fmt.Fprintln(os.Stderr, "gallery:", failed)
		}
		err = errors.Join(err, failed)
		fmt.Fprintf(os.Stderr, "run %d of %d, %s: %v\n", i+1, len(jobs), j.name, time.Since(began).Round(time.Second))
	}
	return err
}

// measure makes the job's run, or continues it. It changes nothing if the run is done.
func (g *gallery) measure(j *job) error {
	folder := filepath.Join(g.out, j.name)
	line := strings.Fields(j.line)
	switch {
	case has(folder, doneFile):
		fmt.Fprintf(os.Stderr, "%s is done; remove it to measure it again\n", folder)
		return nil
	case has(folder, "replicate.json"):
		line = []string{"replicate", "--resume", j.name}
	case has(folder, "manifest.json") && j.guide != "": // the other runs are more than their trials, or short
		line = []string{"run", "--resume", j.name}
	default:
		if g.budget != "" {
			line = append(line, strings.Fields(strings.ReplaceAll(j.shorter, "$BUDGET", g.budget))...)
		}
		line = append(line, "-o", j.name)
		if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(g.out, 0o755)); err != nil {
			return err
		}
	}
	end, address, err := g.serve(j.service)
	if err != nil {
		return err
	}
	for i := range line {
		line[i] = strings.ReplaceAll(line[i], "$ADDRESS", address)
	}
	err = errors.Join(g.command(line...).Run(), end())
	if exit, is := errors.AsType[*exec.ExitError](err); err != nil && (!is || exit.ExitCode() != exitInvalid) {
		return err
	}
	return os.WriteFile(filepath.Join(folder, doneFile), nil, 0o644) // after an invalid run, too: its report says why
}

const (
	doneFile    = "done" // marks a folder whose run is complete
	exitInvalid = 4      // of a run whose figures are not to be trusted
)

func has(folder, name string) bool {
	_, err := os.Stat(filepath.Join(folder, name))
	return err == nil
}

// command returns a command of wirelab. It runs in the gallery's folder, so that no report names a folder of this machine.
func (g *gallery) command(args ...string) *exec.Cmd {
	c := exec.Command(g.wirelab, args...)
	c.Dir, c.Stdout, c.Stderr = g.out, os.Stdout, os.Stderr
	return c
}

// serve starts a service, and returns what ends it and its address.
func (g *gallery) serve(line string) (end func() error, address string, err error) {
	if line == "" {
		return func() error { return nil }, "", nil
	}
	c := g.command(strings.Fields(line)...)
	c.Stdout = nil
	output, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return nil, "", err
	}
	end = func() error { _ = c.Process.Signal(os.Interrupt); return c.Wait() } // a service that Ctrl-C has ended already
	var served struct{ Address string }
	if err := json.NewDecoder(output).Decode(&served); err != nil {
		return nil, "", errors.Join(err, end())
	}
	return end, served.Address, nil
}

// publish writes into the documents what they show of a run.
func (g *gallery) publish(j *job) error {
	folder := filepath.Join(g.out, j.name)
	switch {
	case j.guide != "":
		chart, err := chartOf(filepath.Join(folder, "report.html"))
		if err != nil {
			return err
		}
		return os.WriteFile(strings.TrimSuffix(j.guide, ".md")+".svg", []byte(chart), 0o644)
	case j.name == "replicate":
		claims, err := os.ReadFile(filepath.Join(folder, "claims.md"))
		if err != nil {
			return err
		}
		results := filepath.Join(g.root, "docs", "results")
		return errors.Join(os.MkdirAll(results, 0o755), os.WriteFile(filepath.Join(results, "claims.md"), claims, 0o644))
	}
	return nil
}
