package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Goal is a limit of a percentile of the response time, written `p99<10ms`.
type Goal struct {
	Percentile float64
	Limit      Duration
}

// ParseGoal reads a goal.
func ParseGoal(text string) (Goal, error) {
	percentile, limit, found := strings.Cut(strings.ReplaceAll(text, " ", ""), "<")
	number, prefixed := strings.CutPrefix(strings.ToLower(percentile), "p")
	p, err := strconv.ParseFloat(number, 64)
	d, wrong := time.ParseDuration(limit)
	if !found || !prefixed || err != nil || wrong != nil || !(p > 0 && p < 100) || d <= 0 {
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

// UnmarshalText reads what ParseGoal reads.
func (g *Goal) UnmarshalText(text []byte) error {
	parsed, err := ParseGoal(string(text))
	if err != nil {
		return err
	}
	*g = parsed
	return nil
}
