package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"github.com/nats-io/nuid"

	"wirelab.dev/internal/run/fleet/protocol"
)

// A gate admits agents to the fleet, makes tokens, and shuts out members. Each hub of a cluster has
// one; they share what they know in a bucket that only hubs can read.
type gate struct {
	hub     *Hub
	conn    *nats.Conn // may do all in the fleet's account
	members jetstream.KeyValue
	watch   jetstream.KeyWatcher
	done    sync.WaitGroup
}

// A member is an agent or a controller that the fleet knows.
type member struct {
	Key   string `json:"key"`   // its public key
	Token string `json:"token"` // the name of the join token that admitted it; empty for a controller
	Role  string `json:"role"`
}

// Keys of the bucket of members.
const (
	memberPrefix  = "member."  // and a name: a member
	tokenPrefix   = "token."   // and a join token's name: the names of those that it admitted
	revokedPrefix = "revoked." // and a public key: when it was shut out
)

func membersBucket(project string) string { return "wl_" + project + "_members" }

// openGate starts a gate, whose bucket has this number of replicas.
func openGate(ctx context.Context, h *Hub, conn *nats.Conn, js jetstream.JetStream, replicas int) (*gate, error) {
	ctx, cancel := context.WithTimeout(ctx, protocol.HubTimeout)
	defer cancel()
	g := &gate{hub: h, conn: conn}
	var err error
	g.members, err = js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: membersBucket(h.options.Project), Description: "the members of the fleet " + h.options.Project,
		Storage: jetstream.FileStorage, MaxBytes: maxMemberBytes, Replicas: replicas,
	})
	if err != nil {
		return nil, fmt.Errorf("make the bucket of members: %w", err)
	}
	if err := g.followRevocations(ctx); err != nil {
		return nil, err
	}
	if err := g.answerQuestions(ctx); err != nil {
		g.stopFollowing()
		return nil, err
	}
	return g, nil
}

// answerQuestions begins to answer questions.
func (g *gate) answerQuestions(ctx context.Context) error {
	c := protocol.Credentials{Project: g.hub.options.Project}
	// The gate may publish anywhere, so the asker must not choose any subject for the answer.
	inboxesOf := func(subject string) string {
		if id, is := strings.CutPrefix(subject, c.GateSubject(protocol.JoinQuestion)+"."); is {
			return protocol.Inboxes(c.Project, protocol.RoleJoin, id)
		}
		return protocol.Inboxes(c.Project, protocol.RoleController, "")
	}
	for _, question := range []struct {
		subject string
		answer  func(*nats.Msg) (protocol.GateAnswer, error)
		all     bool // all gates hear it, and the right one answers
	}{
		{c.GateSubject(protocol.JoinQuestion, "*"), g.join, false},
		{c.GateSubject(protocol.TokenQuestion), g.makeToken, false},
		{c.GateSubject(protocol.RevokeQuestion), g.revoke, false},
		{c.GateSubject(protocol.PlaceQuestion), g.place, true},
	} {
		hear := func(m *nats.Msg) {
			if !strings.HasPrefix(m.Reply, inboxesOf(m.Subject)) {
				g.log("a question to the gate (%s) wants its answer on %.80q: it gets none", m.Subject, m.Reply)
				return
			}
			answer, err := question.answer(m)
			if errors.Is(err, errNotMine) {
				return
			}
			if err != nil {
				g.log("refused a question to the gate (%s): %v", m.Subject, err)
				answer = protocol.GateAnswer{Refused: err.Error()}
			}
			if text, err := json.Marshal(answer); err == nil {
				_ = m.Respond(text) // if it is lost, the sender asks again
			}
		}
		queue := "gate"
		if question.all {
			queue = nuid.Next()
		}
		if _, err := g.conn.QueueSubscribe(question.subject, queue, hear); err != nil {
			return err
		}
	}
	return g.conn.FlushWithContext(ctx)
}

func (g *gate) close() {
	if g == nil {
		return
	}
	g.stopFollowing()
	g.conn.Close()
}

func (g *gate) stopFollowing() {
	_ = g.watch.Stop() // fails only if the connection is closed
	g.done.Wait()
}

func (g *gate) log(format string, v ...any) {
	if g.hub.options.Log != nil {
		fmt.Fprintf(g.hub.options.Log, "%s hub: %s\n", time.Now().UTC().Format(time.RFC3339), fmt.Sprintf(format, v...))
	}
}

// followRevocations shuts out the keys that any gate of the fleet has revoked, now and later.
func (g *gate) followRevocations(ctx context.Context) error {
	var err error
	if g.watch, err = g.members.Watch(context.WithoutCancel(ctx), revokedPrefix+"*"); err != nil {
		return fmt.Errorf("read who is shut out: %w", err)
	}
	known := make(chan struct{})
	g.done.Go(func() { // ends when the watch is stopped
		revoked := g.hub.authority.revoked
		first := true
		for entry := range g.watch.Updates() {
			if entry != nil {
				revoked[strings.TrimPrefix(entry.Key(), revokedPrefix)] = entry.Created()
			}
			if entry != nil && first {
				continue // until all are known
			}
			if err := g.hub.authority.enforce(g.hub.server); err != nil {
				g.log("could not shut out a key: %v", err)
			}
			if first {
				first = false
				close(known)
			}
		}
	})
	select {
	case <-known:
		return nil
	case <-ctx.Done():
		g.stopFollowing()
		return fmt.Errorf("read who is shut out: %w", ctx.Err())
	}
}

// kvTimeout limits the gate's own requests.
const kvTimeout = 5 * time.Second

// join admits an agent.
func (g *gate) join(m *nats.Msg) (answer protocol.GateAnswer, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), kvTimeout)
	defer cancel()
	var request protocol.JoinRequest
	if err := json.Unmarshal(m.Data, &request); err != nil {
		return answer, errors.New("the request cannot be read: use the same version of wirelab on all machines")
	}
	token, err := g.hub.authority.readJoin(request.Token)
	if err != nil {
		return answer, err
	}
	if id := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]; token.name != id {
		return answer, errors.New("the token is not that of this connection")
	}
	if err := protocol.CheckName(request.Name); err != nil {
		return answer, err
	}
	key, err := nkeys.FromPublicKey(request.Key)
	if err != nil || !nkeys.IsValidPublicUserKey(request.Key) || key.Verify(request.Signed(), request.Signature) != nil {
		return answer, errors.New("the request does not prove that its sender has the key")
	}
	if err := g.admit(ctx, token, request); err != nil {
		return answer, err
	}
	g.log("admitted the agent %s, by the token %s", request.Name, token.name)
	answer.JWT, err = g.hub.authority.sign(grant{role: protocol.RoleAgent, name: request.Name, key: request.Key, serve: token.serve})
	return answer, err
}

// admit takes a name and one use of the token, or neither.
func (g *gate) admit(ctx context.Context, token user, request protocol.JoinRequest) error {
	err := g.register(ctx, request.Name, member{Key: request.Key, Token: token.name, Role: protocol.RoleAgent})
	if errors.Is(err, errNameKnown) {
		if known, findErr := g.find(ctx, request.Name); findErr == nil && known.Key == request.Key {
			return nil // the answer to an earlier request was lost
		}
	}
	if err != nil {
		return err
	}
	if err := g.useToken(ctx, token, request.Name); err != nil {
		return errors.Join(err, g.members.Purge(ctx, memberPrefix+request.Name))
	}
	return nil
}

// useToken counts an agent against the token that admits it.
func (g *gate) useToken(ctx context.Context, token user, name string) error {
	key := tokenPrefix + token.name
	for {
		var used []string
		revision := uint64(0) // 0: there must be no entry
		entry, err := g.members.Get(ctx, key)
		switch {
		case err == nil:
			revision = entry.Revision()
			if err := json.Unmarshal(entry.Value(), &used); err != nil {
				return fmt.Errorf("read the uses of a token: %w", err)
			}
		case !errors.Is(err, jetstream.ErrKeyNotFound):
			return fmt.Errorf("read the uses of a token: %w", err)
		}
		if token.agents > 0 && len(used) >= token.agents {
			return fmt.Errorf("the token has admitted %s already, and admits no more: make another with `wirelab fleet token`", strings.Join(used, ", "))
		}
		text, err := json.Marshal(append(used, name))
		if err != nil {
			return err
		}
		if _, err = g.members.Update(ctx, key, text, revision); err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("count the use of a token: %w", err)
		}
	}
}

// find returns the member with a name.
func (g *gate) find(ctx context.Context, name string) (member, error) {
	var known member
	entry, err := g.members.Get(ctx, memberPrefix+name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return known, fmt.Errorf("the fleet has no member with the name %.64q", name)
	}
	if err != nil {
		return known, fmt.Errorf("read the members: %w", err)
	}
	return known, json.Unmarshal(entry.Value(), &known)
}

// revoke shuts out a member. Its name is free again.
func (g *gate) revoke(m *nats.Msg) (answer protocol.GateAnswer, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), kvTimeout)
	defer cancel()
	var request protocol.RevokeRequest
	if err := json.Unmarshal(m.Data, &request); err != nil {
		return answer, errors.New("the request cannot be read: use the same version of wirelab on all machines")
	}
	if err := protocol.CheckName(request.Name); err != nil {
		return answer, err
	}
	return answer, g.shutOut(ctx, request.Name)
}

// shutOut revokes a member's key, and frees its name.
func (g *gate) shutOut(ctx context.Context, name string) error {
	known, err := g.find(ctx, name)
	if err != nil {
		return err
	}
	if _, err := g.members.Put(ctx, revokedPrefix+known.Key, []byte(name)); err != nil {
		return fmt.Errorf("shut out %s: %w", name, err)
	}
	g.log("shut out the %s %s", known.Role, name)
	if known.Role == protocol.RoleAgent {
		c := protocol.Credentials{Project: g.hub.options.Project}
		_ = protocol.PutCard(g.conn, c.CardSubject(name), protocol.Card{Name: name, Left: true}) // if this fails, the card expires later
	}
	return g.members.Purge(ctx, memberPrefix+name)
}

// makeToken answers a controller that wants a token.
func (g *gate) makeToken(m *nats.Msg) (answer protocol.GateAnswer, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), kvTimeout)
	defer cancel()
	var request protocol.TokenRequest
	if err := json.Unmarshal(m.Data, &request); err != nil {
		return answer, errors.New("the request cannot be read: use the same version of wirelab on all machines")
	}
	c, err := g.hub.MakeToken(ctx, request)
	if err != nil {
		return answer, err
	}
	return protocol.GateAnswer{Token: c.Token()}, nil
}

// MakeToken makes a token for a role. The hub must have joined its cluster.
func (h *Hub) MakeToken(ctx context.Context, request protocol.TokenRequest) (*protocol.Credentials, error) {
	asked := grant{role: request.Role, name: request.Name, validFor: request.ValidFor, agents: request.Agents, serve: request.Serve}
	switch {
	case !slices.Contains(protocol.Roles(), asked.role):
		return nil, fmt.Errorf("no token is made for the role %.20q", asked.role)
	case asked.role == protocol.RoleJoin:
		asked.name = strings.ToLower(nuid.Next())
	case asked.name == LocalController:
		return nil, fmt.Errorf("the name %s is that of the controllers on the hub's machine: choose another --name", LocalController)
	}
	if err := protocol.CheckName(asked.name); err != nil {
		return nil, err
	}
	c, err := h.issue(asked)
	if err != nil {
		return nil, err
	}
	if asked.role == protocol.RoleController {
		if err := h.gate.register(ctx, asked.name, member{Key: protocol.PublicKeyOf(c.Seed), Role: asked.role}); err != nil {
			return nil, err
		}
	}
	h.gate.log("made a token for the role %s, with the name %s", asked.role, asked.name)
	return c, nil
}

// errNameKnown is wrapped by the error for a name that another member has.
var errNameKnown = errors.New("the fleet has a member with this name")

// register adds a member whose name no other member has.
func (g *gate) register(ctx context.Context, name string, m member) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = g.members.Create(ctx, memberPrefix+name, text)
	if errors.Is(err, jetstream.ErrKeyExists) {
		return fmt.Errorf("%w: give another --name than %s, or shut out the other member with `wirelab fleet revoke %[2]s`", errNameKnown, name)
	}
	return err
}

// errNotMine says that another hub of the cluster must answer.
var errNotMine = errors.New("the agent is connected to another hub")

// place says at which addresses the hub sees an agent.
func (g *gate) place(m *nats.Msg) (answer protocol.GateAnswer, err error) {
	var request protocol.PlaceRequest
	if err := json.Unmarshal(m.Data, &request); err != nil {
		return answer, errors.New("the request cannot be read: use the same version of wirelab on all machines")
	}
	found, err := g.hub.server.Connz(&server.ConnzOptions{Account: g.hub.authority.accountKey, Username: true, Limit: maxConnections})
	if err != nil {
		return answer, err
	}
	for _, c := range found.Conns {
		var about grant
		about.fromTags(c.Tags)
		if about.name != request.Name || about.role != protocol.RoleAgent {
			continue
		}
		answer.Addresses, answer.Serve = g.addressesOf(c.IP), about.serve
		return answer, nil
	}
	if g.hub.options.Cluster == nil {
		return answer, fmt.Errorf("no agent %.64q is connected", request.Name)
	}
	return answer, errNotMine
}

// maxConnections bounds the connections that place looks through.
const maxConnections = 1 << 16

// addressesOf returns the addresses of the machine that connects from ip. If that is the hub's own
// machine, these are all addresses of the machine.
func (g *gate) addressesOf(ip string) []netip.Addr {
	from, err := netip.ParseAddr(ip)
	if err != nil {
		return nil
	}
	var own []netip.Addr
	networks, _ := net.InterfaceAddrs() // if this fails, own is empty
	for _, n := range networks {
		if one, err := netip.ParsePrefix(n.String()); err == nil {
			own = append(own, one.Addr().Unmap())
		}
	}
	if from = from.Unmap(); from.IsLoopback() || slices.Contains(own, from) {
		return append(own, from)
	}
	return []netip.Addr{from}
}
