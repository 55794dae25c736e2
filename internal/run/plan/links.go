package plan

import (
	"fmt"
	"strings"
	"unicode"

	"wirelab.dev/internal/data/scenario"
)

// NoLink is the machine's own loopback, beside links that it is compared with.
const NoLink = "none"

// OverLinks gives the only part of a scenario its link, or makes a part for each of several.
func OverLinks(s *scenario.Scenario, links []string) error {
	if len(links) == 0 {
		return nil
	}
	part := s.Parts[0]
	s.Parts = nil
	for _, text := range links {
		one := part
		if text != NoLink {
			network, err := scenario.ParseLink(text)
			if err != nil {
				return fmt.Errorf("--link: %w", err)
			}
			one.Network = network
		}
		if len(links) > 1 {
			one.Of, one.Name = part.Name, part.Name+"-"+wordOf(text)
			one.Title = linkTitle(one.Network)
		}
		s.Parts = append(s.Parts, one)
	}
	return nil
}

// linkTitle returns the title of a part that differs from others by its link.
func linkTitle(n scenario.Network) string {
	if text := n.String(); text != "" {
		return text
	}
	return "loopback"
}

// wordOf turns a link into a word for the name of a part.
func wordOf(link string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r < unicode.MaxASCII && (unicode.IsLower(r) || unicode.IsDigit(r)) {
			return r
		}
		return '-'
	}, strings.ToLower(link)), "-")
}
