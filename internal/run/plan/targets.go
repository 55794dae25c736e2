package plan

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/data/scenario"
)

// ParseTargets reads [STACK=]HOST:PORT. Without STACK, the scenario must have exactly one variant.
func ParseTargets(texts []string, s *scenario.Scenario) (map[string]string, error) {
	targets := map[string]string{}
	variants := s.Parts[0].Stacks
	for _, text := range texts {
		i := strings.LastIndex(text, "=") // the last "=", since a variant may also contain "="
		stack, address := text[:max(i, 0)], text[i+1:]
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("--target %s: want [STACK=]HOST:PORT, as in tcp=127.0.0.1:9000", text)
		}
		if _, err := net.LookupPort("tcp", port); err != nil {
			return nil, fmt.Errorf("--target %s: invalid port %q", text, port)
		}
		if stack == "" {
			if len(variants) != 1 {
				return nil, fmt.Errorf("--target %s: name which of the %d variants this server runs, as in %s=%s", text, len(variants), variants[0], address)
			}
			stack = variants[0].String()
		}
		if !slices.ContainsFunc(variants, func(v scenario.Variant) bool { return v.Stack == stack || v.String() == stack }) {
			return nil, fmt.Errorf("--target %s: this comparison has no variant %s: add it with --stack", text, stack)
		}
		targets[stack] = address
	}
	return targets, nil
}

// RefuseLink returns an error that explains why load cannot use --link, and names alternatives. A
// link connects two network namespaces of wirelab; a user's service runs outside of them.
func RefuseLink(links []string) error {
	wanted := slices.IndexFunc(links, func(text string) bool { return text != NoLink })
	if wanted < 0 {
		return nil
	}
	network, err := scenario.ParseLink(links[wanted])
	if err != nil {
		return fmt.Errorf("--link: %w", err)
	}
	netem := "delay 5ms loss 1%"
	if up, down := network.Directions(); up == down {
		netem = netemOptions(up)
	}
	return fmt.Errorf("--link: both ends of an emulated link are network namespaces of the trial, and a running service cannot be moved into one: slow down the interface to the service, as in `tc qdisc add dev lo root netem %s`, for all programs until `tc qdisc del dev lo root`; or start the service by `ip netns exec`, at the other end of a veth pair with that qdisc, and load its address there; to compare wirelab's own stacks over a link, run `wirelab compare --link %s`",
		netem, links[wanted])
}

// netemOptions describes a path by options of tc-netem(8). It leaves out any other setting.
func netemOptions(p scenario.Path) string {
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

// LinkCompletions returns completions for --link: links, and the keys of a link's settings.
func LinkCompletions() []string {
	words := append([]string{NoLink}, scenario.ProfileNames()...)
	for _, key := range []string{"delay", "jitter", "loss", "burst-loss", "reorder", "duplicate", "rate", "queue", "mtu", "seed", "up.", "down."} {
		if !strings.HasSuffix(key, ".") {
			key += "="
		}
		words = append(words, key)
	}
	return words
}
