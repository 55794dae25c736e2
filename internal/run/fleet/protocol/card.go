package protocol

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go/jetstream"

	"wirelab.dev/internal/machine/host"
)

// A Card is an agent's description of itself. The agent renews it, and it expires CardTTL after
// the last renewal.
type Card struct {
	Name     string            `json:"name"`
	Labels   map[string]string `json:"labels,omitempty"`
	Session  string            `json:"session"`           // of the agent's process
	Machine  string            `json:"machine"`           // system, kernel and processor
	Boot     string            `json:"boot"`              // the same for agents of one machine
	CPUs     int               `json:"cpus"`              //
	Address  string            `json:"address,omitempty"` // where its servers listen
	Programs map[string]string `json:"programs"`          // by their names, the hashes of those that it runs
	Started  time.Time         `json:"started"`           // by its clock
	Busy     string            `json:"busy,omitempty"`    // the run that has it
	Version  string            `json:"version"`           // of wirelab
	Limits   host.Limits       `json:"limits"`            // of the machine

	Seen time.Time `json:"-"` // when the hub got the card, by the hub's clock
}

// Has reports whether the agent runs the program of a hash.
func (c Card) Has(hash string) bool {
	for _, one := range c.Programs {
		if one == hash {
			return true
		}
	}
	return false
}

// CardTTL is the life of a card that is not renewed. The hub removes it then, so that no agent
// can leave a card behind.
const CardTTL = 10 * time.Second

// The largest card, and how many are kept.
const (
	MostCardBytes  = 32 << 10
	MostCardsBytes = 128 << 20
)

// PutCard says who an agent is, or says it again.
func PutCard(ctx context.Context, kv jetstream.KeyValue, card Card) error {
	if err := CheckName(card.Name); err != nil {
		return err
	}
	text, err := json.Marshal(card)
	if err != nil {
		return fmt.Errorf("write the card of %s: %w", card.Name, err)
	}
	if len(text) > MostCardBytes {
		return fmt.Errorf("the card of %s has %d bytes, at most %d are kept: give it fewer labels", card.Name, len(text), MostCardBytes)
	}
	if _, err := kv.Put(ctx, card.Name, text); err != nil {
		return fmt.Errorf("put the card of %s: %w", card.Name, err)
	}
	return nil
}

// Cards returns the cards of all agents, sorted by name. A card that cannot be read is left out.
func Cards(ctx context.Context, kv jetstream.KeyValue) ([]Card, error) {
	watch, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("read the agents' cards: %w", err)
	}
	defer func() { _ = watch.Stop() }()
	var all []Card
	for {
		select {
		case entry, open := <-watch.Updates():
			if !open {
				return nil, errors.New("read the agents' cards: the hub is lost")
			}
			if entry == nil { // that was all
				slices.SortFunc(all, func(a, b Card) int { return cmp.Compare(a.Name, b.Name) })
				return all, nil
			}
			if card, ok := readCard(entry); ok {
				all = append(all, card)
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("read the agents' cards: %w", ctx.Err())
		}
	}
}

// isPlain reports whether a terminal shows all that the card says as it is.
func (c *Card) isPlain() bool {
	texts := []string{c.Machine, c.Boot, c.Address, c.Busy, c.Version}
	for key, value := range c.Labels {
		texts = append(texts, key, value)
	}
	return !slices.ContainsFunc(texts, func(text string) bool {
		return strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
	})
}

// readCard believes a card only under its own name.
func readCard(entry jetstream.KeyValueEntry) (Card, bool) {
	var card Card
	if json.Unmarshal(entry.Value(), &card) != nil || card.Name != entry.Key() || CheckName(card.Name) != nil || !card.isPlain() {
		return Card{}, false
	}
	card.Seen = entry.Created()
	return card, true
}
