package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/base/lists"
)

// A LookUp finds the addresses of names.
type LookUp struct {
	Names  []string      `json:"names"`            // each HOST:PORT
	Server string        `json:"server,omitempty"` // the name server, IP:PORT; empty means the machine's own
	Every  time.Duration `json:"every,omitempty"`  // 0 means once, before the load
}

const lookUpTimeout = 4 * time.Second

// Find returns the addresses of all names as IP:PORT, each once.
func (l *LookUp) Find(ctx context.Context) (all []string, _ error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	for _, name := range l.Names {
		host, port, err := net.SplitHostPort(name)
		if err != nil {
			return nil, err
		}
		addresses, err := l.AddressesOf(ctx, host)
		if err != nil {
			return nil, err
		}
		for _, address := range addresses {
			all = lists.AppendNew(all, net.JoinHostPort(address.String(), port))
		}
	}
	return all, nil
}

// AddressesOf returns a host's addresses. For localhost it returns both loopback addresses, and
// ignores the machine's hosts file (RFC 6761, section 6.3).
func (l *LookUp) AddressesOf(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	resolver, where := net.DefaultResolver, ""
	if l.Server != "" {
		resolver, where = &net.Resolver{PreferGo: true, Dial: l.dial}, " at the name server "+l.Server
	}
	addresses, err := resolver.LookupNetIP(ctx, "ip", host)
	for i := range addresses {
		addresses[i] = addresses[i].Unmap()
	}
	if strings.EqualFold(host, "localhost") {
		for _, address := range []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()} {
			addresses = lists.AppendNew(addresses, address)
		}
		return addresses, nil
	}
	if err != nil {
		if wrong, is := errors.AsType[*net.DNSError](err); is {
			err = errors.New(wrong.Err) // the error without the host name, which is shown already
		}
		return nil, fmt.Errorf("found no address for the host %s%s: %w: check the name", host, where, err)
	}
	return addresses, nil
}

// dial connects to the name server in place of the machine's own.
func (l *LookUp) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, network, l.Server)
}

// IsLocalOrPrivate reports whether an address is on this machine or on a private network.
func IsLocalOrPrivate(a netip.Addr) bool {
	return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsUnspecified()
}

// IsPublic reports whether an address, as IP:PORT, is neither on this machine nor on a private network.
func IsPublic(address string) bool {
	at, err := netip.ParseAddrPort(address)
	return err != nil || !IsLocalOrPrivate(at.Addr())
}

// minLookUpTime is the shortest time between two look-ups. It spares name servers.
const minLookUpTime = 10 * time.Millisecond

// setLookUp sets how the names of the targets are looked up.
func (r AddressRules) setLookUp(targets []*Target) error {
	server, err := readNameServer(r.Server)
	if err != nil {
		return err
	}
	var flags []string
	if r.Every != 0 {
		flags = append(flags, "--lookup-every "+r.Every.String())
	}
	if r.Server != "" {
		flags = append(flags, "--dns "+r.Server)
	}
	switch {
	case len(flags) == 0:
		return nil
	case r.Every != 0 && r.Every < minLookUpTime:
		return fmt.Errorf("%s: want a duration of at least %v, as in 5s", flags[0], minLookUpTime)
	case r.Every != 0 && !r.Policy.usesSeveral():
		return fmt.Errorf("%s: only one address gets requests: add --addresses all or least", flags[0])
	case targets[0].Socket != "":
		return fmt.Errorf("%s: calls go to the unix socket %s: leave out one of the two", flags[0], targets[0].Socket)
	case !slices.ContainsFunc(targets, func(t *Target) bool { return t.Host != "" && t.hasName() }):
		return fmt.Errorf("%s: requests go to %s, which has no name to look up: leave out the option, or write a name", flags[0], strings.Join(targets[0].Dialled(), ", "))
	}
	for _, t := range targets {
		t.NameServer, t.LookUpEvery = server, r.Every
	}
	return nil
}

// readNameServer returns the address of a name server with its port.
func readNameServer(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if at, err := netip.ParseAddrPort(text); err == nil && at.Port() > 0 {
		return at.String(), nil
	}
	ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	if err != nil {
		return "", fmt.Errorf("--dns: found %q: want the address of a name server, as in 10.0.0.10 or 127.0.0.1:5353", text)
	}
	return netip.AddrPortFrom(ip, 53).String(), nil
}

// hasName reports whether a name is looked up for the target.
func (t *Target) hasName() bool {
	return slices.ContainsFunc(t.Dialled(), func(dialled string) bool {
		host, _, _ := net.SplitHostPort(dialled)
		_, err := netip.ParseAddr(host)
		return err != nil
	})
}
