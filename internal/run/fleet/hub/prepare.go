package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"wirelab.dev/internal/run/fleet/protocol"
)

// Limits on the data that a hub keeps. A trial's samples are fetched within minutes.
const (
	keptFor          = 24 * time.Hour
	keptBytes        = 1 << 30
	keptDuplicates   = 2 * time.Minute
	sampleBytes      = 8 << 30
	storeBytes       = keptBytes + sampleBytes
	memoryBytes      = 2 * protocol.MostCardsBytes
	mostPayloadBytes = 8 << 20
)

// Prepare makes the parts of JetStream that a fleet needs: the bucket of the agents' cards, the
// stream of messages that must not be lost, and the store of samples. Each has the given number of
// replicas. Parts that exist already get these limits.
func Prepare(ctx context.Context, js jetstream.JetStream, project string, replicas int) error {
	if err := protocol.CheckProject(project); err != nil {
		return err
	}
	// In memory, since cards are renewed every few seconds and a disk would be written to
	// during measured windows.
	_, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: protocol.AgentsBucket(project), Description: "the agents of the fleet " + project,
		TTL: protocol.CardTTL, LimitMarkerTTL: protocol.CardTTL, MaxValueSize: protocol.MostCardBytes, MaxBytes: protocol.MostCardsBytes,
		Storage: jetstream.MemoryStorage, Replicas: replicas,
	})
	if err != nil {
		return fmt.Errorf("make the bucket of agents: %w", err)
	}
	_, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: protocol.KeptStream(project), Description: "messages of a fleet that must not be lost: " + project,
		Subjects: []string{"wl." + project + ".from.*.kept.>"},
		MaxAge:   keptFor, MaxBytes: keptBytes, Discard: jetstream.DiscardOld, Duplicates: keptDuplicates,
		Storage: jetstream.FileStorage, Replicas: replicas, AllowDirect: true,
	})
	if err != nil {
		return fmt.Errorf("make the stream of kept messages: %w", err)
	}
	_, err = js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: protocol.SamplesStore(project), Description: "samples of the fleet " + project,
		TTL: keptFor, MaxBytes: sampleBytes, Storage: jetstream.FileStorage, Replicas: replicas,
	})
	if err != nil {
		return fmt.Errorf("make the store of samples: %w", err)
	}
	return nil
}

// An OwnNATS is the user's own NATS, with JetStream, in place of a hub.
type OwnNATS struct {
	Project   string
	URLs      []string
	CredsFile string // of a user: a .creds file, or the seed of an nkey
	StateDir  string // for the key that signs orders, and for the tokens
	Replicas  int
}

// PrepareOwn prepares the user's own NATS for a fleet, and leaves tokens for it in the state. Both
// roles have the same NATS user, whose rights that NATS decides; only signatures make sure that
// the controller alone gives orders. The system must trust the certificates. No process stays, so
// FindFleet does not find this fleet.
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

// readCreds reads a user's seed, and the JWT before it in a .creds file. Its errors contain no
// part of the file.
func readCreds(path string) (seed []byte, jwt string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, "", fmt.Errorf("read the credentials for NATS: %w", err)
	}
	pair, err := nkeys.ParseDecoratedUserNKey(text)
	if err != nil {
		return nil, "", fmt.Errorf("%s has no seed of a user's nkey: want a .creds file, or the seed alone", path)
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
