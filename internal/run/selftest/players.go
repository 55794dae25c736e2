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

// A player is the program of a disturbing process. It calls ready once it works, with its listening
// address or "". It returns when ctx ends.
type player interface {
	play(ctx context.Context, ready func(address string)) error
}

// players lists one player of each type.
var players = []player{&spinPlayer{}, &proxyPlayer{}, &serverPlayer{}, &earlyAnswerPlayer{}, &nameServerPlayer{}, &labPlayer{}, &diskPlayer{}, &cleanupPlayer{}, &idlePlayer{}}

// A playerSpec selects the player of a disturbing process, and sets the player's fields.
type playerSpec struct {
	Player string          `json:"player"`
	As     json.RawMessage `json:"as"`
}

func playerName(p player) string { return fmt.Sprintf("%T", p) }

// A readyLine is the only line that a disturbing process prints.
type readyLine struct {
	Address string `json:"address,omitempty"`
	Error   string `json:"error,omitempty"`
}

// RunDisturber runs a disturbing process. It reads a playerSpec as one line of JSON, prints a
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
	go func() { // ends when the input ends, or with the process
		_, _ = io.Copy(io.Discard, input)
		cancel()
	}()
	return players[i].play(ctx, ready)
}

// idlePlayer does nothing. Many disturbances have it as their harmless twin.
type idlePlayer struct{}

func (*idlePlayer) play(ctx context.Context, ready func(string)) error {
	ready("")
	<-ctx.Done()
	return nil
}

// spinPlayer keeps its CPU busy, all the time or in bursts.
type spinPlayer struct {
	For   time.Duration   `json:"for"`             // busy time at the start of each period
	Every time.Duration   `json:"every,omitempty"` // length of a period; 0 means no pauses
	Class schedulingClass `json:"class,omitempty"`
	// WalkBytes is the size of the memory that the player reads again and again, to displace other
	// programs' data from the CPU's caches.
	WalkBytes int `json:"walk_bytes,omitempty"`
}

// A schedulingClass is the scheduling class of a spinning thread.
type schedulingClass string

const (
	normalClass   schedulingClass = ""          // scheduled by its nice value
	realTimeClass schedulingClass = "real-time" // runs before all threads of other classes
	idleClass     schedulingClass = "idle"      // runs only if no other thread wants the CPU
)

func (s *spinPlayer) play(ctx context.Context, ready func(string)) error {
	runtime.LockOSThread() // never unlocked, since the class belongs to the thread
	if err := setThreadClass(s.Class); err != nil {
		return err
	}
	memory := make([]byte, max(1, s.WalkBytes))
	ready("")
	for ctx.Err() == nil {
		begun := time.Now()
		for ctx.Err() == nil && time.Since(begun) < s.For {
			for line := 0; line < len(memory); line += 64 { // one access per cache line
				memory[line]++
			}
		}
		if s.Every > 0 {
			time.Sleep(s.Every - time.Since(begun))
		}
	}
	return nil
}

// diskPlayer writes to a file and syncs the file, again and again.
type diskPlayer struct {
	File  string        `json:"file"`
	Bytes int           `json:"bytes"`
	Every time.Duration `json:"every,omitempty"` // pause after each write; 0 means no pause
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

// cleanupPlayer removes the folder and the control groups of a stage when its input ends. It
// outlives wirelab, so it also cleans up after wirelab was killed.
type cleanupPlayer struct {
	Folder string   `json:"folder"`
	Groups []string `json:"groups"` // folders of control groups; they may be missing
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

// controlGroupName returns the name of the control group that this process makes.
func controlGroupName() string { return fmt.Sprintf("wirelab-selftest-%d", os.Getpid()) }

// removeGroup removes a control group. It does nothing if the group does not exist.
func removeGroup(folder string) error {
	return retryFor(func() error {
		if err := os.Remove(folder); !os.IsNotExist(err) {
			return err
		}
		return nil
	})
}

// retryFor calls do until it succeeds, for up to half a second. For example, removing a group can
// fail while killed processes are still ending.
func retryFor(do func() error) (err error) {
	for range 50 {
		if err = do(); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// nameServerPlayer is a slow name server. Every name has the address 127.0.0.1.
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
		question := make([]byte, 512) // the longest question (RFC 1035, section 2.3.4)
		size, from, err := conn.ReadFrom(question)
		if err != nil {
			return nil // the socket is closed when ctx ends
		}
		if answer, err := nameServerAnswer(question[:size]); err == nil {
			time.AfterFunc(n.Delay, func() { _, _ = conn.WriteTo(answer, from) })
		}
	}
}

// nameServerAnswer returns the answer to a question. Only a question for IPv4 gets an address.
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
