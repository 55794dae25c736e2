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

	"wirelab.dev/internal/base/build"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/internal/show/report/table"
	"wirelab.dev/web"
)

// pageData adds data for the page to the object of --json. Its fields hide the object's fields of
// equal name.
type pageData struct {
	Object
	Seed     string         `json:"seed"` // as text: JavaScript's numbers have only 53 bits
	Title    string         `json:"title"`
	Question string         `json:"question"`
	Started  string         `json:"started"`
	Command  string         `json:"command"`
	Computer string         `json:"machine"` // machine in one line
	Tool     string         `json:"tool"`    // build of wirelab in one line; empty if it is not known
	Host     map[string]any `json:"host"`
	// Stacks lists all stacks. The position of a stack decides its colour.
	Stacks     []string `json:"stacks"`
	ClosedTail string   `json:"closed_tail"` // note about the tail in closed loops; empty if there is no closed loop
	// Choices has a name for each option that the page contrasts.
	Choices  map[string]string `json:"choices"`
	Profiles Profiles          `json:"profiles"`
	Pairs    []Pair            `json:"pairs"` // pairs that can be explained, the usual pair of each point first
}

func newPageData(run *Run) *pageData {
	s := run.Summary
	data := &pageData{
		Object:   *NewObject(run),
		Seed:     fmt.Sprint(s.Seed),
		Title:    s.Title,
		Question: s.Question,
		Started:  s.Started.UTC().Format("2 January 2006, 15:04:05 UTC"),
		Command:  format.QuoteCommand(s.Command),
		Computer: machineLine(s.Host),
		Tool:     toolLine(s),
		Host:     s.Host,
		Choices:  map[string]string{compare.ByConnection: "connection"},
		Profiles: packProfiles(s.Profiles),
		Pairs:    pairsOf(s.Insights),
	}
	if len(s.Overlaid) > 0 {
		data.Seed, data.Started = "", ""
		data.Command = joinDistinct(s.Overlaid, "\n", func(run *analysis.Summary) string { return format.QuoteCommand(run.Command) })
		data.Computer = joinDistinct(s.Overlaid, " | ", func(run *analysis.Summary) string { return machineLine(run.Host) })
		data.Tool = joinDistinct(s.Overlaid, " | ", toolLine)
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
	for _, cell := range table.SortedCells(s.Cells) {
		shown := newCell(cell)
		if cell.Kind().InDetail {
			shown.Checks = worstChecks(cell.Cell, run.Records)
		}
		data.Cells = append(data.Cells, shown)
	}
	data.ClosedTail = table.ClosedLoopNote(table.SortedCells(s.Cells))
	return data
}

func joinDistinct(runs []*analysis.Summary, separator string, say func(*analysis.Summary) string) string {
	var texts []string
	for _, run := range runs {
		texts = lists.AppendNew(texts, say(run))
	}
	return strings.Join(texts, separator)
}

func toolLine(run *analysis.Summary) string {
	if run.Build == nil {
		return ""
	}
	return run.Build.String()
}

// machineLine describes a run's machine in one line, from the facts in the manifest.
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
var pageTemplate string

// WriteHTML writes a page that works without server, network and, for reading, JavaScript.
func WriteHTML(w io.Writer, run *Run) error { return writeHTML(w, run, "") }

// LiveScript reloads the page when its server has a newer one. It shows the table of a fleet's agents
// above the page, as text, because the names are the agents' own.
const LiveScript = `{
const events = new EventSource("events");
events.onmessage = () => location.reload();
const add = (to, tag, text) => to.appendChild(Object.assign(document.createElement(tag), { textContent: text ?? "" }));
events.addEventListener("agents", (event) => {
	const table = JSON.parse(event.data), box = document.createElement("section");
	box.id = "agents";
	box.style.cssText = "max-width: 76rem; margin: 1.5rem auto; padding: 0 2.5rem";
	add(box, "h2", "Agents");
	const shown = add(add(box, "div"), "table");
	shown.parentNode.className = "scroll";
	const head = add(add(shown, "thead"), "tr"), body = add(shown, "tbody");
	const align = (column) => (table.numbers.includes(column) ? "right" : "left");
	table.titles.forEach((title, column) => { Object.assign(add(head, "th", title), { scope: "col" }).style.textAlign = align(column); });
	table.rows.forEach((row) => { const line = add(body, "tr"); row.cells.forEach((cell, column) => { add(line, "td", cell).style.textAlign = align(column); }); line.className = row.wrong ? "invalid" : ""; });
	add(box, "p", table.summary).className = "note";
	document.getElementById("agents")?.remove();
	document.body.prepend(box);
});
}`

// WriteLiveHTML writes the page of a run in progress, for a server that sends the events.
func WriteLiveHTML(w io.Writer, run *Run) error { return writeHTML(w, run, LiveScript) }

func writeHTML(w io.Writer, run *Run, live template.JS) error {
	page, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("report: reading the page's template: %w", err)
	}
	encoded, err := encode(newPageData(run), forPage)
	if err != nil {
		return fmt.Errorf("report: encoding the page's data: %w", err)
	}
	// With <, > and & escaped, no text in the data can end its element.
	var data bytes.Buffer
	json.HTMLEscape(&data, encoded)
	// The style and the program are trusted, and the data is escaped.
	err = page.Execute(w, pageContent{
		Title:   cmp.Or(run.Summary.Title, run.Summary.Name),
		Style:   template.CSS(web.Style),
		Program: template.JS(web.Program),
		Data:    template.JS(data.String()),
		Advice:  slices.Concat(run.Answer, run.Advice),
		Table:   table.NewPlainTable(run.Summary),
		Live:    live,
		Writer:  build.Current().String(),
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
	Table   table.TextTable
	Live    template.JS // script that reloads the page; empty in a stored file
	Writer  string      // build of wirelab that writes the page, which may be newer than the one that measured
}

// Pair holds the sentences that compare two insights, or that explain one alone. The insights hold
// the figures.
type Pair struct {
	Of      int      `json:"of"`                            // index of insight B
	Against *int     `json:"against" jsonschema:"nullable"` // index of insight A; null if B is explained alone
	Words   []string `json:"words"`
}

// maxPairedCells limits the page's size: comparing every two of n cells takes about n²/2
// kilobytes. If a point has more cells, each is compared only with the first.
const maxPairedCells = 12

// pairsOf lists the pairs to explain, point by point. The usual pair of each point comes first.
func pairsOf(insights []insight.Insight) []Pair {
	var all []Pair
	for _, point := range groupByPoint(insights) {
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
		usualOf, usualAgainst := insight.DefaultPair(there)
		all = append(all, pair(usualOf, usualAgainst))
		for b := range there {
			for a := range there {
				switch {
				case &there[b] == usualOf && &there[a] == usualAgainst, len(there) > maxPairedCells && a > 0 && a != b:
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

// groupByPoint groups the indexes of insights that differ only in their variant.
func groupByPoint(insights []insight.Insight) [][]int {
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

// Profiles holds the profiles of a run for its page. There may be dozens with mostly the same
// functions, so each name is stored once.
type Profiles struct {
	Categories []string                   `json:"categories"`
	Functions  []insight.ProfiledFunction `json:"functions"`
	List       []PackedProfile            `json:"list"`
}

// A PackedProfile is a profile with all stacks in one list of numbers.
type PackedProfile struct {
	insight.Profile
	// Packed has for each stack: the number of outermost frames shared with the stack before, the
	// number of further frames, these frames, the category, and the weight in billionths. Frames
	// and categories are indexes into the lists of Profiles.
	Packed []int `json:"stacks"`
}

// weightScale makes whole numbers of weights. Weights below 1/weightScale are dropped.
const weightScale = 1e9

func packProfiles(profiles []insight.Profile) Profiles {
	categories, functions := indexedList[string]{}, indexedList[insight.ProfiledFunction]{}
	packed := Profiles{}
	for _, p := range profiles {
		category, function := categories.indexesOf(p.Categories), functions.indexesOf(p.Functions)
		stacks := lists.Map(p.Stacks, func(s insight.ProfiledStack) insight.ProfiledStack {
			frames := lists.Map(s.Frames, func(frame int) int { return function[frame] })
			return insight.ProfiledStack{Frames: frames, Category: category[s.Category], Weight: s.Weight}
		})
		packed.List = append(packed.List, PackedProfile{Profile: p, Packed: packStacks(stacks)})
	}
	packed.Categories, packed.Functions = categories.list, functions.list
	return packed
}

// packStacks sorts the stacks so that each shares many frames with the one before.
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

// An indexedList has no value twice, and maps each value to its index.
type indexedList[T comparable] struct {
	list []T
	at   map[T]int
}

// indexesOf returns the indexes of the values, and adds missing values.
func (p *indexedList[T]) indexesOf(values []T) []int {
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
