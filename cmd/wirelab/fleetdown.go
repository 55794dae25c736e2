package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"wirelab.dev/internal/fleet"
)

// upDetached starts the same command in the background, and returns when agents can join it.
// What it says then, it says on standard output, once; errors go to its log.
func (a *app) upDetached(ctx context.Context, f *upFlags) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find wirelab's own program: %w", err)
	}
	stateDir, err := fleet.StateDir(f.name)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return fmt.Errorf("make the folder of the fleet's state: %w", err)
	}
	log, err := os.OpenFile(fleet.LogFile(stateDir), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the hub's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	began, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("open the hub's log: %w", err)
	}
	cmd := exec.Command(program, f.arguments()...)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C at this terminal is not for it
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the hub: %w", err)
	}
	heed := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer heed()
	var r upReport
	if err := json.NewDecoder(output).Decode(&r); err != nil {
		_ = cmd.Wait()
		return errors.New(lastError(fleet.LogFile(stateDir), began))
	}
	if err := cmd.Process.Release(); err != nil {
		return err
	}
	return a.printUp(f, r)
}

// arguments are the same flags, for a hub that says in JSON when it is up.
func (f *upFlags) arguments() []string {
	args := []string{"fleet", "up", "--json", "--name=" + f.name, "--listen=" + f.listen}
	add := func(flag string, values ...string) {
		for _, value := range values {
			if value != "" {
				args = append(args, flag+"="+value)
			}
		}
	}
	add("--advertise", f.advertise...)
	add("--agent", f.agents...)
	add("--hub", f.cluster.Name)
	add("--cluster", f.cluster.Listen)
	add("--route", f.cluster.Routes...)
	add("--keys", f.keys)
	if f.noTLS {
		args = append(args, "--no-tls")
	}
	return args
}

// lastError is what a hub in the background said of why it ended.
func lastError(log string, began int64) string {
	text, _ := os.ReadFile(log) // without it, what follows says where to look
	text = text[min(int(began), len(text)):]
	lines := strings.Split(string(bytes.TrimSpace(text)), "\n")
	slices.Reverse(lines)
	for _, line := range lines {
		if why, ours := strings.CutPrefix(line, "wirelab: "); ours {
			return why
		}
	}
	return "the hub ended at once, and " + log + " does not say why"
}

func (a *app) fleetDownCommand() *cobra.Command {
	var (
		name   string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use: "down", Short: "End a hub of this machine and the agents that it started", Args: cobra.NoArgs,
		Example: `  wirelab fleet down
  wirelab fleet down --fleet lab`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			hub, err := fleet.FindHub(name)
			if err != nil {
				return usage(err)
			}
			if err := endHub(cmd.Context(), hub); err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(map[string]any{"project": hub.Project, "pid": hub.PID})
			}
			_, err = fmt.Fprintf(a.stdout, "the fleet %s is down\n", hub.Project)
			return err
		},
	}
	cmd.Flags().StringVar(&name, "fleet", "", "the fleet's `name` or URL (default: the only one that is up on this machine)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	completeHubs(cmd)
	return cmd
}

// endHub asks a hub to end and waits until it has. Its process number is that of whoever holds
// the state's lock.
func endHub(ctx context.Context, hub fleet.Running) error {
	const (
		patience = 30 * time.Second
		pause    = 20 * time.Millisecond
	)
	if err := syscall.Kill(hub.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end the hub (process %d): %w", hub.PID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for hub.Runs() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the hub (process %d) was told to end, and has not within %v", hub.PID, patience)
		case <-time.After(pause):
		}
	}
	return nil
}
