package load

import (
	"context"
	"net"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/link"
)

// TestLink runs a mix of calls over a link that is slow to arrive and loses packets.
func TestLink(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes some seconds")
	}
	for _, p := range allPeers {
		t.Run(p.name, func(t *testing.T) {
			path := record.Way{DelayNS: (2 * time.Millisecond).Nanoseconds(), Loss: 0.01}
			network, err := link.New(link.Settings{Up: path, Down: path, Seed: 1})
			if err != nil {
				t.Skip(err)
			}
			defer network.Close()
			var lis net.Listener
			if err := host.OnDisposableThread(func() (err error) {
				if err := network.EnterServer(); err != nil {
					return err
				}
				lis, err = net.Listen("tcp4", network.Address+":0")
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if err := mix(t.Context(), p, lis, from(network), 240); err != nil {
				t.Error(err)
			}
			stats := network.Stop()
			t.Logf("%+v", stats)
			if stats.Up.Lost+stats.Down.Lost == 0 {
				t.Error("the link lost nothing")
			}
		})
	}
}

// from connects from the client's end of a network.
func from(network *link.Network) dialer {
	return func(ctx context.Context, address string) (conn net.Conn, err error) {
		// A dialer of an IP address connects on the calling thread.
		err = host.OnDisposableThread(func() (err error) {
			if err := network.EnterClient(); err != nil {
				return err
			}
			var d net.Dialer
			conn, err = d.DialContext(ctx, "tcp4", address)
			return err
		})
		return conn, err
	}
}
