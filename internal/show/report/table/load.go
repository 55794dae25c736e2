package table

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/foreign/flags"
	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// IsLoad reports whether a run is the load of one service or of its versions, which WriteLoad prints.
func IsLoad(s *analysis.Summary) bool {
	cells := s.Cells
	return len(cells) > 0 && (cells[0].Kind().Alone || ComparesVersions(s)) && len(s.Foreign) == 0 && !slices.ContainsFunc(cells, func(c matrix.Cell) bool {
		return !c.HasFigures() || c.Version() == "" && (c.Variant != cells[0].Variant || c.Target != cells[0].Target)
	})
}

// ComparesVersions reports whether a run is the load of two versions of a service.
func ComparesVersions(s *analysis.Summary) bool {
	return len(s.Cells) > 0 && s.Cells[0].Version() != ""
}

// WriteLoad prints the figures of a load, each once, and then what a reader must know about them. A
// load with several numbers of clients, or with several runs, has a short table.
func WriteLoad(w io.Writer, s *analysis.Summary, table Table) error {
	cells := SortedCells(s.Cells)
	out := loadText{width: table.wrapWidth(), paint: format.Painter(table.Colour)}
	out.headline(cells)
	if len(cells) == 1 {
		out.figures(cells[0])
		out.runs(cells[0])
	} else {
		out.steps(cells)
	}
	out.probes(s.Insights, cells[0])
	out.failures(cells)
	if s.Fleet != nil {
		out.fact("fleet", advice.FleetLine(s.Fleet, words.MaxLineLength))
		for _, c := range cells {
			for i := range c.FleetClients {
				out.fact("", fleetClientLine(&c.FleetClients[i]))
			}
		}
	}
	remarks := advice.Unobserved(s) // of two versions, their answer says the rest
	if !ComparesVersions(s) {
		remarks = advice.LoadRemarks(s)
	}
	out.remarks(remarks, table.Verbose)
	_, err := io.WriteString(w, out.String())
	return err
}

// maxRemarkLines is the largest number of lines that remarks fill, if there are more than two and not
// all are asked for. With it, one run fits half a terminal of 24 lines.
const maxRemarkLines = 3

// A loadText is the text of a load: a headline, then facts. Each fact has a name in front.
type loadText struct {
	strings.Builder
	width int
	paint func(format.Style, string) string
}

// FactNameWidth is the width of the names of facts, with the indent before them.
const FactNameWidth = len("  messages")

// lead returns the name of a fact, as wide as all names.
func lead(name string) string { return fmt.Sprintf("%-*s  ", FactNameWidth, "  "+name) }

// fact prints parts behind a name. A part that does not fit goes to the next line as a whole.
func (t *loadText) fact(name string, parts ...string) {
	line, separator := lead(name), ""
	for _, part := range parts {
		if separator != "" && utf8.RuneCountInString(line+separator+part) > t.width {
			t.WriteString(line + "\n")
			line, separator = lead(""), ""
		}
		line += separator + part
		separator = "   "
	}
	t.WriteString(line + "\n")
}

// sentence prints a text behind a name. It breaks lines between words.
func (t *loadText) sentence(name, text string) {
	format.Wrap(&t.Builder, text, format.Layout{Width: t.width, Lead: lead(name), Hang: FactNameWidth + 2})
}

// remarks prints the first remarks, and counts the others.
func (t *loadText) remarks(all []string, verbose bool) {
	wrap := func(out *strings.Builder, text string) {
		format.Wrap(out, text, format.Layout{Width: t.width, Lead: "! ", Hang: 2, Paint: func(s string) string { return t.paint(format.Red, s) }})
	}
	var out strings.Builder
	for i, remark := range all {
		before := out.Len()
		wrap(&out, remark)
		if i > 1 && !verbose && strings.Count(out.String(), "\n") > maxRemarkLines {
			t.WriteString(out.String()[:before])
			wrap(&t.Builder, words.Count(len(all)-i, "more remark")+" (--verbose)")
			return
		}
	}
	t.WriteString(out.String())
}

// grid prints rows below their titles. Too wide rows lose the columns with the given titles.
func (t *loadText) grid(rows [][]string, drop ...string) {
	for {
		lines := format.Grid(rows, func(column int) bool {
			return column == 0 && slices.Contains([]string{stepTitle, requestTitle, stageTitle}, rows[0][0])
		})
		if len(drop) == 0 || !slices.ContainsFunc(lines, func(line string) bool { return utf8.RuneCountInString(line)+2 > t.width }) {
			for _, line := range lines {
				t.WriteString("  " + line + "\n")
			}
			return
		}
		if at := slices.Index(rows[0], drop[0]); at >= 0 {
			rows = withoutColumn(rows, at)
		}
		drop = drop[1:]
	}
}

// headline names what was loaded, and how.
func (t *loadText) headline(cells []*matrix.Cell) {
	c := cells[0]
	left, right := describeTarget(c), strings.Join(describeHow(cells), ", ")
	if i := slices.IndexFunc(cells, func(other *matrix.Cell) bool { return other.Target != c.Target }); i >= 0 {
		left += " and " + describeTarget(cells[i])
	}
	if utf8.RuneCountInString(left+right)+3 <= t.width {
		t.WriteString(t.paint(format.Bold, left) + "   " + right + "\n")
		return
	}
	format.Wrap(&t.Builder, left, format.Layout{Width: t.width, Hang: 2, Paint: func(s string) string { return t.paint(format.Bold, s) }})
	format.Wrap(&t.Builder, right, format.Layout{Width: t.width, Lead: "  ", Hang: 2})
}

// describeTarget returns the request as users write it: GET http://127.0.0.1:8080/items.
func describeTarget(c *matrix.Cell) string {
	wire, _ := c.Cell.Wire()
	scheme := "http"
	if strings.HasPrefix(wire, "grpc") {
		scheme = "grpc"
	}
	if c.Connections.Secure {
		scheme += "s"
	}
	method, path, hasMethod := strings.Cut(c.Workload, " ")
	isAddress := !strings.HasPrefix(c.Target, "/")
	switch {
	case isAddress && hasMethod && strings.HasPrefix(path, "/"):
		return method + " " + scheme + "://" + c.Target + path
	case isAddress && strings.HasPrefix(scheme, "grpc") && strings.Contains(c.Workload, "/"):
		return scheme + "://" + c.Target + "/" + c.Workload
	case c.Target == "":
		return c.Workload
	}
	return c.Workload + " at " + c.Target
}

// describeHow lists the protocol and the load. It leaves out what differs between the cells.
func describeHow(cells []*matrix.Cell) []string {
	c := cells[0]
	wire, others := c.Cell.Wire()
	parts := []string{cmp.Or(protocolNames[wire], wire)}
	sameClients := !slices.ContainsFunc(cells, func(other *matrix.Cell) bool { return other.Clients != c.Clients })
	if sameClients && len(cells) > 1 {
		parts = append(parts, describeCount(c.Clients))
	}
	if len(cells) == 1 {
		clients := describeCount(c.Clients)
		if kept := int(c.Opened.Value) - int(c.Connections.During); c.Connection != "per-worker" && kept > 0 && !c.Connections.PerRequest {
			clients += " on " + words.Count(kept, "connection")
		}
		parts = append(parts, clients)
		if text := DescribeLoad(c); text != "closed" {
			parts = append(parts, text)
		}
	}
	for _, option := range others {
		if limit, is := strings.CutPrefix(option, "inflight="); is {
			parts = append(parts, "at most "+limit+" in flight")
		}
	}
	if c.Connections.PerRequest {
		parts = append(parts, "a new connection per request")
	}
	took := words.Seconds(c.WindowSeconds)
	if c.WindowSeconds < 1 {
		took = words.Micros(1e6 * c.WindowSeconds)
	}
	if c.Trials > 1 {
		took = fmt.Sprintf("%d runs of %s", c.Trials, took)
	}
	if c.WarmUp.Value > 0 {
		took += fmt.Sprintf(" (+%s warm-up)", words.Micros(1e3*c.WarmUp.Value))
	}
	return append(parts, took)
}

// figures prints the figures of one cell.
func (t *loadText) figures(c *matrix.Cell) {
	t.counts(describeCounts(c))
	if c.Errors < c.Requests { // if all failed, no answer has a time
		switch {
		case c.Response != nil:
			t.times("response", c.Response, c.Spread, "from the planned send")
			t.times("service", &c.Service, nil, "from the actual send")
		case c.Streams != nil && c.Streams.Receives():
			t.times("gap", &c.Service, c.Spread, "since the message before")
		default:
			t.times("latency", &c.Service, c.Spread, "")
		}
	}
	if m := c.Messages; m != nil && c.Streams == nil {
		t.fact("messages", append([]string{units.Thousands(m.Requests) + " answered"}, percentiles(&m.Times, shownPercentiles)...)...)
	} else if m != nil && c.Streams.Dated {
		t.fact("age", append(percentiles(&m.Times, shownPercentiles), "since they were sent")...)
	}
	if c.Streams != nil {
		t.fact("streams", describeStreams(c.Streams)...)
	}
	if c.Addresses != nil {
		t.sentence("called", strings.Join(describeAddresses(c.Addresses), ", "))
	}
	if s := c.Search; s != nil {
		t.fact("goal", fmt.Sprintf("%s: kept at %s/s, missed at %s/s", c.Load.Goal, format.PerSecond(s.Kept.Value), format.PerSecond(s.Missed.Value)))
	}
	t.fact("CPU", describeCPU(c)...)
	if k := c.Checking; k != nil {
		t.fact("checking", fmt.Sprintf("%s per answer, between calls; %s checked against all conditions",
			format.Micros(float64(k.TookNS)/1e3/float64(k.Answers)), words.Percent(float64(k.Whole)/float64(k.Answers))))
	}
	if sizes := SizesOf(c.Answers); sizes != nil && sizes.MinBytes < sizes.MaxBytes {
		t.sentence("answers", sizes.String())
	}
	kinds := userKinds(c.Named)
	if len(kinds) > 1 {
		t.fact("users", lists.Map(kinds, func(k matrix.CallTimes) string {
			return fmt.Sprintf("%s %s requests (%s)", k.Name, units.Thousands(k.Requests), shareText(k.Requests, c.Requests))
		})...)
	}
	stages := c.Load.RateStages()
	title, name := requestTitle, func(calls matrix.CallTimes) string { return calls.Name }
	switch {
	case len(kinds) > 0:
		title = stepTitle
	case len(c.Named) > 0 && c.Named[0].Stage > 0 && len(stages) > 0:
		title, name = stageTitle, func(calls matrix.CallTimes) string {
			s := stages[min(calls.Stage, len(stages))-1]
			return fmt.Sprintf("%s, %s to %s/s", flags.ShortDuration(s.Length), flags.FormatNumber(s.From), flags.FormatNumber(s.To))
		}
	}
	if len(c.Named) > 0 {
		t.grid(append([][]string{{title, "ok", "failed", "/s", "P50", "P90", "P99", "max"}}, lists.Map(c.Named, func(calls matrix.CallTimes) []string {
			return append([]string{name(calls), units.Thousands(calls.Requests - calls.Failed), units.Thousands(calls.Failed), format.PerSecond(calls.Throughput.Value)}, stepTimes(&calls.Times)...)
		})...), "P90", "max")
	}
}

// userKinds counts the requests of each kind of user, whose name begins the names of the steps. It
// returns nil if the names are of requests.
func userKinds(steps []matrix.CallTimes) (kinds []matrix.CallTimes) {
	for _, step := range steps {
		kind, _, isStep := strings.Cut(step.Name, ": ")
		if !isStep {
			return nil // the names are of requests
		}
		lists.FindOrAdd(&kinds, matrix.CallTimes{Name: kind}, func(k matrix.CallTimes) bool { return k.Name == kind }).Requests += step.Requests
	}
	return kinds
}

// counts prints the parts that count, on as few lines as they need.
func (t *loadText) counts(parts []string) {
	line := "  " + strings.Join(parts, "     ")
	if utf8.RuneCountInString(line) > t.width {
		line = "  " + parts[0]
		for _, part := range parts[1:] {
			if utf8.RuneCountInString(line+part)+3 > t.width {
				t.WriteString(line + "\n")
				line = "  " + part
			} else {
				line += "   " + part
			}
		}
	}
	t.WriteString(line + "\n")
}

// describeCounts returns the parts of the line that counts: requests, rate, and bytes.
func describeCounts(c *matrix.Cell) []string {
	failed := units.Thousands(c.Errors) + " failed"
	if c.Errors > 0 {
		failed += " (" + shareText(c.Errors, c.Requests) + ")"
	}
	rate := format.PerSecond(c.Throughput.Value) + "/s"
	if i := c.Throughput.Interval; i != nil {
		rate += fmt.Sprintf(" (%s to %s)", format.PerSecond(i.Low), format.PerSecond(i.High))
	}
	within := int64(math.Round(c.Throughput.Value * c.WindowSeconds))
	if c.Trials == 1 && format.Finite(c.Throughput.Value) && within != c.Requests-c.Errors {
		rate += " (" + units.Thousands(within) + " within the window)"
	}
	counts := units.Thousands(c.Requests-c.Errors) + " ok, " + failed + ", " + units.Thousands(c.Survival.Resent) + " sent again"
	parts := []string{counts, rate}
	if sizes := SizesOf(c.Answers); sizes != nil && sizes.MinBytes == sizes.MaxBytes {
		parts = append(parts, "answers of "+units.Bytes(int(sizes.MinBytes), " "))
	}
	if c.Survival.Outside > 0 {
		parts = append(parts, units.Thousands(c.Survival.Outside)+" not measured")
	}
	return append(parts, DescribeBytes(c)...)
}

// shownPercentiles are the percentiles of a short line. All others follow beside the spread.
var shownPercentiles = []string{"P50", "P90", "P99"}

// percentiles returns the known percentiles with the given names, the maximum and the mean.
func percentiles(l *matrix.Latencies, names []string) []string {
	if l.Max.Value == 0 {
		return []string{"no answers"}
	}
	var parts []string
	for _, q := range matrix.Quantiles {
		if label := q.Tag.Get("label"); slices.Contains(names, label) && format.Finite(q.FigureIn(l).Value) {
			parts = append(parts, label+" "+format.Micros(q.FigureIn(l).Value))
		}
	}
	mean := "mean " + format.Micros(l.Mean.Value)
	if i := l.Mean.Interval; i != nil {
		mean += fmt.Sprintf(" (%s to %s)", format.Micros(i.Low), format.Micros(i.High))
	}
	return append(parts, "max "+format.Micros(l.Max.Value), mean)
}

// times prints percentiles, and below them the spread with the other percentiles.
func (t *loadText) times(name string, l *matrix.Latencies, spread []matrix.SpreadStep, from string) {
	parts := percentiles(l, shownPercentiles)
	var more []string
	for _, q := range matrix.Quantiles {
		if label := q.Tag.Get("label"); !slices.Contains(shownPercentiles, label) && format.Finite(q.FigureIn(l).Value) && spread != nil {
			more = append(more, label+" "+format.Micros(q.FigureIn(l).Value))
		}
	}
	if from != "" {
		parts = append(parts, from)
	}
	t.fact(name, parts...)
	if len(spread) == 0 {
		return
	}
	const signs = 20
	counts := make([]float64, signs)
	for i, step := range spread {
		counts[i*signs/len(spread)] += float64(step.Requests)
	}
	fastest := spread[0].Until * spread[0].Until / spread[1].Until // the steps grow by a constant factor
	t.fact("", append([]string{fmt.Sprintf("%s  %s to %s", format.Spark(counts), format.Micros(fastest), format.Micros(l.Max.Value))}, more...)...)
}

// describeCPU returns the cost of both ends.
func describeCPU(c *matrix.Cell) []string {
	client, service := formatOptional(figureValue(c.ClientCPU), format.Micros), formatOptional(figureValue(c.ServerCPU), format.Micros)
	call := callOf(c)
	parts := []string{fmt.Sprintf("client %s, service %s per %s", client, service, call)}
	if c.ServerCPU == nil {
		parts = []string{"client " + client + " per " + call, "service unknown: on another machine, not found, or restarted"}
	}
	if c.Client.RSS != nil && c.Server.RSS != nil {
		parts = append(parts, fmt.Sprintf("memory %.0f and %.0f MiB", c.Client.RSS.Value/(1<<20), c.Server.RSS.Value/(1<<20)))
	}
	return parts
}

// callOf returns the word for one call of a load.
func callOf(c *matrix.Cell) string {
	if c.Streams != nil {
		return "message"
	}
	return "request"
}

func figureValue(f *matrix.Figure) *float64 {
	if f == nil {
		return nil
	}
	return &f.Value
}

// runs prints one line per run, if there are several.
func (t *loadText) runs(c *matrix.Cell) {
	if len(c.Repeats) < 2 {
		return
	}
	t.grid(append([][]string{{"run", "/s", "mean", "P50", "P99", "valid"}}, lists.Map(c.Repeats, func(r matrix.Repeat) []string {
		return []string{fmt.Sprint(r.Trial), formatOptional(r.Throughput, format.PerSecond), formatOptional(r.MeanUS, format.Micros), formatOptional(r.P50, format.Micros), formatOptional(r.P99, format.Micros), yesOrNo(r.Valid)}
	})...))
}

// Titles of the columns with the names of requests.
const (
	stepTitle    = "step"
	requestTitle = "request"
	stageTitle   = "stage"
)

// steps prints one line per number of clients, or per load.
func (t *loadText) steps(cells []*matrix.Cell) {
	rows := [][]string{{"version", "clients", "load", "ok", "failed", "/s", "P50", "P90", "P99", "max", "client", "service", "valid"}}
	for _, c := range cells {
		row := []string{c.Version(), ClientCount(c), DescribeLoad(c), units.Thousands(c.Requests - c.Errors), units.Thousands(c.Errors), format.PerSecond(c.Throughput.Value)}
		row = append(row, stepTimes(c.ResponseTimes())...)
		rows = append(rows, append(row, formatOptional(figureValue(c.ClientCPU), format.Micros), formatOptional(figureValue(c.ServerCPU), format.Micros), yesOrNo(c.IsValid())))
	}
	t.grid(withoutConstant(rows, "version", "clients", "load", "valid"), "P90", "max", "service", "client")
}

// withoutConstant removes the columns with the given titles whose rows are all equal.
func withoutConstant(rows [][]string, titles ...string) [][]string {
	for _, title := range titles {
		at := slices.Index(rows[0], title)
		if !slices.ContainsFunc(rows[1:], func(row []string) bool { return row[at] != rows[1][at] }) {
			rows = withoutColumn(rows, at)
		}
	}
	return rows
}

func withoutColumn(rows [][]string, at int) [][]string {
	return lists.Map(rows, func(row []string) []string { return slices.Concat(row[:at], row[at+1:]) })
}

func yesOrNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

func stepTimes(l *matrix.Latencies) []string {
	return lists.Map([]matrix.Figure{l.P50, l.P90, l.P99, l.Max}, func(f matrix.Figure) string { return format.Micros(f.Value) })
}

func fleetClientLine(c *matrix.FleetClient) string {
	text := fmt.Sprintf("%s: %s, %s/s", c.Agent, describeCount(c.Clients), format.PerSecond(c.Throughput))
	if c.P99 != nil {
		text += ", P99 " + format.Micros(*c.P99)
	}
	if c.Busy != nil {
		text += ", " + format.Percent(*c.Busy) + " of its CPUs busy"
	}
	return text + ", " + string(c.Level)
}

// WriteTraces lists the traces of the slowest requests, if there are any.
func WriteTraces(w io.Writer, s *analysis.Summary) error {
	const most = 5 // the JSON has all traces
	out := loadText{width: math.MaxInt}
	for i := range s.Cells {
		c := &s.Cells[i]
		if c.Traced == 0 {
			continue
		}
		of := ""
		if len(s.Cells) > 1 {
			of = " with " + DescribeClients(c)
		}
		out.fact("traces", fmt.Sprintf("%s of %s requests%s carry a traceparent header; the slowest of these:", units.Thousands(c.Traced), units.Thousands(c.Requests), of))
		for _, t := range c.Traces[:min(len(c.Traces), most)] {
			failed := ""
			if t.Failed {
				failed = ", failed"
			}
			out.fact("", t.ID+" "+format.Micros(t.LatencyUS)+failed)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
