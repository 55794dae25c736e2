package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// Questions to a hub's gate. The gate is the part of a hub that admits agents to the fleet.
const (
	JoinQuestion   = "join"   // from a new agent: admit me
	TokenQuestion  = "token"  // from a controller: make a token
	RevokeQuestion = "revoke" // from a controller: shut out an agent or a controller
	PlaceQuestion  = "place"  // from a controller: where is this agent?
)

// ControllerQuestions returns the questions that a controller may ask.
func ControllerQuestions() []string { return []string{TokenQuestion, RevokeQuestion, PlaceQuestion} }

// A JoinRequest asks to admit an agent. It proves that the sender has the secret part of Key.
type JoinRequest struct {
	Token     string `json:"token"` // the JWT of the join token
	Name      string `json:"name"`
	Key       string `json:"key"` // the agent's public key, which only this agent has the seed of
	Signature []byte `json:"signature"`
}

// Signed returns the text that the signature covers.
func (r *JoinRequest) Signed() []byte {
	return []byte("join\n" + r.Token + "\n" + r.Name + "\n" + r.Key)
}

// A TokenRequest asks for a new token.
type TokenRequest struct {
	Role string `json:"role"`           // RoleJoin or RoleController
	Name string `json:"name,omitempty"` // of a controller, by which it can be revoked
	// Agents is the number of agents that a join token admits; 0 means any number.
	Agents   int            `json:"agents,omitempty"`
	ValidFor time.Duration  `json:"valid_for,omitempty"` // 0 means for ever
	Serve    []netip.Prefix `json:"serve,omitempty"`     // addresses at which the agents' servers may listen, besides the one that the hub sees
}

// A RevokeRequest asks to shut out the agent or the controller with this name.
type RevokeRequest struct {
	Name string `json:"name"`
}

// A PlaceRequest asks where an agent is.
type PlaceRequest struct {
	Name string `json:"name"`
}

// A GateAnswer is the gate's answer. It sets one field, or Addresses and Serve.
type GateAnswer struct {
	Refused string `json:"refused,omitempty"`
	JWT     string `json:"jwt,omitempty"`   // to a JoinRequest
	Token   string `json:"token,omitempty"` // to a TokenRequest
	// Addresses are the addresses of the agent's machine that the hub knows; Serve is from its token.
	Addresses []netip.Addr   `json:"addresses,omitempty"`
	Serve     []netip.Prefix `json:"serve,omitempty"`
}

// MayServe reports whether the agent's servers may listen on an address.
func (a *GateAnswer) MayServe(at netip.Addr) bool {
	for _, own := range a.Addresses {
		if own.Unmap() == at.Unmap() {
			return true
		}
	}
	for _, r := range a.Serve {
		if r.Contains(at.Unmap()) {
			return true
		}
	}
	return false
}

// A GateRefusal is the error for a question that the gate refused.
type GateRefusal struct{ Why string }

func (r *GateRefusal) Error() string { return r.Why }

// ErrNoGate is the error for a NATS server without a gate, which is not a hub.
var ErrNoGate = errors.New("this NATS server is not a hub of wirelab")

// gateTimeout limits the wait for the gate. A busy hub may check many agents' keys at once.
const gateTimeout = 15 * time.Second

// AskGate asks the hub's gate a question. The answer is never a refusal.
func AskGate(ctx context.Context, conn *nats.Conn, subject string, question any) (GateAnswer, error) {
	var answer GateAnswer
	text, err := json.Marshal(question)
	if err != nil {
		return answer, err
	}
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	m, err := conn.RequestWithContext(ctx, subject, text)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return answer, ErrNoGate
	case err != nil:
		return answer, fmt.Errorf("ask the hub: %w", err)
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return answer, fmt.Errorf("read the hub's answer: %w", err)
	}
	if answer.Refused != "" {
		return answer, &GateRefusal{answer.Refused}
	}
	return answer, nil
}

// Join exchanges a join token for an agent's own credentials. The key is made here: its secret part
// never leaves this machine.
func Join(ctx context.Context, token *Credentials, name string, report func(string)) (*Credentials, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	seed, err := NewUserSeed()
	if err != nil {
		return nil, err
	}
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return nil, err
	}
	request := JoinRequest{Token: token.JWT, Name: name, Key: PublicKeyOf(seed)}
	if request.Signature, err = pair.Sign(request.Signed()); err != nil {
		return nil, err
	}
	conn, err := Connect(ctx, token, "join", report)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	answer, err := AskGate(ctx, conn, token.GateSubject(JoinQuestion, token.Name), request)
	if err != nil {
		return nil, fmt.Errorf("join the fleet %s as %s: %w", token.Project, name, err)
	}
	own := *token
	own.Role, own.Name, own.Seed, own.JWT = RoleAgent, name, seed, answer.JWT
	return &own, own.Check()
}
