package lab

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// Patience bounds the time that a run spends on trials that only the machine spoiled: on
// waiting for a quiet moment, and on measuring them again. A repeat that has begun is
// finished.
type Patience struct {
	Time  time.Duration
	Share float64 // of the run's time, patience included: below 1; comes on top of Time
}

// UsualPatience is a quarter of the run's time and 10 seconds more. Neighbours work for seconds at
// a time, so a short run needs the seconds.
var UsualPatience = Patience{Time: 10 * time.Second, Share: 0.25}

// after returns the patience once the plan's trials have taken the given time.
func (p Patience) after(planned time.Duration) time.Duration {
	const longest = 1 << 61 // nanoseconds, 73 years: with a share near 1 no integer holds it
	return min(p.Time, longest) + time.Duration(min(p.Share/(1-p.Share)*float64(planned), longest))
}

// errPatience says what Set reads.
var errPatience = errors.New("want a time, as in 2m, a share of the run's time below 100%, as in 10%, both, as in 25%+10s, or 0 to measure nothing again")

// Set reads a share of the run's time, a time, or a sum of both, as in 25%+10s.
func (p *Patience) Set(text string) error {
	percent, rest, isShare := strings.Cut(text, "%")
	var read Patience
	if isShare {
		share, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(share >= 0 && share < 100) {
			return errPatience
		}
		read.Share = share / 100
		if rest == "" {
			*p = read
			return nil
		}
		if text, isShare = strings.CutPrefix(rest, "+"); !isShare {
			return errPatience
		}
	}
	limit, err := time.ParseDuration(text)
	if err != nil || limit < 0 {
		return errPatience
	}
	read.Time = limit
	*p = read
	return nil
}

// String returns the value as Set reads it.
func (p *Patience) String() string {
	if p.Share == 0 {
		return p.Time.String()
	}
	digits := 3
	if p.Share > 0.99 { // which must not become 100 %
		digits = 8
	}
	text := strconv.FormatFloat(100*p.Share, 'g', digits, 64) + "%"
	if p.Time > 0 {
		text += "+" + p.Time.String()
	}
	return text
}

// Type returns pflag's name for the value.
func (p *Patience) Type() string { return "share" }

// More returns a value that gives about twice the time.
func (p Patience) More() string {
	twice := Patience{Time: 2 * min(p.Time, math.MaxInt64/2), Share: 2 * p.Share / (1 + p.Share)}
	if p == (Patience{}) {
		twice = UsualPatience
	}
	return twice.String()
}
