// Package publish reads a stored run, writes its files and prints it.
//
//	records ── Read, judged again ──> report.Run ── WriteFiles ──> report.html, cells.csv, …
//	                                             └─ Print ──> table, claims and answer, on a terminal
//
// It computes nothing: it combines the outputs of package report.
package publish

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/check"
	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/show/report/export"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/gate"
	"wirelab.dev/internal/show/report/table"
)

// A Reader reads runs and judges their trials again.
type Reader struct {
	Limits check.Limits
	// DeclareMissing adds declarations that older versions did not store in the manifest.
	DeclareMissing func(*record.Manifest) error
}

// Read reads the run in a directory.
func (r Reader) Read(directory string) (*report.Run, error) {
	return r.ReadWithCategories(nil, directory)
}

// ReadWithCategories reads a run, and sorts its CPU time into the given categories. Nil stands for the
// built-in table.
func (r Reader) ReadWithCategories(categories *insight.Categories, directory string) (*report.Run, error) {
	run, err := record.Open(directory)
	if err != nil {
		return nil, err
	}
	return r.read(run, categories)
}

// ReadRun reads an open run, whose records may be in memory only.
func (r Reader) ReadRun(run *record.Run) (*report.Run, error) { return r.read(run, nil) }

func (r Reader) read(run *record.Run, categories *insight.Categories) (*report.Run, error) {
	manifest := run.Manifest
	var records []*record.Record
	for r, err := range run.Records() {
		if err != nil {
			return nil, err
		}
		records = append(records, &r)
	}
	if err := r.DeclareMissing(&manifest); err != nil {
		return nil, err
	}
	judged := analysis.Judge(records, r.Limits)
	summary, err := analysis.Summarize(&manifest, judged, categories)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", run.Dir, err)
	}
	summary.Warnings = append(summary.Warnings, run.Warnings...)
	measured := slices.DeleteFunc(judged.Records, func(r *record.Record) bool { return r.Probe != "" })
	return &report.Run{Summary: summary, Records: measured, Answer: advice.Answer(summary), Advice: advice.Advise(summary), Directory: run.Dir}, nil
}

// PagePath returns the path where WriteFiles writes the page of a run, or "" if it is not on disk.
func PagePath(seen *report.Run) string {
	if seen.Directory == "" {
		return ""
	}
	return filepath.Join(seen.Directory, "report.html")
}

// WriteFiles writes the report, the table of cells and the profiles into the run's directory, if it
// has one.
func WriteFiles(seen *report.Run) error {
	if seen.Directory == "" {
		return nil
	}
	files := map[string]func(io.Writer, *report.Run) error{
		"report.html": report.WriteHTML,
		"cells.csv":   report.WriteCSV,
	}
	if name, has := report.StudyTableFile(seen.Summary); has {
		files[name] = report.WriteStudyTable
	}
	for name, write := range files {
		if err := WriteFile(filepath.Join(seen.Directory, name), func(w io.Writer) error { return write(w, seen) }); err != nil {
			return err
		}
	}
	return writeProfiles(seen)
}

func writeProfiles(seen *report.Run) error {
	if len(seen.Summary.Profiles) == 0 {
		return nil
	}
	folder := filepath.Join(seen.Directory, export.ProfilesFolder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	return export.WriteProfiles(seen.Summary, func(name string) (io.WriteCloser, error) { return os.Create(filepath.Join(folder, name)) })
}

// WriteFile writes a temporary file and renames it, so that no reader finds half a report.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if err := errors.Join(write(file), file.Chmod(0o644), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(file.Name(), path)
}

// LabelledRuns returns the name and the directory of each run. A run is given as LABEL=DIR, or as
// its directory, which then gives the name.
func LabelledRuns(args []string) (names, directories []string, err error) {
	labels := make([]string, len(args))
	for i, arg := range args {
		label, directory, labelled := strings.Cut(arg, "=")
		if _, err := os.Stat(arg); err == nil || !labelled {
			directories = append(directories, arg)
			continue
		}
		if label == "" || strings.ContainsFunc(label, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-", r)
		}) {
			return nil, nil, fmt.Errorf("found the label %q in %q: want letters, digits, dots and dashes, as in before=DIR", label, arg)
		}
		if slices.Contains(labels, label) {
			return nil, nil, fmt.Errorf("found the label %q twice: give each run a label of its own", label)
		}
		labels[i], directories = label, append(directories, directory)
	}
	names = ShortNames(directories)
	for i, label := range labels {
		if label != "" {
			names[i] = label
		}
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, nil, fmt.Errorf("two runs are called %q: give each a label of its own, as in before=DIR", name)
		}
	}
	return names, directories, nil
}

// ShortNames returns a distinct name per run: its directory's name, with a number if another run
// has the name. Characters with a meaning in variants become dashes.
func ShortNames(directories []string) []string {
	names := make([]string, len(directories))
	for i, directory := range directories {
		name := filepath.Base(filepath.Clean(directory))
		if absolute, err := filepath.Abs(directory); err == nil {
			name = filepath.Base(absolute) // an absolute path has a name even for "."
		}
		name = strings.Map(func(r rune) rune {
			if strings.ContainsRune(":,= ", r) {
				return '-'
			}
			return r
		}, name)
		for n := 2; slices.Contains(names[:i], name); n++ {
			name = fmt.Sprintf("%s-%d", strings.TrimSuffix(name, fmt.Sprintf("-%d", n-1)), n)
		}
		names[i] = name
	}
	return names
}

// PrintOptions holds options for printing a run.
type PrintOptions struct {
	Columns []string // columns of the table; empty means the default columns
	Verbose bool     // all sentences, and the full notes of the table
	More    string   // where the notes of the table are in full; empty means the usual places
}

// Print prints the figures, then the claims, and the answer last, because readers see the
// end of the output first.
func Print(w io.Writer, seen *report.Run, p PrintOptions, page string) error {
	terminal := format.TerminalOf(w)
	var out strings.Builder
	for _, step := range []func() error{
		func() error { return printTable(&out, seen, p, terminal) },
		func() error { return table.WriteTraces(&out, seen.Summary) },
		func() error { return table.WriteAllocators(&out, seen.Summary) },
		func() error { return gate.WriteClaims(&out, seen.Summary.Claims, terminal) },
		func() error { return printWords(&out, seen, p, terminal) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	printAnswer(&out, seen, p, terminal, page)
	_, err := io.WriteString(w, terminal.Encode(out.String()))
	return err
}

// printAnswer prints the factors of all variants, the answer, and where to read more. It breaks lines
// between words, and commands so that a shell can still read them.
func printAnswer(out *strings.Builder, seen *report.Run, p PrintOptions, terminal format.Terminal, page string) {
	s := seen.Summary
	var lines []string
	if !isPrintedAsLoad(s, p) && len(s.Levers) == 0 {
		lines = advice.Standings(s)
	}
	if s.IsPartial() {
		what := "trials"
		if isPrintedAsLoad(s, p) {
			what = "runs"
		}
		lines = append(lines, fmt.Sprintf("Partial: %d of %d %s were done; the missing %s may change the result.", s.Done, s.Planned, what, what))
	}
	if !isPrintedAsLoad(s, p) || table.ComparesVersions(s) { // the figures of one load are its answer
		lines = append(lines, seen.Answer...)
		out.WriteByte('\n')
	}
	for _, line := range lines {
		format.Wrap(out, line, format.LayoutOf(line, terminal))
	}
	if page == "" {
		return
	}
	more := ""
	if len(s.Insights) > 0 {
		more = "; the reasons in full: wirelab explain " + seen.Directory
	}
	fmt.Fprintf(out, "Report: %s%s\n", page, more)
}

func isPrintedAsLoad(s *analysis.Summary, p PrintOptions) bool {
	return table.IsLoad(s) && len(p.Columns) == 0
}

func printTable(w io.Writer, seen *report.Run, p PrintOptions, terminal format.Terminal) error {
	switch {
	case seen.Summary.IsSweep() && len(p.Columns) == 0:
		return table.WriteScaling(w, seen.Summary)
	case len(seen.Summary.Levers) > 0 && len(p.Columns) == 0:
		return table.WriteLevers(w, seen.Summary.Levers)
	case isPrintedAsLoad(seen.Summary, p):
		return table.WriteLoad(w, seen.Summary, table.Table{Terminal: terminal, Verbose: p.Verbose})
	}
	return table.WriteTable(w, seen.Summary, table.Table{Terminal: terminal, Columns: p.Columns, Verbose: p.Verbose, More: p.More})
}

// printWords prints all sentences and names the other files of the run, if p is verbose.
func printWords(w io.Writer, seen *report.Run, p PrintOptions, terminal format.Terminal) error {
	if !p.Verbose {
		return nil
	}
	if !isPrintedAsLoad(seen.Summary, p) { // the remarks on a load say the same
		fmt.Fprintln(w)
		if err := format.WriteSentences(w, seen.Advice, terminal); err != nil {
			return err
		}
	}
	if len(seen.Summary.Profiles) > 0 {
		fmt.Fprintf(w, "\nProfiles, for go tool pprof and speedscope: %s\n", filepath.Join(seen.Directory, export.ProfilesFolder))
	}
	if name, has := report.StudyTableFile(seen.Summary); has {
		fmt.Fprintf(w, "\nScenarios: %s\n", filepath.Join(seen.Directory, name))
	}
	return nil
}

// StudyOutcome returns the outcome of a study from its run.
func StudyOutcome(seen *report.Run, status record.Status) gate.StudyOutcome {
	s := seen.Summary
	study := gate.StudyOutcome{Title: s.Title, Trials: s.Measured(), Valid: s.Measured() - s.Invalid - s.Failed, Lead: advice.StudyLead(s), Claims: s.Claims}
	if status == record.Interrupted {
		study.Note = fmt.Sprintf("interrupted after %d of %d trials", s.Done, s.Planned)
	}
	return study
}

// UnmeasuredStudy returns a study that was not measured, with all its claims.
func UnmeasuredStudy(s *scenario.Scenario, why string) gate.StudyOutcome {
	study := gate.StudyOutcome{Title: s.Title, Note: why}
	for _, c := range s.Claims {
		study.Claims = append(study.Claims, compare.Claim{Row: c.Row, Basis: c.BasisIn(s.Published), Says: c.Says, But: c.But, Part: c.Part, Find: c.Find, Outcome: compare.Unmeasured, Reason: why})
	}
	return study
}

// WriteReplication writes the files of a replication beside its runs.
func WriteReplication(directory string, all *gate.Replication) error {
	for name, write := range map[string]func(io.Writer, *gate.Replication) error{
		"claims.html": gate.WriteReplicationHTML,
		"claims.json": report.WriteIndented[*gate.Replication],
		"claims.md":   gate.WriteReplicationMarkdown,
		"claims.xml":  gate.WriteReplicationJUnit,
	} {
		if err := WriteFile(filepath.Join(directory, name), func(w io.Writer) error { return write(w, all) }); err != nil {
			return err
		}
	}
	return nil
}
