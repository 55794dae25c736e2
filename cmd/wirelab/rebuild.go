package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/rebuild"
	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack/catalog"
)

// withRebuilt builds the programs of variants whose runtime has another limit of small
// objects. Those that cannot be built are left out, with a warning each.
func (a *app) withRebuilt(ctx context.Context, s *scenario.Scenario) (_ *scenario.Scenario, programs map[int][]string, warnings []string, _ error) {
	programs = map[int][]string{}
	for _, part := range s.Parts {
		for _, v := range part.Stacks {
			limit := catalog.SmallObject(v)
			if _, tried := programs[limit]; limit == 0 || tried {
				continue
			}
			path, err := rebuild.Build(ctx, limit, a.stderr)
			if ctx.Err() != nil {
				return nil, nil, nil, context.Cause(ctx)
			}
			if err != nil {
				programs[limit] = nil
				warnings = append(warnings, fmt.Sprintf("smallobject=%dKiB is left out: %v", limit>>10, err))
				continue
			}
			programs[limit] = []string{path, "worker"}
		}
	}
	if len(warnings) == 0 {
		return s, programs, nil, nil
	}
	without := new(*s)
	without.Parts = slices.Clone(s.Parts)
	for i := range without.Parts {
		without.Parts[i].Stacks = slices.DeleteFunc(slices.Clone(s.Parts[i].Stacks), func(v scenario.Variant) bool {
			limit := catalog.SmallObject(v)
			return limit != 0 && programs[limit] == nil
		})
		if len(without.Parts[i].Stacks) == 0 {
			return nil, nil, nil, errors.New(warnings[0])
		}
	}
	return without, programs, warnings, nil
}

// smallObjectCommand is how a program that was rebuilt is checked.
func (a *app) smallObjectCommand() *cobra.Command {
	return a.partCommand("small-object", "Print the largest size that this program's allocator takes for a small object", func(_ context.Context, _ io.Reader, out io.Writer) error {
		_, err := fmt.Fprintln(out, rebuild.SmallObject())
		return err
	})
}
