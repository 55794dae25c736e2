package prepared

import (
	"net"
	"testing"

	"wirelab.dev/internal/service"
)

// A call of HTTP/1.1 allocates nothing. The server here allocates nothing either.
func TestHTTP1CallsDoNotAllocate(t *testing.T) {
	plan := script(t, func(conn net.Conn) {
		answer, request := []byte(good), make([]byte, 4096)
		for {
			if _, err := conn.Read(request); err != nil {
				return
			}
			if _, err := conn.Write(answer); err != nil {
				return
			}
		}
	})
	client, counts := open(t, plan)
	var answer service.Answer
	allocations := testing.AllocsPerRun(1000, func() {
		if err := client.Call(t.Context(), &plan.Requests[0], &answer); err != nil {
			t.Fatal(err)
		}
	})
	if allocations >= 1 {
		t.Errorf("%v allocations a call", allocations)
	}
	if n := counts.opened.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
