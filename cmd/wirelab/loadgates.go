package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/wire/service"
)

// gateLoadFlags say what must be true of a load, what it is held against, and where that is
// written.
type gateLoadFlags struct {
	failIf   []string
	baseline string
	junit    string
	markdown string
}

// standardOutput is the file that stands for it.
const standardOutput = "-"

func (g *gateLoadFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&g.failIf, "fail-if", nil, "end with exit code 3 if a `condition` is true, as in 'p99>20ms', 'errors>0.1%' or 'rps<1000'; with --baseline also if a change is beyond doubt, as in 'p99>+10%'; repeatable")
	f.StringVar(&g.baseline, "baseline", "", "an earlier `run`: what became faster or slower since is printed, too")
	f.StringVar(&g.junit, "junit", "", "write a test a gate for CI into this `file`; - is standard output")
	f.StringVar(&g.markdown, "markdown", "", "write figures, gates and changes for a pull request into this `file`; - is standard output")
	complete(cmd, "fail-if", []string{"p99>20ms", "p50>10ms", "mean>10ms", "max>1s", "errors>0", "errors>0.1%", "rps<1000", "p99>+10%", "rps<-5%"})
}

// loadGates are what must be true of a load.
type loadGates struct {
	thresholds []analysis.Threshold
	changes    []analysis.Gate
	baseline   *baseline // nil: none
	files      map[string]func(io.Writer, *report.Run) error
}

// read reads the gates, and refuses those that could never be judged.
func (g *gateLoadFlags) read(a *app, l *loading, part *scenario.Part) (*loadGates, error) {
	gates := &loadGates{files: map[string]func(io.Writer, *report.Run) error{}}
	for _, text := range g.failIf {
		if err := gates.add(text, string(part.Load.Model)); err != nil {
			return nil, fmt.Errorf("--fail-if: %w", err)
		}
	}
	if err := g.readFiles(gates); err != nil {
		return nil, err
	}
	if gates.ownsOutput() && l.output.json {
		return nil, errors.New("--json: standard output is taken by --junit - or --markdown -: give that a file")
	}
	if g.baseline == "" {
		if len(gates.changes) > 0 {
			return nil, fmt.Errorf("--fail-if: %q is about a change: name the earlier run with --baseline; a condition on the figure itself has its unit, as in p99>20ms", gates.changes[0].Text)
		}
		return gates, nil
	}
	return gates, gates.hold(a, l, g.baseline)
}

// readFiles finds before anything is measured that a file could not be written.
func (g *gateLoadFlags) readFiles(gates *loadGates) error {
	for _, file := range []struct {
		flag, name string
		write      func(io.Writer, *report.Run) error
	}{{"--junit", g.junit, report.WriteLoadJUnit}, {"--markdown", g.markdown, report.WriteLoadMarkdown}} {
		if file.name == "" {
			continue
		}
		if gates.files[file.name] != nil {
			return fmt.Errorf("--junit and --markdown: both name %s: give each a file of its own", file.name)
		}
		folder := filepath.Dir(file.name)
		if into, err := os.Stat(folder); err != nil || !into.IsDir() {
			return fmt.Errorf("%s %s: there is no directory %s to write into", file.flag, file.name, folder)
		}
		gates.files[file.name] = file.write
	}
	return nil
}

// add reads a condition, on a change or on the figure itself.
func (g *loadGates) add(text, model string) error {
	if analysis.IsChange(text) {
		gate, err := analysis.ParseGate(text)
		if err == nil && !gate.IsCompared(model) {
			err = fmt.Errorf("%q: the %s of this load is not compared: it is sent at the rate that it is told, or looks for one", text, gate.Metric)
		}
		g.changes = append(g.changes, gate)
		return err
	}
	threshold, err := analysis.ParseThreshold(text)
	if err == nil {
		err = threshold.CheckLoad(model)
	}
	g.thresholds = append(g.thresholds, threshold)
	return err
}

// hold reads the run that the load is held against. A gate on a change needs three windows on
// both sides: with fewer nothing is beyond doubt, and it would always pass.
func (g *loadGates) hold(a *app, l *loading, run string) error {
	seen, err := a.readRun(run)
	if err != nil {
		return fmt.Errorf("--baseline: %w", err)
	}
	g.baseline = &baseline{run: run, seen: seen.Summary, gates: g.changes}
	if len(g.changes) == 0 {
		return nil
	}
	needs := fmt.Sprintf("--fail-if: %q: a change is beyond doubt only where both runs have %d windows", g.changes[0].Text, analysis.LeastTrials)
	if l.repeats < analysis.LeastTrials {
		return fmt.Errorf("%s: add --repeat %d", needs, analysis.LeastTrials)
	}
	for i := range seen.Summary.Cells {
		if c := &seen.Summary.Cells[i]; c.Valid < analysis.LeastTrials {
			return fmt.Errorf("%s, and %s has %d valid ones of %s: measure it again with --repeat %d", needs, run, c.Valid, c.Key, analysis.LeastTrials)
		}
	}
	return nil
}

// since is the earlier run; nil without one.
func (g *loadGates) since() *baseline {
	if g == nil {
		return nil
	}
	return g.baseline
}

// ownsOutput reports whether one of the files is standard output. Words then go to standard
// error.
func (g *loadGates) ownsOutput() bool { return g != nil && g.files[standardOutput] != nil }

// judge judges the gates, and finds what changed.
func (g *loadGates) judge(a *app, seen *report.Run) error {
	if g == nil {
		return nil
	}
	for i := range seen.Summary.Cells {
		for _, t := range g.thresholds {
			seen.Gates = append(seen.Gates, t.Judge(&seen.Summary.Cells[i]))
		}
	}
	if g.baseline == nil {
		return nil
	}
	found, err := a.diff(g.baseline.run, seen.Directory, [2]string{}, g.changes)
	if err != nil {
		return err
	}
	if !askTheSame(g.baseline.run, seen.Directory) {
		found.Doubt("the requests have other headers or data than before")
	}
	seen.Since = found
	for _, c := range g.changes {
		seen.Gates = append(seen.Gates, c.JudgeIn(found.Diff, seen.Summary)...)
	}
	return nil
}

// askTheSame reports whether two runs sent the same requests, as far as their manifests say:
// the names of cells have neither headers nor data.
func askTheSame(before, after string) bool {
	old, err := requestsOf(before)
	if err != nil {
		return true
	}
	now, err := requestsOf(after)
	return err != nil || bytes.Equal(old, now)
}

func requestsOf(directory string) ([]byte, error) {
	manifest, err := record.ReadManifest(directory)
	if err != nil {
		return nil, err
	}
	var s struct {
		Parts []struct {
			Definition string `json:"definition"`
		} `json:"parts"`
	}
	if err := json.Unmarshal(manifest.Scenario, &s); err != nil {
		return nil, err
	}
	var all []service.Request
	for _, part := range s.Parts {
		definition, err := service.Parse(part.Definition)
		if err != nil {
			return nil, err
		}
		all = append(all, definition.Requests...)
	}
	return json.Marshal(all)
}

// write prints the gates and what changed, and writes the files.
func (g *loadGates) write(a *app, seen *report.Run, words io.Writer) error {
	if g == nil {
		return nil
	}
	if len(seen.Gates) > 0 {
		fmt.Fprintln(words)
	}
	errs := []error{report.WriteGates(words, seen)}
	if seen.Since != nil {
		fmt.Fprintf(words, "\n%s:\n", seen.SaySince())
		errs = append(errs, report.WriteDiff(words, seen.Since, terminalOf(words)))
	}
	for name, write := range g.files {
		if name == standardOutput {
			name = "" // as writeTo has it
		}
		errs = append(errs, a.writeTo(name, func(w io.Writer) error { return write(w, seen) }))
	}
	return errors.Join(errs...)
}

// exit decides the exit code, by the gates and by what the run alone comes to. A gate that
// could not be judged is no pass.
func (g *loadGates) exit(seen *report.Run, alone error) error {
	var breached, unjudged []string
	for _, f := range seen.Gates {
		switch f.Outcome {
		case analysis.Breached:
			breached = append(breached, seen.SayGate(f))
		case analysis.Unjudged:
			unjudged = append(unjudged, f.Gate)
		}
	}
	code := exitDone
	var texts []string
	if exit, is := errors.AsType[exitError](alone); is {
		code = exit.code
	} else if alone != nil {
		code = exitFailed
	}
	if alone != nil {
		texts = append(texts, alone.Error())
	}
	if len(breached) > 0 {
		texts = append(texts, "breached: "+strings.Join(breached, "; "))
	}
	if len(unjudged) > 0 {
		texts = append(texts, "could not be judged: "+strings.Join(slices.Compact(unjudged), ", "))
	}
	switch {
	case code != exitDone:
	case len(breached) > 0:
		code = exitBreached
	case len(unjudged) > 0:
		code = exitInvalid
	default:
		return nil
	}
	return exitError{code, errors.New(strings.Join(texts, "; "))}
}
