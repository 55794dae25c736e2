// Package versions runs two versions of a user's service, so that a load can compare them: from two
// commands, or from two revisions of a git repository.
//
//  1. Checkout makes a worktree for each revision, and builds it.
//  2. Start runs a version's command under a keeper: a process of wirelab that ends the command and all
//     its descendants when wirelab ends, however wirelab ends.
//  3. Server.Await waits until the version listens; Server.Stop ends it.
//
// The package does not know how a service is called, or what a load measures.
package versions

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"wirelab.dev/internal/base/system"
	"wirelab.dev/internal/machine/host"
)

// PortVariable is replaced by a free port, in commands and in the URL.
const PortVariable = "PORT"

// A Version is a command that serves one version of a service.
type Version struct {
	Name    string // base or head
	Command string // for sh
	Folder  string // working directory; empty means the current one
	Port    int    // value of PORT in its environment
	Log     string // file for its output
}

// Expand replaces $PORT and ${PORT} in a text.
func (v Version) Expand(text string) string {
	port := strconv.Itoa(v.Port)
	return strings.NewReplacer("${"+PortVariable+"}", port, "$"+PortVariable, port).Replace(text)
}

// FreePorts returns two different ports of this machine that nothing listens on.
func FreePorts() (ports [2]int, err error) {
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return ports, fmt.Errorf("find a free port: %w", err)
		}
		defer func() { _ = listener.Close() }()
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// A Server is a version that runs.
type Server struct {
	Version
	Warnings []string // CPUs or priority that it did not get

	keeper *exec.Cmd
	input  io.Closer // the keeper ends the command when this closes
	ended  chan struct{}
	how    string // how the command ended; written before ended is closed
	stop   sync.Once
}

// Start starts a version. keeper is the command of a keeper (see Keep).
func Start(keeper []string, v Version, in host.StartOptions) (*Server, error) {
	s := &Server{Version: v, keeper: exec.Command(keeper[0], keeper[1:]...), ended: make(chan struct{})} //nolint:gosec // wirelab itself
	s.keeper.Stderr = os.Stderr
	system.OwnGroup(s.keeper) // Ctrl-C must reach only wirelab, which then stops the keeper
	input, err := s.keeper.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := s.keeper.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.keeper.Start(); err != nil {
		return nil, fmt.Errorf("start the keeper of %s: %w", v.Name, err)
	}
	s.input = input
	events := json.NewDecoder(bufio.NewReader(output))
	var started keeperEvent
	err = json.NewEncoder(input).Encode(keeperSpec{Version: v, CPUs: in.CPUs, Nice: in.Nice})
	if err == nil {
		err = events.Decode(&started)
	}
	if err == nil && started.Error != "" {
		err = errors.New(started.Error)
	}
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("start %s, %s: %w", v.Name, v.Command, err)
	}
	s.Warnings = started.Warnings
	go func() { // until the keeper ends; Stop waits for it
		var last keeperEvent
		if events.Decode(&last) != nil {
			last.Ended = "its keeper ended"
		}
		s.how = last.Ended
		close(s.ended)
	}()
	return s, nil
}

// Await waits until something listens at the address, or until the command or ctx ends.
func (s *Server) Await(ctx context.Context, address string) error {
	const period = 20 * time.Millisecond
	dialer := net.Dialer{Timeout: time.Second}
	for {
		connection, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return connection.Close()
		}
		select {
		case <-s.ended:
			return fmt.Errorf("%s did not stay: %s%s", s.describe(), s.how, lastLines(s.Log))
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen at %s: %w: let it listen on $%s%s", s.describe(), address, context.Cause(ctx), PortVariable, lastLines(s.Log))
		case <-time.After(period):
		}
	}
}

// Ended returns an error if the command has ended by itself.
func (s *Server) Ended() error {
	select {
	case <-s.ended:
		return fmt.Errorf("%s ended during the load: %s%s", s.describe(), s.how, lastLines(s.Log))
	default:
		return nil
	}
}

func (s *Server) describe() string { return fmt.Sprintf("the %s (%s)", s.Name, s.Command) }

// Stop ends the command with all its descendants, and waits until they are gone.
func (s *Server) Stop() {
	s.stop.Do(func() {
		_ = s.input.Close()
		_ = s.keeper.Wait() // the keeper always ends: see Keep
	})
}

const (
	// shownLines is the number of last lines of an output that an error shows.
	shownLines = 12
	// shownBytes limits these lines.
	shownBytes = 4 << 10
)

// lastLines returns the last lines of a file, as the end of an error.
func lastLines(name string) string {
	text, err := ReadEnd(name, shownBytes)
	if err != nil {
		return ""
	}
	return lastLinesOf(string(text))
}

func lastLinesOf(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return "; it printed nothing"
	}
	lines := strings.Split(text, "\n")
	return "; its last lines:\n  " + strings.Join(lines[max(0, len(lines)-shownLines):], "\n  ")
}

// ReadEnd returns the last bytes of a file.
func ReadEnd(name string, most int64) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if status, err := file.Stat(); err == nil && status.Size() > most {
		if _, err := file.Seek(-most, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(file, most))
}
