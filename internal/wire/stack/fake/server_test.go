package fake

import (
	"testing"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/echo"
)

// TestBothEnds goes the way that worker processes go.
func TestBothEnds(t *testing.T) {
	server, err := Stack{}.NewServer(variant(t, "fake"))
	if err != nil {
		t.Fatal(err)
	}
	echo.Workload{}.Register(server, workload.Parameters{})
	address, err := server.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()

	dialer := &conn.Dialer{}
	client, err := Stack{}.NewClient(t.Context(), variant(t, "fake"), stack.Target{Address: address.String(), Connections: 3, Dialer: dialer})
	if err != nil {
		t.Fatal(err)
	}
	if counts := dialer.Counts(); counts != (conn.Counts{Opened: 3, Open: 3}) {
		t.Errorf("of 3 connections: %+v", counts)
	}
	if err := (echo.Workload{}).NewCaller(client, workload.Job{}).Call(t.Context()); err != nil {
		t.Error(err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	if counts := dialer.Counts(); counts.Open != 0 {
		t.Errorf("a closed client: %+v", counts)
	}

	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case err := <-served:
		if err != nil {
			t.Errorf("Serve: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("Serve did not end")
	}
	if _, err := (Stack{}).NewClient(t.Context(), variant(t, "fake"), stack.Target{Address: address.String()}); err == nil {
		t.Error("a client connected to a server that is gone")
	}
}

// TestConnectionsOfTheirOwn counts one connection per call, and the one that looked for
// the server.
func TestConnectionsOfTheirOwn(t *testing.T) {
	const calls = 7
	for _, text := range []string{"fake", "fake:fail-every=2"} {
		server := &server{}
		address, err := server.Listen(t.Context(), "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- server.Serve() }()
		dialer := &conn.Dialer{}
		target := stack.Target{Address: address.String(), Lifecycle: conn.Fresh, Dialer: dialer}
		client, err := Stack{}.NewClient(t.Context(), variant(t, text), target)
		if err != nil {
			t.Fatal(err)
		}
		caller := (echo.Workload{}).NewCaller(client, workload.Job{})
		failed := 0
		for range calls {
			if caller.Call(t.Context()) != nil {
				failed++
			}
		}
		if want := map[string]int{"fake": 0, "fake:fail-every=2": calls / 2}[text]; failed != want {
			t.Errorf("%s: %d of %d calls failed, want %d", text, failed, calls, want)
		}
		if counts := dialer.Counts(); counts != (conn.Counts{Opened: calls + 1}) {
			t.Errorf("%s: %d calls, each with a connection of its own: %+v", text, calls, counts)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := caller.Call(t.Context()); failure.Of(err) != failure.Refused {
			t.Errorf("%s: a call to a server that is gone ended with %v", text, err)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRegistrationIsChecked(t *testing.T) {
	server := &server{}
	echo.Workload{}.Register(server, workload.Parameters{})
	echo.Workload{}.Register(server, workload.Parameters{})
	if _, err := server.Listen(t.Context(), "127.0.0.1:0"); err == nil {
		t.Error("a service registered twice was taken")
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}
