package main

import (
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
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/gate"
)

// gateFlags holds the flags for failing a run, for an earlier run, and for files for CI.
type gateFlags struct {
	failIf          []string
	baseline        string
	junit, markdown string // names of output files; only the command load has these flags
	undecided       string // undecidedFails or undecidedPasses
}

// The values of --undecided.
const (
	undecidedFails  = "fail"
	undecidedPasses = "pass"
)

const standardOutput = "-"

func (g *gateFlags) register(cmd *cobra.Command) {
	g.registerConditions(cmd)
	cmd.Flags().StringVar(&g.baseline, "baseline", "", "an earlier `run`: also print what became faster or slower since then")
}

func (g *gateFlags) registerConditions(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&g.failIf, "fail-if", nil, "exit with 3 if a `condition` is proven in any cell, and with 4 if it cannot be decided: a figure ('p99>20ms', 'errors>0.1%', 'rps<1000'), or a change since an earlier run ('p99>+10%'); repeatable")
	cmd.Flags().StringVar(&g.undecided, "undecided", undecidedFails, "what a `gate` means that cannot tell: fail (exit code 4) or pass")
	setCompletions(cmd, "undecided", []string{undecidedFails, undecidedPasses})
	setCompletions(cmd, "fail-if", []string{"p99>20ms", "p50>10ms", "mean>10ms", "max>1s", "errors>0", "errors>0.1%", "rps<1000", "p99>+10%", "rps<-5%"})
}

func (g *gateFlags) registerFiles(cmd *cobra.Command) {
	cmd.Flags().StringVar(&g.junit, "junit", "", "write one test per gate for CI into this `file`; - is standard output")
	cmd.Flags().StringVar(&g.markdown, "markdown", "", "write figures, gates and changes for a pull request into this `file`; - is standard output")
}

// conditions parses --fail-if. Each condition must fit the load of a part, if there are any parts.
func (g *gateFlags) conditions(parts []scenario.Part) ([]analysis.Condition, error) {
	if g.undecided != "" && g.undecided != undecidedFails && g.undecided != undecidedPasses {
		return nil, fmt.Errorf("--undecided: found %q: want %s or %s", g.undecided, undecidedFails, undecidedPasses)
	}
	var all []analysis.Condition
	for _, text := range g.failIf {
		c, err := analysis.ParseCondition(text)
		if err != nil {
			return nil, fmt.Errorf("--fail-if: %w", err)
		}
		fits := func(p scenario.Part) bool {
			err = c.CheckLoad(string(p.Load.Model))
			return err == nil
		}
		if len(parts) > 0 && !slices.ContainsFunc(parts, fits) {
			return nil, fmt.Errorf("--fail-if: %w", err)
		}
		all = append(all, c)
	}
	return all, nil
}

// gates holds the conditions that fail a run, and an earlier run to compare with.
type gates struct {
	conditions []analysis.Condition
	undecided  string            // the value of --undecided
	baseline   string            // the directory of the earlier run; empty means that there is none
	before     *analysis.Summary // the summary of the earlier run
	files      map[string]func(io.Writer, *gate.Run) error
}

// read reads the conditions and the earlier run. It returns an error for a condition that cannot be
// judged or an output file that cannot be written.
func (g *gateFlags) read(a *app, parts []scenario.Part, asJSON bool) (all gates, err error) {
	all = gates{baseline: g.baseline, undecided: g.undecided, files: map[string]func(io.Writer, *gate.Run) error{}}
	if all.conditions, err = g.conditions(parts); err != nil {
		return all, err
	}
	change := slices.IndexFunc(all.conditions, analysis.Condition.IsChange)
	switch {
	case g.baseline != "":
		seen, err := a.readRun(g.baseline)
		if err != nil {
			return all, fmt.Errorf("--baseline: %w", err)
		}
		all.before = seen.Summary
	case change >= 0 && !slices.ContainsFunc(parts, scenario.Part.ComparesVersions):
		return all, fmt.Errorf("--fail-if: %q is about a change: name the earlier run with --baseline, or another version of the service with --against; for the figure itself write its unit, as in p99>20ms", all.conditions[change].Text)
	}
	for _, file := range []struct {
		flag, name string
		write      func(io.Writer, *gate.Run) error
	}{{"--junit", g.junit, gate.WriteLoadJUnit}, {"--markdown", g.markdown, gate.WriteLoadMarkdown}} {
		if file.name == "" {
			continue
		}
		if all.files[file.name] != nil {
			return all, fmt.Errorf("--junit and --markdown: both name %s: give two different files", file.name)
		}
		if err := checkFolder(file.flag, file.name); err != nil {
			return all, err
		}
		all.files[file.name] = file.write
	}
	switch {
	case all.usesStandardOutput() && asJSON:
		return all, errors.New("--json: --junit - or --markdown - already uses standard output: give it a file instead of -")
	case change >= 0:
		before := all.before
		if all.undecided == undecidedPasses {
			before = nil // a noisy machine may have spoiled windows of the earlier run: the gate is then undecided
		}
		return all, all.conditions[change].CheckWindows(all.baseline, before, scenario.MostRepeats(parts))
	}
	return all, nil
}

// checkFolder returns an error if the folder of a flag's file does not exist.
func checkFolder(flag, file string) error {
	folder := filepath.Dir(file)
	if status, err := os.Stat(folder); err != nil || !status.IsDir() {
		return fmt.Errorf("%s %s: the directory %s does not exist", flag, file, folder)
	}
	return nil
}

// usesStandardOutput reports whether a file goes to standard output. Text then uses standard error.
func (g *gates) usesStandardOutput() bool { return g.files[standardOutput] != nil }

// judge judges the conditions. It finds the changes since the earlier run, if there is such a run.
func (g *gates) judge(seen *report.Run, status record.Status) error {
	since := analysis.NewVersionDiff(seen.Summary)
	if g.before != nil {
		var err error
		if since, err = analysis.NewDiff(g.before, seen.Summary); err != nil && status != record.Interrupted {
			return err
		} else if err == nil {
			since.Before, since.After = g.baseline, seen.Directory
		}
	}
	seen.Gates = g.find(seen.Summary, since)
	if since != nil {
		seen.Since = gate.NewDiffReport(since, slices.DeleteFunc(slices.Clone(seen.Gates), func(f analysis.GateFinding) bool { return f.Unit != analysis.Relative }))
	}
	return nil
}

func (g *gates) find(s *analysis.Summary, since *analysis.Diff) []analysis.GateFinding {
	found := analysis.JudgeConditions(g.conditions, s, since)
	for i := range found {
		found[i].Passes = found[i].Outcome == analysis.GateOpen && g.undecided == undecidedPasses
	}
	return found
}

// write prints the judged conditions and the changes, and writes the output files.
func (g *gates) write(a *app, seen *report.Run, words io.Writer) error {
	judged := seen.GateRun()
	if len(seen.Gates) > 0 {
		fmt.Fprintln(words)
	}
	errs := []error{gate.WriteGates(words, judged)}
	if seen.Since != nil && !seen.Since.Versions { // the answer above compares the versions
		fmt.Fprintf(words, "\n%s:\n", judged.SinceTitle())
		errs = append(errs, gate.WriteDiff(words, seen.Since, format.TerminalOf(words)))
	}
	for name, write := range g.files {
		if name == standardOutput {
			name = "" // writeTo takes an empty name for standard output
		}
		errs = append(errs, a.writeTo(name, func(w io.Writer) error { return write(w, judged) }))
	}
	return errors.Join(errs...)
}

// passInvalid reports whether the run passes although cells have no valid trial: --undecided pass
// is given, and only other programs spoiled those cells.
func (g *gates) passInvalid(s *analysis.Summary) bool {
	return g.undecided == undecidedPasses && len(g.conditions) > 0 &&
		!slices.ContainsFunc(s.Cells, func(c matrix.Cell) bool { return !c.IsValid() && c.Spoiled == 0 })
}

// gateCodes maps the worst outcome of a run's gates to the exit code.
var gateCodes = map[analysis.GateOutcome]int{analysis.GateKept: exitDone, analysis.GateBreached: exitBreached, analysis.GateOpen: exitInvalid}

// runError combines a run's own error and its gates into one error. A breached gate decides the
// exit code of an invalid run, too: the figure that breached the limit was measured.
func runError(seen *report.Run, alone error) error {
	breached, open := seen.GateRun().NotKept()
	var texts []string
	if breached != "" {
		texts = append(texts, breached)
	}
	code := gateCodes[analysis.WorstOutcome(seen.Gates)]
	if alone != nil {
		texts = append(texts, alone.Error())
		if exit, is := errors.AsType[exitError](alone); !is || exit.code != exitInvalid {
			code = exitFailed
		} else if code == exitDone {
			code = exitInvalid
		}
	}
	if open != "" {
		texts = append(texts, open)
	}
	if code == exitDone {
		return nil
	}
	return exitError{code, errors.New(strings.Join(texts, "; "))}
}

// validityError returns an error if the run has no figures or a cell has no valid trial.
func validityError(s *analysis.Summary) error {
	switch reason, measured := gate.WhyInvalid(s); {
	case reason == "":
		return nil
	case !measured:
		return errors.New(reason)
	default:
		return exitError{exitInvalid, errors.New(reason)}
	}
}
