package report

import (
	"fmt"
	"strings"

	"wirelab.dev/internal/analysis"
)

// pageData is what web/src/data.ts reads: the object of --json, and what only
// a page shows of a run. Fields here hide those of the same name there.
type pageData struct {
	*Object
	Cells    []pageCell     `json:"cells"`
	Seed     string         `json:"seed"` // as text: JavaScript's numbers end at 53 bits
	Title    string         `json:"title"`
	Question string         `json:"question"`
	Started  string         `json:"started"`
	Command  string         `json:"command"`
	Machine  string         `json:"machine"`
	Host     map[string]any `json:"host"`
}

type pageCell struct {
	CellObject
	Key           string       `json:"key"`
	ResponseApart bool         `json:"response_apart"` // response_us is not service_us
	Repeats       []pageRepeat `json:"repeats"`
	Curve         [][2]Number  `json:"curve"` // quantile, microseconds
	Course        []pageCourse `json:"course"`
}

type pageRepeat struct {
	Trial         int    `json:"trial"`
	Valid         bool   `json:"valid"`
	ThroughputRPS Number `json:"throughput_rps"`
	Mean          Number `json:"mean_us"`
	P50           Number `json:"p50_us"`
	P99           Number `json:"p99_us"`
}

// pageCourse is a stretch of a load on a schedule.
type pageCourse struct {
	Seconds       Number `json:"seconds"`
	OfferedRPS    Number `json:"offered_rps"`
	ThroughputRPS Number `json:"throughput_rps"`
	Mean          Number `json:"mean_us"` // null where nothing ended
}

func newPageData(run *Run) *pageData {
	s := run.Summary
	data := &pageData{
		Object:   NewObject(run),
		Seed:     fmt.Sprint(s.Seed),
		Title:    s.Title,
		Question: s.Question,
		Started:  s.Started.UTC().Format("2 January 2006, 15:04:05 UTC"),
		Command:  commandLine(s.Command),
		Machine:  machineLine(s.Host),
		Host:     s.Host,
	}
	for _, cell := range ordered(s.Cells) {
		data.Cells = append(data.Cells, newPageCell(cell))
	}
	data.Cells = listed(data.Cells)
	return data
}

func newPageCell(c *analysis.Cell) pageCell {
	return pageCell{
		CellObject:    cellObject(c),
		Key:           c.Key,
		ResponseApart: c.Response != nil,
		Repeats: each(c.Repeats, func(r *analysis.Repeat) pageRepeat {
			return pageRepeat{
				Trial: r.Trial, Valid: r.Valid,
				ThroughputRPS: Number(r.Throughput), Mean: Number(r.MeanUS), P50: Number(r.P50), P99: Number(r.P99),
			}
		}),
		Curve: each(c.Curve, func(p *analysis.CurvePoint) [2]Number {
			return [2]Number{Number(p.Quantile), Number(p.Microseconds)}
		}),
		Course: each(c.Course, func(p *analysis.CoursePoint) pageCourse {
			mean := p.MeanUS
			if mean == 0 {
				mean = none.Value
			}
			return pageCourse{Seconds: Number(p.Seconds), OfferedRPS: Number(p.Offered), ThroughputRPS: Number(p.Throughput), Mean: Number(mean)}
		}),
	}
}

// commandLine writes the arguments such that a POSIX shell reads them back.
func commandLine(arguments []string) string {
	quoted := make([]string, len(arguments))
	for i, argument := range arguments {
		quoted[i] = argument
		if argument == "" || strings.ContainsAny(argument, " \t\n'\"\\$`!*?[](){}<>|&;#~") {
			quoted[i] = "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// machineLine says in one line where a run was made. The names are those of
// the manifest's host; what is not known there is left out.
func machineLine(host map[string]any) string {
	var facts []string
	add := func(format string, value any) {
		if value != nil && value != "" {
			facts = append(facts, fmt.Sprintf(format, value))
		}
	}
	add("%v", host["cpu_model"])
	add("%v cores", host["cores"])
	if memory, ok := host["memory_bytes"].(float64); ok {
		add("%s memory", byteSize(int(memory)))
	}
	add("%v", kernel(host))
	add("%v", host["virtualisation"])
	if golang, ok := host["go"].(map[string]any); ok {
		add("%v", golang["version"])
	}
	return strings.Join(facts, " · ")
}

func kernel(host map[string]any) string {
	system, _ := host["os"].(string)
	version, _ := host["kernel"].(string)
	architecture, _ := host["arch"].(string)
	return strings.Join(strings.Fields(system+" "+version+" "+architecture), " ")
}
