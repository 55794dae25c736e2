package spread_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/spread"
)

// TestTimeoutIsOfTheWholeCall has an address at which each call waits for a connection until the timeout:
// the call must fail, although another address would answer it.
func TestTimeoutIsOfTheWholeCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := func(_ context.Context, plan service.Plan) (service.Client, error) {
			if plan.Address == "a:1" {
				return late(plan.Timeout), nil
			}
			return at(plan.Address), nil
		}
		d := &service.Definition{Wire: service.HTTP1, Timeout: time.Second, Addresses: &service.Addresses{Policy: service.AllAddresses, All: []string{"a:1", "b:1"}}}
		client, err := spread.Open(t.Context(), service.Plan{Definition: d, Lifecycle: conn.Fresh, Callers: 1}, engine)
		if err != nil {
			t.Fatal(err)
		}
		var answer service.Answer
		if err := client.Call(t.Context(), &service.Request{}, &answer); failure.Of(err) != failure.ConnectTimeout || answer.Address != "a:1" {
			t.Errorf("the first call at %s: %v", answer.Address, err)
		}
		if err := client.Call(t.Context(), &service.Request{}, &answer); err != nil || answer.Address != "b:1" {
			t.Errorf("the second call at %s: %v", answer.Address, err)
		}
	})
}

// late is a client whose calls open a connection until the timeout.
type late time.Duration

func (l late) Call(context.Context, *service.Request, *service.Answer) error {
	time.Sleep(time.Duration(l))
	return failure.WithClass(failure.ConnectTimeout, errors.New("no connection in time"))
}
func (late) Close() error { return nil }

// at is a client of one address, whose calls take no time.
type at string

func (at) Call(context.Context, *service.Request, *service.Answer) error { return nil }
func (at) Close() error                                                  { return nil }
func (at) OwnConnections() bool                                          { return true }

// TestHangingAddress has an address whose connections wait for an answer that never comes. The others
// must not wait for it for long before the load, and not at all in it.
func TestHangingAddress(t *testing.T) {
	for name, connections := range map[string]int{"own": 6, "shared": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := func(ctx context.Context, plan service.Plan) (service.Client, error) {
					if plan.Address == "b:1" {
						<-ctx.Done()
						return nil, ctx.Err()
					}
					return at(plan.Address), nil
				}
				d := &service.Definition{Wire: service.HTTP2, Addresses: &service.Addresses{Policy: service.AllAddresses, All: []string{"a:1", "b:1", "c:1"}}}
				begin := time.Now()
				client, err := spread.Open(t.Context(), service.Plan{Definition: d, Connections: connections, Callers: 6}, engine)
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begin); took != 4*time.Second {
					t.Errorf("the opening took %v: want 4 seconds", took)
				}
				begin = time.Now()
				var answers [6]service.Answer
				counts := map[string]int{}
				for range 100 {
					for i := range answers {
						if err := client.Call(t.Context(), &service.Request{}, &answers[i]); err != nil {
							t.Fatal(err)
						}
						counts[answers[i].Address]++
					}
					time.Sleep(100 * time.Millisecond)
				}
				if took := time.Since(begin); took != 10*time.Second || counts["b:1"] != 0 || counts["a:1"] < 250 || counts["c:1"] < 250 {
					t.Errorf("the calls took %v, and went to %v", took, counts)
				}
				hung := client.(service.Counted).Addresses().All[1]
				if hung.Unreached == 0 || !strings.Contains(hung.Example, "no connection within 4s") {
					t.Errorf("it says of the hanging address: %+v", hung)
				}
				if err := client.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
