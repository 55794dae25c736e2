package fake

import (
	"testing"
	"time"

	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/workload"
	"wirelab.dev/internal/workload/echo"
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

	dialer := &stack.Dialer{}
	client, err := Stack{}.NewClient(t.Context(), variant(t, "fake"), stack.Target{Address: address.String(), Connections: 3, Dialer: dialer})
	if err != nil {
		t.Fatal(err)
	}
	if counts := dialer.Counts(); counts != (stack.ConnectionCounts{Opened: 3, Open: 3}) {
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
	case <-time.After(5 * time.Second):
		t.Error("Serve did not end")
	}
	if _, err := (Stack{}).NewClient(t.Context(), variant(t, "fake"), stack.Target{Address: address.String()}); err == nil {
		t.Error("a client connected to a server that is gone")
	}
}

func TestRegistrationIsChecked(t *testing.T) {
	server := newServer()
	echo.Workload{}.Register(server, workload.Parameters{})
	echo.Workload{}.Register(server, workload.Parameters{})
	if _, err := server.Listen(t.Context(), "127.0.0.1:0"); err == nil {
		t.Error("a service registered twice was taken")
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}
