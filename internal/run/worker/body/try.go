package body

import (
	"context"
	"fmt"

	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/stack"
)

// Try connects like a client of the spec and makes one call, in this process. It does not check
// the answer, which a trial does. It tries nothing if another program makes the calls.
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
