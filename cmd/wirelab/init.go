package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/scenario"
)

func (a *app) initCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "init [FILE]",
		Short: "Write a scenario file to start from",
		Example: `  wirelab init my.yaml
  wirelab run my.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			name := "wirelab.yaml"
			if len(args) > 0 {
				name = args[0]
			}
			file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
			if errors.Is(err, fs.ErrExist) {
				return usage(fmt.Errorf("%s already exists: name another file", name))
			}
			if err != nil {
				return err
			}
			_, err = file.Write(scenario.Starter())
			if err := errors.Join(err, file.Close()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "wrote %s; measure it with `wirelab run %s`\n", name, name)
			return err
		},
	}
}
