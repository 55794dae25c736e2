package selftest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// A player does the work of a disturber's process. It calls ready with the address that it listens
// on, or "", and returns when ctx ends.
type player interface {
	play(ctx context.Context, ready func(address string)) error
}

// players lists all players.
var players = []player{&spinPlayer{}, &proxyPlayer{}, &serverPlayer{}, &earlyAnswerPlayer{}, &nameServerPlayer{}, &labPlayer{}, &diskPlayer{}, &cleanupPlayer{}, &idlePlayer{}}

// A playerSpec holds the name and the fields of a disturber's player.
type playerSpec struct {
	Player string          `json:"player"`
	As     json.RawMessage `json:"as"`
}

func playerName(p player) string { return fmt.Sprintf("%T", p) }

// A readyLine is the only line that a disturber prints.
type readyLine struct {
	Address string `json:"address,omitempty"`
	Error   string `json:"error,omitempty"`
}

// RunDisturber runs a disturber's process. It reads a line of JSON with the playerSpec, prints a
// readyLine, and runs the player until its input ends.
func RunDisturber(ctx context.Context, input io.Reader, output io.Writer) error {
	events := json.NewEncoder(output)
	err := runPlayer(ctx, bufio.NewReader(input), func(address string) { _ = events.Encode(readyLine{Address: address}) })
	if err != nil {
		return errors.Join(err, events.Encode(readyLine{Error: err.Error()}))
	}
	return nil
}

func runPlayer(ctx context.Context, input *bufio.Reader, ready func(address string)) error {
	line, err := input.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the player's part: %w", err)
	}
	var p playerSpec
	if err := json.Unmarshal(line, &p); err != nil {
		return fmt.Errorf("read the player's part: %w", err)
	}
	i := slices.IndexFunc(players, func(one player) bool { return playerName(one) == p.Player })
	if i < 0 {
		return fmt.Errorf("the player %q is unknown", p.Player)
	}
	if err := json.Unmarshal(p.As, players[i]); err != nil {
		return fmt.Errorf("read the player's part: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the input, or with the process
		_, _ = io.Copy(io.Discard, input)
		cancel()
	}()
	return players[i].play(ctx, ready)
}

// idlePlayer is a process that does nothing. It is the twin of many disturbances.
type idlePlayer struct{}

func (*idlePlayer) play(ctx context.Context, ready func(string)) error {
	ready("")
	<-ctx.Done()
	return nil
}

// spinPlayer is a process that keeps its CPU busy, all the time or in bursts.
type spinPlayer struct {
	For   time.Duration   `json:"for"`             // busy time per period
	Every time.Duration   `json:"every,omitempty"` // 0: without a pause
	Class schedulingClass `json:"class,omitempty"`
	// WalkBytes is the size of the memory that the player reads while it spins, to evict other
	// programs' data from the CPU's caches.
	WalkBytes int `json:"walk_bytes,omitempty"`
}

// A schedulingClass is the scheduling class of a spinning thread.
type schedulingClass string

const (
	normalClass   schedulingClass = ""          // scheduled by its nice value
	realTimeClass schedulingClass = "real-time" // runs before all other threads
	idleClass     schedulingClass = "idle"      // runs only if no other thread wants to run
)

func (s *spinPlayer) play(ctx context.Context, ready func(string)) error {
	runtime.LockOSThread() // never unlocked, so that the thread's class stays
	if err := setThreadClass(s.Class); err != nil {
		return err
	}
	memory := make([]byte, max(1, s.WalkBytes))
	ready("")
	for ctx.Err() == nil {
		begun := time.Now()
		for ctx.Err() == nil && time.Since(begun) < s.For {
			for line := 0; line < len(memory); line += 64 { // of the cache
				memory[line]++
			}
		}
		if s.Every > 0 {
			time.Sleep(s.Every - time.Since(begun))
		}
	}
	return nil
}

// diskPlayer is a process that writes to a file and syncs it.
type diskPlayer struct {
	File  string        `json:"file"`
	Bytes int           `json:"bytes"`
	Every time.Duration `json:"every,omitempty"` // 0: without a pause
}

func (d *diskPlayer) play(ctx context.Context, ready func(string)) (err error) {
	file, err := os.Create(d.File)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	content := make([]byte, d.Bytes)
	ready("")
	for ctx.Err() == nil {
		if _, err := file.WriteAt(content, 0); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(d.Every):
		}
	}
	return nil
}

// cleanupPlayer removes a stage's folder and control groups when its input ends: after the stage,
// or when wirelab was killed. Unlike other disturbers, it outlives wirelab.
type cleanupPlayer struct {
	Folder string   `json:"folder"`
	Groups []string `json:"groups"` // control groups; missing ones are skipped
}

func (c *cleanupPlayer) play(ctx context.Context, ready func(string)) error {
	ready("")
	<-ctx.Done()
	err := retryFor(func() error { return os.RemoveAll(c.Folder) })
	for _, group := range c.Groups {
		err = errors.Join(err, removeGroup(group))
	}
	return err
}

// controlGroupName returns the name of this process's control group.
func controlGroupName() string { return fmt.Sprintf("wirelab-selftest-%d", os.Getpid()) }

// removeGroup removes a control group, if the group exists.
func removeGroup(folder string) error {
	return retryFor(func() error {
		if err := os.Remove(folder); !os.IsNotExist(err) {
			return err
		}
		return nil
	})
}

// retryFor repeats an action for half a second until it succeeds. It may fail while killed
// processes have not ended yet.
func retryFor(do func() error) (err error) {
	for range 50 {
		if err = do(); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// nameServerPlayer is a slow name server. It answers 127.0.0.1 for every name.
type nameServerPlayer struct {
	Listen string        `json:"listen"`
	Delay  time.Duration `json:"delay"`
}

func (n *nameServerPlayer) play(ctx context.Context, ready func(string)) error {
	conn, err := net.ListenPacket("udp", n.Listen)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	ready(conn.LocalAddr().String())
	for {
		question := make([]byte, 512) // RFC 1035, section 2.3.4
		size, from, err := conn.ReadFrom(question)
		if err != nil {
			return nil // the socket was closed because the play is over
		}
		if answer, err := nameServerAnswer(question[:size]); err == nil {
			time.AfterFunc(n.Delay, func() { _, _ = conn.WriteTo(answer, from) })
		}
	}
}

// nameServerAnswer returns the answer to a question: an address for IPv4, and an empty answer
// otherwise.
func nameServerAnswer(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	m.Response, m.Authoritative = true, true
	m.Additionals = nil
	for _, q := range m.Questions {
		if q.Type == dnsmessage.TypeA {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60},
				Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
			})
		}
	}
	return m.Pack()
}
