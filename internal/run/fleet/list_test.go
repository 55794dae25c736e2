package fleet_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/nats-io/nuid"

	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/fleet/protocol"
)

// No message of an agent removes another one's, or outlives its time.
func TestHeadersThatRemoveAreRefused(t *testing.T) {
	started := startHub(t, hub.HubOptions{})
	agent, _ := connect(t, must(started.Agent(t.Context(), "a")))
	other, _ := connect(t, must(started.Agent(t.Context(), "b")))
	c := protocol.Credentials{Project: "mine"}
	putCard(t, other, c.CardSubject("b"), protocol.Card{Name: "b"})
	for name, value := range map[string]string{"Nats-Rollup": "all", "nats-rollup": "sub", "Nats-TTL": "never", "KV-Operation": "PURGE"} {
		m := nats.NewMsg(c.CardSubject("a"))
		m.Header = nats.Header{name: {value}}
		if err := agent.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := agent.FlushWithContext(within(t)); err != nil {
		t.Fatal(err)
	}
	expectCards(t, started, "b")
	controller, _ := connect(t, must(started.Controller()))
	if config := must(open(t, controller).Stream(within(t), protocol.CardStream("mine"))).CachedInfo().Config; config.AllowRollup || config.AllowMsgTTL || !config.NoAck || !config.DenyDelete || !config.DenyPurge {
		t.Errorf("the stream of cards is %+v", config)
	}
}

// expectCards expects a hub's list to have these agents when all has come that was sent before.
func expectCards(t *testing.T, h *hub.Hub, names ...string) {
	t.Helper()
	const marker = "z-"
	last := must(h.Agent(t.Context(), marker+strings.ToLower(nuid.Next())))
	conn, _ := connect(t, last)
	putCard(t, conn, last.CardSubject(last.Name), protocol.Card{Name: last.Name}) // the stream keeps the order
	controller, _ := connect(t, must(h.Controller()))
	for ctx := within(t); ; time.Sleep(10 * time.Millisecond) {
		var listed []string
		cards, err := protocol.ReadCards(ctx, controller, "mine")
		marked := false
		for _, card := range cards {
			if marked = marked || card.Name == last.Name; !strings.HasPrefix(card.Name, marker) {
				listed = append(listed, card.Name)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if marked {
			if !slices.Equal(listed, names) {
				t.Errorf("the list has %v, want %v", listed, names)
			}
			return
		}
	}
}

// putCard sends a card. The stream of cards has it a moment later.
func putCard(t *testing.T, conn *nats.Conn, subject string, card protocol.Card) {
	t.Helper()
	if err := protocol.PutCard(conn, subject, card); err != nil {
		t.Fatal(err)
	}
	if err := conn.FlushWithContext(within(t)); err != nil {
		t.Fatal(err)
	}
}

// A card tells of its own agent only.
func TestAForgedCardIsNotListed(t *testing.T) {
	started := startHub(t, hub.HubOptions{})
	agent, _ := connect(t, must(started.Agent(t.Context(), "a")))
	c := protocol.Credentials{Project: "mine"}
	putCard(t, agent, c.CardSubject("a"), protocol.Card{Name: "b"})
	expectCards(t, started)

	forged := nats.NewMsg(c.CardSubject("a"))
	forged.Data = []byte(`{"name": "b"}`)
	for _, header := range []nats.Header{
		{"Nats-Subject": {c.CardSubject("b")}, "Nats-Time-Stamp": {"2100-01-01T00:00:00Z"}},
		{"Status": {"204"}, "Nats-Num-Pending": {"0"}}, // as if the list ended here
		{"Status": {"503"}},
	} {
		forged.Header = header
		if err := agent.PublishMsg(forged); err != nil {
			t.Fatal(err)
		}
		expectCards(t, started)
	}
}

// A list of any length is read.
func TestALongListIsReadInPages(t *testing.T) {
	all := protocol.Permissions{Publish: []string{">"}, Subscribe: []string{">"}}
	seeds, url := serverWith(t, map[string]protocol.Permissions{"all": all})
	conn := must(nats.Connect(url, nats.Nkey(must(must(nkeys.FromSeed(seeds["all"])).PublicKey()), func(nonce []byte) ([]byte, error) {
		return must(nkeys.FromSeed(seeds["all"])).Sign(nonce)
	})))
	defer conn.Close()
	if _, err := protocol.ReadCards(within(t), conn, "mine"); !errors.Is(err, protocol.ErrNotPrepared) {
		t.Errorf("a server that is not prepared: %v", err)
	}
	c := protocol.Credentials{Project: "mine"}
	if err := hub.PrepareJetStream(within(t), open(t, conn), "mine", 1); err != nil {
		t.Fatal(err)
	}
	for _, agents := range []int{0, 1, 100, 101, 250} {
		for i := range agents {
			putCard(t, conn, c.CardSubject(fmt.Sprintf("a%d", i)), protocol.Card{Name: fmt.Sprintf("a%d", i)})
		}
		for ctx := within(t); ; time.Sleep(10 * time.Millisecond) { // the stream has the cards a moment later
			cards, err := protocol.ReadCards(ctx, conn, "mine")
			if err != nil {
				t.Fatalf("%d agents: %d listed, %v", agents, len(cards), err)
			}
			if len(cards) == agents {
				break
			}
		}
	}
}
