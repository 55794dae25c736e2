package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/wire/service"
)

// lookUpAtMost bounds the time to look up a name.
const lookUpAtMost = 4 * time.Second

// LookUp returns the address of the target's host, so that no name is looked up while calls are
// made. Of several it takes the first at which something listens.
func LookUp(ctx context.Context, t service.Target) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpAtMost)
	defer cancel()
	addresses, err := AddressesOf(ctx, t.Host)
	if err != nil {
		return "", err
	}
	var found []string
	for _, address := range addresses {
		found = append(found, net.JoinHostPort(address.Unmap().String(), t.Port))
	}
	if len(found) == 1 {
		return found[0], nil
	}
	for _, address := range found {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", address)
		if err == nil {
			_ = conn.Close()
			return address, nil
		}
	}
	return found[0], nil // the first call finds out what is wrong there
}

// AddressesOf returns the addresses of a host. localhost is both loopback addresses, whatever the
// machine's table of hosts says (RFC 6761, section 6.3).
func AddressesOf(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, lookUpAtMost)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if strings.EqualFold(host, "localhost") {
		for _, address := range []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()} {
			if !slices.ContainsFunc(addresses, func(a netip.Addr) bool { return a.Unmap() == address }) {
				addresses = append(addresses, address)
			}
		}
		return addresses, nil
	}
	if err != nil {
		return nil, fmt.Errorf("there is no address of %s: %w: check the name", host, firstCause(err))
	}
	return addresses, nil
}

// firstCause returns the cause of a failed lookup, without the name that it repeats.
func firstCause(err error) error {
	if wrong, is := errors.AsType[*net.DNSError](err); is {
		return errors.New(wrong.Err)
	}
	return err
}

// IsNear reports whether an address is of this machine or of a private network.
func IsNear(a netip.Addr) bool {
	return a.IsLoopback() || a.IsPrivate() || a.IsLinkLocalUnicast() || a.IsUnspecified()
}
