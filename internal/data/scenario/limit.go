package scenario

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// A Limit is the limit of a figure as users write it: p99<10ms, errors > 0.1%, p99 > +10%,
// p99=5ms. It is only syntax: its readers know the figures, and the values that each takes.
type Limit struct {
	Text   string // as it was written
	Figure string // in small letters
	Sign   string // <, > or =
	Value  string // without spaces
}

var limitForm = regexp.MustCompile(`^([A-Za-z0-9./]+)([<>=])([^<>=]+)$`)

// ParseLimit reads a limit. Spaces may stand anywhere.
func ParseLimit(text string) (Limit, error) {
	parts := limitForm.FindStringSubmatch(strings.Join(strings.FieldsFunc(text, unicode.IsSpace), ""))
	if parts == nil {
		return Limit{}, fmt.Errorf("%q is no condition: want FIGURE>LIMIT or FIGURE<LIMIT, as in p99>20ms, errors>0.1%%, rps<1000 or p99>+10%%", text)
	}
	return Limit{Text: strings.TrimSpace(text), Figure: strings.ToLower(parts[1]), Sign: parts[2], Value: parts[3]}, nil
}

// Time returns the value if it is a time with its unit, as in 20ms.
func (l Limit) Time() (time.Duration, bool) {
	value, err := time.ParseDuration(l.Value)
	return value, err == nil
}

// Number returns the value if it is a number.
func (l Limit) Number() (float64, bool) {
	value, err := strconv.ParseFloat(l.Value, 64)
	return value, err == nil
}

// Percent returns the value as a share if it is a percentage: 0.001 for 0.1%.
func (l Limit) Percent() (float64, bool) {
	number, is := strings.CutSuffix(l.Value, "%")
	value, err := strconv.ParseFloat(number, 64)
	return value / 100, is && err == nil
}

// A Goal is the limit of a percentile of the response time, written `p99<10ms`.
type Goal struct {
	Percentile float64
	Limit      Duration
}

// ParseGoal reads a goal: p99<10ms, or p99=10ms.
func ParseGoal(text string) (Goal, error) {
	limit, err := ParseLimit(text)
	number, prefixed := strings.CutPrefix(limit.Figure, "p")
	p, notNumber := strconv.ParseFloat(number, 64)
	d, isTime := limit.Time()
	if err != nil || limit.Sign == ">" || !prefixed || notNumber != nil || !isTime || !(p > 0 && p < 100) || d <= 0 {
		return Goal{}, fmt.Errorf("goal %q: want a percentile and its limit, as in p99<10ms", text)
	}
	return Goal{Percentile: p, Limit: Duration(d)}, nil
}

// String writes the goal as ParseGoal reads it.
func (g Goal) String() string {
	return "p" + strconv.FormatFloat(g.Percentile, 'g', -1, 64) + "<" + g.Limit.String()
}

// MarshalText writes the goal as String does.
func (g Goal) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads the text as ParseGoal does.
func (g *Goal) UnmarshalText(text []byte) error { return parseInto(g, text, ParseGoal) }
