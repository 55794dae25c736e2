package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"wirelab.dev/internal/run/fleet/protocol"
)

// An OwnNATS is a NATS of the user, with JetStream, in place of a hub.
type OwnNATS struct {
	Project   string
	URLs      []string
	CredsFile string // a user's: a .creds file, or the seed of an nkey
	StateDir  string // for the key that orders are signed with, and the tokens
	Replicas  int
}

// PrepareOwn makes what a fleet needs in the user's own NATS, and leaves tokens for it in the
// state. Both roles have the same user: what either may do there is as that NATS has it, and
// that only the controller gives orders is left to their signatures. Certificates must be ones
// that the system trusts. Nothing of it runs on, so FindFleet does not find it.
func PrepareOwn(ctx context.Context, o OwnNATS) error {
	if err := makeSecretFolder(o.StateDir); err != nil {
		return err
	}
	k, err := openKeys(filepath.Join(o.StateDir, keysFile), o.Project)
	if err != nil {
		return err
	}
	seed, jwt, err := readCreds(o.CredsFile)
	if err != nil {
		return err
	}
	c := k.credentials(protocol.RoleController, o.URLs, false)
	c.Seed, c.JWT = seed, jwt
	conn, err := protocol.Connect(ctx, c, "prepare", nil)
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return fmt.Errorf("open JetStream: %w", err)
	}
	if err := Prepare(ctx, js, o.Project, max(1, o.Replicas)); err != nil {
		return err
	}
	for _, role := range protocol.Roles() {
		c := k.credentials(role, o.URLs, false)
		c.Seed, c.JWT = seed, jwt
		if err := replace(TokenFile(o.StateDir, role), []byte(c.Token()+"\n")); err != nil {
			return fmt.Errorf("write a token: %w", err)
		}
	}
	return nil
}

// readCreds reads a user's seed, and the JWT that stands before it in a .creds file. No error
// repeats what is in the file.
func readCreds(path string) (seed []byte, jwt string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, "", fmt.Errorf("read the credentials for NATS: %w", err)
	}
	pair, err := nkeys.ParseDecoratedUserNKey(text)
	if err != nil {
		return nil, "", fmt.Errorf("%s has no seed of an nkey of a user: want a .creds file, or such a seed alone", path)
	}
	if seed, err = pair.Seed(); err != nil {
		return nil, "", errors.New("the seed cannot be read")
	}
	if !strings.Contains(string(text), "BEGIN NATS USER JWT") {
		return seed, "", nil
	}
	if jwt, err = nkeys.ParseDecoratedJWT(text); err != nil {
		return nil, "", fmt.Errorf("%s: its JWT cannot be read", path)
	}
	return seed, jwt, nil
}
