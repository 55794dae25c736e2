package prepared

import (
	"testing"
	"time"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
)

// patience is longer than anything that a test waits for.
const patience = 20 * time.Second

// open makes a client that ends with the test, and its dialer.
func open(t testing.TB, plan service.Plan) (service.Client, *conn.Dialer) {
	t.Helper()
	client, counts, err := tryOpen(t, plan)
	if err != nil {
		t.Fatal(err)
	}
	return client, counts
}

func tryOpen(t testing.TB, plan service.Plan) (service.Client, *conn.Dialer, error) {
	t.Helper()
	counts := &conn.Dialer{}
	plan.Dialer = counts
	if plan.Connections == 0 {
		plan.Connections = 1
	}
	if plan.Callers == 0 {
		plan.Callers = 1
	}
	if plan.Network == "" {
		plan.Network = "tcp"
	}
	if plan.Timeout == 0 {
		plan.Timeout = patience
	}
	if plan.Authority == "" {
		plan.Authority = "test.example"
	}
	client, err := Open(t.Context(), plan)
	if err != nil {
		return nil, counts, err
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return client, counts, nil
}
