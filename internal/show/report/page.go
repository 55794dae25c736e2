package report

import (
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/table"
)

// pageData holds the data of the page: the object of --json, and figures that only a page
// shows. Fields here hide those of the same name there.
type pageData struct {
	Object
	Seed     string         `json:"seed"` // as text: JavaScript's numbers end at 53 bits
	Title    string         `json:"title"`
	Question string         `json:"question"`
	Started  string         `json:"started"`
	Command  string         `json:"command"`
	Computer string         `json:"machine"` // in one line
	Host     map[string]any `json:"host"`
	// Stacks lists all stacks: a stack's place in it decides its colour.
	Stacks     []string `json:"stacks"`
	ClosedTail string   `json:"closed_tail"` // what a closed loop's tail cannot see; empty where there is none
	// Choices name the options that are contrasted.
	Choices  map[string]string `json:"choices"`
	Profiles Profiles          `json:"profiles"`
	Pairs    []Pair            `json:"pairs"` // that can be explained, the usual one of each point first
}

func newPageData(run *Run) *pageData {
	s := run.Summary
	data := &pageData{
		Object:   *NewObject(run),
		Seed:     fmt.Sprint(s.Seed),
		Title:    s.Title,
		Question: s.Question,
		Started:  s.Started.UTC().Format("2 January 2006, 15:04:05 UTC"),
		Command:  format.Command(s.Command),
		Computer: machineLine(s.Host),
		Host:     s.Host,
		Choices:  map[string]string{compare.ByConnection: "connection"},
		Profiles: packProfiles(s.Profiles),
		Pairs:    pairsOf(s.Insights),
	}
	if len(s.Overlaid) > 0 {
		data.Seed, data.Started = "", ""
		data.Command = joined(s.Overlaid, "\n", func(run *analysis.Summary) string { return format.Command(run.Command) })
		data.Computer = joined(s.Overlaid, " | ", func(run *analysis.Summary) string { return machineLine(run.Host) })
	}
	for _, stack := range s.Declared.Stacks {
		data.Stacks = append(data.Stacks, stack.Name)
		for _, option := range stack.Options {
			if option.Contrast != nil {
				data.Choices[option.Key] = option.Contrast.Name
			}
		}
	}
	data.Cells = nil
	for _, cell := range table.Ordered(s.Cells) {
		shown := newCell(cell)
		if cell.Kind().InDetail {
			shown.Checks = verdictsOf(cell.Cell, run.Records)
		}
		data.Cells = append(data.Cells, shown)
	}
	data.ClosedTail = table.ClosedTail(table.Ordered(s.Cells))
	return data
}

// joined returns the texts about several runs, each once.
func joined(runs []*analysis.Summary, separator string, say func(*analysis.Summary) string) string {
	var texts []string
	for _, run := range runs {
		if text := say(run); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, separator)
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
		add("%s memory", format.ByteSize(int(memory)))
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
