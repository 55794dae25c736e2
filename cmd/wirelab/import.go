package main

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/base/build"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/foreign"
	"wirelab.dev/internal/foreign/summary"
	"wirelab.dev/internal/judge/check"
	"wirelab.dev/internal/run/plan"
)

func (a *app) importCommand() *cobra.Command {
	var (
		name   string
		output outputFlags
	)
	tools := lists.Map(foreign.Summaries, func(f summary.Format) string { return fmt.Sprintf("  %-8s%s", f.Tool, f.Makes) })
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Read the summaries of other load generators as a run",
		Long: `Import reads the JSON summaries of other load generators and makes a run from
them. wirelab report shows the run; wirelab diff compares it with another run,
imported or measured:

` + strings.Join(tools, "\n") + `

Import recognises the tool by the file's content. It changes no figure, and
figures that the file lacks stay unknown. The report names the tool, and the
limits of its figures. Files with the same tool, target, call and load count as
repeats: three of them give intervals, and verdicts in diff.`,
		Example: `  ghz --insecure --call shop.v1.Shop/Get -n 20000 --format json 127.0.0.1:50051 > 1.json
  wirelab import 1.json 2.json 3.json -o before
  wirelab diff before after`,
		Args: argumentCount(1, math.MaxInt, "one or more JSON files of other load generators"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return []string{"json"}, cobra.ShellCompDirectiveFilterFileExt
		},
		RunE: func(_ *cobra.Command, args []string) error {
			directory, err := a.importFiles(args, name, output.directory)
			if err != nil {
				return err
			}
			seen, err := a.readRun(directory)
			if err != nil {
				return err
			}
			return a.publish(seen, output, a.stdout)
		},
	}
	output.registerPrinting(cmd, "compare")
	cmd.Flags().StringVarP(&output.directory, "output", "o", "", "`directory` for the run (default: wirelab-runs/NAME-DATE)")
	cmd.Flags().StringVar(&name, "name", "", "`name` of the run (default: import- and the tools' names)")
	return cmd
}

// importFiles makes a run from result files and returns its directory. All files must be readable.
func (a *app) importFiles(paths []string, name, directory string) (string, error) {
	files := make([]summary.File, len(paths))
	for i, path := range paths {
		data, err := plan.ReadFile(path, summary.MaxBytes)
		if err == nil {
			files[i], err = foreign.Summaries.ReadFile(path, data)
		}
		if err != nil {
			return "", usageError(fmt.Errorf("%s: %w", path, err))
		}
		for j, other := range files[:i] {
			if other.SHA256 == files[i].SHA256 {
				return "", usageError(fmt.Errorf("%s and %s are the same measurement: give only one of them, because both would count as repeats", paths[j], path))
			}
		}
	}
	records := summary.Records(files)
	manifest := summary.Manifest(records)
	manifest.SetBuild(build.Current())
	manifest.Command = commandLine()
	if name != "" {
		manifest.Name = name
	}
	if strings.ContainsAny(manifest.Name, `/\`) {
		return "", usageError(fmt.Errorf("--name: found %q: want a name without / and \\", manifest.Name))
	}
	run, err := createRun(directory, manifest)
	if err != nil {
		return "", err
	}
	for i := range records {
		records[i].Checks = check.Judge(&records[i], a.limits)
		if err := run.Append(records[i]); err != nil {
			return "", errors.Join(err, run.Finish(record.Failed))
		}
	}
	return run.Dir, run.Finish(record.Done)
}
