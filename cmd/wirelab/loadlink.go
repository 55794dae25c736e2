package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/plan"
)

// refuseLink says why a service of the user's own is not loaded over an emulated link, and how to
// come by one. An end of a link is a network namespace that wirelab makes, in which the server
// must listen: this one listens elsewhere already. An interface in the machine's own network
// would reach it only where it listens on every address, and would be there for all programs.
func refuseLink(links []string) error {
	wanted := slices.IndexFunc(links, func(text string) bool { return text != plan.NoLink })
	if wanted < 0 {
		return nil
	}
	network, err := scenario.ParseLink(links[wanted])
	if err != nil {
		return fmt.Errorf("--link: %w", err)
	}
	netem := "delay 5ms loss 1%"
	if up, down := network.Ways(); up == down {
		netem = netemOf(up)
	}
	return fmt.Errorf("--link: both ends of an emulated link are network namespaces of the trial's own, and a service that runs already cannot be moved into one: slow down the interface that it is reached over, as in `tc qdisc add dev lo root netem %s`, for all programs until `tc qdisc del dev lo root`; or start it by `ip netns exec`, at the other end of a veth pair with that qdisc, and load its address there; stacks of wirelab's own are compared over a link by `wirelab compare --link %s`",
		netem, links[wanted])
}

// netemOf is what a path asks for in the words of tc-netem(8), as far as it has them.
func netemOf(p scenario.Path) string {
	var words []string
	if p.Delay > 0 {
		words = append(words, "delay "+time.Duration(p.Delay).String())
		if p.Jitter > 0 {
			words = append(words, time.Duration(p.Jitter).String())
		}
	}
	if p.Loss > 0 {
		words = append(words, fmt.Sprintf("loss %g%%", 100*float64(p.Loss)))
	}
	if p.Rate > 0 {
		words = append(words, fmt.Sprintf("rate %dbit", p.Rate))
	}
	if len(words) == 0 {
		return "delay 5ms"
	}
	return strings.Join(words, " ")
}
