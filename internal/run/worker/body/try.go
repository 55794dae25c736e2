package body

import (
	"context"
	"fmt"

	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/stack"
)

// Try connects as a client of the spec would and makes one call, in this process. It looks
// at no answer: whether that is the right one is for a trial to say. Of a program of others
// it tries nothing.
func Try(ctx context.Context, in *worker.Spec) error {
	spec := &task{*in}
	variant, _, err := find(spec.Stack)
	if err != nil {
		return err
	}
	if _, foreign := stack.ForeignClient(variant); foreign {
		return nil
	}
	conns, err := connect(ctx, spec)
	if err != nil {
		return err
	}
	defer conns.close()
	if err := conns.callers[0].Call(ctx); err != nil {
		return fmt.Errorf("call %s: %w", spec.Address, err)
	}
	return nil
}
