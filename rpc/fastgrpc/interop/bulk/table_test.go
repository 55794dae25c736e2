package bulk

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// page has the tables of both grids, each between two comments that name it.
const page = "../../../../docs/bulk.md"

// A table collects the rows of the honest grid, and a summary of each pairing.
type table struct {
	rows      []string
	summaries []summary
}

// A summary holds one pairing's median figures, each divided by grpc-go's.
type summary struct {
	cpu, p99 []float64 // a value per cell
	bulk     []float64 // the CPU time of cells with more in flight than the memory limit
}

// add checks that no call failed that succeeds with grpc-go, and keeps a row.
func (b *table) add(t *testing.T, c cell, outcomes [][]outcome) {
	t.Helper()
	row := []string{c.Kind, fmt.Sprint(c.Callers), size(c.Up), size(c.Down), note(c), size(c.inFlight())}
	base := outcomes[0]
	if b.summaries == nil {
		b.summaries = make([]summary, len(pairings))
	}
	theirs := failures(base)
	for i, p := range pairings {
		failed := failures(outcomes[i])
		cpu := ratios(outcomes[i], base, cpuOf)
		p99 := median(ratios(outcomes[i], base, p99Of))
		last := outcomes[i][len(outcomes[i])-1]
		t.Logf("%-20s CPU %.2f (%.2f to %.2f; %v)  P99 %.2f (%v)  %d failed  resident %s, %s", p.name(),
			median(cpu), cpu[0], cpu[len(cpu)-1], last.cpu.Round(1e6), p99, last.P99.Round(1e5), failed, size(int(last.serverRSS)), size(int(last.PeakRSS)))
		if failed > theirs {
			t.Errorf("%s: %d calls fail, %d with grpc-go; the first: %s", p.name(), failed, theirs, outcomes[i][0].FirstError)
		}
		if i == 0 {
			row = append(row, fmt.Sprintf("%.2f s, %s", last.cpu.Seconds(), milliseconds(last.P99)))
		} else {
			row = append(row, fmt.Sprintf("%.2f; %.2f", median(cpu), p99))
			b.summaries[i].add(median(cpu), p99, c.inFlight() > part)
		}
	}
	last := func(i int) outcome { return outcomes[i][len(outcomes[i])-1] }
	row = append(row, fmt.Sprintf("%d, %d, %d", last(0).serverRSS>>20, last(1).serverRSS>>20, last(len(pairings)-1).serverRSS>>20))
	if c.Callers != 10 && c.Callers != 200 { // the page has 1, 50, 1,000 and 5,000 callers
		b.rows = append(b.rows, "| "+strings.Join(row, " | ")+" |")
	}
}

func milliseconds(d time.Duration) string {
	ms := d.Seconds() * 1e3
	if ms >= 100 {
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.3g ms", ms)
}

// note describes the settings of a cell that differ from the usual ones.
func note(c cell) string {
	var notes []string
	if c.window > 0 {
		notes = append(notes, "windows "+size(c.window))
	}
	if c.delay > 0 {
		notes = append(notes, fmt.Sprintf("delay %v", c.delay))
	}
	return strings.Join(notes, ", ")
}

func failures(outcomes []outcome) (n int) {
	for _, o := range outcomes {
		n += o.Failed
	}
	return n
}

func (b *table) write(t *testing.T) {
	head := []string{"kind", "callers", "up", "down", "", "in flight", "grpc-go", "fastgrpc", "fastgrpc → grpc-go", "grpc-go → fastgrpc", "creditrpc", "server, MB: grpc-go, fastgrpc, creditrpc"}
	writeTable(t, "honest", head, b.rows)
	var rows []string
	for i, s := range b.summaries[1:] {
		rows = append(rows, fmt.Sprintf("| %s | %d | %.2f | %d | %d | %.2f of %d |", pairings[i+1].name(), len(s.cpu), middle(s.cpu), above(s.cpu), above(s.p99), middle(s.bulk), len(s.bulk)))
	}
	writeTable(t, "summary", []string{"client → server", "cells", "CPU, median", "cells above grpc-go's CPU", "above its P99", "CPU with over 64 MiB in flight, median"}, rows)
}

func (s *summary) add(cpu, p99 float64, isBulk bool) {
	s.cpu, s.p99 = append(s.cpu, cpu), append(s.p99, p99)
	if isBulk {
		s.bulk = append(s.bulk, cpu)
	}
}

func middle(of []float64) float64 { return median(slices.Sorted(slices.Values(of))) }

// above counts the quotients above 1, as the table prints them.
func above(quotients []float64) (n int) {
	for _, q := range quotients {
		if q >= 1.005 {
			n++
		}
	}
	return n
}

// writeTable replaces a table on the page.
func writeTable(t *testing.T, name string, head, rows []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->"
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, found := strings.Cut(rest, end)
	if !ok || !found {
		t.Fatalf("%s has no table %q", page, name)
	}
	lines := append([]string{"| " + strings.Join(head, " | ") + " |", strings.Repeat("| --- ", len(head)) + "|"}, rows...)
	if err := os.WriteFile(page, []byte(before+begin+strings.Join(lines, "\n")+"\n"+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
