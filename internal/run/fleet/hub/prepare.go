package hub

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"wirelab.dev/internal/run/fleet/protocol"
)

// Limits of what a hub keeps. A trial's samples are taken within minutes.
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
		Name: protocol.KeptStream(project), Description: "what must not be lost of the fleet " + project,
		Subjects: []string{"wl." + project + ".from.*.kept.>"},
		MaxAge:   keptFor, MaxBytes: keptBytes, Discard: jetstream.DiscardOld, Duplicates: keptDuplicates,
		Storage: jetstream.FileStorage, Replicas: replicas, AllowDirect: true,
	})
	if err != nil {
		return fmt.Errorf("make the stream of what is kept: %w", err)
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
