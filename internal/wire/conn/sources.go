package conn

import (
	"encoding/binary"
	"net"
	"net/netip"
)

// Sources computes the number of source addresses that connections need so that they do
// not run out of ports. The zero value needs one.
type Sources struct {
	// Connections is the number of connections that hold a port at the same time: open
	// ones, and ones in TIME_WAIT.
	Connections int
	// Ports is the number of ports of one address.
	Ports int
}

// Count returns the number of addresses. It leaves half of an address's ports free: the
// kernel looks for a free one from a random place on (connect(2) of a
// socket without a port, inet_hash_connect), and the fuller the range, the
// longer it looks.
func (s Sources) Count() int {
	share := max(1, s.Ports/2)
	return max(1, (s.Connections+share-1)/share)
}

// sourceOf returns the nth source address for connections to the given address, and
// whether it has a choice: all of 127.0.0.0/8 is this machine (RFC 1122,
// section 3.2.1.3). Other destinations have no such block.
func sourceOf(n uint32, address string) (net.IP, bool) {
	to, err := netip.ParseAddrPort(address)
	if err != nil || !to.Addr().Is4() || !to.Addr().IsLoopback() {
		return nil, false
	}
	var ip [4]byte
	// The first and the last address of the block are not a host's.
	const hosts = 1<<24 - 2
	binary.BigEndian.PutUint32(ip[:], 127<<24+1+n%hosts)
	return net.IP(ip[:]), true
}
