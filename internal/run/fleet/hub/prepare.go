package hub

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"wirelab.dev/internal/run/fleet/protocol"
)

// Limits on the data that a hub stores. A controller fetches a trial's data within minutes.
const (
	keptLifetime    = 24 * time.Hour
	maxKeptBytes    = 1 << 30
	duplicateWindow = 2 * time.Minute
	maxSampleBytes  = 8 << 30
	maxStoreBytes   = maxKeptBytes + maxSampleBytes
	maxMemoryBytes  = 2 * protocol.MaxCardsBytes
	maxPayloadBytes = 8 << 20
)

// PrepareJetStream makes the bucket for cards, the stream for messages that must not be lost, and
// the store for samples, each with this number of replicas. It updates the limits of existing ones.
func PrepareJetStream(ctx context.Context, js jetstream.JetStream, project string, replicas int) error {
	if err := protocol.CheckProject(project); err != nil {
		return err
	}
	// Cards stay in memory: writing them to disk every few seconds could disturb measurements.
	_, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: protocol.CardBucketName(project), Description: "the agents of the fleet " + project,
		TTL: protocol.CardTTL, LimitMarkerTTL: protocol.CardTTL, MaxValueSize: protocol.MaxCardBytes, MaxBytes: protocol.MaxCardsBytes,
		Storage: jetstream.MemoryStorage, Replicas: replicas,
	})
	if err != nil {
		return fmt.Errorf("make the bucket of agents: %w", err)
	}
	_, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: protocol.KeptStreamName(project), Description: "messages that the fleet must not lose: " + project,
		Subjects: []string{"wl." + project + ".from.*.kept.>"},
		MaxAge:   keptLifetime, MaxBytes: maxKeptBytes, Discard: jetstream.DiscardOld, Duplicates: duplicateWindow,
		Storage: jetstream.FileStorage, Replicas: replicas, AllowDirect: true,
	})
	if err != nil {
		return fmt.Errorf("make the stream of kept messages: %w", err)
	}
	_, err = js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket: protocol.SampleStoreName(project), Description: "samples of the fleet " + project,
		TTL: keptLifetime, MaxBytes: maxSampleBytes, Storage: jetstream.FileStorage, Replicas: replicas,
	})
	if err != nil {
		return fmt.Errorf("make the store of samples: %w", err)
	}
	return nil
}

// A UserNATS describes the user's own NATS server with JetStream, which replaces a hub.
type UserNATS struct {
	Project   string
	URLs      []string
	CredsFile string // the NATS user's .creds file, or a file with the seed of a NATS key (nkey)
	StateDir  string // the folder for tokens, and for the key that signs orders
	Replicas  int
}

// PrepareUserNATS prepares the user's own NATS server for a fleet, and writes tokens into StateDir.
// Agents and controllers use the same NATS user, so only the signature protects orders. The system
// must trust the server's certificate. LocalCredentials finds only running hubs, not such a server.
func PrepareUserNATS(ctx context.Context, o UserNATS) error {
	if err := makeSecretFolder(o.StateDir); err != nil {
		return err
	}
	k, err := openKeys(filepath.Join(o.StateDir, keysFile), o.Project)
	if err != nil {
		return err
	}
	seed, jwt, err := readNATSCredentials(o.CredsFile)
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
	if err := PrepareJetStream(ctx, js, o.Project, max(1, o.Replicas)); err != nil {
		return err
	}
	for _, role := range protocol.Roles() {
		c := k.credentials(role, o.URLs, false)
		c.Seed, c.JWT = seed, jwt
		if err := replaceFile(TokenFile(o.StateDir, role), []byte(c.Token()+"\n")); err != nil {
			return fmt.Errorf("write a token: %w", err)
		}
	}
	return nil
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
