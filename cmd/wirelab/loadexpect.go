package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"wirelab.dev/internal/base/expect"
	"wirelab.dev/internal/wire/service"
)

// expectFlags say what a right answer is.
type expectFlags struct {
	conditions []string
	share      float64
}

func (e *expectFlags) register(f *pflag.FlagSet) {
	f.StringArrayVar(&e.conditions, "expect", nil, "`condition` of a right answer, as in 'status == 201', 'json(.ok) == true' or 'latency < 20ms' (default: a status below 400, or OK); "+
		"it may use "+expect.Usable)
	f.Float64Var(&e.share, "expect-sample", 1, "`share` of the answers whose bodies --expect looks at, from 0 to 1")
}

// apply checks the conditions and puts them into the definition.
func (e *expectFlags) apply(d *service.Definition) error {
	for _, text := range e.conditions {
		if _, err := expect.Parse(text, d.Wire.Kind()); err != nil {
			return fmt.Errorf("--expect: %w", err)
		}
	}
	if !(e.share > 0 && e.share <= 1) {
		return fmt.Errorf("--expect-sample: found %v: want a share above 0, up to 1", e.share)
	}
	d.Expect = e.conditions
	if e.share < 1 {
		d.ExpectSample = e.share
	}
	return nil
}

// meetExpectations holds the first answer against the conditions. One that fails for its
// latency may be met by the next, and does not stop the load.
func (a *app) meetExpectations(d *service.Definition, answer expect.Answer) error {
	all, err := d.Expectations()
	if err != nil {
		return err
	}
	if answer, err = all.Readable(answer); err != nil {
		return err
	}
	look := expect.NewLook(d.Wire.Kind())
	look.At(answer)
	for _, text := range d.Expect {
		condition, err := expect.Parse(text, d.Wire.Kind())
		if err != nil {
			return err
		}
		unmet, is := errors.AsType[*expect.Unmet](condition.Check(look))
		switch {
		case !is:
		case condition.Uses().Latency:
			fmt.Fprintf(a.stderr, "note: the first answer does not meet --expect %s: found %s\n", text, unmet.Found)
		default:
			return fmt.Errorf("--expect %s: the first answer does not meet it: found %s: nothing was loaded; check the condition, and the service", text, unmet.Found)
		}
	}
	return nil
}
