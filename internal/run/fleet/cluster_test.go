package fleet_test

import (
	"context"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/fleet/protocol"
)

// Of three hubs one is lost, with all that it keeps: nothing that was kept is, and connections
// to it go on at another.
func TestFleetCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("short: three hubs take seconds to agree")
	}
	for _, encrypted := range []bool{false, true} {
		t.Run("tls="+strconv.FormatBool(encrypted), func(t *testing.T) { loseOneOfThree(t, encrypted) })
	}
}

func loseOneOfThree(t *testing.T, encrypted bool) {
	options := hub.HubOptions{KeysFile: keysOf(t, "keys")}
	if encrypted {
		options.Advertise = []string{"127.0.0.1"}
	}
	var (
		hubs  []*hub.Hub
		first = freePort(t)
	)
	for i := range 3 {
		o := options
		o.Project, o.Listen, o.StateDir = "three", "127.0.0.1:0", t.TempDir()
		o.Cluster = &hub.ClusterOptions{Name: "hub-" + strconv.Itoa(i), Listen: "127.0.0.1:0", Routes: []string{first}}
		if i == 0 {
			o.Cluster.Listen = first
		}
		hub, err := hub.StartHub(within(t), o)
		if err != nil {
			t.Fatal(err)
		}
		hubs = append(hubs, hub)
	}
	for _, hub := range hubs[1:] {
		t.Cleanup(func() {
			if err := hub.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	for _, hub := range hubs {
		if err := hub.JoinCluster(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	c := must(hubs[0].Agent(t.Context(), "a"))
	if must(hubs[2].Controller()).OrdersKey != c.OrdersKey {
		t.Fatal("the hubs have different keys")
	}
	c.URLs = append(c.URLs, append(hubs[1].URLs(), hubs[2].URLs()...)...)
	conn, e := connect(t, c)
	putCard(t, conn, c.CardSubject("a"), protocol.Card{Name: "a"})
	awaitCard(t, must(hubs[1].Controller())) // the stream has it on two hubs, or it is not stored
	if err := hubs[0].Close(); err != nil {
		t.Fatal(err)
	}
	e.wait(t, "connected to the hub again")

	awaitCard(t, must(hubs[1].Controller()))
	if _, err := protocol.Join(within(t), must(hubs[1].MakeToken(t.Context(), protocol.TokenRequest{Role: protocol.RoleJoin})), "a", nil); err == nil || !strings.Contains(err.Error(), "has a member with this name") {
		t.Errorf("the members are forgotten: %v", err)
	}
}

// awaitCard waits until the hub's list has an agent.
func awaitCard(t *testing.T, c *protocol.Credentials) {
	t.Helper()
	conn, _ := connect(t, c)
	for ctx := within(t); ; time.Sleep(50 * time.Millisecond) {
		once, cancel := context.WithTimeout(ctx, time.Second) // what is asked while there is no leader is not answered
		cards, err := protocol.ReadCards(once, conn, c.Project)
		cancel()
		if err == nil && len(cards) == 1 {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the list has %v, %v", cards, err)
		}
	}
}

// freePort is one that nobody had just now.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func keysOf(t *testing.T, name string) string {
	t.Helper()
	return filepath.Join(t.TempDir(), name+".json")
}
