package main

import (
	"github.com/spf13/cobra"

	"wirelab.dev/internal/worker"
)

func (a *app) workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "worker",
		Short:  "Be one end of a trial: the process contract (docs/worker-contract.md)",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return worker.Main(cmd.Context(), a.stdin, a.stdout)
		},
	}
}
