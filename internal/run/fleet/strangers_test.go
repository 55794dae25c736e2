package fleet_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/fleet/protocol"
)

func hostOf(h *hub.Hub) string { return must(url.Parse(h.URLs()[0])).Host }

// Strangers that connect and then say nothing, or half of something, keep nobody out, and are sent away.
func TestSlowStrangersAreSentAway(t *testing.T) {
	if testing.Short() {
		t.Skip("waits 10 s until the hub sends strangers away")
	}
	t.Parallel()
	started := startHub(t, hub.HubOptions{Advertise: []string{"127.0.0.1"}})
	token := must(started.MakeToken(t.Context(), protocol.TokenRequest{Role: protocol.RoleJoin}))
	const each = 100
	var strangers []net.Conn
	for _, says := range []string{"", "\x16\x03\x01", "CONNECT {\"verbose\":"} {
		for range each {
			conn, err := net.Dial("tcp", hostOf(started))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			if _, err := io.WriteString(conn, says); err != nil {
				t.Fatal(err)
			}
			strangers = append(strangers, conn)
		}
	}
	if _, err := protocol.Join(within(t), token, "a", nil); err != nil {
		t.Errorf("nobody can join beside them: %v", err)
	}
	for _, conn := range strangers {
		if err := conn.SetReadDeadline(time.Now().Add(2 * patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); os.IsTimeout(err) {
			t.Fatal("a stranger is still connected")
		}
	}
}

// A relay passes on what a hub and its agents send, and can change it.
type relay struct {
	address string
	spoils  atomic.Bool // the next bytes to the agent have one wrong bit
	spoilt  atomic.Int32
}

func startRelay(t *testing.T, to string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	r := &relay{address: listener.Addr().String()}
	go func() { // ends with the listener
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				_ = near.Close()
				continue
			}
			go func() { _, _ = io.Copy(far, near); _ = far.Close() }() // each ends with either connection
			go func() { _, _ = io.Copy(&spoiler{r, near}, far); _ = near.Close() }()
		}
	}()
	return r
}

type spoiler struct {
	relay *relay
	to    io.Writer
}

func (s *spoiler) Write(p []byte) (int, error) {
	if len(p) > 0 && s.relay.spoils.CompareAndSwap(true, false) {
		p = bytes.Clone(p)
		p[len(p)-1] ^= 1
		s.relay.spoilt.Add(1)
	}
	return s.to.Write(p)
}

// Whoever relays an agent's connection can cut it, and nothing else.
func TestAManInTheMiddle(t *testing.T) {
	started := startHub(t, hub.HubOptions{Advertise: []string{"127.0.0.1"}})
	middle := startRelay(t, hostOf(started))
	credentials := must(started.Agent(t.Context(), "c"))
	credentials.URLs = []string{"tls://" + middle.address}
	agent, _ := runAgentBy(t, credentials, "c", "role=client")
	runAgent(t, started, "s", "role=server")
	on := control(t, started, "role=server", "role=client")
	middle.spoils.Store(true)
	for until := time.Now().Add(patience); !strings.Contains(agent.String(), "connected to the hub again"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the agent did not connect again; %d spoilt messages:\n%s", middle.spoilt.Load(), agent)
		}
	}
	if text := agent.String(); strings.Contains(text, "order was refused") || !strings.Contains(text, "tls: ") {
		t.Errorf("a message that was changed was read:\n%s", text)
	}
	for _, r := range measure(t, scene(t, "tcp", 4, scenario.Load{Model: scenario.Closed, Requests: 100}), on) {
		if r.Failure != "" || r.Requests != 400 {
			t.Errorf("%d requests, %s", r.Requests, r.Failure)
		}
	}
}

// A hub takes no other server for a part of it, whatever credentials the server has.
func TestAHubTakesNoLeafNode(t *testing.T) {
	started := startHub(t, hub.HubOptions{})
	c := must(started.Agent(t.Context(), "a"))
	file := filepath.Join(t.TempDir(), "creds")
	if err := os.WriteFile(file, must(jwt.FormatUserConfig(c.JWT, c.Seed)), 0o600); err != nil {
		t.Fatal(err)
	}
	said := &log{}
	leaf := must(server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, NoSigs: true,
		LeafNode: server.LeafNodeOpts{Remotes: []*server.RemoteLeafOpts{{URLs: []*url.URL{{Scheme: "nats-leaf", Host: hostOf(started)}}, Credentials: file}}},
	}))
	leaf.SetLoggerV2(&leafLog{said}, false, false, false)
	leaf.Start()
	defer func() { leaf.Shutdown(); leaf.WaitForShutdown() }()
	for until := time.Now().Add(patience); !strings.Contains(said.String(), "closed: Incorrect Port"); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("the server does not say that it was refused:\n%s", said)
		}
	}
}

type leafLog struct{ to io.Writer }

func (l *leafLog) print(format string, v ...any) { fmt.Fprintf(l.to, format+"\n", v...) }

func (l *leafLog) Noticef(format string, v ...any) { l.print(format, v...) }
func (l *leafLog) Warnf(format string, v ...any)   { l.print(format, v...) }
func (l *leafLog) Fatalf(format string, v ...any)  { l.print(format, v...) }
func (l *leafLog) Errorf(format string, v ...any)  { l.print(format, v...) }
func (l *leafLog) Debugf(format string, v ...any)  { l.print(format, v...) }
func (l *leafLog) Tracef(format string, v ...any)  { l.print(format, v...) }

// A leased agent that floods is given up. Other agents measure meanwhile.
func TestAFlooderIsGivenUp(t *testing.T) {
	if testing.Short() {
		t.Skip("floods a hub for seconds")
	}
	started := startHub(t, hub.HubOptions{})
	credentials := must(started.Agent(t.Context(), "c2"))
	runAgent(t, started, "s", "role=server")
	runAgent(t, started, "c1", "role=client,zone=a")
	runAgentBy(t, credentials, "c2", "role=client,zone=b")
	waitForCards(t, must(started.Controller()), 3)
	both, said := controlReporting(t, must(started.Controller()), "role=server", "role=client*2")
	ctx, stop := context.WithCancel(t.Context())
	flooding := make(chan struct{})
	go func() { // ends with ctx
		defer close(flooding)
		conn, _ := connect(t, credentials)
		huge := make([]byte, protocol.MaxAgentMessage)
		for ctx.Err() == nil {
			for _, subject := range []string{credentials.KeptSubject("c2"), credentials.LiveSubject("c2", "r", "w"), credentials.AnswerSubject("c2", "x")} {
				_ = conn.Publish(subject, huge)
			}
			_ = conn.FlushTimeout(time.Second)
		}
	}()
	said.wait(t, "an agent was lost: the agent c2 floods the fleet")
	both.Close()
	one := control(t, started, "role=server", "zone=a")
	for _, r := range measure(t, scene(t, "tcp", 4, scenario.Load{Model: scenario.Closed, Requests: 100}), one) {
		if r.Failure != "" || r.Requests != 400 {
			t.Errorf("beside the flood: %d requests, %s", r.Requests, r.Failure)
		}
	}
	stop()
	<-flooding
}
