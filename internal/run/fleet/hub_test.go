package fleet_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/fleet/protocol"
)

// patience is for what must happen at once, on a machine of any speed.
const patience = 30 * time.Second

// startHub starts a hub of the project on a free port of loopback.
func startHub(t *testing.T, o hub.HubOptions) *hub.Hub {
	t.Helper()
	if o.StateDir == "" {
		o.StateDir = t.TempDir()
	}
	if o.Project == "" {
		o.Project = "mine"
	}
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	started, err := hub.StartHub(within(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := started.Close(); err != nil {
			t.Error(err)
		}
	})
	return started
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// events collects the events that a connection reports.
type events struct {
	mu  sync.Mutex
	all []string
	new chan struct{}
}

func newEvents() *events { return &events{new: make(chan struct{}, 1)} }

func (e *events) add(event string) {
	e.mu.Lock()
	e.all = append(e.all, event)
	e.mu.Unlock()
	select {
	case e.new <- struct{}{}:
	default:
	}
}

// wait returns when an event has the words.
func (e *events) wait(t *testing.T, words string) {
	t.Helper()
	ctx := within(t)
	for {
		e.mu.Lock()
		all := strings.Join(e.all, "\n")
		e.mu.Unlock()
		if strings.Contains(all, words) {
			return
		}
		select {
		case <-e.new:
		case <-ctx.Done():
			t.Fatalf("no event has %q; there were:\n%s", words, all)
		}
	}
}

func connect(t *testing.T, c *protocol.Credentials) (*nats.Conn, *events) {
	t.Helper()
	e := newEvents()
	conn, err := protocol.Connect(within(t), c, "test", e.add)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn, e
}

func open(t *testing.T, conn *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// An agent does all that it must: its card, an order answered, what is kept, samples.
func TestFleetAgentMay(t *testing.T) {
	started := startHub(t, hub.HubOptions{})
	agentKeys, controllerKeys := must(started.Agent(t.Context(), "a1")), must(started.Controller())
	agent, agentEvents := connect(t, agentKeys)
	controller, controllerEvents := connect(t, controllerKeys)
	ctx := within(t)

	card := protocol.Card{Name: "a1", Labels: map[string]string{"role": "client"}, Session: "s", CPUs: 2}
	putCard(t, agent, agentKeys.CardSubject("a1"), card)
	waitForCards(t, controllerKeys, 1)
	cards, err := protocol.ReadCards(ctx, controller, "mine")
	if err != nil || len(cards) != 1 || cards[0].Name != "a1" || cards[0].Labels["role"] != "client" || cards[0].Seen.IsZero() {
		t.Fatalf("cards %+v, %v: want that of a1", cards, err)
	}

	if _, err := agent.Subscribe(agentKeys.OrderSubject("a1"), func(m *nats.Msg) { _ = m.Respond([]byte("yes")) }); err != nil {
		t.Fatal(err)
	}
	if err := agent.FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	answers, err := controller.SubscribeSync(controllerKeys.AnswerSubject("a1", "x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := controller.PublishRequest(controllerKeys.OrderSubject("a1"), answers.Subject, []byte("order")); err != nil {
		t.Fatal(err)
	}
	answer, err := answers.NextMsgWithContext(ctx)
	if err != nil || string(answer.Data) != "yes" {
		t.Fatalf("the order was answered %v, %v", answer, err)
	}

	live, err := controller.SubscribeSync(controllerKeys.LiveSubject("*", "run", "*"))
	if err != nil {
		t.Fatal(err)
	}
	if err := controller.FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	if err := agent.Publish(agentKeys.LiveSubject("a1", "run", "w"), []byte("half")); err != nil {
		t.Fatal(err)
	}
	if m, err := live.NextMsgWithContext(ctx); err != nil || string(m.Data) != "half" {
		t.Fatalf("live: %v, %v", m, err)
	}

	kept, err := controller.SubscribeSync(agentKeys.FromSubjects("a1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := controller.FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{agentKeys.KeptSubject("a1"), agentKeys.SampleSubject("a1")} {
		if err := agent.Publish(subject, []byte("result")); err != nil {
			t.Fatal(err)
		}
		if m, err := kept.NextMsgWithContext(ctx); err != nil || string(m.Data) != "result" {
			t.Fatalf("%s: %v, %v", subject, m, err)
		}
	}
	for _, e := range []*events{agentEvents, controllerEvents} {
		if len(e.all) > 0 {
			t.Errorf("the hub complained: %v", e.all)
		}
	}
}

// Who was not let in is told why, and so is who runs the hub.
func TestFleetStrangers(t *testing.T) {
	log := &lockedBuffer{}
	started := startHub(t, hub.HubOptions{Log: log})
	other := startHub(t, hub.HubOptions{Project: "other"})
	stranger, err := nats.Connect(started.URLs()[0])
	if err == nil {
		stranger.Close()
		t.Fatal("a stranger was let in")
	}
	c := must(other.Controller())
	c.URLs = started.URLs()
	refused(t, c, "does not know the token's key, the token has expired, or its owner was shut out")
	if text := log.String(); strings.Count(text, "authentication error") < 2 {
		t.Errorf("the hub's log does not tell of both:\n%s", text)
	}
}

func refused(t *testing.T, c *protocol.Credentials, why string) {
	t.Helper()
	conn, err := protocol.Connect(within(t), c, "test", nil)
	if err == nil {
		conn.Close()
		t.Fatalf("connected to %v; want an error: %s", c.URLs, why)
	}
	if !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), c.URLs[0]) {
		t.Errorf("the error is %q; want in it %q and %s", err, why, c.URLs[0])
	}
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Connections past loopback are encrypted, and the hub must be the one of the token.
func TestFleetTLS(t *testing.T) {
	started := startHub(t, hub.HubOptions{Advertise: []string{"127.0.0.1"}})
	other := startHub(t, hub.HubOptions{Advertise: []string{"127.0.0.1"}, Project: "other"})
	plain := startHub(t, hub.HubOptions{Project: "plain"})
	c := must(started.Agent(t.Context(), "a"))
	if !started.TLS() || !strings.HasPrefix(started.URLs()[0], "tls://127.0.0.1:") {
		t.Fatalf("URLs %v: want TLS", started.URLs())
	}
	conn, _ := connect(t, c)
	if state, err := conn.TLSConnectionState(); err != nil || !state.HandshakeComplete {
		t.Errorf("the connection is not encrypted: %v", err)
	}
	c.URLs = other.URLs()
	refused(t, c, "the token's root did not sign")
	c.URLs = plain.URLs()
	refused(t, c, "does not speak TLS")
	c.URLs = []string{strings.Replace(started.URLs()[0], "127.0.0.1", "nowhere.invalid", 1)}
	refused(t, c, "cannot be found")
}

// The hub is believed by the names that its certificate has.
func TestFleetTLSName(t *testing.T) {
	started := startHub(t, hub.HubOptions{Listen: "0.0.0.0:0", Advertise: []string{"127.0.0.1"}})
	c := must(started.Agent(t.Context(), "a"))
	c.URLs[0] = strings.Replace(c.URLs[0], "127.0.0.1", "127.0.0.9", 1)
	refused(t, c, "does not name this address")
}

// A hub on all addresses is encrypted unless it is told not to be.
func TestFleetPastLoopback(t *testing.T) {
	started := startHub(t, hub.HubOptions{Listen: "0.0.0.0:0"})
	if !started.TLS() {
		t.Error("a hub on all addresses has no TLS")
	}
	connect(t, must(started.Agent(t.Context(), "a"))) // by an address of this machine
	unencrypted := startHub(t, hub.HubOptions{Listen: "0.0.0.0:0", NoTLS: true, Project: "clear"})
	if unencrypted.TLS() {
		t.Error("--no-tls was not obeyed")
	}
	connect(t, must(unencrypted.Agent(t.Context(), "a")))
}

func TestFleetNobodyThere(t *testing.T) {
	started, err := hub.StartHub(within(t), hub.HubOptions{Project: "mine", Listen: "127.0.0.1:0", StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	c := must(started.Agent(t.Context(), "a"))
	if err := started.Close(); err != nil {
		t.Fatal(err)
	}
	refused(t, c, "nothing listens on this address")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	c.URLs = []string{"nats://" + silent.Addr().String()}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := protocol.Connect(ctx, c, "test", nil); err == nil || !strings.Contains(err.Error(), "did not answer") {
		t.Errorf("a silent listener: %v; want no answer", err)
	}
}

// A hub that is started again lets the same tokens in, and connections find it again by
// themselves.
func TestFleetHubAgain(t *testing.T) {
	dir := t.TempDir()
	first, err := hub.StartHub(within(t), hub.HubOptions{Project: "mine", Listen: "127.0.0.1:0", StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	c := must(first.Agent(t.Context(), "a"))
	_, e := connect(t, c)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	e.wait(t, "lost the connection to the hub")
	second := startHub(t, hub.HubOptions{StateDir: dir, Listen: strings.TrimPrefix(c.URLs[0], "nats://")})
	e.wait(t, "connected to the hub again")
	if _, err := protocol.Join(within(t), must(second.MakeToken(t.Context(), protocol.TokenRequest{Role: protocol.RoleJoin})), "a", nil); err == nil || !strings.Contains(err.Error(), "has a member with this name") {
		t.Errorf("the members are forgotten: %v", err)
	}
}

func TestFleetStartErrors(t *testing.T) {
	dir := t.TempDir()
	started := startHub(t, hub.HubOptions{StateDir: dir})
	at := strings.TrimPrefix(started.URLs()[0], "nats://")
	for _, c := range []struct {
		name, want string
		options    hub.HubOptions
	}{
		{"twice", "is up already", hub.HubOptions{Project: "mine", Listen: "127.0.0.1:0", StateDir: dir}},
		{"port", "is taken", hub.HubOptions{Project: "other", Listen: at, StateDir: t.TempDir()}},
		{"listen", "want HOST:PORT", hub.HubOptions{Project: "other", Listen: "4222", StateDir: t.TempDir()}},
		{"name", "a fleet's name", hub.HubOptions{Project: "My Fleet", StateDir: t.TempDir()}},
		{"keys", "has the keys of the fleet", hub.HubOptions{Project: "other", KeysFile: filepath.Join(dir, "keys.json"), StateDir: t.TempDir()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			second, err := hub.StartHub(within(t), c.options)
			if err == nil {
				t.Fatal("started", second.Close())
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %q, want in it %q", err, c.want)
			}
		})
	}
	info, err := os.Stat(filepath.Join(dir, "keys.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the keys' file is %v, %v: want it for its owner alone", info.Mode(), err)
	}
}
