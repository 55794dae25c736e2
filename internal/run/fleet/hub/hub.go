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

// DefaultListen is the address at which a hub listens by default.
const DefaultListen = "127.0.0.1:4222"

// HubOptions configures a hub.
type HubOptions struct {
	Project     string
	Listen      string   // HOST:PORT; port 0 means any port; empty means DefaultListen
	AllowProbes []string // probes that the agents on this machine allow
	Advertise   []string // additional names and addresses of the hub, for agents
	StateDir    string   // the folder for keys and for JetStream's files
	KeysFile    string   // empty means a file in StateDir; hubs of a cluster need the same keys
	Cluster     *ClusterOptions
	// NoTLS turns off TLS, even for connections from other machines. Orders are still signed, but
	// anyone on the network can read and forge results.
	NoTLS   bool
	Log     io.Writer // gets warnings and errors, for example about strangers that were refused
	Version string    // wirelab's version, which the hub writes into its state
}

// ClusterOptions makes a hub one of three hubs of a cluster. All three have the same keys. If one
// hub is lost, the cluster still works.
type ClusterOptions struct {
	Name   string   // unique name of the hub, which must stay the same after a restart
	Listen string   // HOST:PORT for connections from other hubs; port 0 means any port
	Routes []string // Listen addresses of the cluster's hubs; one other hub is enough
}

// clusterSize is the number of hubs in a cluster, and the number of copies of each kept message.
const clusterSize = 3

// A Hub is a NATS server in this process that serves one fleet. Close must be called.
type Hub struct {
	options   HubOptions
	server    *server.Server
	keys      *keys
	authority *userAuthority
	gate      *gate
	tls       tlsEnabled
	state     *lockedState
	urls      []string
}

// StartHub starts a hub. It returns when agents can connect; a hub of a cluster also needs
// JoinCluster. ctx limits the time for starting.
func StartHub(ctx context.Context, o HubOptions) (*Hub, error) {
	o.Listen = cmp.Or(o.Listen, DefaultListen)
	if err := protocol.CheckProject(o.Project); err != nil {
		return nil, err
	}
	state, err := lockState(o.StateDir)
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
	if h.authority, err = newUserAuthority(h.keys); err != nil {
		return err
	}
	config, err := h.serverOptions()
	if err != nil {
		return err
	}
	if h.server, err = server.NewServer(config); err != nil {
		return fmt.Errorf("start nats-server: %w", err)
	}
	log := &serverLog{to: h.options.Log}
	h.server.SetLoggerV2(log, false, false, false)
	h.server.Start()
	if err := log.fatalError(); err != nil {
		return h.explainServerError(err)
	}
	if !h.server.ReadyForConnections(protocol.ConnectTimeout) {
		return fmt.Errorf("nats-server did not listen on %s within %v", h.options.Listen, protocol.ConnectTimeout)
	}
	h.urls = h.findURLs()
	if h.options.Cluster == nil {
		if err := h.openGate(ctx, 1); err != nil {
			return err
		}
	}
	return h.state.writeState(h)
}

// JoinCluster waits until the cluster has enough hubs, and prepares the cluster for a fleet.
func (h *Hub) JoinCluster(ctx context.Context) error {
	if h.options.Cluster == nil {
		return nil
	}
	const pause, longest = 200 * time.Millisecond, 4 * time.Second
	// While the cluster has no leader, requests get no answer.
	for attempt := time.Second; ; attempt = min(2*attempt, longest) {
		once, cancel := context.WithTimeout(ctx, attempt)
		err := h.openGate(once, clusterSize)
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

// openGate prepares JetStream for a fleet and admits agents, over a connection inside this process.
func (h *Hub) openGate(ctx context.Context, replicas int) error {
	own, err := h.authority.everything(h.keys.credentials(protocol.RolePrepare, "hub", h.urls, h.tls))
	if err != nil {
		return err
	}
	options, err := own.Options("hub", nil)
	if err != nil {
		return err
	}
	conn, err := nats.Connect("", append(options, nats.InProcessServer(h.server))...)
	if err != nil {
		return fmt.Errorf("connect to this process's hub: %w", err)
	}
	js, err := jetstream.New(conn)
	if err == nil {
		err = PrepareJetStream(ctx, js, h.options.Project, replicas)
	}
	if err == nil {
		h.gate, err = openGate(ctx, h, conn, js, replicas)
	}
	if err != nil {
		conn.Close()
	}
	return err
}

// issue makes credentials with a new key.
func (h *Hub) issue(g grant) (*protocol.Credentials, error) {
	seed, err := protocol.NewUserSeed()
	if err != nil {
		return nil, err
	}
	return h.issueFor(g, seed)
}

func (h *Hub) issueFor(g grant, seed []byte) (*protocol.Credentials, error) {
	c := h.keys.credentials(g.role, g.name, h.urls, h.tls)
	c.Seed, g.key = seed, protocol.PublicKeyOf(seed)
	var err error
	c.JWT, err = h.authority.sign(g)
	return c, err
}

// LocalController is the name of the controllers on the hub's machine.
const LocalController = "local"

// Controller returns the credentials of the controllers on the hub's machine.
func (h *Hub) Controller() (*protocol.Credentials, error) {
	return h.issueFor(grant{role: protocol.RoleController, name: LocalController}, []byte(h.keys.Controller))
}

// Agent returns credentials for an agent that needs no token, because the hub itself starts it. An
// agent that had the name before is shut out.
func (h *Hub) Agent(ctx context.Context, name string) (*protocol.Credentials, error) {
	c, err := h.issue(grant{role: protocol.RoleAgent, name: name})
	if err != nil {
		return nil, err
	}
	own := member{Key: protocol.PublicKeyOf(c.Seed), Role: protocol.RoleAgent}
	if err := h.gate.register(ctx, name, own); errors.Is(err, errNameKnown) {
		if err := h.gate.shutOut(ctx, name); err != nil {
			return nil, err
		}
		return c, h.gate.register(ctx, name, own)
	} else if err != nil {
		return nil, err
	}
	return c, nil
}

// URLs returns the hub's URLs, the most useful first.
func (h *Hub) URLs() []string { return h.urls }

// TLS reports whether connections to the hub are encrypted.
func (h *Hub) TLS() bool { return bool(h.tls) }

// ClusterAddress returns the HOST:PORT at which the other hubs of the cluster reach this hub.
func (h *Hub) ClusterAddress() string {
	if at := h.server.ClusterAddr(); at != nil {
		return at.String()
	}
	return ""
}

// Close stops the hub and waits until it has stopped. The hub's keys and data stay on disk.
func (h *Hub) Close() error {
	h.gate.close()
	if h.server != nil {
		h.server.Shutdown()
		h.server.WaitForShutdown()
	}
	return h.state.release()
}

// findURLs returns the hub's URLs. If the hub listens on all addresses, it returns only the address
// of the default route: agents elsewhere cannot reach addresses such as those of container bridges.
func (h *Hub) findURLs() []string {
	scheme := "nats://"
	if h.tls {
		scheme = "tls://"
	}
	host, _, _ := net.SplitHostPort(h.options.Listen)
	hosts := h.options.Advertise
	if len(hosts) == 0 {
		hosts = reachableHosts(host, nil)[:1]
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
	const slowClient = 10 // seconds that a busy machine may need for a TLS handshake
	config := &server.Options{
		ServerName: "wirelab-" + h.options.Project, Host: host, Port: port,
		NoSigs: true, DisableJetStreamBanner: true,
		JetStream: true, StoreDir: filepath.Join(h.options.StateDir, "jetstream"),
		JetStreamMaxStore: maxMemberBytes, JetStreamMaxMemory: maxMemoryBytes,
		MaxPayload:  maxPayloadBytes,
		AuthTimeout: slowClient, TLSTimeout: slowClient,
		PingInterval: protocol.PingPeriod, MaxPingsOut: protocol.MaxUnansweredPings,
	}
	if err := h.authority.setOptions(config); err != nil {
		return nil, fmt.Errorf("sign the fleet's account: %w", err)
	}
	h.tls = tlsEnabled(!h.options.NoTLS && (!isLoopback(host) || len(h.options.Advertise) > 0))
	if h.tls {
		if err := h.setTLSOptions(config, host); err != nil {
			return nil, err
		}
	}
	if h.options.Cluster == nil {
		return config, nil
	}
	return config, h.setClusterOptions(config)
}

func (h *Hub) setTLSOptions(config *server.Options, host string) error {
	root, err := readAuthority([]byte(h.keys.Root), []byte(h.keys.RootKey))
	if err != nil {
		return fmt.Errorf("read the fleet's root certificate: %w", err)
	}
	config.TLSConfig, err = root.issueConfig(reachableHosts(host, h.options.Advertise))
	config.TLS = true
	return err
}

// setClusterOptions sets the options of a hub in a cluster.
func (h *Hub) setClusterOptions(config *server.Options) error {
	cluster := h.options.Cluster
	if err := protocol.CheckName(cluster.Name); err != nil {
		return fmt.Errorf("check the hub's name in the cluster: %w", err)
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
		return fmt.Errorf("--cluster %s is beyond loopback, but --listen %s is on loopback: use addresses beyond loopback for both, so that TLS is on", cluster.Listen, h.options.Listen)
	}
	if len(cluster.Routes) == 0 {
		return errors.New("a hub of a cluster needs a --route to another hub: the HOST:PORT of that hub's --cluster")
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

// explainServerError tells the user how to correct an error of nats-server.
func (h *Hub) explainServerError(err error) error {
	if strings.Contains(err.Error(), "address already in use") {
		return fmt.Errorf("%s is taken by another hub or program: give another address with --listen, or end the hub with `wirelab fleet down` (%w)", h.options.Listen, err)
	}
	return fmt.Errorf("nats-server: %w", err)
}

// splitListen parses the HOST:PORT of a flag. It turns port 0 into nats-server's "any port".
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

// CountMessages returns how many messages all agents together have sent and received. A test uses
// the number to bound the agents' traffic.
func (h *Hub) CountMessages() int64 {
	connections, err := h.server.Connz(&server.ConnzOptions{Limit: 1 << 16})
	if err != nil {
		panic(err) // Connz fails only for invalid options, and these options are valid
	}
	n := int64(0)
	for _, c := range connections.Conns {
		if !strings.HasSuffix(c.Name, "controller") && !strings.HasSuffix(c.Name, "visit") {
			n += c.InMsgs + c.OutMsgs
		}
	}
	return n
}

// writeState writes the description of the running hub and its tokens into the folder.
func (s *lockedState) writeState(h *Hub) error {
	text, err := json.MarshalIndent(RunningHub{
		Project: h.options.Project, PID: os.Getpid(), URLs: h.urls, Listen: h.server.Addr().String(), TLS: bool(h.tls),
		Started: time.Now().UTC().Truncate(time.Second), Version: h.options.Version,
	}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the fleet's state: %w", err)
	}
	c, err := h.Controller()
	if err != nil {
		return err
	}
	if err := replaceFile(TokenFile(s.dir, protocol.RoleController), []byte(c.Token()+"\n")); err != nil {
		return fmt.Errorf("write a token: %w", err)
	}
	if err := replaceFile(filepath.Join(s.dir, hubFile), text); err != nil {
		return fmt.Errorf("write the fleet's state: %w", err)
	}
	return nil
}
