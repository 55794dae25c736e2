package filestack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/foreign/generator"
	"wirelab.dev/internal/wire/stack"
)

// caddy runs Caddy's file server as a separate process, in the process group of this process. Caddy
// forwards requests for missing files to this process, which makes the files.
type caddy struct {
	stack.Methods
	home    string     // Caddy's folder; empty until Listen
	process *exec.Cmd  // nil until Listen
	output  outputTail // the end of the process's output
	maker   http.Server
	making  sync.WaitGroup
	closing atomic.Bool
	running context.Context // ends when the process exits; its cause is the exit error
}

var _ stack.ExternalServer = (*caddy)(nil)

// Caddy is the foreign program that serves the files.
var Caddy = generator.Program{Name: "caddy", Package: "github.com/caddyserver/caddy/v2/cmd/caddy", Version: "v2.11.9"}

// caddyfile is Caddy's configuration. Caddy inherits the listening socket as descriptor 3, so that
// no other process can take the port before Caddy runs.
const caddyfile = `{
	admin off
	auto_https off
	persist_config off
	servers {
		protocols h1 h2c
	}
}
http:// {
	bind fd/3
	root * %q
	@new not file
	reverse_proxy @new %q
	file_server
}
`

// caddySettings lists the settings in caddyfile that differ from Caddy's defaults.
var caddySettings = []tuning.Setting{
	{Side: tuning.Server, Name: "admin", Value: "off", Default: "localhost:2019", Why: "several servers may run at the same time, and none needs reconfiguration"},
	{Side: tuning.Server, Name: "auto_https", Value: "off", Default: "on", Why: "this stack is cleartext"},
	{Side: tuning.Server, Name: "persist_config", Value: "off", Default: "on", Why: "a trial leaves nothing behind"},
	{Side: tuning.Server, Name: "servers.protocols", Value: "h1 h2c", Default: "h1 h2 h3", Why: "HTTP/2 in cleartext"},
	{Side: tuning.Server, Name: "bind", Value: "an inherited socket", Default: "the address", Why: "no other process can take the port before Caddy runs"},
}

// Listen implements stack.Server. It returns when Caddy answers requests.
func (c *caddy) Listen(ctx context.Context, address string) (net.Addr, error) {
	program, err := Caddy.Find()
	if err != nil {
		return nil, fmt.Errorf("file: %w: %w", err, stack.ErrUnsupported)
	}
	if err := c.Err(); err != nil {
		return nil, fmt.Errorf("file server: %w", err)
	}
	if c.home, err = os.MkdirTemp("", "wirelab-caddy-"); err != nil {
		return nil, fmt.Errorf("file server: %w", err)
	}
	bound, err := c.start(ctx, program, address)
	if err == nil {
		err = c.waitUntilReady(ctx, bound)
	}
	if err != nil {
		closed := c.Close() // after Close, output is complete
		if output := c.output.String(); output != "" {
			err = fmt.Errorf("%w; the end of Caddy's output: %s", err, output)
		}
		return nil, errors.Join(fmt.Errorf("file: caddy: %w", err), closed)
	}
	return bound, nil
}

func (c *caddy) start(ctx context.Context, program, address string) (net.Addr, error) {
	files, socket, config := filepath.Join(c.home, "files"), filepath.Join(c.home, "make.sock"), filepath.Join(c.home, "Caddyfile")
	err := errors.Join(
		os.Mkdir(files, 0o700),
		os.WriteFile(config, fmt.Appendf(nil, caddyfile, files, "unix/"+socket), 0o600),
	)
	if err != nil {
		return nil, err
	}
	var listening net.ListenConfig
	from, err := listening.Listen(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	c.maker = http.Server{Handler: &folder{path: files, methods: &c.Methods}, ReadHeaderTimeout: startTimeout}
	c.making.Go(func() { _ = c.maker.Serve(from) }) // ends when Close is called

	listener, err := listening.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = listener.Close() }() // Caddy has its own copy of the descriptor
	descriptor, err := listener.(*net.TCPListener).File()
	if err != nil {
		return nil, err
	}
	defer func() { _ = descriptor.Close() }()
	process := exec.Command(program, "run", "--config", config, "--adapter", "caddyfile")
	process.Env = append(os.Environ(), "HOME="+c.home, "XDG_CONFIG_HOME="+c.home, "XDG_DATA_HOME="+c.home)
	process.ExtraFiles = []*os.File{descriptor}
	process.Stdout, process.Stderr = &c.output, &c.output
	if err := process.Start(); err != nil {
		return nil, err
	}
	running, end := context.WithCancelCause(context.Background())
	c.process, c.running = process, running
	go func() { end(process.Wait()) }() // ends when the process exits
	return listener.Addr(), nil
}

const startTimeout = 10 * time.Second

// waitUntilReady waits until Caddy answers a request with any status.
func (c *caddy) waitUntilReady(ctx context.Context, bound net.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	defer context.AfterFunc(c.running, cancel)()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+bound.String()+"/", http.NoBody)
	if err != nil {
		return err
	}
	once := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := once.Do(request)
	if err != nil {
		return fmt.Errorf("wait for the first answer of Caddy: %w", err)
	}
	return response.Body.Close()
}

func (c *caddy) PID() int { return c.process.Process.Pid }

func (*caddy) Program() string { return Caddy.String() }

func (c *caddy) Serve() error {
	<-c.running.Done()
	if c.closing.Load() {
		return nil
	}
	return fmt.Errorf("file: caddy has ended unexpectedly: %w; the end of Caddy's output: %s", context.Cause(c.running), c.output.String())
}

func (c *caddy) Shutdown(ctx context.Context) error {
	c.closing.Store(true)
	if c.process != nil {
		_ = c.process.Process.Signal(syscall.SIGTERM)
		select {
		case <-c.running.Done():
		case <-ctx.Done():
		}
	}
	return c.Close()
}

func (c *caddy) Close() error {
	c.closing.Store(true)
	if c.process != nil {
		_ = c.process.Process.Kill() // fails only if the process has exited
		<-c.running.Done()
	}
	err := c.maker.Close()
	c.making.Wait()
	return errors.Join(err, os.RemoveAll(c.home)) // RemoveAll does nothing for an empty path
}

// outputTail keeps the last 1,024 bytes of a process's output. Any goroutine may use it.
type outputTail struct {
	mu   sync.Mutex
	text []byte
}

func (t *outputTail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-1024):] // enough for an error message
	return len(p), nil
}

func (t *outputTail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}

// serverKey is the option that selects the server: goServer or Caddy.
const (
	serverKey = "server"
	goServer  = "go"
)

// ForeignProgram returns the name of the foreign program that serves a variant, if there is one.
func ForeignProgram(v scenario.Variant) (program string, foreign bool) {
	server, _ := v.Get(serverKey)
	return server, v.Stack == name && server == Caddy.Name
}
