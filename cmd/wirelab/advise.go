package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice"
)

// lifecycles lists the values of --lifecycle.
var lifecycles = []string{"kept", "new"}

func (a *app) adviseCommand() *cobra.Command {
	var (
		size, lifecycle, goal string
		wish                  advice.Wish
	)
	cmd := a.finds(oneObject, &cobra.Command{
		Use:   "advise RUN",
		Short: "Say which variant to use, as far as a run bears it",
		Long: `Advise reads a run and says which variant to use for messages of a size and a
number of callers, by the mean response time; with --slo only of those that are
sure to keep it. Between two measured sizes or concurrencies it names what is
best at both. It gives no advice where no difference is beyond doubt, and none
beyond what was measured.`,
		Example: `  wirelab advise results
  wirelab advise results --size 4KiB --callers 50 --slo p99=5ms
  wirelab advise results --lifecycle new --callers 100`,
		Args: oneRun,
	}, func(_ *cobra.Command, args []string) (found finding, err error) {
		if size != "" {
			if wish.Size, err = scenario.ParsePayload(size); err != nil {
				return found, usage(fmt.Errorf("--size: %w", err))
			}
		}
		if goal != "" {
			if wish.Goal, err = scenario.ParseGoal(goal); err != nil {
				return found, usage(fmt.Errorf("--slo: %w", err))
			}
		}
		if wish.Callers < 0 {
			return found, usage(fmt.Errorf("--callers: found %d: want 1 or more", wish.Callers))
		}
		switch lifecycle {
		case "kept":
		case "new":
			wish.New = true
		default:
			return found, usage(fmt.Errorf("--lifecycle: found %q: want one of %s", lifecycle, strings.Join(lifecycles, ", ")))
		}
		seen, err := a.readRun(args[0])
		if err != nil {
			return found, usage(err)
		}
		lines := advice.Choose(seen.Summary, wish)
		value := struct {
			Advice []string `json:"advice"`
		}{lines}
		return printed(value, line(strings.Join(lines, "\n"))), nil
	})
	f := cmd.Flags()
	f.StringVar(&size, "size", "", "payload `bytes` of request and response, as in 4KiB or 64/4KiB (default: all that were measured)")
	f.IntVar(&wish.Callers, "callers", 0, "`clients` at once (default: all that were measured)")
	f.StringVar(&lifecycle, "lifecycle", "kept", "`connections`: kept, or new for each request")
	f.StringVar(&goal, "slo", "", "a `goal` to be kept, as in p99=5ms")
	complete(cmd, "lifecycle", lifecycles)
	return cmd
}
