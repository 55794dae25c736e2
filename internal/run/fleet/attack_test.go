package fleet_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"wirelab.dev/internal/run/fleet"
	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/run/worker"
)

// everySubject returns all subjects that a fleet uses, of this agent and of another, and what an
// attacker may try besides.
func everySubject(own string) (all []string) {
	for _, name := range []string{own, "other"} {
		for _, role := range []string{protocol.RoleJoin, protocol.RoleAgent, protocol.RoleController, protocol.RolePrepare} {
			may := protocol.PermissionsOf("mine", role, name)
			all = append(append(all, may.Publish...), may.Subscribe...)
		}
	}
	for _, s := range []string{"card", "kept", "samples", "members"} {
		for _, stream := range []string{"wl_mine_" + s, "KV_wl_mine_" + s, "OBJ_wl_mine_" + s} {
			for _, verb := range []string{"DELETE", "PURGE", "UPDATE", "INFO", "MSG.GET", "MSG.DELETE", "SNAPSHOT", "RESTORE", "PEER.REMOVE", "LEADER.STEPDOWN"} {
				all = append(all, "$JS.API.STREAM."+verb+"."+stream)
			}
			all = append(all, "$JS.API.CONSUMER.CREATE."+stream+".x", "$JS.API.CONSUMER.DURABLE.CREATE."+stream+".x", "$JS.API.CONSUMER.LIST."+stream, "$JS.API.DIRECT.GET."+stream)
		}
	}
	all = append(all, "$JS.API.STREAM.CREATE.mine", "$JS.API.STREAM.NAMES", "$JS.API.ACCOUNT.PURGE.x", "$JS.API.META.LEADER.STEPDOWN", "$SYS.REQ.SERVER.PING",
		"$KV.wl_mine_members.member."+own, "$KV.wl_mine_card."+own, "$O.wl_mine_samples.M.x", "wl.another.from."+own+".card", "anything", "_INBOX.x", ">", "wl.>", "*")
	for i, subject := range all {
		all[i] = strings.ReplaceAll(subject, ".>", ".x.y") // a wildcard is no subject to publish on
		all[i] = strings.ReplaceAll(all[i], ".*", ".z")
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func isAllowed(patterns []string, subject string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		want, got := strings.Split(pattern, "."), strings.Split(subject, ".")
		for i, token := range want {
			switch {
			case token == ">":
				return len(got) > i
			case i >= len(got), token != "*" && token != got[i]:
				return false
			}
		}
		return len(want) == len(got)
	})
}

// expectOnly tries every subject with somebody's credentials: what is accepted equals the table of
// permissions.
func expectOnly(t *testing.T, c *protocol.Credentials) {
	t.Helper()
	may := protocol.PermissionsOf("mine", c.Role, c.Name)
	conn, _ := connect(t, c)
	accepted := 0
	for _, subject := range everySubject(c.Name) {
		for what, try := range map[string]func() error{
			"publish":   func() error { return conn.Publish(subject, nil) },
			"subscribe": func() error { _, err := conn.SubscribeSync(subject); return err },
		} {
			before := conn.LastError()
			if err := try(); err != nil {
				if what == "publish" && strings.ContainsAny(subject, "*>") {
					continue // the library refuses it
				}
				t.Fatal(err)
			}
			if err := conn.FlushWithContext(within(t)); err != nil {
				t.Fatal(err)
			}
			refused := conn.LastError() != nil && !errors.Is(conn.LastError(), before)
			allowed := isAllowed(map[string][]string{"publish": may.Publish, "subscribe": may.Subscribe}[what], subject)
			if refused == allowed {
				t.Errorf("%s may %s %s: %v; the table says %v", c.Role, what, subject, !refused, allowed)
			}
			if !refused {
				accepted++
			}
		}
	}
	if accepted == 0 {
		t.Error("nothing was accepted: the test tries the wrong subjects")
	}
}

// Whoever has credentials can do what the table says, and nothing else: on wirelab's own hub, and on
// a NATS server with users that have the printed permissions.
func TestEverySubjectIsTried(t *testing.T) {
	started := startHub(t, hub.HubOptions{})
	of := map[string]*protocol.Credentials{
		protocol.RoleAgent: must(started.Agent(t.Context(), "a")), protocol.RoleController: must(started.Controller()),
		protocol.RoleJoin: must(started.MakeToken(t.Context(), protocol.TokenRequest{Role: protocol.RoleJoin})),
	}
	foreign, url := plainServer(t, of)
	for role, c := range of {
		t.Run("hub/"+role, func(t *testing.T) { expectOnly(t, c) })
		t.Run("plain/"+role, func(t *testing.T) {
			own := *c
			own.URLs, own.JWT, own.Seed = []string{url}, "", foreign[role]
			expectOnly(t, &own)
		})
	}
}

// plainServer starts a NATS server with a user for each of these credentials.
func plainServer(t *testing.T, of map[string]*protocol.Credentials) (seeds map[string][]byte, url string) {
	t.Helper()
	may := map[string]protocol.Permissions{}
	for role, c := range of {
		may[role] = protocol.PermissionsOf("mine", c.Role, c.Name)
	}
	return serverWith(t, may)
}

// serverWith starts a NATS server whose users have these permissions, as wirelab prints them. It
// returns the users' seeds.
func serverWith(t *testing.T, of map[string]protocol.Permissions) (seeds map[string][]byte, url string) {
	t.Helper()
	seeds = map[string][]byte{}
	var text strings.Builder
	text.WriteString("host: 127.0.0.1, port: -1, jetstream: { store_dir: \"" + t.TempDir() + "\", max_mem: 1G, max_file: 20G }\nauthorization: { users: [\n")
	for name, may := range of {
		pair := must(nkeys.CreateUser())
		seeds[name] = must(pair.Seed())
		text.WriteString("{ nkey: " + must(pair.PublicKey()) + "\n")
		if err := fleet.PrintPermissions(&text, may); err != nil {
			t.Fatal(err)
		}
		text.WriteString("}\n")
	}
	text.WriteString("] }\n")
	path := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	config := must(server.ProcessConfigFile(path))
	config.NoSigs = true
	s := must(server.NewServer(config))
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the NATS server does not listen")
	}
	return seeds, s.ClientURL()
}

// A fleet runs on a NATS server of the user's own, where each agent has only the printed permissions.
func TestANATSOfTheUsersOwn(t *testing.T) {
	of := map[string]protocol.Permissions{}
	for _, name := range []string{"s", "c"} {
		of[name] = protocol.PermissionsOf("mine", protocol.RoleAgent, name)
	}
	gives, prepares := protocol.PermissionsOf("mine", protocol.RoleController, hub.LocalController), protocol.PermissionsOf("mine", protocol.RolePrepare, hub.LocalController)
	of["boss"] = protocol.Permissions{Publish: append(gives.Publish, prepares.Publish...), Subscribe: append(gives.Subscribe, prepares.Subscribe...)}
	of["weak"] = gives
	seeds, url := serverWith(t, of)
	files := map[string]string{}
	for name, seed := range seeds {
		files[name] = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(files[name], seed, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	wanted := hub.UserNATS{
		Project: "mine", URLs: []string{url}, CredsFile: files["weak"], StateDir: t.TempDir(),
		AgentCreds: map[string]string{"s": files["s"], "c": files["c"]}, Serve: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	}
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := hub.PrepareUserNATS(short, wanted); err == nil || !strings.Contains(err.Error(), "`wirelab fleet permissions` prints what each role needs") {
		t.Errorf("prepared without the permission: %v", err)
	}
	wanted.CredsFile = files["boss"]
	if err := hub.PrepareUserNATS(within(t), wanted); err != nil {
		t.Fatal(err)
	}
	read := func(name string) *protocol.Credentials {
		return must(protocol.ReadTokenFile(hub.TokenFile(wanted.StateDir, name)))
	}
	runAgentBy(t, read("s"), "s", "role=server")
	runAgentBy(t, read("c"), "c", "role=client")
	boss := read(protocol.RoleController)
	waitForCards(t, boss, 2)
	on := controlBy(t, boss, "role=server", "role=client")
	client := beginTrial(t, on, worker.ClientSpec{IntervalNS: int64(100 * time.Millisecond)}, func(worker.Interval) {})
	client.Kill()

	boss.Serve = nil
	server, clients := must(protocol.ParseSelector("role=server")), must(protocol.ParseSelector("role=client"))
	blind, err := fleet.NewController(within(t), boss, fleet.Plan{Server: &server, Client: clients, Worker: must(os.Executable())})
	if err != nil {
		t.Fatal(err)
	}
	defer blind.Close()
	on.Close() // releases the agents
	if err := blind.TakeFirst(within(t)); err == nil || !strings.Contains(err.Error(), "with --serve and the range of the agents' addresses") {
		t.Errorf("an address that nobody vouches for: %v", err)
	}
}

// A token admits as many agents as it says. A lost answer is no use of it, and a name is one agent's.
func TestATokenAdmitsOnce(t *testing.T) {
	log := &lockedBuffer{}
	started := startHub(t, hub.HubOptions{Log: log})
	once := must(started.MakeToken(t.Context(), protocol.TokenRequest{Role: protocol.RoleJoin, Agents: 1}))
	own, err := protocol.Join(within(t), once, "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	expectOnly(t, own)
	for name, want := range map[string]string{"b": "has admitted a already", "a": "the fleet has a member with this name"} {
		if _, err := protocol.Join(within(t), once, name, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("again, as %s: %v; want %q", name, err, want)
		}
	}
	twice := must(started.MakeToken(t.Context(), protocol.TokenRequest{Role: protocol.RoleJoin, Agents: 2}))
	if _, err := protocol.Join(within(t), twice, "a", nil); err == nil {
		t.Error("a name was given twice")
	}
	for _, name := range []string{"b", "c"} { // the refusal was no use
		if _, err := protocol.Join(within(t), twice, name, nil); err != nil {
			t.Error(err)
		}
	}
	late := must(started.MakeToken(t.Context(), protocol.TokenRequest{Role: protocol.RoleJoin, ValidFor: -time.Hour}))
	if _, err := protocol.Join(within(t), late, "d", nil); err == nil {
		t.Error("a token that has expired admits")
	}
	// Another's token in the request, over one's own connection.
	conn, _ := connect(t, once)
	pair := must(nkeys.CreateUser())
	request := protocol.JoinRequest{Token: twice.JWT, Name: "e", Key: must(pair.PublicKey())}
	request.Signature = must(pair.Sign(request.Signed()))
	if _, err := protocol.AskGate(within(t), conn, once.GateSubject(protocol.JoinQuestion, once.Name), request); err == nil || !strings.Contains(err.Error(), "not that of this connection") {
		t.Errorf("another's token: %v", err)
	}
	request.Token, request.Name = once.JWT, "f" // the signature is of another request
	if _, err := protocol.AskGate(within(t), conn, once.GateSubject(protocol.JoinQuestion, once.Name), request); err == nil || !strings.Contains(err.Error(), "does not prove") {
		t.Errorf("a key that the sender does not have: %v", err)
	}
	if !strings.Contains(log.String(), "refused a question to the gate") {
		t.Errorf("the log does not tell of it:\n%s", log)
	}
}

// Who is shut out is out at once, and stays out when the hub starts again.
func TestRevoke(t *testing.T) {
	dir := t.TempDir()
	started, err := hub.StartHub(within(t), hub.HubOptions{Project: "mine", Listen: "127.0.0.1:0", StateDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	controller := must(started.Controller())
	out := map[string]*protocol.Credentials{
		"a":     must(protocol.Join(within(t), must(started.MakeToken(t.Context(), protocol.TokenRequest{Role: protocol.RoleJoin, Agents: 1})), "a", nil)),
		"alice": must(started.MakeToken(t.Context(), protocol.TokenRequest{Role: protocol.RoleController, Name: "alice"})),
	}
	for name, c := range out {
		conn, _ := connect(t, c)
		if c.Role == protocol.RoleAgent {
			putCard(t, conn, c.CardSubject(name), protocol.Card{Name: name})
		}
		closed := make(chan struct{})
		conn.SetClosedHandler(func(*nats.Conn) { close(closed) })
		if err := fleet.Revoke(within(t), controller, name); err != nil {
			t.Fatal(err)
		}
		select {
		case <-closed:
		case <-time.After(patience):
			t.Errorf("%s is still connected", name)
		}
		refused(t, c, "its owner was shut out")
	}
	expectCards(t, started)
	if err := fleet.Revoke(within(t), out["alice"], "a"); err == nil {
		t.Error("a former controller was heard")
	}
	if err := started.Close(); err != nil {
		t.Fatal(err)
	}
	again := startHub(t, hub.HubOptions{StateDir: dir})
	for _, c := range out {
		c.URLs = again.URLs()
		refused(t, c, "its owner was shut out")
	}
	// The name is free again.
	token := must(again.MakeToken(t.Context(), protocol.TokenRequest{Role: protocol.RoleJoin, Agents: 1}))
	connect(t, must(protocol.Join(within(t), token, "a", nil)))
}

// An agent that was shut out, and is started again with the token that it has used, says both.
func TestAShutOutAgentSaysSo(t *testing.T) {
	started := startHub(t, hub.HubOptions{})
	token := must(started.MakeToken(t.Context(), protocol.TokenRequest{Role: protocol.RoleJoin, Agents: 1}))
	options := fleet.AgentOptions{
		Name: "a", Programs: []fleet.Program{{Name: "wirelab", Command: []string{must(os.Executable()), "worker"}}},
		Listen: netip.MustParseAddr("127.0.0.1"), Spool: t.TempDir(), Identities: t.TempDir(), Log: &lockedBuffer{}, Version: "test",
	}
	ended := make(chan error, 1)
	go func() { ended <- fleet.RunAgent(context.WithoutCancel(t.Context()), token, options) }() // ends when it is shut out
	waitForCards(t, must(started.Controller()), 1)
	if err := fleet.Revoke(within(t), must(started.Controller()), "a"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "the hub has shut this agent out") {
		t.Errorf("the running agent ended with %v", err)
	}
	err := fleet.RunAgent(within(t), token, options)
	for _, want := range []string{"the hub has shut this agent out", "join again with a new token", "with this token the agent was not admitted", "admits no more"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("started again, it says %v: want in it %q", err, want)
		}
	}
}

// A list of agents waits until the hub's JetStream answers, as it does not while a new cluster has no
// leader; and says so if it waits in vain.
func TestTheListWaitsForTheHub(t *testing.T) {
	s := must(server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true}))
	s.Start()
	t.Cleanup(s.Shutdown)
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server does not begin")
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	v := protocol.HubView{Conn: conn, Credentials: &protocol.Credentials{Project: "mine"}}
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := v.Refresh(short); err == nil || !strings.Contains(err.Error(), "they have not agreed on a leader yet: try again") {
		t.Errorf("without an answer: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- v.Refresh(t.Context()) }() // ends when it is answered
	if err := s.EnableJetStream(&server.JetStreamConfig{StoreDir: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "prepare it with `wirelab fleet up --nats URL`") {
		t.Errorf("with an answer: %v", err) // the answer is that there is no stream
	}
}

// Two processes with the same credentials cannot both be the agent: the later one ends.
func TestAnAgentIsOneProcess(t *testing.T) {
	started := startHub(t, hub.HubOptions{})
	c := must(started.Agent(t.Context(), "a"))
	runAgentBy(t, c, "a", "role=client")
	waitForCards(t, must(started.Controller()), 1)
	err := fleet.RunAgent(within(t), c, fleet.AgentOptions{
		Name: "a", Programs: []fleet.Program{{Name: "wirelab", Command: []string{must(os.Executable()), "worker"}}},
		Listen: netip.MustParseAddr("127.0.0.1"), Spool: t.TempDir(), Log: &lockedBuffer{}, Version: "test",
	})
	if err == nil || !strings.Contains(err.Error(), "another agent has this name: a, on ") {
		t.Errorf("the second process: %v", err)
	}
	waitForCards(t, must(started.Controller()), 1)
}

// An agent's servers listen where the hub sees the agent, whatever its card says.
func TestAnAgentCannotPointClientsElsewhere(t *testing.T) {
	started := startHub(t, hub.HubOptions{})
	credentials := must(started.Agent(t.Context(), "liar"))
	conn, _ := connect(t, credentials)
	program := must(os.Executable())
	card := protocol.Card{
		Name: "liar", Labels: map[string]string{"role": "server"}, Session: "s", Address: "192.0.2.7",
		Programs: map[string]string{"wirelab": must(fleet.FileHash(program))},
	}
	putCard(t, conn, credentials.CardSubject("liar"), card)
	if _, err := conn.Subscribe(credentials.OrderSubject("liar"), func(m *nats.Msg) { _ = m.Respond([]byte("{}")) }); err != nil {
		t.Fatal(err)
	}
	runAgent(t, started, "c", "role=client")
	waitForCards(t, must(started.Controller()), 2)
	server, client := must(protocol.ParseSelector("role=server")), must(protocol.ParseSelector("role=client"))
	c, err := fleet.NewController(within(t), must(started.Controller()), fleet.Plan{Server: &server, Client: client, Worker: program})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := c.TakeFirst(ctx); err == nil || !strings.Contains(err.Error(), "wants its servers to listen on 192.0.2.7, but the hub sees it at") {
		t.Errorf("the liar was taken: %v", err)
	}
}

// An agent that floods the hub pushes out its own messages, and a trial of others goes on.
func TestAFloodIsTheFloodersOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("floods a hub for seconds")
	}
	started := startHub(t, hub.HubOptions{})
	credentials := must(started.Agent(t.Context(), "flood"))
	conn, _ := connect(t, credentials)
	huge := make([]byte, 512<<10)
	ctx, stop := context.WithCancel(t.Context())
	flooding := make(chan struct{})
	go func() { // ends with ctx
		defer close(flooding)
		for ctx.Err() == nil {
			for _, subject := range []string{credentials.KeptSubject("flood"), credentials.SampleSubject("flood"), credentials.LiveSubject("flood", "r", "w"), credentials.CardSubject("flood")} {
				_ = conn.Publish(subject, huge)
			}
			_ = conn.FlushTimeout(time.Second)
		}
	}()
	runAgent(t, started, "s", "role=server")
	runAgent(t, started, "c", "role=client")
	on := control(t, started, "role=server", "role=client")
	client := beginTrial(t, on, worker.ClientSpec{IntervalNS: int64(100 * time.Millisecond)}, func(worker.Interval) {})
	time.Sleep(2 * time.Second) // of flood and calls
	client.Kill()
	stop()
	<-flooding
	controller, _ := connect(t, must(started.Controller()))
	kept := must(open(t, controller).Stream(within(t), protocol.CardStream("mine")))
	if n := kept.CachedInfo().State.Msgs; n > 3 || n == 0 {
		t.Errorf("the list has %d cards, want those of the flooder and the others", n)
	}
}

// The gate answers only in the asker's inbox: it may publish anywhere, and the asker names the subject.
func TestTheGateAnswersOnlyTheAsker(t *testing.T) {
	started := startHub(t, hub.HubOptions{})
	agent := must(started.Agent(t.Context(), "a"))
	conn, _ := connect(t, agent)
	putCard(t, conn, agent.CardSubject("a"), protocol.Card{Name: "a"})
	awaitCard(t, must(started.Controller()))
	token := must(started.MakeToken(t.Context(), protocol.TokenRequest{Role: protocol.RoleJoin}))
	joiner, _ := connect(t, token)
	stream := protocol.CardStream("mine")
	for _, target := range []string{"$JS.API.STREAM.PURGE." + stream, "$JS.API.STREAM.DELETE." + stream, agent.CardSubject("b")} {
		if err := joiner.PublishRequest(token.GateSubject(protocol.JoinQuestion, token.Name), target, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := joiner.FlushWithContext(within(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := protocol.Join(within(t), token, "b", nil); err != nil { // answered after the others
		t.Fatal(err)
	}
	controller, _ := connect(t, must(started.Controller()))
	if n := must(open(t, controller).Stream(within(t), stream)).CachedInfo().State.Msgs; n != 1 {
		t.Errorf("the list has %d cards, want 1", n)
	}
}

// The gate names the addresses of an agent, and takes further ones only from its token.
func TestMayServe(t *testing.T) {
	a := protocol.GateAnswer{Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.5")}, Serve: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24")}}
	for text, want := range map[string]bool{"10.0.0.5": true, "::ffff:10.0.0.5": true, "10.0.0.6": false, "10.1.0.9": true, "10.1.1.9": false, "127.0.0.1": false} {
		if got := a.MayServe(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// An agent cannot use the reply subject of its own messages to reach what is not its own.
func TestRepliesAreNoWayAround(t *testing.T) {
	started := startHub(t, hub.HubOptions{})
	attacker, victim := must(started.Agent(t.Context(), "a")), must(started.Agent(t.Context(), "b"))
	other, _ := connect(t, victim)
	ctx := within(t)
	putCard(t, other, victim.CardSubject("b"), protocol.Card{Name: "b"})
	orders, err := other.SubscribeSync(victim.OrderSubject("b"))
	if err != nil {
		t.Fatal(err)
	}
	controller, _ := connect(t, must(started.Controller()))
	told, err := controller.SubscribeSync("wl.mine.from.b.>")
	if err != nil {
		t.Fatal(err)
	}
	inboxes, err := controller.SubscribeSync("wl.mine.inbox.controller.local.x")
	if err != nil {
		t.Fatal(err)
	}
	if err := controller.FlushWithContext(ctx); err != nil {
		t.Fatal(err)
	}
	conn, _ := connect(t, attacker)
	inbox, err := conn.SubscribeSync("wl.mine.to.a.*")
	if err != nil {
		t.Fatal(err)
	}
	targets := []string{
		victim.OrderSubject("b"), victim.GotSubject("b"), victim.CardSubject("b"), victim.KeptSubject("b"), victim.SampleSubject("b"),
		victim.AnswerSubject("b", "x"), "wl.mine.gate.revoke", "wl.mine.gate.token", "wl.mine.inbox.controller.local.x",
	}
	for _, verb := range []string{"STREAM.DELETE", "STREAM.PURGE", "STREAM.UPDATE", "STREAM.MSG.DELETE", "CONSUMER.CREATE"} {
		targets = append(targets, "$JS.API."+verb+"."+protocol.CardStream("mine"), "$JS.API."+verb+".KV_wl_mine_members")
	}
	for _, target := range targets {
		for _, by := range protocol.PermissionsOf("mine", protocol.RoleAgent, "a").Publish {
			by = strings.ReplaceAll(by, "*", "x")
			if err := conn.PublishRequest(by, target, []byte(`{"name":"b"}`)); err != nil {
				t.Fatal(err)
			}
			if err := conn.FlushWithContext(ctx); err != nil {
				t.Fatal(err)
			}
			if err := conn.Publish(target, []byte(`{"name":"b"}`)); err != nil {
				t.Fatal(err)
			}
		}
	}
	// A join token is answered by the hub itself, which may do everything: but not where the asker says.
	token := must(started.MakeToken(t.Context(), protocol.TokenRequest{Role: protocol.RoleJoin}))
	joiner, _ := connect(t, token)
	for _, target := range targets {
		if err := joiner.PublishRequest(token.GateSubject(protocol.JoinQuestion, token.Name), target, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []*nats.Conn{conn, joiner, other, controller} {
		if err := c.FlushWithContext(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := fleet.Revoke(ctx, must(started.Controller()), "nobody"); err == nil || !strings.Contains(err.Error(), "no member") { // the gate has answered all before
		t.Errorf("the gate: %v", err)
	}
	for name, heard := range map[string]*nats.Subscription{"orders": orders, "messages of the other agent": told, "answers to the controller": inboxes, "what it may hear": inbox} {
		if m, err := heard.NextMsg(time.Millisecond); err == nil && name != "what it may hear" {
			t.Errorf("%s: %s got %q", name, m.Subject, m.Data)
		}
	}
	expectCards(t, started, "b")
}
