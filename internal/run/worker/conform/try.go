package conform

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
)

// A T runs a check, as a testing.T does.
type T interface {
	Helper()
	Error(args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Cleanup(clean func())
	Context() context.Context
}

// Try runs the check outside of tests, and returns what it found.
func (c Check) Try(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	t := &trial{ctx: ctx}
	ended := make(chan struct{})
	go func() { // a goroutine of its own: Fatal ends it
		defer close(ended)
		c.Run(t)
	}()
	<-ended
	cancel()
	for _, clean := range slices.Backward(t.cleanups) {
		clean()
	}
	return errors.Join(t.found...)
}

// trial is the T of Try. Checks call it from their own goroutine only.
type trial struct {
	ctx      context.Context
	found    []error
	cleanups []func()
}

func (t *trial) Helper()                  {}
func (t *trial) Context() context.Context { return t.ctx }
func (t *trial) Cleanup(clean func())     { t.cleanups = append(t.cleanups, clean) }
func (t *trial) Errorf(format string, args ...any) {
	t.found = append(t.found, fmt.Errorf(format, args...))
}
func (t *trial) Error(args ...any) { t.Errorf("%s", fmt.Sprint(args...)) }

func (t *trial) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

func (t *trial) Fatal(args ...any) { t.Fatalf("%s", fmt.Sprint(args...)) }
