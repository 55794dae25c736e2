package report

import (
	"fmt"
	"io"
	"strings"

	"wirelab.dev/internal/show/report/export"
)

// A Format is a file format that other tools read.
type Format struct {
	Name  string // as the user gives it
	File  string // the usual name of the file
	About string // one line for the help
	Write func(io.Writer, *Run) error
}

// Formats lists all of them. A new one is a file and a line here.
func Formats() []Format {
	return []Format{
		{Name: "csv", File: "cells.csv", About: "a row a cell, the unit in the column's name", Write: WriteCSV},
		{Name: "json", File: "compare.json", About: "the documented object of --json", Write: WriteJSON},
		{Name: "benchstat", File: "benchstat.txt", About: "Go benchmark text, a line a trial", Write: func(w io.Writer, run *Run) error { return export.WriteBenchstat(w, run.Summary, run.Records) }},
		{Name: "scenarios", File: "benchmark.csv", About: "a row a cell beside its part's first, with the columns that the study asks for", Write: WriteStudyTable},
		{Name: "allocations", File: "allocations.txt", About: "the call trees that allocate, of trials that were profiled for it", Write: func(w io.Writer, run *Run) error { return export.WriteAllocationTrees(w, run.Summary) }},
		{Name: "hlog", File: "latency.hlog", About: "HdrHistogram log, a histogram a trial", Write: func(w io.Writer, run *Run) error { return export.WriteHistogramLog(w, run.Summary, run.Records) }},
	}
}

// FindFormat returns the format of that name, or an error that lists them.
func FindFormat(name string) (Format, error) {
	var names []string
	for _, format := range Formats() {
		if format.Name == name {
			return format, nil
		}
		names = append(names, format.Name)
	}
	return Format{}, fmt.Errorf("no export format %q: there are %s", name, strings.Join(names, ", "))
}
