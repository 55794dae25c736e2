// The program is the peer rivals: a worker of wirelab's contract with the stacks of other Go
// libraries. It is a module of its own, so that wirelab does not depend on them. Load engine,
// probes and workloads are wirelab's own; only the stacks differ.
package main

import (
	"context"
	"fmt"
	"os"

	"wirelab.dev/internal/run/worker/body"
	"wirelab.dev/internal/wire/stack"
	workloads "wirelab.dev/internal/wire/workload/catalog"
	"wirelab.dev/peers/rivals/drpcstack"
	"wirelab.dev/peers/rivals/kitexstack"
	"wirelab.dev/peers/rivals/rpcxstack"
	"wirelab.dev/peers/rivals/ttrpcstack"
)

// stacks returns the stacks, in the order of wirelab's catalog.
func stacks() []stack.Stack {
	return []stack.Stack{kitexstack.New(), drpcstack.New(), ttrpcstack.New(), rpcxstack.New()}
}

func main() {
	program := body.Program{Stacks: stacks(), Workloads: workloads.Workloads()}
	if err := program.Main(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "rivals:", err)
		os.Exit(1)
	}
}
