package selftest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"wirelab.dev/internal/machine/host"
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

// actorPatience limits the start of a disturber, actorGrace its end.
const (
	actorPatience = 5 * time.Second
	actorGrace    = 3 * time.Second
)

// An actor is a disturber's process.
type actor struct {
	address  string
	pid      int
	warnings []string // of its CPUs and its priority
}

// start starts a disturber and waits until it is ready. The stage ends it.
func (s *Stage) start(p player, in host.Surroundings) (actor, error) {
	text, err := json.Marshal(map[string]any{"player": nameOf(p), "as": p})
	if err != nil {
		return actor{}, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.ctx)) // its end is the stage's
	command := exec.CommandContext(ctx, s.program[0], s.program[1:]...)
	command.WaitDelay = time.Second
	input, inputErr := command.StdinPipe()
	output, outputErr := command.StdoutPipe()
	if err := errors.Join(inputErr, outputErr); err != nil {
		cancel()
		return actor{}, err
	}
	var warnings []string
	if _, outlives := p.(*clean); outlives { // the kernel does not kill it with this process
		command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		err = command.Start()
	} else {
		warnings, err = host.StartPinned(command, in)
	}
	if err != nil {
		cancel()
		return actor{}, err
	}
	s.atEnd(func() error {
		defer time.AfterFunc(actorGrace, cancel).Stop()
		_ = input.Close()
		_ = command.Wait() // how it ends does not matter
		cancel()
		return nil
	})
	defer time.AfterFunc(actorPatience, cancel).Stop()
	if _, err := input.Write(append(text, '\n')); err != nil {
		return actor{}, fmt.Errorf("start a disturber: %w", err)
	}
	line, err := bufio.NewReader(output).ReadBytes('\n')
	if err != nil {
		return actor{}, fmt.Errorf("a disturber did not get ready: %w", err)
	}
	var r readiness
	if err := json.Unmarshal(line, &r); err != nil || r.Error != "" {
		return actor{}, fmt.Errorf("a disturber did not get ready: %s", r.Error)
	}
	return actor{r.Address, command.Process.Pid, warnings}, nil
}

// idle is a process that does nothing: the harmless form of many.
type idle struct{}

func (*idle) play(ctx context.Context, ready func(string)) error {
	ready("")
	<-ctx.Done()
	return nil
}
