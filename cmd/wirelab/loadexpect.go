package main

import (
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
