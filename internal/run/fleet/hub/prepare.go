package hub

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"wirelab.dev/internal/run/fleet/protocol"
)

// Limits on the data that a hub stores.
const (
	maxMemberBytes  = 64 << 20
	maxMemoryBytes  = 2 * protocol.MaxCardsBytes
	maxPayloadBytes = 8 << 20
)

// PrepareJetStream makes the stream of cards, with this number of replicas, or updates its limits.
// Cards stay in memory: writing them to disk every few seconds could disturb measurements. The stream
// acknowledges nothing, and has no rollups and no times to live: an agent's message changes that
// agent's card only.
func PrepareJetStream(ctx context.Context, js jetstream.JetStream, project string, replicas int) error {
	if err := protocol.CheckProject(project); err != nil {
		return err
	}
	_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: protocol.CardStream(project), Description: "the agents of the fleet " + project, Subjects: []string{protocol.CardSubjects(project)},
		Storage: jetstream.MemoryStorage, Replicas: replicas, NoAck: true, AllowDirect: true, DenyDelete: true, DenyPurge: true,
		MaxMsgsPerSubject: 1, MaxAge: protocol.CardTTL, MaxMsgSize: protocol.MaxCardBytes, MaxBytes: protocol.MaxCardsBytes, Discard: jetstream.DiscardOld,
	})
	if err != nil {
		return fmt.Errorf("make the stream of agents' cards: %w", err)
	}
	return nil
}

// A UserNATS describes the user's own NATS server with JetStream, which replaces a hub.
type UserNATS struct {
	Project    string
	URLs       []string
	CredsFile  string            // of the user who prepares the server, and is the controller
	AgentCreds map[string]string // the file of each agent's NATS user, by the agent's name
	RootFile   string            // root certificate of the server; empty means the system's roots
	Serve      []netip.Prefix    // where agents' servers may listen
	StateDir   string            // the folder for tokens, and for the key that signs orders
	Replicas   int
}

// PrepareUserNATS prepares the user's own NATS server for a fleet, and writes tokens into StateDir.
// Each agent has a NATS user of its own, with the permissions that PermissionsOf returns.
// LocalCredentials finds only running hubs, not such a server.
func PrepareUserNATS(ctx context.Context, o UserNATS) error {
	if err := makeSecretFolder(o.StateDir); err != nil {
		return err
	}
	k, err := openKeys(filepath.Join(o.StateDir, keysFile), o.Project)
	if err != nil {
		return err
	}
	tokens := map[string]*protocol.Credentials{}
	controller, err := o.credentials(k, protocol.RoleController, LocalController, o.CredsFile)
	if err != nil {
		return err
	}
	for _, r := range o.Serve {
		controller.Serve = append(controller.Serve, r.String())
	}
	tokens[protocol.RoleController] = controller
	for name, file := range o.AgentCreds {
		if tokens[name], err = o.credentials(k, protocol.RoleAgent, name, file); err != nil {
			return err
		}
	}
	if err := o.prepare(ctx, controller); err != nil {
		return err
	}
	for name, c := range tokens {
		if err := replaceFile(TokenFile(o.StateDir, name), []byte(c.Token()+"\n")); err != nil {
			return fmt.Errorf("write a token: %w", err)
		}
	}
	return nil
}

// prepare makes the fleet's stream on the server.
func (o *UserNATS) prepare(ctx context.Context, c *protocol.Credentials) error {
	var told permissionErrors
	conn, err := protocol.Connect(ctx, c, "prepare", told.add)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	if err = checkAccount(ctx, js); err == nil {
		err = PrepareJetStream(ctx, js, o.Project, max(1, o.Replicas))
	}
	return told.explain(err)
}

func (o *UserNATS) credentials(k *keys, role, name, file string) (*protocol.Credentials, error) {
	c := k.credentials(role, name, o.URLs, false)
	var err error
	if c.Seed, c.JWT, err = readNATSCredentials(file); err != nil {
		return nil, err
	}
	if o.RootFile != "" {
		if c.RootPEM, err = os.ReadFile(o.RootFile); err != nil {
			return nil, fmt.Errorf("--cacert: %w", err)
		}
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	return c, nil
}

// checkAccount returns an error if the account lacks JetStream, or memory for a fleet.
func checkAccount(ctx context.Context, js jetstream.JetStream) error {
	info, err := js.AccountInfo(ctx)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("this NATS server, or the account, has no JetStream: turn it on (%w)", err)
	case err != nil:
		return fmt.Errorf("read the limits of the account: %w", err)
	}
	if info.API.Level < 1 {
		return errors.New("this NATS server cannot list agents: use version 2.11 or newer")
	}
	if most := info.Limits.MaxMemory; most >= 0 && most < protocol.MaxCardsBytes {
		return fmt.Errorf("the account may use %d MiB of memory for JetStream: a fleet needs %d MiB; raise the limit", most>>20, protocol.MaxCardsBytes>>20)
	}
	return nil
}

// permissionErrors keeps what a NATS server says about permissions: a request that is not permitted
// only gets no answer.
type permissionErrors struct {
	guard sync.Mutex
	first string
}

func (p *permissionErrors) add(event string) {
	p.guard.Lock()
	defer p.guard.Unlock()
	if p.first == "" && strings.Contains(strings.ToLower(event), "permissions violation") {
		p.first = event
	}
}

func (p *permissionErrors) explain(err error) error {
	p.guard.Lock()
	defer p.guard.Unlock()
	if err == nil || p.first == "" {
		return err
	}
	return fmt.Errorf("%w: %s; `wirelab fleet permissions` prints what each role needs", err, p.first)
}

// readNATSCredentials reads a NATS user's seed, and also the JWT if the file is a .creds file.
// Errors contain no text of the file.
func readNATSCredentials(path string) (seed []byte, jwt string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, "", fmt.Errorf("read the credentials for NATS: %w", err)
	}
	pair, err := nkeys.ParseDecoratedUserNKey(text)
	if err != nil {
		return nil, "", fmt.Errorf("%s has no user seed (nkey): want a .creds file, or a file with only the seed", path)
	}
	if seed, err = pair.Seed(); err != nil {
		return nil, "", fmt.Errorf("%s: the seed cannot be read: export the credentials again", path)
	}
	if !strings.Contains(string(text), "BEGIN NATS USER JWT") {
		return seed, "", nil
	}
	if jwt, err = nkeys.ParseDecoratedJWT(text); err != nil {
		return nil, "", fmt.Errorf("%s: the JWT cannot be read: export the credentials again", path)
	}
	return seed, jwt, nil
}
