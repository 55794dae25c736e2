package stack

import (
	"context"
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
)

// toy is a client that counts.
type toy struct {
	calls, streams int
	closed         bool
	clock          *FirstByte
}

func (c *toy) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	c.calls++
	if c.clock != nil {
		c.clock.Stop()
		c.clock.Stop() // counts once
	}
	return nil
}

func (c *toy) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	c.streams++
	return nil, nil //nolint:nilnil // nobody reads from it
}

func (c *toy) Close() error {
	c.closed = true
	return nil
}

func connector(t *testing.T, target Target) *Connector {
	t.Helper()
	c, err := NewConnector(HTTPStack{&HTTPAdapter{Info: Info{Name: "toy"}}}, scenario.Variant{Stack: "toy"}, Security{}, target, "h2")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestKeptConnectionsTakeTurns(t *testing.T) {
	var made []*toy
	open := func(_ context.Context, clock *FirstByte) (Client, error) {
		made = append(made, &toy{clock: clock})
		return made[len(made)-1], nil
	}
	client, err := connector(t, Target{Connections: 3}).NewClient(t.Context(), open)
	if err != nil || len(made) != 3 {
		t.Fatalf("%d clients were opened, %v", len(made), err)
	}
	for range 9 {
		_ = client.Invoke(t.Context(), "", nil, nil)
		_, _ = client.NewStream(t.Context(), nil, "")
	}
	_ = client.Close()
	for i, one := range made {
		if one.calls+one.streams != 6 || !one.closed || one.clock != nil {
			t.Errorf("client %d: %+v", i, one)
		}
	}
	made = nil
	if alone, err := connector(t, Target{}).NewClient(t.Context(), open); err != nil || alone != Client(made[0]) {
		t.Errorf("a single connection has another client in front of it: %v, %v", alone, err)
	}
}

func TestConnectionsAreClosedWhereOneFails(t *testing.T) {
	var first toy
	fails := errors.New("no more")
	_, err := connector(t, Target{Connections: 2}).NewClient(t.Context(), func(context.Context, *FirstByte) (Client, error) {
		if first.calls++; first.calls == 2 {
			return nil, fails
		}
		return &first, nil
	})
	if !errors.Is(err, fails) || !first.closed {
		t.Errorf("%v, and the first client is closed: %v", err, first.closed)
	}
}

func TestPerCallClientOpensAndTimesEachCall(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	dialer := &conn.Dialer{}
	target := Target{Address: listener.Addr().String(), Lifecycle: conn.Fresh, Dialer: dialer}
	client, err := connector(t, target).NewClient(t.Context(), func(_ context.Context, clock *FirstByte) (Client, error) {
		return &toy{clock: clock}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if counts := dialer.Counts(); counts.Opened != 1 || counts.Open != 0 {
		t.Errorf("making the client: %+v, want one connection that was tried", counts)
	}
	for range 2 {
		if err := client.Invoke(t.Context(), "", nil, nil); err != nil {
			t.Error(err)
		}
	}
	times := dialer.TakeTimes()
	defer times.Close()
	if n := times.FirstByte.Count(); n != 2 {
		t.Errorf("%d first bytes in two calls", n)
	}

	taken, err := net.Dial("tcp", target.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	target.Address = taken.LocalAddr().String() // which nobody listens on, and no one else is given
	if _, err := connector(t, target).NewClient(t.Context(), nil); status.Code(err) != codes.Unavailable {
		t.Errorf("a client of nobody: %v", err)
	}
}

func TestFirstByteOfGRPC(t *testing.T) {
	for _, c := range []struct {
		seen  stats.RPCStats
		count int
	}{{&stats.Begin{}, 0}, {&stats.OutPayload{}, 0}, {&stats.InTrailer{}, 0}, {&stats.InHeader{}, 1}, {&stats.InPayload{}, 1}} {
		dialer := &conn.Dialer{}
		(&FirstByte{dialer: dialer}).HandleRPC(t.Context(), c.seen)
		times := dialer.TakeTimes()
		if came := times.FirstByte != nil; came != (c.count == 1) {
			t.Errorf("%T: the first byte has come: %v", c.seen, came)
		}
		times.Close()
	}
}
