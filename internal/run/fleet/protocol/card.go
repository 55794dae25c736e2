package protocol

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"

	"wirelab.dev/internal/machine/host"
)

// A Card describes an agent. It expires CardTTL after the agent has last renewed it.
type Card struct {
	Name     string            `json:"name"`
	Labels   map[string]string `json:"labels,omitempty"`
	Session  string            `json:"session"`           // identifies one start of the agent
	Machine  string            `json:"machine"`           // operating system, kernel and CPU model
	Boot     string            `json:"boot"`              // identifies one start of the machine
	CPUs     int               `json:"cpus"`              // number of CPUs for workers
	Address  string            `json:"address,omitempty"` // address at which its servers listen
	Port     int               `json:"port,omitempty"`    // the only port of its servers; 0 means any
	Programs map[string]string `json:"programs"`          // hashes of the allowed programs, by name
	Started  time.Time         `json:"started"`           // when the agent started, on its clock
	Busy     string            `json:"busy,omitempty"`    // the run that has leased it, if any
	Version  string            `json:"version"`           // wirelab's version
	Limits   host.Limits       `json:"limits"`            // limits of the machine
	Left     bool              `json:"left,omitempty"`    // the agent has left the fleet
	// Probes holds the probes that the agent's owner allows, by name.
	Probes map[string]CardProbe `json:"probes,omitempty"`

	Seen time.Time `json:"-"` // when the hub received the card, on the hub's clock
}

// A CardProbe says how an agent's machine runs a probe.
type CardProbe struct {
	Method string `json:"method,omitempty"`
	// Problem says why the machine cannot run the probe, and what would help. It is empty if it can.
	Problem string `json:"problem,omitempty"`
}

// CheckProbe returns an error if the agent cannot run a probe.
func (c Card) CheckProbe(name string) error {
	switch probe, allowed := c.Probes[name]; {
	case !allowed:
		return fmt.Errorf("the agent %s does not allow the probe %s: start it with --allow-probes %[2]s, or leave out the probe", c.Name, name)
	case probe.Problem != "":
		return fmt.Errorf("the agent %s cannot run the probe %s: %s; or leave out the probe", c.Name, name, probe.Problem)
	}
	return nil
}

// DescribeProbes lists the probes that the agent's owner allows. Those that the machine cannot run are
// marked with a ! before the name.
func (c Card) DescribeProbes() string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(c.Probes)) {
		if c.Probes[name].Problem != "" {
			name = "!" + name
		}
		names = append(names, name)
	}
	return cmp.Or(strings.Join(names, ","), "-")
}

// HasProgram reports whether the agent may start the program that has this hash.
func (c Card) HasProgram(hash string) bool {
	for _, one := range c.Programs {
		if one == hash {
			return true
		}
	}
	return false
}

// CardTTL is the time after which the hub removes a card that was not renewed.
const CardTTL = 10 * time.Second

// Limits on the size of a card, and on the total size of all cards.
const (
	MaxCardBytes  = 32 << 10
	MaxCardsBytes = 128 << 20
)

// MaxAgentMessage bounds a message of an agent. A NATS server's default limit is the same.
const MaxAgentMessage = 1 << 20

// PutCard sends an agent's card, for the first time or again.
func PutCard(conn *nats.Conn, subject string, card Card) error {
	text, err := json.Marshal(card)
	if err != nil {
		return fmt.Errorf("write the card of %s: %w", card.Name, err)
	}
	if len(text) > MaxCardBytes {
		return fmt.Errorf("the card of %s has %d bytes: want at most %d; give the agent fewer labels", card.Name, len(text), MaxCardBytes)
	}
	if err := conn.Publish(subject, text); err != nil {
		return fmt.Errorf("send the card of %s: %w", card.Name, err)
	}
	return nil
}

// isPrintable reports whether the card's texts have only printable characters.
func (c *Card) isPrintable() bool {
	texts := []string{c.Machine, c.Boot, c.Address, c.Busy, c.Version}
	for key, value := range c.Labels {
		texts = append(texts, key, value)
	}
	for name, probe := range c.Probes {
		texts = append(texts, name, probe.Method, probe.Problem)
	}
	return !slices.ContainsFunc(texts, func(text string) bool {
		return strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
	})
}

// A HubView holds a connection to a hub and the cards of the fleet's agents. Close must be called.
type HubView struct {
	RoundTrip time.Duration // time of a message to the hub and of the answer
	Cards     []Card        // the agents' cards, sorted by name

	Credentials *Credentials
	Conn        *nats.Conn
}

// ReadHub connects to the hub and reads the agents' cards.
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

// Close closes the connection to the hub.
func (v *HubView) Close() { v.Conn.Close() }

// HubTimeout limits the wait for an answer of the hub.
const HubTimeout = 10 * time.Second

// Refresh reads the agents' cards again.
func (v *HubView) Refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, HubTimeout)
	defer cancel()
	var err error
	if v.RoundTrip, err = v.Conn.RTT(); err != nil {
		return fmt.Errorf("measure the round trip to the hub: %w", err)
	}
	v.Cards, err = ReadCards(ctx, v.Conn, v.Credentials.Project)
	return err
}

// A Selector selects agents by labels. role=client,zone=a*8 selects eight agents.
type Selector struct {
	Labels map[string]string
	Count  int // number of wanted agents; 0 means all
}

// nameLabel is the label whose value is the agent's name.
const nameLabel = "name"

// ParseSelector parses a selector. role=client selects one agent, role=client* all such agents.
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

// isForbiddenInLabel reports whether a label must not contain a character.
func isForbiddenInLabel(r rune) bool { return !unicode.IsPrint(r) || strings.ContainsRune(`*" `, r) }

// Matches reports whether an agent has all labels of the selector.
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
