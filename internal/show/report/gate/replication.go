package gate

import (
	"cmp"
	_ "embed" // for replication.html
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/show/report/format"
	"wirelab.dev/web"
)

// A Replication holds the claims of studies, with their outcomes on this machine.
type Replication struct {
	Started time.Time      `json:"started"`
	Took    string         `json:"took"` // a duration in Go's format
	Quick   bool           `json:"quick"`
	Host    string         `json:"host"` // processors and memory in words
	Studies []StudyOutcome `json:"studies"`
	Total   OutcomeCounts  `json:"total"`
	Answer  []string       `json:"answer"` // a few short lines
}

// A StudyOutcome holds one study's claims, with their outcomes.
type StudyOutcome struct {
	Name   string          `json:"name"`
	Title  string          `json:"title"`
	Run    string          `json:"run"` // directory of the run, in the directory of this file
	Trials int             `json:"trials"`
	Valid  int             `json:"valid"`
	Note   string          `json:"note"` // why trials are missing; empty if none is missing
	Lead   []string        `json:"lead"` // the study's question, answered by the figures of its claims
	Claims []compare.Claim `json:"claims"`
	Total  OutcomeCounts   `json:"total"`
}

// OutcomeCounts counts claims by outcome.
type OutcomeCounts struct {
	Claims       int `json:"claims"`
	Published    int `json:"published"` // claims of studies; the others are wirelab's own
	Compatible   int `json:"compatible"`
	Larger       int `json:"larger"`
	Smaller      int `json:"smaller"`
	NotSeen      int `json:"not_seen"`
	Refuted      int `json:"refuted"`
	Reversed     int `json:"reversed"`
	NotTested    int `json:"not_put_to_the_test"`
	Underpowered int `json:"underpowered"`
	Refused      int `json:"refused"`
	Unmeasured   int `json:"not_measured"`
}

func (o *OutcomeCounts) counter(outcome compare.Outcome) *int {
	return map[compare.Outcome]*int{
		compare.Compatible: &o.Compatible, compare.Larger: &o.Larger, compare.Smaller: &o.Smaller, compare.NotSeen: &o.NotSeen,
		compare.Refuted: &o.Refuted, compare.Reversed: &o.Reversed, compare.NotTested: &o.NotTested,
		compare.Underpowered: &o.Underpowered, compare.Refused: &o.Refused, compare.Unmeasured: &o.Unmeasured,
	}[outcome]
}

// Counts counts the study's claims in words, published and own claims apart.
func (s *StudyOutcome) Counts() string { return strings.Join(compare.CountOutcomes(s.Claims), " ") }

// Add adds a study to the totals.
func (r *Replication) Add(study StudyOutcome) {
	for _, total := range []*OutcomeCounts{&study.Total, &r.Total} {
		for i := range study.Claims {
			*total.counter(study.Claims[i].Outcome)++
			total.Claims++
			if !study.Claims[i].Basis.IsOwn() {
				total.Published++
			}
		}
	}
	r.Studies = append(r.Studies, study)
}

// Finish sets the duration and the answer.
func (r *Replication) Finish(took time.Duration) {
	r.Took = took.Round(time.Second).String()
	trials, valid := 0, 0
	var notes []string
	var claims []compare.Claim
	for _, s := range r.Studies {
		trials, valid, claims = trials+s.Trials, valid+s.Valid, append(claims, s.Claims...)
		if s.Note != "" {
			notes = append(notes, "Partial: "+s.Name+": "+s.Note)
		}
	}
	r.Answer = compare.CountOutcomes(claims)
	if open := r.Total.Underpowered; open > 0 {
		advice := "Do: the studies' reports show how many repeats would decide the %s."
		if r.Quick {
			advice = "Do: without --quick, longer windows and more repeats may decide the %s."
		}
		r.Answer = append(r.Answer, fmt.Sprintf(advice, words.Count(open, "open claim")))
	}
	r.Answer = append(r.Answer, fmt.Sprintf("Trust: %d of %d trials valid; only ratios and shapes are compared, because machines differ.", valid, trials))
	r.Answer = append(r.Answer, notes...)
}

// RowNote explains the ids of rows.
const RowNote = "A row such as K12 is the study's letter with the number of a finding: K kernel study, F fast gRPC, C client bottleneck, U users API, Q connection lifecycle."

// WriteReplication prints one line per claim, study by study, and the totals.
func WriteReplication(w io.Writer, r *Replication, terminal format.Terminal) error {
	for _, s := range r.Studies {
		if _, err := fmt.Fprintf(w, "\n%s\n", format.Painter(terminal.Colour)(format.Bold, s.Title)); err != nil {
			return err
		}
		for _, line := range s.Lead {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
		if err := WriteClaims(w, s.Claims, terminal); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n\n%s\n", RowNote, strings.Join(r.Answer, "\n"))
	return err
}

const replicationTitle = "What studies claim, and what was found here"

// WriteReplicationMarkdown writes the claims for a page on the web.
func WriteReplicationMarkdown(w io.Writer, r *Replication) error {
	var out strings.Builder
	how := ""
	if r.Quick {
		how = ", quick"
	}
	fmt.Fprintf(&out, "# %s\n\nMeasured on %s, in %s%s. %s.\n\n", replicationTitle, r.Started.UTC().Format("2 January 2006"), r.Took, how, r.Host)
	writeList(&out, r.Answer)
	fmt.Fprintf(&out, "\n%s\n", RowNote)
	safe := func(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
	for _, s := range r.Studies {
		fmt.Fprintf(&out, "\n## %s\n\n", s.Title)
		writeList(&out, append(slices.Clone(s.Lead), s.Counts()))
		out.WriteString("\n| | claim | row | claimed | here | repeats | verdict |\n| --- | --- | --- | ---: | ---: | ---: | --- |\n")
		for i := range s.Claims {
			c := &s.Claims[i]
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %s | %s |\n", claimMarks[c.Outcome], safe(c.Says), c.Row, c.ClaimedText(), claimMeasured(c), claimRepeats(c), safe(claimVerdict(c)))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// claimVerdict returns the outcome, its reason, and the study's objection.
func claimVerdict(c *compare.Claim) string {
	text := string(c.Outcome)
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	if c.But != "" {
		text += "; but " + c.But
	}
	return text
}

// WriteReplicationJUnit writes one test per claim. A claim fails if the effect is not as large as
// claimed, and is skipped if it was not judged.
func WriteReplicationJUnit(w io.Writer, r *Replication) error {
	var tests []junitTest
	for _, s := range r.Studies {
		for i := range s.Claims {
			c := &s.Claims[i]
			one := junitTest{Name: strings.TrimSpace(c.Row + " " + c.Says), Class: s.Name}
			message := &junitMessage{fmt.Sprintf("%s (here %s, claimed %s)", claimVerdict(c), claimMeasured(c), c.ClaimedText())}
			switch c.Outcome {
			case compare.Compatible, compare.Larger:
			case compare.NotTested, compare.Underpowered, compare.Refused, compare.Unmeasured:
				one.Skipped = message
			default:
				one.Failure = message
			}
			tests = append(tests, one)
		}
	}
	return writeJUnit(w, "wirelab replicate", tests)
}

//go:embed replication.html
var replicationTemplate string

// WriteReplicationHTML writes one page with links to each study's report.
func WriteReplicationHTML(w io.Writer, r *Replication) error {
	page, err := template.New("replication").Funcs(template.FuncMap{
		"here": claimMeasured, "claimed": (*compare.Claim).ClaimedText, "mark": func(o compare.Outcome) string { return claimMarks[o] },
		"class": func(o compare.Outcome) string { return strings.ReplaceAll(string(o), " ", "-") },
		"at":    func(claims []compare.Claim, i int) *compare.Claim { return &claims[i] }, "counts": func(s StudyOutcome) string { return s.Counts() },
		"row_note": func() string { return RowNote }, "title": func() string { return replicationTitle },
	}).Parse(replicationTemplate)
	if err != nil {
		return fmt.Errorf("report: reading the page's template: %w", err)
	}
	// The style is our own, so it is not escaped.
	if err := page.Execute(w, struct {
		*Replication
		Style template.CSS
	}{r, template.CSS(web.Style)}); err != nil {
		return fmt.Errorf("report: writing the page: %w", err)
	}
	return nil
}

// claimMarks has a sign for each outcome, which is printed beside the outcome's word.
var claimMarks = map[compare.Outcome]string{
	compare.Compatible:   "✓",
	compare.Larger:       ">",
	compare.Smaller:      "<",
	compare.NotSeen:      "○",
	compare.Refuted:      "✗",
	compare.Reversed:     "↔",
	compare.NotTested:    "·",
	compare.Underpowered: "?",
	compare.Refused:      "–",
	compare.Unmeasured:   "–",
}

// reasonWidth is the width of reasons if the output is no terminal.
const reasonWidth = 100

// WriteClaims prints one line per claim, with the text cut to the terminal's width. The lines below it
// say why a claim has no verdict.
func WriteClaims(w io.Writer, claims []compare.Claim, terminal format.Terminal) error {
	if len(claims) == 0 {
		return nil
	}
	const last = "claim"
	rows := [][]string{{"", "row", "verdict", "here", "claimed", "repeats", last}}
	for i := range claims {
		c := &claims[i]
		rows = append(rows, []string{claimMarks[c.Outcome], c.Row, string(c.Outcome), claimMeasured(c), c.ClaimedText(), claimRepeats(c), c.Says})
	}
	lines := format.Grid(rows, func(column int) bool { return column < 3 || column == 6 })
	width, indent := math.MaxInt, utf8.RuneCountInString(lines[0])-len(last)
	if terminal.Width > 0 {
		width = max(terminal.Width, indent+20)
	}
	var out strings.Builder
	out.WriteString("\n" + format.Painter(terminal.Colour)(format.Bold, lines[0]) + "\n")
	for i, line := range lines[1:] {
		out.WriteString(format.Shorten(line, width) + "\n")
		if reason := claims[i].Reason; reason != "" {
			format.Wrap(&out, reason, format.Layout{Width: cmp.Or(terminal.Width, reasonWidth), Lead: "   ", Hang: 3})
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// claimRepeats returns the number of repeats of a claim.
func claimRepeats(c *compare.Claim) string {
	if c.Pairs == 0 {
		return format.Absent
	}
	return strconv.Itoa(c.Pairs)
}

// claimMeasured returns a claim's figure as measured here. Only ratios get the sign ×.
func claimMeasured(c *compare.Claim) string {
	switch {
	case c.Ratio == nil:
		return format.Absent
	case c.AtLeast == nil && c.AtMost == nil:
		return words.FactorText(*c.Ratio)
	}
	return words.WithInterval(*c.Ratio, units.Number)
}
