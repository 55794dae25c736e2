package gate

import (
	_ "embed" // for replication.html
	"fmt"
	"html/template"
	"io"
	"math"
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
	Claims []compare.Claim `json:"claims"`
	Total  OutcomeCounts   `json:"total"`
}

// OutcomeCounts counts claims by outcome.
type OutcomeCounts struct {
	Claims       int `json:"claims"`
	Compatible   int `json:"compatible"`
	Larger       int `json:"larger"`
	Smaller      int `json:"smaller"`
	Refuted      int `json:"refuted"`
	Underpowered int `json:"underpowered"`
	Unmeasured   int `json:"not_measured"`
}

func (o *OutcomeCounts) counter(outcome compare.Outcome) *int {
	return map[compare.Outcome]*int{
		compare.Compatible: &o.Compatible, compare.Larger: &o.Larger, compare.Smaller: &o.Smaller,
		compare.Refuted: &o.Refuted, compare.Underpowered: &o.Underpowered, compare.Unmeasured: &o.Unmeasured,
	}[outcome]
}

// String returns the counts in words.
func (o OutcomeCounts) String() string {
	var texts []string
	for _, outcome := range compare.Outcomes {
		if n := *o.counter(outcome); n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	return fmt.Sprintf("%s: %s.", words.Count(o.Claims, "claim"), strings.Join(texts, ", "))
}

// Add adds a study to the totals.
func (r *Replication) Add(study StudyOutcome) {
	for _, total := range []*OutcomeCounts{&study.Total, &r.Total} {
		for i := range study.Claims {
			*total.counter(study.Claims[i].Outcome)++
			total.Claims++
		}
	}
	r.Studies = append(r.Studies, study)
}

// Finish sets the duration and the answer.
func (r *Replication) Finish(took time.Duration) {
	r.Took = took.Round(time.Second).String()
	r.Answer = []string{r.Total.String()}
	trials, valid := 0, 0
	var notes []string
	for _, s := range r.Studies {
		trials, valid = trials+s.Trials, valid+s.Valid
		if s.Note != "" {
			notes = append(notes, "Partial: "+s.Name+": "+s.Note)
		}
	}
	if open := r.Total.Underpowered; open > 0 {
		advice := "Do: the studies' reports show how many repeats would decide the %d open claims."
		if r.Quick {
			advice = "Do: without --quick, longer windows and more repeats may decide the %d open claims."
		}
		r.Answer = append(r.Answer, fmt.Sprintf(advice, open))
	}
	r.Answer = append(r.Answer, fmt.Sprintf("Trust: %d of %d trials valid; only ratios and shapes are compared, because machines differ.", valid, trials))
	r.Answer = append(r.Answer, notes...)
}

// WriteReplication prints one line per claim, study by study, and the totals.
func WriteReplication(w io.Writer, r *Replication, terminal format.Terminal) error {
	for _, s := range r.Studies {
		if _, err := fmt.Fprintf(w, "\n%s\n", format.Painter(terminal.Colour)(format.Bold, s.Title)); err != nil {
			return err
		}
		if err := WriteClaims(w, s.Claims, terminal); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\n%s\n", strings.Join(r.Answer, "\n"))
	return err
}

// WriteReplicationMarkdown writes the claims for a page on the web.
func WriteReplicationMarkdown(w io.Writer, r *Replication) error {
	var out strings.Builder
	writeList(&out, r.Answer)
	safe := func(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
	for _, s := range r.Studies {
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n| | row | claim | claimed | here | verdict |\n| --- | --- | --- | ---: | ---: | --- |\n", s.Title, s.Total)
		for i := range s.Claims {
			c := &s.Claims[i]
			fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %s |\n", claimMarks[c.Outcome], c.Row, safe(c.Says), c.ClaimedText(), claimMeasured(c), safe(claimVerdict(c)))
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// claimVerdict returns the outcome, its reason, the effect's factors, and the study's objection.
func claimVerdict(c *compare.Claim) string {
	text := string(c.Outcome)
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	if factors := c.FactorsInWords(); factors != "" {
		text += "; " + factors
	}
	if c.But != "" {
		text += "; but " + c.But
	}
	return text
}

// WriteReplicationJUnit writes one test per claim: refuted claims fail, undecided ones are skipped.
func WriteReplicationJUnit(w io.Writer, r *Replication) error {
	var tests []junitTest
	for _, s := range r.Studies {
		for i := range s.Claims {
			c := &s.Claims[i]
			one := junitTest{Name: strings.TrimSpace(c.Row + " " + c.Says), Class: s.Name}
			message := &junitMessage{fmt.Sprintf("%s (here %s, claimed %s)", claimVerdict(c), claimMeasured(c), c.ClaimedText())}
			switch c.Outcome {
			case compare.Refuted, compare.Smaller:
				one.Failure = message
			case compare.Underpowered, compare.Unmeasured:
				one.Skipped = message
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
		"factors": (*compare.Claim).FactorsInWords, "class": func(o compare.Outcome) string { return strings.ReplaceAll(string(o), " ", "-") },
		"at": func(claims []compare.Claim, i int) *compare.Claim { return &claims[i] },
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
	compare.Refuted:      "✗",
	compare.Underpowered: "?",
	compare.Unmeasured:   "–",
}

// WriteClaims prints one line per claim, with the text cut to the terminal's width.
func WriteClaims(w io.Writer, claims []compare.Claim, terminal format.Terminal) error {
	if len(claims) == 0 {
		return nil
	}
	const last = "claim"
	rows := [][]string{{"", "row", "claim", "here", "claimed", last}}
	for i := range claims {
		c := &claims[i]
		says := c.Says
		if c.Ratio == nil && c.Reason != "" {
			says += " (" + c.Reason + ")"
		}
		rows = append(rows, []string{claimMarks[c.Outcome], c.Row, string(c.Outcome), claimMeasured(c), c.ClaimedText(), says})
	}
	lines := format.Grid(rows, func(column int) bool { return column < 3 || column == 5 })
	width := math.MaxInt
	if terminal.Width > 0 {
		width = max(terminal.Width, utf8.RuneCountInString(lines[0])-len(last)+20)
	}
	var out strings.Builder
	out.WriteString("\n" + format.Painter(terminal.Colour)(format.Bold, lines[0]) + "\n")
	for _, line := range lines[1:] {
		out.WriteString(format.Shorten(line, width) + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
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
