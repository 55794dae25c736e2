package main

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"wirelab.dev/internal/run/lab"
)

// patienceFlag is --patience: a share of the run's time, a time, or a sum of both.
type patienceFlag struct {
	lab.Patience
}

func (p *patienceFlag) register(f *pflag.FlagSet) {
	p.Patience = lab.UsualPatience
	f.Var(p, "patience", "time for outwaiting other programs and measuring again what they spoiled: a `share` of the run's time and a time, or one of them; 0: none")
}

// errPatience says what --patience may be.
var errPatience = errors.New("want a time, as in 2m, a share of the run's time below 100%, as in 10%, both, as in 25%+10s, or 0 to measure nothing again")

// Set reads the flag. pflag puts the flag's name and the value before its error.
func (p *patienceFlag) Set(text string) error {
	percent, rest, isShare := strings.Cut(text, "%")
	var read lab.Patience
	if isShare {
		share, err := strconv.ParseFloat(percent, 64)
		if err != nil || !(share >= 0 && share < 100) {
			return errPatience
		}
		read.Share = share / 100
		if rest == "" {
			p.Patience = read
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
	p.Patience = read
	return nil
}

// String is the value as Set reads it.
func (p *patienceFlag) String() string {
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

// Type is pflag's name for the value; the help takes the one in backquotes.
func (p *patienceFlag) Type() string { return "share" }

// more is a value that gives about twice the time.
func (p *patienceFlag) more() string {
	twice := patienceFlag{lab.Patience{Time: 2 * min(p.Time, math.MaxInt64/2), Share: 2 * p.Share / (1 + p.Share)}}
	if p.Patience == (lab.Patience{}) {
		twice.Patience = lab.UsualPatience
	}
	return twice.String()
}
