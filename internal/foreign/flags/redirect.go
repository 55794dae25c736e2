package flags

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// ConnectTo returns the rule that keeps NAME:PORT:ADDRESS[:PORT] for RedirectAddress.
func ConnectTo(key string) Rule {
	return Kept(key, "the address in the target, and "+Code("--host"))
}

// RedirectAddress replaces the target's address by one kept under --connect-to or --resolve, and
// keeps its name as the host.
func (c *Command) RedirectAddress() error {
	for _, text := range append(c.Kept("--connect-to"), c.Kept("--resolve")...) {
		name, port, address, err := splitRedirect(text)
		if err != nil {
			return err
		}
		if len(c.Operands) != 1 {
			continue
		}
		target, err := url.Parse(c.Operands[0])
		if err != nil {
			return fmt.Errorf("target %s: it is no URL", Excerpt(c.Operands[0]))
		}
		if name != "" && !strings.EqualFold(target.Hostname(), name) || port != "" && usualPort(target) != port {
			c.Note("the address for %s is left out: the target is another", Excerpt(text))
			continue
		}
		c.replaceHost(target, address)
	}
	return nil
}

func (c *Command) replaceHost(target *url.URL, address string) {
	named := target.Host
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = address, target.Port()
	}
	if host == "" {
		host = target.Hostname()
	}
	if target.Host = host; port != "" {
		target.Host = net.JoinHostPort(host, port)
	} else if strings.Contains(host, ":") {
		target.Host = "[" + host + "]"
	}
	if !c.Has("--host") {
		c.Set("--host", named)
	}
	c.Operands[0] = target.String()
	c.Note("%s is called at %s", named, target.Host)
}

func usualPort(target *url.URL) string {
	switch {
	case target.Port() != "":
		return target.Port()
	case target.Scheme == "https":
		return "443"
	}
	return "80"
}

// splitRedirect splits NAME:PORT:ADDRESS[:PORT]. An address of version 6 is in brackets.
func splitRedirect(text string) (name, port, address string, err error) {
	name, rest, ok := strings.Cut(strings.TrimPrefix(text, "+"), ":")
	if ok {
		port, address, ok = strings.Cut(rest, ":")
	}
	if !ok {
		return "", "", "", errors.New("the address " + Excerpt(text) + ": want NAME:PORT:ADDRESS")
	}
	address, _, _ = strings.Cut(address, ",") // curl takes several, and tries them in turn
	if host, bracketed := strings.CutPrefix(address, "["); bracketed {
		host, after, _ := strings.Cut(host, "]")
		if address = host; len(after) > 1 {
			address = "[" + host + "]" + after
		}
	}
	address = strings.TrimSuffix(address, ":")
	return name, port, address, nil
}
