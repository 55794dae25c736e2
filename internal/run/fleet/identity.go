package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"wirelab.dev/internal/run/fleet/protocol"
)

// connectAgent connects an agent by credentials of its own. An agent that has only a join token joins
// the fleet with it, once, and keeps its credentials in a file: the next start uses those. If the hub
// has shut them out, the token may be a new one.
func connectAgent(ctx context.Context, token *protocol.Credentials, o *AgentOptions, report func(string)) (*protocol.Credentials, *nats.Conn, error) {
	own := token
	if token.Role == protocol.RoleAgent && token.Name != o.Name {
		return nil, nil, fmt.Errorf("these are the credentials of the agent %s: leave out --name %s, or take another token", token.Name, o.Name)
	}
	if token.Role == protocol.RoleJoin {
		shutOut := false
		path := filepath.Join(o.Identities, token.Project+"."+o.Name+".token")
		known, err := protocol.ReadTokenFile(path)
		switch {
		case err == nil && known.OrdersKey == token.OrdersKey:
			known.URLs = token.URLs // the hub may have moved
			conn, err := protocol.Connect(ctx, known, o.Name, report)
			if err == nil || !errors.Is(err, nats.ErrAuthorization) {
				return known, conn, err
			}
			shutOut = true
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, nil, fmt.Errorf("%w: remove the file, and join with a new token", err)
		}
		if own, err = protocol.Join(ctx, token, o.Name, report); err != nil {
			if shutOut { // the token's own refusal does not say why the agent needs a token
				err = fmt.Errorf("%w; with this token the agent was not admitted: %w", errShutOut, err)
			}
			return nil, nil, err
		}
		if err := keepSecret(path, own.Token()); err != nil {
			report(fmt.Sprintf("the agent's credentials cannot be kept, so its next start needs another token: %v", err))
		}
	}
	conn, err := protocol.Connect(ctx, own, o.Name, report)
	return own, conn, err
}

// keepSecret writes a file that only its owner can read.
func keepSecret(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text+"\n"), 0o600)
}

// errNameTaken is wrapped by the error of an agent whose name is the name of another agent.
var errNameTaken = errors.New("another agent has this name")

// handleCard handles a card with the agent's own name. If it is another process's, which was started
// twice or has copied credentials, then the one that began later ends.
func (a *agent) handleCard(m *nats.Msg) {
	var other protocol.Card
	if json.Unmarshal(m.Data, &other) != nil || other.Session == a.card.Session || other.Left {
		return
	}
	if cmp.Or(a.card.Started.Compare(other.Started), cmp.Compare(a.card.Session, other.Session)) < 0 {
		a.sendCard() // the other one then ends
		return
	}
	a.leave(fmt.Errorf("%w: %s, on %.200q: end that one, or give this agent another --name", errNameTaken, a.Name, other.Machine))
}

// errShutOut is the error of an agent that was shut out of the fleet.
var errShutOut = errors.New("the hub has shut this agent out (`wirelab fleet revoke`): join again with a new token")
