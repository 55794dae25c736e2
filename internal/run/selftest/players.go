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

// A player does the work of a disturber's process. It calls ready, with the address that it
// listens on if it has one, and returns when ctx ends.
type player interface {
	play(ctx context.Context, ready func(address string)) error
}

// players lists all players.
var players = []player{&spin{}, &proxy{}, &serve{}, &early{}, &names{}, &other{}, &disk{}, &clean{}, &idle{}}

// A part holds the name of a disturber's player, and the player's fields.
type part struct {
	Player string          `json:"player"`
	As     json.RawMessage `json:"as"`
}

func nameOf(p player) string { return fmt.Sprintf("%T", p) }

// A readiness is the only line that a disturber prints.
type readiness struct {
	Address string `json:"address,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Act runs a disturber's process. It reads its part, a line of JSON, prints that it is ready or why
// it never will be, and plays until its input ends.
func Act(ctx context.Context, input io.Reader, output io.Writer) error {
	events := json.NewEncoder(output)
	err := playPart(ctx, bufio.NewReader(input), func(address string) { _ = events.Encode(readiness{Address: address}) })
	if err != nil {
		return errors.Join(err, events.Encode(readiness{Error: err.Error()}))
	}
	return nil
}

func playPart(ctx context.Context, input *bufio.Reader, ready func(address string)) error {
	line, err := input.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the part to be played: %w", err)
	}
	var p part
	if err := json.Unmarshal(line, &p); err != nil {
		return fmt.Errorf("read the part to be played: %w", err)
	}
	i := slices.IndexFunc(players, func(one player) bool { return nameOf(one) == p.Player })
	if i < 0 {
		return fmt.Errorf("there is no player %q", p.Player)
	}
	if err := json.Unmarshal(p.As, players[i]); err != nil {
		return fmt.Errorf("read the part to be played: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the input, or with the process
		_, _ = io.Copy(io.Discard, input)
		cancel()
	}()
	return players[i].play(ctx, ready)
}

// idle is a process that does nothing, the harmless form of many disturbances.
type idle struct{}

func (*idle) play(ctx context.Context, ready func(string)) error {
	ready("")
	<-ctx.Done()
	return nil
}

// spin is a process that keeps its CPU busy, all the time or in bursts.
type spin struct {
	For   time.Duration `json:"for"`             // busy time per period
	Every time.Duration `json:"every,omitempty"` // 0: without a pause
	Class class         `json:"class,omitempty"`
	// WalkBytes is the size of the memory that it reads while it spins. This evicts other
	// programs' data from the CPU's caches.
	WalkBytes int `json:"walk_bytes,omitempty"`
}

// A class is the scheduling class of a spinning thread.
type class string

const (
	usual    class = ""          // by its nice value
	realTime class = "real-time" // before all others
	idling   class = "idle"      // when no other wants to run
)

func (s *spin) play(ctx context.Context, ready func(string)) error {
	runtime.LockOSThread() // and never unlocked: the thread lives as long as the process
	if err := schedule(s.Class); err != nil {
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

// disk is a process that writes to a file and syncs it.
type disk struct {
	File  string        `json:"file"`
	Bytes int           `json:"bytes"`
	Every time.Duration `json:"every,omitempty"` // 0: without a pause
}

func (d *disk) play(ctx context.Context, ready func(string)) (err error) {
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

// clean removes what a stage leaves on the machine when its input ends: with the stage, or when
// wirelab was killed. Unlike other disturbers it outlives wirelab.
type clean struct {
	Folder string   `json:"folder"`
	Groups []string `json:"groups"` // control groups; missing ones are skipped
}

func (c *clean) play(ctx context.Context, ready func(string)) error {
	ready("")
	<-ctx.Done()
	err := patiently(func() error { return os.RemoveAll(c.Folder) })
	for _, group := range c.Groups {
		err = errors.Join(err, removeGroup(group))
	}
	return err
}

// groupName returns the name of this process's control group.
func groupName() string { return fmt.Sprintf("wirelab-selftest-%d", os.Getpid()) }

// removeGroup removes a control group, if it is there.
func removeGroup(folder string) error {
	return patiently(func() error {
		if err := os.Remove(folder); !os.IsNotExist(err) {
			return err
		}
		return nil
	})
}

// patiently repeats an action that fails while killed processes have not ended yet.
func patiently(do func() error) (err error) {
	for range 50 {
		if err = do(); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// names is a slow name server. It knows every name, as 127.0.0.1.
type names struct {
	Listen string        `json:"listen"`
	Delay  time.Duration `json:"delay"`
}

func (n *names) play(ctx context.Context, ready func(string)) error {
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
		if answer, err := answerTo(question[:size]); err == nil {
			time.AfterFunc(n.Delay, func() { _, _ = conn.WriteTo(answer, from) })
		}
	}
}

// answerTo returns an answer with an address to questions for IPv4, and an empty one to others.
func answerTo(question []byte) ([]byte, error) {
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
