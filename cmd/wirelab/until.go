package main

import (
	"errors"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/plan"
)

// untilFlags hold the values of --until and --at-most.
type untilFlags struct {
	goal plan.Target
	most plan.Most
}

func (u *untilFlags) register(cmd *cobra.Command) {
	u.most = plan.Most{Repeats: plan.UsualMost}
	f := cmd.Flags()
	f.Var(&u.goal, "until", "repeat until the `verdict`: every comparison of the mean is decided; or, as in 3%, until each cell's mean is known so well")
	f.Var(&u.most, "at-most", "where --until ends unanswered: after a number of `repeats`, a time, or whichever comes first, as in 30,20m")
	complete(cmd, "until", []string{plan.Verdict, "3%", "5%", "10%"})
	complete(cmd, "at-most", []string{"30", "100", "20m", "30,20m"})
}

// read returns what the run repeats for, with its looks; nil without --until.
func (u *untilFlags) read(cmd *cobra.Command, s *scenario.Scenario) (*record.Until, error) {
	if !cmd.Flags().Changed("until") {
		if cmd.Flags().Changed("at-most") {
			return nil, errors.New("--at-most: it bounds the repeats of --until: give that too, as in --until verdict")
		}
		return nil, nil
	}
	return plan.Until(s, u.goal, u.most)
}
