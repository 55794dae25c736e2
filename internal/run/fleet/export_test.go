package fleet

import (
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// PlayThousand is for the process that TestAThousandAgents starts.
var PlayThousand = playThousand

// QuietBytes is what an agent may tell of a worker in a second.
const QuietBytes = quietBytes

// Messages counts those that agents have sent, and that were sent to them, until now.
func (h *Hub) Messages() int64 {
	connections, err := h.server.Connz(&server.ConnzOptions{Limit: 1 << 16})
	if err != nil {
		panic(err) // the options are wrong: our own mistake
	}
	n := int64(0)
	for _, c := range connections.Conns {
		if !strings.HasSuffix(c.Name, "controller") && !strings.HasSuffix(c.Name, "visit") {
			n += c.InMsgs + c.OutMsgs
		}
	}
	return n
}
