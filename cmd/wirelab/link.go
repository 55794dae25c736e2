package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/plan"
)

// linkFlag says over which links clients and servers talk.
type linkFlag struct{ links []string }

func (l *linkFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&l.links, "link", nil, "emulate a `link`: a name (see wirelab list), keys and values as in delay=5ms,loss=1%, or both as in lte,up.rate=5Mbit/s; several times for one after the other, none for loopback")
	complete(cmd, "link", linkWords())
}

// linkWords returns the names of links, and the keys that the description of another link begins
// with.
func linkWords() []string {
	words := append([]string{plan.NoLink}, scenario.ProfileNames()...)
	for _, key := range []string{"delay", "jitter", "loss", "burst-loss", "reorder", "duplicate", "rate", "queue", "mtu", "seed", "up.", "down."} {
		if !strings.HasSuffix(key, ".") {
			key += "="
		}
		words = append(words, key)
	}
	return words
}

// checkTargets refuses a link to a server that runs already, which cannot be moved behind it.
func (l *linkFlag) checkTargets(targets []string) error {
	if len(l.links) > 0 && len(targets) > 0 {
		return errors.New("--link and --target: a link is between processes that wirelab starts; leave one of them out")
	}
	return nil
}
