package main

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/data/scenario"
)

// linkFlag says over which links clients and servers talk.
type linkFlag struct{ links []string }

// noLink is the machine's own loopback, beside links that it is compared with.
const noLink = "none"

func (l *linkFlag) register(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&l.links, "link", nil, "emulate a `link`: a name (see wirelab list), keys and values as in delay=5ms,loss=1%, or both as in lte,up.rate=5Mbit/s; several times for one after the other, none for loopback")
	complete(cmd, "link", linkWords())
}

// linkWords are the names of links, and the keys to begin one of one's own with.
func linkWords() []string {
	words := append([]string{noLink}, scenario.ProfileNames()...)
	for _, key := range []string{"delay", "jitter", "loss", "burst-loss", "reorder", "duplicate", "rate", "queue", "mtu", "seed", "up.", "down."} {
		if !strings.HasSuffix(key, ".") {
			key += "="
		}
		words = append(words, key)
	}
	return words
}

// apply gives the part its link, or makes a part for each.
func (l *linkFlag) apply(s *scenario.Scenario) error {
	if len(l.links) == 0 {
		return nil
	}
	part := s.Parts[0]
	s.Parts = nil
	for _, text := range l.links {
		one := part
		if text != noLink {
			network, err := scenario.ParseLink(text)
			if err != nil {
				return fmt.Errorf("--link: %w", err)
			}
			one.Network = network
		}
		if len(l.links) > 1 {
			one.Of, one.Name = part.Name, part.Name+"-"+wordOf(text)
			one.Title = linkTitle(one.Network)
		}
		s.Parts = append(s.Parts, one)
	}
	return nil
}

// linkTitle tells a part by its link.
func linkTitle(n scenario.Network) string {
	if text := n.String(); text != "" {
		return text
	}
	return "loopback"
}

// wordOf makes a part's name of a link.
func wordOf(link string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLower(r) || unicode.IsDigit(r)) {
			return r
		}
		return '-'
	}, strings.ToLower(link)), "-")
}

// checkTargets refuses a link to a server that runs already, which cannot be moved behind it.
func (l *linkFlag) checkTargets(targets []string) error {
	if len(l.links) > 0 && len(targets) > 0 {
		return errors.New("--link and --target: a link is between processes that wirelab starts; leave one of them out")
	}
	return nil
}
