package rebuild

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
)

// program is the package that is built.
const program = "wirelab.dev/cmd/wirelab"

// Build builds wirelab's program with a runtime that has the limit, in bytes, and prints its
// progress. It takes a Go toolchain of this program's version, and the program's source: it
// must be called in a clone. What the go command has built before it does not build again.
func Build(ctx context.Context, limit int, progress io.Writer) (path string, _ error) {
	golang, err := exec.LookPath("go")
	if err != nil {
		return "", fmt.Errorf("no go command to build with; install %s: %w", runtime.Version(), err)
	}
	toolchain, err := ask(ctx, golang, "env", "GOROOT", "GOVERSION")
	if err != nil {
		return "", err
	}
	root, version, _ := strings.Cut(toolchain, "\n")
	if version != runtime.Version() {
		return "", fmt.Errorf("the go command is %s, and this wirelab was built by %s: the runtimes would differ in more than the limit; build wirelab with the one, or install the other", version, runtime.Version())
	}
	stock := filepath.Join(root, "src", "internal", "runtime", "gc", "sizeclasses.go")
	theirs, err := os.ReadFile(stock)
	if err != nil || !isUsual(theirs) {
		return "", fmt.Errorf("the runtime of %s has another table of size classes than wirelab can make (known are go1.26's)", version)
	}
	if folder, err := ask(ctx, golang, "list", "-f", "{{.Dir}}", program); err != nil || folder == "" {
		return "", errors.Join(fmt.Errorf("%s is not to be found from here: run wirelab in a clone of its repository", program), err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	folder := filepath.Join(cache, "wirelab", fmt.Sprintf("smallobject-%d-%s", limit, version))
	path = filepath.Join(folder, "wirelab")
	fmt.Fprintf(progress, "building wirelab with a runtime whose small objects have up to %d KiB, into %s; the first time takes some minutes\n", limit>>10, folder)
	overlay, err := writeOverlay(folder, stock, limit)
	if err != nil {
		return "", err
	}
	arguments := append([]string{"build", "-overlay", overlay, "-o", path}, usualFlags()...)
	if _, err := ask(ctx, golang, append(arguments, program)...); err != nil {
		return "", err
	}
	if text, err := ask(ctx, path, "small-object"); err != nil || text != fmt.Sprint(limit) {
		return "", errors.Join(fmt.Errorf("what was built has a limit of %s bytes, not %d", text, limit), err)
	}
	return path, nil
}

// writeOverlay writes the table, and the file that tells the go command to take it.
func writeOverlay(folder, stock string, limit int) (string, error) {
	text, err := table(limit)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(folder, "sizeclasses.go"), filepath.Join(folder, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {stock: changed}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(changed, text, 0o644), os.WriteFile(overlay, replace, 0o644))
}

// usualFlags returns the flags with which this program was built, as far as it knows.
func usualFlags() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	var flags []string
	for _, setting := range info.Settings {
		switch setting.Key {
		case "-tags", "-trimpath", "-ldflags", "-race":
			flags = append(flags, setting.Key+"="+setting.Value)
		}
	}
	return flags
}

// ask runs a command and returns what it prints, without the last line end.
func ask(ctx context.Context, name string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	var failed bytes.Buffer
	command.Stderr = &failed
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", filepath.Base(name), arguments[0], err, strings.TrimSpace(failed.String()))
	}
	return strings.TrimSpace(string(text)), nil
}

// SmallObject returns the limit of the runtime that this program has, found by allocating: a
// small object gets the room of its class, a large one whole pages.
func SmallObject() int {
	// Room for 36,864 bytes is 4.5 pages, and for 18,432 2.25: only a class has it.
	switch {
	case cap(append([]byte(nil), make([]byte, 33_000)...))%pageBytes != 0:
		return 64 << 10
	case cap(append([]byte(nil), make([]byte, 18_000)...))%pageBytes != 0:
		return usualLimit
	}
	return 16 << 10
}
