package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/base/system"
	"wirelab.dev/internal/run/fleet/protocol"
)

// Names of files in a fleet's state folder.
const (
	keysFile = "keys.json"
	hubFile  = "hub.json"
	lockFile = "lock"
	logFile  = "hub.log"
)

// fleetsDirVariable is the environment variable that names the folder for the states of all fleets.
const fleetsDirVariable = "WIRELAB_FLEETS"

// A RunningHub describes a running hub on this machine.
type RunningHub struct {
	Project string    `json:"project"`
	PID     int       `json:"pid"`
	URLs    []string  `json:"urls"`
	Listen  string    `json:"listen"`
	TLS     bool      `json:"tls"`
	Started time.Time `json:"started"`
	Version string    `json:"version"`
	Dir     string    `json:"-"` // the folder with the hub's state
}

// StillRuns reports whether the hub's process still runs.
func (r RunningHub) StillRuns() bool {
	now, ok := runningIn(r.Dir)
	return ok && now.PID == r.PID
}

// End asks the hub's process to end, and waits until it has ended.
func (r RunningHub) End(ctx context.Context) error {
	const (
		patience = 30 * time.Second
		pause    = 20 * time.Millisecond
	)
	if r.PID == 1 { // outside the container, process 1 is another
		return errors.New("the hub is process 1, the first of its container: stop the container")
	}
	if err := system.Terminate(r.PID); err != nil {
		return fmt.Errorf("end the hub (process %d): %w", r.PID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for r.StillRuns() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the hub (process %d) was asked to end, but did not end within %v: end the process with kill", r.PID, patience)
		case <-time.After(pause):
		}
	}
	return nil
}

// StateDir returns the folder for the state of a project's fleet.
func StateDir(project string) (string, error) {
	if err := protocol.CheckProject(project); err != nil {
		return "", err
	}
	all, err := fleetsDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(all, project), nil
}

// LogFile returns the path of a background hub's log.
func LogFile(stateDir string) string { return filepath.Join(stateDir, logFile) }

// TokenFile returns the path of the file with the token of the controller on the hub's machine, or
// of an agent that the hub has started. A running hub writes the file.
func TokenFile(stateDir, name string) string { return filepath.Join(stateDir, name+".token") }

// AgentsDir returns the folder for the credentials of agents that this user has started.
func AgentsDir() (string, error) {
	fleets, err := fleetsDir()
	return filepath.Join(filepath.Dir(fleets), "agents"), err
}

// fleetsDir returns the folder for all fleets, by the XDG Base Directory Specification.
func fleetsDir() (string, error) {
	if at := os.Getenv(fleetsDirVariable); at != "" {
		return filepath.Abs(at)
	}
	if at := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(at) {
		return filepath.Join(at, "wirelab", "fleets"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the folder of the fleets' states: %w; set %s", err, fleetsDirVariable)
	}
	return filepath.Join(home, ".local", "state", "wirelab", "fleets"), nil
}

// RunningHubs returns the hubs that this user runs on this machine, sorted by name.
func RunningHubs() ([]RunningHub, error) {
	all, err := fleetsDir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(all)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the folder of the fleets' states: %w", err)
	}
	var hubs []RunningHub
	for _, entry := range entries {
		if hub, ok := runningIn(filepath.Join(all, entry.Name())); ok {
			hubs = append(hubs, hub)
		}
	}
	return hubs, nil
}

// runningIn returns the hub that has locked the state folder dir, if any. The lock ends with the
// hub's process, so while the lock exists, the stored process number is right.
func runningIn(dir string) (RunningHub, bool) {
	file, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return RunningHub{}, false
	}
	defer func() { _ = file.Close() }()
	if err := system.LockShared(file); !errors.Is(err, system.ErrLocked) {
		return RunningHub{}, false
	}
	text, err := os.ReadFile(filepath.Join(dir, hubFile))
	if err != nil {
		return RunningHub{}, false
	}
	hub := RunningHub{Dir: dir}
	if json.Unmarshal(text, &hub) != nil || hub.PID < 1 {
		return RunningHub{}, false
	}
	return hub, true
}

// FindHub returns the running hub with this name or URL. For "" it returns the only running hub.
func FindHub(nameOrURL string) (RunningHub, error) {
	hubs, err := RunningHubs()
	if err != nil {
		return RunningHub{}, err
	}
	var names []string
	for _, hub := range hubs {
		if hub.Project == nameOrURL || slices.Contains(hub.URLs, nameOrURL) || nameOrURL == "" && len(hubs) == 1 {
			return hub, nil
		}
		names = append(names, hub.Project)
	}
	const elsewhere = "or, if the fleet is on another machine, give the controller's token with --fleet-token FILE or WIRELAB_TOKEN"
	switch {
	case len(hubs) == 0:
		return RunningHub{}, errors.New("no fleet is up on this machine: start one with `wirelab fleet up`, " + elsewhere)
	case nameOrURL == "":
		return RunningHub{}, fmt.Errorf("%d fleets are up on this machine: choose one of %s with --fleet", len(hubs), strings.Join(names, ", "))
	default:
		return RunningHub{}, fmt.Errorf("no fleet %q is up on this machine: choose one of %s, %s", nameOrURL, strings.Join(names, ", "), elsewhere)
	}
}

// LocalCredentials returns the controller's credentials for the fleet with this name or URL. For ""
// it uses the only fleet. It reads the state of a hub that runs on this machine.
func LocalCredentials(nameOrURL string) (*protocol.Credentials, error) {
	hub, err := FindHub(nameOrURL)
	if err != nil {
		return nil, err
	}
	return protocol.ReadTokenFile(TokenFile(hub.Dir, protocol.RoleController))
}

// ControllerCredentials returns the controller's credentials for a fleet. The token is in tokenFile
// or TokenVariable; without a token, the hub must be on this machine. Errors name the wrong flag.
func ControllerCredentials(nameOrURL, tokenFile string) (*protocol.Credentials, error) {
	var (
		c    *protocol.Credentials
		err  error
		text = os.Getenv(protocol.TokenVariable)
	)
	switch {
	case tokenFile != "":
		if c, err = protocol.ReadTokenFile(tokenFile); err != nil {
			err = fmt.Errorf("--fleet-token: %w", err)
		}
	case text != "":
		if c, err = protocol.ParseToken(text); err != nil {
			err = fmt.Errorf(protocol.TokenVariable+": %w", err)
		}
	default:
		return LocalCredentials(nameOrURL)
	}
	if err != nil {
		return nil, err
	}
	if strings.Contains(nameOrURL, "://") {
		c.URLs = []string{nameOrURL}
	} else if nameOrURL != "" && nameOrURL != c.Project {
		return nil, fmt.Errorf("--fleet %s: the token belongs to the fleet %s: use that name, or the token of %[1]s", nameOrURL, c.Project)
	}
	if c.Role != protocol.RoleController {
		return nil, errors.New("this is an agent's token, which cannot start runs: `wirelab fleet token --role controller` prints the controller's token")
	}
	return c, nil
}

// A lockedState is a state folder that this hub has locked until the hub's process ends.
type lockedState struct {
	dir  string
	lock *os.File
}

func lockState(dir string) (*lockedState, error) {
	if dir == "" {
		return nil, errors.New("the hub has no folder for its state: give one with --state")
	}
	if err := makeSecretFolder(dir); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, secretFileMode)
	if err != nil {
		return nil, fmt.Errorf("lock the fleet's state: %w", err)
	}
	const (
		patience = time.Second // processes that only test the lock release it sooner
		pause    = 10 * time.Millisecond
	)
	for waited := time.Duration(0); ; waited += pause {
		err = system.Lock(file)
		if err == nil {
			return &lockedState{dir, file}, nil
		}
		if waited >= patience || !errors.Is(err, system.ErrLocked) {
			break
		}
		time.Sleep(pause)
	}
	_ = file.Close()
	if hub, ok := runningIn(dir); ok {
		return nil, fmt.Errorf("the fleet %s is up already at %s (process %d): use it, end it with `wirelab fleet down`, or give the new fleet another --name",
			hub.Project, strings.Join(hub.URLs, ", "), hub.PID)
	}
	return nil, fmt.Errorf("lock the fleet's state in %s: %w", dir, err)
}

// replaceFile replaces a file in one step: a reader sees either the old or the new content.
func replaceFile(path string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err := errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return os.Rename(file.Name(), path)
}

func (s *lockedState) release() error {
	var gone error
	left, err := filepath.Glob(TokenFile(s.dir, "*"))
	if err != nil {
		return errors.Join(err, s.lock.Close())
	}
	left = append(left, filepath.Join(s.dir, hubFile))
	for _, path := range left {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			gone = errors.Join(gone, err)
		}
	}
	return errors.Join(gone, s.lock.Close())
}
