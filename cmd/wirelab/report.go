package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/show/publish"
	"wirelab.dev/internal/show/report"
)

func (a *app) reportCommand() *cobra.Command {
	var output outputFlags
	cmd := &cobra.Command{
		Use:   "report RUN [RUN…]",
		Short: "Judge a run again, and write its report; or one of several runs",
		Long: `Report reads the records in a run's directory, judges them by this version's
rules, prints the table, and writes report.html and cells.csv there. Where a
trial is now judged otherwise than when it was measured, it says so. The records
stay as they are.

Of several runs it writes one page, with the cells of all: every variant bears
the name of its run, as in grpc:run=before, and each run is compared with the
first one. To see only what became faster or slower, use diff.`,
		Example: `  wirelab report wirelab-runs/compare-20260102-150405
  wirelab report results --columns P90,P99.9,max
  wirelab report results --json | jq '.cells[0].service_us.p99'
  wirelab report before after -o both.html`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("name one run's directory, or several")
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return a.overlay(args, output)
			case output.directory != "":
				return usage(errors.New("-o: the report of one run lies in its directory; the flag is for several runs"))
			}
			seen, err := a.readRun(args[0])
			if err != nil {
				return usage(err)
			}
			return a.publish(seen, output, a.stdout)
		},
	}
	output.registerPrinting(cmd)
	cmd.Flags().StringVarP(&output.directory, "output", "o", "", "of several runs, the `file` for their page (default: beside-….html in the first one's directory)")
	return cmd
}

// overlay writes and prints one report of several runs.
func (a *app) overlay(directories []string, output outputFlags) error {
	names := publish.NamesOf(directories)
	runs := make([]*report.Run, len(directories))
	for i, directory := range directories {
		var err error
		if runs[i], err = a.readRun(directory); err != nil {
			return usage(fmt.Errorf("%s: %w", directory, err))
		}
	}
	seen, err := report.Overlay(names, runs)
	if err != nil {
		return err
	}
	page := output.directory
	if page == "" {
		page = filepath.Join(directories[0], "beside-"+strings.Join(names[1:], "-")+".html")
	}
	if err := publish.WriteFile(page, func(w io.Writer) error { return report.WriteHTML(w, seen) }); err != nil {
		return fmt.Errorf("-o: %w", err)
	}
	if output.json {
		return report.WriteJSON(a.stdout, seen)
	}
	return publish.Print(a.stdout, seen, output.printing(page))
}

// oneRun wants a run's directory as the only argument.
func oneRun(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one run's directory; found %d arguments", len(args))
	}
	return nil
}

func (a *app) exportCommand() *cobra.Command {
	var format, output string
	names := each(report.Formats(), func(f report.Format) string { return f.Name })
	cmd := &cobra.Command{
		Use:   "export RUN --format FORMAT",
		Short: "Write a run in a form that other tools read",
		Example: `  wirelab export results --format csv -o cells.csv
  wirelab export results --format benchstat > new.txt && benchstat old.txt new.txt
  wirelab export results --format hlog -o results.hlog`,
		Args: oneRun,
		RunE: func(_ *cobra.Command, args []string) error {
			if format == "" {
				return usage(fmt.Errorf("--format is missing: want one of %s", strings.Join(names, ", ")))
			}
			f, err := report.FindFormat(format)
			if err != nil {
				return usage(fmt.Errorf("--format: %w", err))
			}
			seen, err := a.readRun(args[0])
			if err != nil {
				return usage(err)
			}
			return a.writeTo(output, func(w io.Writer) error { return f.Write(w, seen) })
		},
	}
	cmd.Flags().StringVar(&format, "format", "", "the `form`: "+strings.Join(names, ", "))
	cmd.Flags().StringVarP(&output, "output", "o", "", "`file` to write (default: standard output)")
	complete(cmd, "format", names)
	return cmd
}

// writeTo writes to the named file, or to standard output.
func (a *app) writeTo(path string, write func(io.Writer) error) error {
	if path == "" {
		return write(a.stdout)
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
