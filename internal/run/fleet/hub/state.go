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
	"syscall"
	"time"

	"wirelab.dev/internal/run/fleet/protocol"
)

// Files of a fleet's state.
const (
	keysFile = "keys.json"
	hubFile  = "hub.json"
	lockFile = "lock"
	logFile  = "hub.log"
)

// fleetsVariable is the environment variable that moves the states of all fleets.
const fleetsVariable = "WIRELAB_FLEETS"

// A Running is a hub that runs on this machine.
type Running struct {
	Project string    `json:"project"`
	PID     int       `json:"pid"`
	URLs    []string  `json:"urls"`
	Listen  string    `json:"listen"`
	TLS     bool      `json:"tls"`
	Started time.Time `json:"started"`
	Version string    `json:"version"`
	Dir     string    `json:"-"` // the folder of its state
}

// Runs reports whether the hub still runs.
func (r Running) Runs() bool {
	now, ok := runningIn(r.Dir)
	return ok && now.PID == r.PID
}

// End asks the hub to end and waits for it. The process PID holds the state's lock.
func (r Running) End(ctx context.Context) error {
	const (
		patience = 30 * time.Second
		pause    = 20 * time.Millisecond
	)
	if err := syscall.Kill(r.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end the hub (process %d): %w", r.PID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for r.Runs() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the hub (process %d) was asked to end, and did not within %v", r.PID, patience)
		case <-time.After(pause):
		}
	}
	return nil
}

// StateDir returns the folder of a fleet's state.
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

// LogFile returns the log of a hub in the background.
func LogFile(stateDir string) string { return filepath.Join(stateDir, logFile) }

// TokenFile returns the file in which a running hub leaves a role's token.
func TokenFile(stateDir, role string) string { return filepath.Join(stateDir, role+".token") }

// fleetsDir follows the XDG Base Directory Specification.
func fleetsDir() (string, error) {
	if at := os.Getenv(fleetsVariable); at != "" {
		return filepath.Abs(at)
	}
	if at := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(at) {
		return filepath.Join(at, "wirelab", "fleets"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the folder of the fleets' states: %w; set %s", err, fleetsVariable)
	}
	return filepath.Join(home, ".local", "state", "wirelab", "fleets"), nil
}

// RunningHubs returns this user's hubs on this machine, sorted by name.
func RunningHubs() ([]Running, error) {
	all, err := fleetsDir()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(all)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for fleets: %w", err)
	}
	var hubs []Running
	for _, entry := range entries {
		if hub, ok := runningIn(filepath.Join(all, entry.Name())); ok {
			hubs = append(hubs, hub)
		}
	}
	return hubs, nil
}

// runningIn returns the hub that holds the lock of the state, if any. The lock ends with its
// process, so the process number is right while the lock is held.
func runningIn(dir string) (Running, bool) {
	file, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return Running{}, false
	}
	defer func() { _ = file.Close() }()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		return Running{}, false
	}
	text, err := os.ReadFile(filepath.Join(dir, hubFile))
	if err != nil {
		return Running{}, false
	}
	hub := Running{Dir: dir}
	if json.Unmarshal(text, &hub) != nil || hub.PID <= 1 {
		return Running{}, false
	}
	return hub, true
}

// FindHub returns the running hub with a name or a URL, or the only one for "".
func FindHub(nameOrURL string) (Running, error) {
	hubs, err := RunningHubs()
	if err != nil {
		return Running{}, err
	}
	var names []string
	for _, hub := range hubs {
		if hub.Project == nameOrURL || slices.Contains(hub.URLs, nameOrURL) || nameOrURL == "" && len(hubs) == 1 {
			return hub, nil
		}
		names = append(names, hub.Project)
	}
	const elsewhere = "or give the controller's token, by --fleet-token FILE or WIRELAB_TOKEN, if it runs on another machine"
	switch {
	case len(hubs) == 0:
		return Running{}, errors.New("no fleet is up on this machine: start one by wirelab fleet up, " + elsewhere)
	case nameOrURL == "":
		return Running{}, fmt.Errorf("%d fleets are up on this machine: name one of %s by --fleet", len(hubs), strings.Join(names, ", "))
	default:
		return Running{}, fmt.Errorf("no fleet %q is up on this machine: there are %s; name one of them, %s", nameOrURL, strings.Join(names, ", "), elsewhere)
	}
}

// FindFleet returns the controller's credentials of the fleet with a name or a URL, or of the only
// one for "", from the state of the hubs that run on this machine.
func FindFleet(nameOrURL string) (*protocol.Credentials, error) {
	hub, err := FindHub(nameOrURL)
	if err != nil {
		return nil, err
	}
	return protocol.ReadTokenFile(TokenFile(hub.Dir, protocol.RoleController))
}

// ControllerCredentials returns the controller's credentials of a fleet, by its name or URL: from
// the token in a file, or in TokenVariable, or from the hub on this machine. Errors name the flag.
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
		return FindFleet(nameOrURL)
	}
	if err != nil {
		return nil, err
	}
	if strings.Contains(nameOrURL, "://") {
		c.URLs = []string{nameOrURL}
	} else if nameOrURL != "" && nameOrURL != c.Project {
		return nil, fmt.Errorf("--fleet %s: the token is of the fleet %s", nameOrURL, c.Project)
	}
	if c.Role() != protocol.RoleController {
		return nil, errors.New("the token is an agent's, which cannot measure: wirelab fleet token --role controller prints the controller's")
	}
	return c, nil
}

// A heldState is a folder that one hub has locked. The system releases the lock when the process
// ends, for whatever reason.
type heldState struct {
	dir  string
	lock *os.File
}

func holdState(dir string) (*heldState, error) {
	if dir == "" {
		return nil, errors.New("a hub needs a folder for its state")
	}
	if err := makeSecretFolder(dir); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, secretFile)
	if err != nil {
		return nil, fmt.Errorf("lock the fleet's state: %w", err)
	}
	const (
		patience = time.Second // for processes that only look whether the lock is held
		pause    = 10 * time.Millisecond
	)
	for waited := time.Duration(0); ; waited += pause {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return &heldState{dir, file}, nil
		}
		if waited >= patience || !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		time.Sleep(pause)
	}
	_ = file.Close()
	if hub, ok := runningIn(dir); ok {
		return nil, fmt.Errorf("the fleet %s is up already, at %s (process %d): use it, end it by wirelab fleet down, or give this one another --name",
			hub.Project, strings.Join(hub.URLs, ", "), hub.PID)
	}
	return nil, fmt.Errorf("lock the fleet's state in %s: %w", dir, err)
}

// replace writes a whole file: a reader sees the old file or the new one.
func replace(path string, text []byte) error {
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

func (s *heldState) release() error {
	var gone error
	left := []string{filepath.Join(s.dir, hubFile)}
	for _, role := range protocol.Roles() {
		left = append(left, TokenFile(s.dir, role))
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			gone = errors.Join(gone, err)
		}
	}
	return errors.Join(gone, s.lock.Close())
}
