package body

import (
	"context"

	"wirelab.dev/internal/wire/stack"
)

// connect opens the connections of the spec's mode and makes a caller for each client.
func connect(ctx context.Context, spec *task) (*connected, error) {
	if spec.isService() {
		return connectService(ctx, spec)
	}
	variant, s, err := find(spec.Stack)
	if err != nil {
		return nil, err
	}
	if stack.CallsPrepared(variant) {
		return connectPrepared(ctx, spec)
	}
	return connectStack(ctx, spec, variant, s)
}
