package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/table"
	"wirelab.dev/web"
)

// pageData adds to the object of --json what only a page shows. Its fields hide those of that name.
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

func joined(runs []*analysis.Summary, separator string, say func(*analysis.Summary) string) string {
	var texts []string
	for _, run := range runs {
		texts = lists.AppendNew(texts, say(run))
	}
	return strings.Join(texts, separator)
}

// machineLine says in one line where a run was made, as far as the manifest's host tells.
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
	text := func(key string) string { value, _ := host[key].(string); return value }
	add("%v", strings.Join(strings.Fields(text("os")+" "+text("kernel")+" "+text("arch")), " "))
	add("%v", host["virtualisation"])
	if golang, ok := host["go"].(map[string]any); ok {
		add("%v", golang["version"])
	}
	return strings.Join(facts, " · ")
}

//go:embed page.html
var pageText string

// WriteHTML writes a page that needs no server, no network and, to be read, no JavaScript.
func WriteHTML(w io.Writer, run *Run) error { return writeHTML(w, run, "") }

// LiveScript loads a newer page when its server has one. What the reader chose is in the address.
const LiveScript = `new EventSource("events").onmessage = () => location.reload();`

// WriteLiveHTML writes the page of a run that goes on, for a server that has the events.
func WriteLiveHTML(w io.Writer, run *Run) error { return writeHTML(w, run, LiveScript) }

func writeHTML(w io.Writer, run *Run, live template.JS) error {
	page, err := template.New("page").Parse(pageText)
	if err != nil {
		return fmt.Errorf("report: reading the page's template: %w", err)
	}
	encoded, err := encode(newPageData(run), forPage)
	if err != nil {
		return fmt.Errorf("report: encoding the page's data: %w", err)
	}
	// With <, > and & as escapes no text in the data can end the element that it stands in.
	var data bytes.Buffer
	json.HTMLEscape(&data, encoded)
	// The style and the program are ours, and the data is escaped.
	err = page.Execute(w, pageContent{
		Title:   cmp.Or(run.Summary.Title, run.Summary.Name),
		Style:   template.CSS(web.Style),
		Program: template.JS(web.Program),
		Data:    template.JS(data.String()),
		Advice:  slices.Concat(run.Answer, run.Advice),
		Table:   table.NewPlain(run.Summary),
		Live:    live,
	})
	if err != nil {
		return fmt.Errorf("report: writing the page: %w", err)
	}
	return nil
}

type pageContent struct {
	Title   string
	Style   template.CSS
	Program template.JS
	Data    template.JS
	Advice  []string
	Table   table.PlainTable
	Live    template.JS // empty in a file
}

// Pair is two insights that the page can explain one against the other, or one that it
// explains alone, in words. Their figures are in the insights.
type Pair struct {
	Of      int      `json:"of"`                            // B: its place among the insights
	Against *int     `json:"against" jsonschema:"nullable"` // A; null where B is explained alone
	Words   []string `json:"words"`
}

// mostPaired bounds the page: each of n cells at a point against each other gives about n²
// half kilobytes of words, which is half of what their figures take for ten. Beyond it each
// is there against the first alone.
const mostPaired = 12

// pairsOf lists what can be explained, point by point, the usual pair of each point first.
func pairsOf(insights []insight.Insight) []Pair {
	var all []Pair
	for _, point := range pointsOf(insights) {
		there := lists.Map(point, func(place int) insight.Insight { return insights[place] })
		pair := func(of, against *insight.Insight) Pair {
			p := Pair{Words: advice.Explain(insight.Explain(of, against))}
			for i := range there {
				switch &there[i] {
				case of:
					p.Of = point[i]
				case against:
					p.Against = &point[i]
				}
			}
			return p
		}
		usualOf, usualAgainst := insight.UsualPair(there)
		all = append(all, pair(usualOf, usualAgainst))
		for b := range there {
			for a := range there {
				switch {
				case &there[b] == usualOf && &there[a] == usualAgainst, len(there) > mostPaired && a > 0 && a != b:
				case a != b:
					all = append(all, pair(&there[b], &there[a]))
				case usualAgainst != nil:
					all = append(all, pair(&there[b], nil))
				}
			}
		}
	}
	return all
}

// pointsOf puts the places of insights together that differ in their variant alone.
func pointsOf(insights []insight.Insight) [][]int {
	var points [][]int
	for i := range insights {
		known := slices.IndexFunc(points, func(point []int) bool { return insights[point[0]].IsAt(&insights[i]) })
		if known < 0 {
			points = append(points, []int{i})
			continue
		}
		points[known] = append(points[known], i)
	}
	return points
}

// Profiles holds the profiles of a run, for its page. There may be dozens, and most of
// their functions are the same, so it lists each name once.
type Profiles struct {
	Categories []string                   `json:"categories"`
	Functions  []insight.ProfiledFunction `json:"functions"`
	List       []PackedProfile            `json:"list"`
}

// A PackedProfile is a profile whose stacks are one list of numbers.
type PackedProfile struct {
	insight.Profile
	// Packed has for each stack: how many outermost frames it shares with the stack
	// before it, how many more it has, these, its category, and its weight in
	// thousand-millionths. Frames and categories are places in the lists of Profiles.
	Packed []int `json:"stacks"`
}

// weightScale makes a weight a whole number; rounding drops what weighs less.
const weightScale = 1e9

func packProfiles(profiles []insight.Profile) Profiles {
	categories, functions := places[string]{}, places[insight.ProfiledFunction]{}
	packed := Profiles{}
	for _, p := range profiles {
		category, function := categories.of(p.Categories), functions.of(p.Functions)
		stacks := lists.Map(p.Stacks, func(s insight.ProfiledStack) insight.ProfiledStack {
			frames := lists.Map(s.Frames, func(frame int) int { return function[frame] })
			return insight.ProfiledStack{Frames: frames, Category: category[s.Category], Weight: s.Weight}
		})
		packed.List = append(packed.List, PackedProfile{Profile: p, Packed: packStacks(stacks)})
	}
	packed.Categories, packed.Functions = categories.list, functions.list
	return packed
}

// packStacks sorts the stacks, so that each shares much with the one before it.
func packStacks(stacks []insight.ProfiledStack) []int {
	slices.SortStableFunc(stacks, func(a, b insight.ProfiledStack) int { return slices.Compare(a.Frames, b.Frames) })
	var packed, before []int
	for _, s := range stacks {
		shared := 0
		for shared < min(len(before), len(s.Frames)) && before[shared] == s.Frames[shared] {
			shared++
		}
		packed = append(packed, shared, len(s.Frames)-shared)
		packed = append(packed, s.Frames[shared:]...)
		packed = append(packed, s.Category, int(math.Round(weightScale*s.Weight)))
		before = s.Frames
	}
	return packed
}

// A places is a list without repetitions.
type places[T comparable] struct {
	list []T
	at   map[T]int
}

// of returns the places of the values, which are added where they are not in the list.
func (p *places[T]) of(values []T) []int {
	if p.at == nil {
		p.at = map[T]int{}
	}
	return lists.Map(values, func(value T) int {
		place, known := p.at[value]
		if !known {
			place = len(p.list)
			p.at[value], p.list = place, append(p.list, value)
		}
		return place
	})
}
