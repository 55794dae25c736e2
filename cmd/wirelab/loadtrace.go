package main

import (
	"errors"
	"fmt"
	"strings"

	"wirelab.dev/internal/wire/service"
)

// trace has a share of the requests carry a traceparent.
func (l *loading) trace(d *service.Definition) error {
	switch {
	case !l.given("traceparent"):
		return nil
	case !(l.traced > 0 && l.traced <= 1):
		return fmt.Errorf("--traceparent: found %v: want a share above 0, at most 1, as in 0.01", l.traced)
	}
	for _, request := range d.Requests {
		for _, f := range request.Header {
			if strings.EqualFold(f.Name, service.TraceField) {
				return errors.New("--traceparent and -H traceparent: give one of them")
			}
		}
	}
	d.Trace = &service.Trace{Share: l.traced}
	return nil
}
