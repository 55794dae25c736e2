package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"wirelab.dev/internal/run/fleet/protocol"
)

// DefaultListen is the usual address of a hub.
const DefaultListen = "127.0.0.1:4222"

// HubOptions configures a hub.
type HubOptions struct {
	Project   string
	Listen    string   // HOST:PORT, port 0 for any; none: DefaultListen
	Advertise []string // names and addresses for agents to use, besides those that the hub finds itself
	StateDir  string   // for keys and JetStream's files
	KeysFile  string   // none: in StateDir; hubs of a cluster have the same keys
	Cluster   *ClusterOptions
	// NoTLS leaves out TLS beyond loopback. Orders are still signed, but anybody on the way
	// can read results and forge others.
	NoTLS   bool
	Log     io.Writer // warnings and errors, such as strangers that were refused
	Version string    // of wirelab, for readers of the state
}

// ClusterOptions makes a hub one of three with the same keys. One of the three may be lost.
type ClusterOptions struct {
	Name   string   // the hub's own: no other hub has it, and it stays when the hub is started again
	Listen string   // where it receives the other hubs: HOST:PORT, port 0 for any
	Routes []string // where hubs of the cluster listen for hubs: at least one HOST:PORT, also its own
}

// clusterSize is the number of hubs in a cluster, and of copies of messages that must not be lost.
const clusterSize = 3

// A Hub is a nats-server in this process, prepared for a fleet. Close must be called.
type Hub struct {
	options HubOptions
	server  *server.Server
	keys    *keys
	tls     encryption
	state   *heldState
	urls    []string
}

// StartHub starts a hub and returns when agents can connect. A hub of a cluster works only after
// Join. The context bounds the start.
func StartHub(ctx context.Context, o HubOptions) (*Hub, error) {
	o.Listen = cmp.Or(o.Listen, DefaultListen)
	if err := protocol.CheckProject(o.Project); err != nil {
		return nil, err
	}
	state, err := holdState(o.StateDir)
	if err != nil {
		return nil, err
	}
	h := &Hub{options: o, state: state}
	if err := h.start(ctx); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (h *Hub) start(ctx context.Context) error {
	var err error
	if h.keys, err = openKeys(cmp.Or(h.options.KeysFile, filepath.Join(h.options.StateDir, keysFile)), h.options.Project); err != nil {
		return err
	}
	config, err := h.serverOptions()
	if err != nil {
		return err
	}
	if h.server, err = server.NewServer(config); err != nil {
		return fmt.Errorf("nats-server: %w", err)
	}
	log := &serverLog{to: h.options.Log}
	h.server.SetLoggerV2(log, false, false, false)
	h.server.Start()
	if err := log.fatal(); err != nil {
		return h.explain(err)
	}
	if !h.server.ReadyForConnections(protocol.ConnectWithin) {
		return fmt.Errorf("nats-server did not listen at %s within %v", h.options.Listen, protocol.ConnectWithin)
	}
	h.urls = h.findURLs()
	if h.options.Cluster == nil {
		if err := h.prepare(ctx, 1); err != nil {
			return err
		}
	}
	return h.state.write(h)
}

// Join waits until enough hubs of the cluster are connected, and prepares them for a fleet.
func (h *Hub) Join(ctx context.Context) error {
	if h.options.Cluster == nil {
		return nil
	}
	const pause, longest = 200 * time.Millisecond, 4 * time.Second
	// A request before the cluster has a leader is never answered.
	for attempt := time.Second; ; attempt = min(2*attempt, longest) {
		once, cancel := context.WithTimeout(ctx, attempt)
		err := h.prepare(once, clusterSize)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the cluster: %w", err)
		case <-time.After(pause):
		}
	}
}

// prepare uses a connection of its own, which needs no port.
func (h *Hub) prepare(ctx context.Context, replicas int) error {
	options, err := h.Credentials(protocol.RoleController).Options("hub", nil)
	if err != nil {
		return err
	}
	conn, err := nats.Connect("", append(options, nats.InProcessServer(h.server))...)
	if err != nil {
		return fmt.Errorf("connect to the own hub: %w", err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return fmt.Errorf("connect to the own hub: %w", err)
	}
	return Prepare(ctx, js, h.options.Project, replicas)
}

// Credentials returns the credentials of a role, which can be passed on as a token.
func (h *Hub) Credentials(role string) *protocol.Credentials {
	return h.keys.credentials(role, h.urls, h.tls)
}

// URLs returns the addresses of the hub, the best first.
func (h *Hub) URLs() []string { return h.urls }

// TLS reports whether connections are encrypted.
func (h *Hub) TLS() bool { return bool(h.tls) }

// ClusterAddress returns the HOST:PORT at which other hubs of the cluster reach this one.
func (h *Hub) ClusterAddress() string {
	if at := h.server.ClusterAddr(); at != nil {
		return at.String()
	}
	return ""
}

// Close ends the hub and waits for it. Its files stay.
func (h *Hub) Close() error {
	if h.server != nil {
		h.server.Shutdown()
		h.server.WaitForShutdown()
	}
	return h.state.release()
}

// findURLs returns the hub's URLs. A hub on all addresses uses the address of the default route:
// with a list of all, agents elsewhere would try the bridges of this machine's containers.
func (h *Hub) findURLs() []string {
	scheme := "nats://"
	if h.tls {
		scheme = "tls://"
	}
	host, _, _ := net.SplitHostPort(h.options.Listen)
	hosts := h.options.Advertise
	if len(hosts) == 0 {
		hosts = reached(host, nil)[:1]
	}
	_, port, _ := net.SplitHostPort(h.server.Addr().String())
	var urls []string
	for _, host := range hosts {
		urls = append(urls, scheme+net.JoinHostPort(host, port))
	}
	return urls
}

func (h *Hub) serverOptions() (*server.Options, error) {
	host, port, err := splitListen("--listen", h.options.Listen)
	if err != nil {
		return nil, err
	}
	const slowClient = 10 // seconds, which a busy machine may need for a handshake
	config := &server.Options{
		ServerName: "wirelab-" + h.options.Project, Host: host, Port: port,
		NoSigs: true, DisableJetStreamBanner: true,
		JetStream: true, StoreDir: filepath.Join(h.options.StateDir, "jetstream"),
		JetStreamMaxStore: storeBytes, JetStreamMaxMemory: memoryBytes,
		MaxPayload: mostPayloadBytes, Nkeys: h.keys.users(),
		AuthTimeout: slowClient, TLSTimeout: slowClient,
		PingInterval: protocol.PingEvery, MaxPingsOut: protocol.PingsWithout,
	}
	h.tls = encryption(!h.options.NoTLS && (!isLoopback(host) || len(h.options.Advertise) > 0))
	if h.tls {
		if err := h.encrypt(config, host); err != nil {
			return nil, err
		}
	}
	if h.options.Cluster == nil {
		return config, nil
	}
	return config, h.join(config)
}

func (h *Hub) encrypt(config *server.Options, host string) error {
	root, err := readAuthority([]byte(h.keys.Root), []byte(h.keys.RootKey))
	if err != nil {
		return fmt.Errorf("the fleet's keys: %w", err)
	}
	config.TLSConfig, err = root.issue(reached(host, h.options.Advertise))
	config.TLS = true
	return err
}

// join sets the options of a hub in a cluster.
func (h *Hub) join(config *server.Options) error {
	cluster := h.options.Cluster
	if err := protocol.CheckName(cluster.Name); err != nil {
		return fmt.Errorf("the hub in the cluster: %w", err)
	}
	host, port, err := splitListen("--cluster", cluster.Listen)
	if err != nil {
		return err
	}
	config.ServerName = cluster.Name
	config.Cluster = server.ClusterOpts{
		Name: h.options.Project, Host: host, Port: port, Username: "hub", Password: h.keys.Cluster,
	}
	if h.tls {
		config.Cluster.TLSConfig = config.TLSConfig.Clone()
		config.Cluster.TLSTimeout = config.TLSTimeout
	} else if !isLoopback(host) && !h.options.NoTLS {
		return fmt.Errorf("--cluster %s is beyond loopback, and --listen %s is not: use addresses beyond loopback for both, so that TLS is on", cluster.Listen, h.options.Listen)
	}
	if len(cluster.Routes) == 0 {
		return errors.New("a hub of a cluster needs a --route to another: the HOST:PORT at which it listens for hubs")
	}
	for _, at := range cluster.Routes {
		if _, _, err := net.SplitHostPort(at); err != nil {
			return fmt.Errorf("--route %q: want HOST:PORT", at)
		}
		config.Routes = append(config.Routes, &url.URL{
			Scheme: "nats-route", User: url.UserPassword(config.Cluster.Username, config.Cluster.Password), Host: at,
		})
	}
	return nil
}

// explain adds what to do to an error of nats-server.
func (h *Hub) explain(err error) error {
	if strings.Contains(err.Error(), "address already in use") {
		return fmt.Errorf("%s is taken, by another hub or another program: give another address by --listen, or end the hub by wirelab fleet down (%w)", h.options.Listen, err)
	}
	return fmt.Errorf("nats-server: %w", err)
}

// splitListen reads HOST:PORT of a flag. For nats-server any port is -1.
func splitListen(flag, text string) (host string, port int, err error) {
	host, portText, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, fmt.Errorf("%s %q: want HOST:PORT, as in %s or 0.0.0.0:4222", flag, text, DefaultListen)
	}
	number, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("%s %q: want a port from 0 to 65535", flag, text)
	}
	if number == 0 {
		return host, server.RANDOM_PORT, nil
	}
	return cmp.Or(host, "0.0.0.0"), int(number), nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Messages returns the number of messages that agents have sent and received until now. A test
// bounds their traffic with it.
func (h *Hub) Messages() int64 {
	connections, err := h.server.Connz(&server.ConnzOptions{Limit: 1 << 16})
	if err != nil {
		panic(err) // the options are wrong: our own mistake
	}
	n := int64(0)
	for _, c := range connections.Conns {
		if !strings.HasSuffix(c.Name, "controller") && !strings.HasSuffix(c.Name, "visit") {
			n += c.InMsgs + c.OutMsgs
		}
	}
	return n
}

// write describes the running hub, for other processes of this user.
func (s *heldState) write(h *Hub) error {
	text, err := json.MarshalIndent(Running{
		Project: h.options.Project, PID: os.Getpid(), URLs: h.urls, Listen: h.server.Addr().String(), TLS: bool(h.tls),
		Started: time.Now().UTC().Truncate(time.Second), Version: h.options.Version,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the fleet's state: %w", err)
	}
	for _, role := range protocol.Roles() {
		if err := replace(TokenFile(s.dir, role), []byte(h.Credentials(role).Token()+"\n")); err != nil {
			return fmt.Errorf("write a token: %w", err)
		}
	}
	if err := replace(filepath.Join(s.dir, hubFile), text); err != nil {
		return fmt.Errorf("write the fleet's state: %w", err)
	}
	return nil
}
