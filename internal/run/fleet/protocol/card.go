package protocol

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"wirelab.dev/internal/machine/host"
)

// A Card is an agent's description of itself. The agent renews it, and it expires CardTTL after
// the last renewal.
type Card struct {
	Name     string            `json:"name"`
	Labels   map[string]string `json:"labels,omitempty"`
	Session  string            `json:"session"`           // of the agent's process
	Machine  string            `json:"machine"`           // of the agent's process
	Boot     string            `json:"boot"`              // the same for agents of one machine
	CPUs     int               `json:"cpus"`              //
	Address  string            `json:"address,omitempty"` // where its servers listen
	Programs map[string]string `json:"programs"`          // hashes of the programs that it runs, by name
	Started  time.Time         `json:"started"`           // by its clock
	Busy     string            `json:"busy,omitempty"`    // the run that has the agent
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

// The largest card, and the number of cards that are kept.
const (
	MostCardBytes  = 32 << 10
	MostCardsBytes = 128 << 20
)

// PutCard writes an agent's card, or renews it.
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
			if entry == nil { // the end of the list
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

// isPlain reports whether a terminal shows all texts of the card unchanged.
func (c *Card) isPlain() bool {
	texts := []string{c.Machine, c.Boot, c.Address, c.Busy, c.Version}
	for key, value := range c.Labels {
		texts = append(texts, key, value)
	}
	return !slices.ContainsFunc(texts, func(text string) bool {
		return strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
	})
}

// readCard reads a card. It refuses a card under another agent's name.
func readCard(entry jetstream.KeyValueEntry) (Card, bool) {
	var card Card
	if json.Unmarshal(entry.Value(), &card) != nil || card.Name != entry.Key() || CheckName(card.Name) != nil || !card.isPlain() {
		return Card{}, false
	}
	card.Seen = entry.Created()
	return card, true
}

// A Visit is a connection that reads a fleet's list of agents. Close must be called.
type Visit struct {
	RoundTrip time.Duration // to the hub and back
	Cards     []Card        // of the fleet's agents, by name

	Credentials *Credentials
	Conn        *nats.Conn
}

// Look connects to the hub and reads the list of agents.
func Look(ctx context.Context, credentials *Credentials) (*Visit, error) {
	conn, err := Connect(ctx, credentials, "visit", nil)
	if err != nil {
		return nil, err
	}
	v := &Visit{Credentials: credentials, Conn: conn}
	if err := v.Again(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return v, nil
}

// Close ends the visit.
func (v *Visit) Close() { v.Conn.Close() }

// HubPatience limits the wait for answers of a connected hub.
const HubPatience = 10 * time.Second

// Again reads the list of agents again.
func (v *Visit) Again(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, HubPatience)
	defer cancel()
	var err error
	if v.RoundTrip, err = v.Conn.RTT(); err != nil {
		return fmt.Errorf("ask the hub: %w", err)
	}
	stream, err := jetstream.New(v.Conn)
	if err != nil {
		return fmt.Errorf("open the hub: %w", err)
	}
	bucket, err := stream.KeyValue(ctx, v.Credentials.AgentsBucket())
	if err != nil {
		return fmt.Errorf("open the bucket of agents: %w: is this NATS prepared for the fleet %s?", err, v.Credentials.Project)
	}
	v.Cards, err = Cards(ctx, bucket)
	return err
}

// Selector says which agents are wanted, and how many: role=client,zone=a*8.
type Selector struct {
	Labels map[string]string
	Count  int // 0: all
}

// nameLabel stands for an agent's name.
const nameLabel = "name"

// ParseSelector reads a selector. Without a count it wants one agent, with a bare * all agents.
func ParseSelector(text string) (Selector, error) {
	labels, count, counted := strings.Cut(text, "*")
	s := Selector{Count: 1}
	var err error
	if s.Labels, err = ParseLabels(labels); err != nil {
		return s, err
	}
	if len(s.Labels) == 0 {
		return s, fmt.Errorf("%q: want labels, as in role=client*8", text)
	}
	switch {
	case counted && count == "":
		s.Count = 0
	case counted:
		if s.Count, err = strconv.Atoi(count); err != nil || s.Count < 1 {
			return s, fmt.Errorf("%q: found %q after the *: want a number of agents from 1, or nothing for all", text, count)
		}
	}
	return s, nil
}

// ParseLabels reads role=client,zone=a.
func ParseLabels(text string) (map[string]string, error) {
	labels := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" || value == "" || strings.ContainsFunc(pair, isOdd) {
			return nil, fmt.Errorf("found %q: want labels, as in role=client,zone=a", pair)
		}
		if earlier, twice := labels[key]; twice {
			return nil, fmt.Errorf("the label %s is set twice, to %s and %s", key, earlier, value)
		}
		labels[key] = value
	}
	return labels, nil
}

// isOdd reports whether a character is not allowed in labels.
func isOdd(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(`*" `, r) }

// Matches reports whether an agent has all labels.
func (s Selector) Matches(c Card) bool {
	for key, value := range s.Labels {
		if c.Labels[key] != value && (key != nameLabel || c.Name != value) {
			return false
		}
	}
	return true
}

func (s Selector) String() string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
		pairs = append(pairs, key+"="+s.Labels[key])
	}
	text := strings.Join(pairs, ",")
	switch s.Count {
	case 0:
		return text + "*"
	case 1:
		return text
	}
	return text + "*" + strconv.Itoa(s.Count)
}
