package publish

import (
	"fmt"
	"io"
	"path/filepath"

	"wirelab.dev/internal/show/report"
	"wirelab.dev/internal/show/report/export"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/table"
)

// A Printing says how a run is printed.
type Printing struct {
	Columns []string // of the table; none: the usual ones
	Verbose bool     // with all words, and the notes of the table whole
	Page    string   // the report's file, which is named last
}

// Print prints the figures, then the claims, and last the answer: what stands last is read first.
func Print(w io.Writer, seen *report.Run, p Printing) error {
	terminal := format.TerminalOf(w)
	for _, step := range []func() error{
		func() error { return printTable(w, seen, p, terminal) },
		func() error { return table.WriteTraces(w, seen.Summary) },
		func() error { return table.WriteAllocators(w, seen.Summary) },
		func() error { return table.WriteClaims(w, seen.Summary.Claims, terminal) },
		func() error { return printWords(w, seen, p, terminal) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	for _, line := range seen.Answer {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "Report: %s\n", p.Page)
	if len(seen.Summary.Insights) > 0 {
		fmt.Fprintf(w, "Why: wirelab explain %s\n", seen.Directory)
	}
	return nil
}

func printTable(w io.Writer, seen *report.Run, p Printing, terminal format.Terminal) error {
	switch {
	case seen.Summary.IsSweep() && len(p.Columns) == 0:
		return table.WriteScaling(w, seen.Summary)
	case table.IsLoad(seen.Summary) && len(p.Columns) == 0:
		return table.WriteLoad(w, seen.Summary, seen.Records[0].Warnings, terminal)
	}
	return table.WriteTable(w, seen.Summary, table.Table{Terminal: terminal, Columns: p.Columns, Verbose: p.Verbose})
}

// printWords prints all words, and names the other files of the run, where p is verbose.
func printWords(w io.Writer, seen *report.Run, p Printing, terminal format.Terminal) error {
	if !p.Verbose {
		return nil
	}
	fmt.Fprintln(w)
	if err := format.WriteWords(w, seen.Advice, terminal); err != nil {
		return err
	}
	if len(seen.Summary.Profiles) > 0 {
		fmt.Fprintf(w, "\nProfiles, for go tool pprof and speedscope: %s\n", filepath.Join(seen.Directory, export.ProfilesFolder))
	}
	if name, has := report.StudyTableFile(seen.Summary); has {
		fmt.Fprintf(w, "\nScenarios: %s\n", filepath.Join(seen.Directory, name))
	}
	return nil
}
