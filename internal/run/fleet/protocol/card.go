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
	Session  string            `json:"session"`           // differs for each start of the agent
	Machine  string            `json:"machine"`           // system, kernel and CPU model
	Boot     string            `json:"boot"`              // the same for all agents of one machine
	CPUs     int               `json:"cpus"`              //
	Address  string            `json:"address,omitempty"` // the address that its servers listen on
	Programs map[string]string `json:"programs"`          // hashes of the programs that it may start, by name
	Started  time.Time         `json:"started"`           // on the agent's clock
	Busy     string            `json:"busy,omitempty"`    // the run that has leased the agent
	Version  string            `json:"version"`           // the version of wirelab
	Limits   host.Limits       `json:"limits"`            // the machine's limits

	Seen time.Time `json:"-"` // when the hub received the card, on the hub's clock
}

// HasProgram reports whether the agent may start the program with a hash.
func (c Card) HasProgram(hash string) bool {
	for _, one := range c.Programs {
		if one == hash {
			return true
		}
	}
	return false
}

// CardTTL is the time after which the hub removes a card that was not renewed. So no card outlives
// its agent for long.
const CardTTL = 10 * time.Second

// Limits on the size of one card, and on the size of all cards together.
const (
	MaxCardBytes  = 32 << 10
	MaxCardsBytes = 128 << 20
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
	if len(text) > MaxCardBytes {
		return fmt.Errorf("the card of %s has %d bytes: want at most %d; give the agent fewer labels", card.Name, len(text), MaxCardBytes)
	}
	if _, err := kv.Put(ctx, card.Name, text); err != nil {
		return fmt.Errorf("store the card of %s: %w", card.Name, err)
	}
	return nil
}

// ReadCards returns the cards of all agents, sorted by name. It leaves out unreadable cards.
func ReadCards(ctx context.Context, kv jetstream.KeyValue) ([]Card, error) {
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
				return nil, errors.New("read the agents' cards: the connection to the hub was lost")
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

// isPrintable reports whether all texts of the card contain only printable characters.
func (c *Card) isPrintable() bool {
	texts := []string{c.Machine, c.Boot, c.Address, c.Busy, c.Version}
	for key, value := range c.Labels {
		texts = append(texts, key, value)
	}
	return !slices.ContainsFunc(texts, func(text string) bool {
		return strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
	})
}

// readCard decodes a card. It refuses a card that is stored under another name.
func readCard(entry jetstream.KeyValueEntry) (Card, bool) {
	var card Card
	if json.Unmarshal(entry.Value(), &card) != nil || card.Name != entry.Key() || CheckName(card.Name) != nil || !card.isPrintable() {
		return Card{}, false
	}
	card.Seen = entry.Created()
	return card, true
}

// A HubView is a connection to a hub, with the fleet's list of agents. Close must be called.
type HubView struct {
	RoundTrip time.Duration // the time of a message to the hub and back
	Cards     []Card        // the agents' cards, sorted by name

	Credentials *Credentials
	Conn        *nats.Conn
}

// ReadHub connects to the hub and reads the list of agents.
func ReadHub(ctx context.Context, credentials *Credentials) (*HubView, error) {
	conn, err := Connect(ctx, credentials, "visit", nil)
	if err != nil {
		return nil, err
	}
	v := &HubView{Credentials: credentials, Conn: conn}
	if err := v.Refresh(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return v, nil
}

// Close ends the visit.
func (v *HubView) Close() { v.Conn.Close() }

// HubTimeout limits the wait for a connected hub's answers.
const HubTimeout = 10 * time.Second

// Refresh reads the list of agents again.
func (v *HubView) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, HubTimeout)
	defer cancel()
	var err error
	if v.RoundTrip, err = v.Conn.RTT(); err != nil {
		return fmt.Errorf("measure the round trip to the hub: %w", err)
	}
	stream, err := jetstream.New(v.Conn)
	if err != nil {
		return fmt.Errorf("open the hub's JetStream: %w", err)
	}
	bucket, err := stream.KeyValue(ctx, v.Credentials.CardBucketName())
	if err != nil {
		return fmt.Errorf("open the bucket of agents: %w: this NATS may not be prepared for the fleet %s: prepare it with `wirelab fleet up --nats URL`", err, v.Credentials.Project)
	}
	v.Cards, err = ReadCards(ctx, bucket)
	return err
}

// A Selector says which agents are wanted, and how many, for example role=client,zone=a*8.
type Selector struct {
	Labels map[string]string
	Count  int // 0: all
}

// nameLabel is the label that selects an agent by its name.
const nameLabel = "name"

// ParseSelector parses a selector. Without a count it selects one agent, with a * alone all agents.
func ParseSelector(text string) (Selector, error) {
	labels, count, counted := strings.Cut(text, "*")
	s := Selector{Count: 1}
	var err error
	if s.Labels, err = ParseLabels(labels); err != nil {
		return s, err
	}
	if len(s.Labels) == 0 {
		return s, fmt.Errorf("found %q: want labels, as in role=client*8", text)
	}
	switch {
	case counted && count == "":
		s.Count = 0
	case counted:
		if s.Count, err = strconv.Atoi(count); err != nil || s.Count < 1 {
			return s, fmt.Errorf("%q: found %q after the *: want a number of agents from 1, or only the * for all agents", text, count)
		}
	}
	return s, nil
}

// ParseLabels parses labels such as role=client,zone=a.
func ParseLabels(text string) (map[string]string, error) {
	labels := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" || value == "" || strings.ContainsFunc(pair, isForbiddenInLabel) {
			return nil, fmt.Errorf("found %q: want labels, as in role=client,zone=a", pair)
		}
		if earlier, twice := labels[key]; twice {
			return nil, fmt.Errorf("the label %s is set twice, to %s and %s", key, earlier, value)
		}
		labels[key] = value
	}
	return labels, nil
}

// isForbiddenInLabel reports whether a character is not allowed in labels.
func isForbiddenInLabel(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(`*" `, r) }

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
