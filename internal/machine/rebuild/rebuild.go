// Package rebuild builds wirelab's own program with another Go runtime, whose allocator treats
// objects up to another size as small. The toolchain stays the same: only one file of the
// runtime differs, the table of size classes, which the go command takes from an overlay.
//
// The table follows the rules of the toolchain's own generator. This is checked first: for the
// usual limit, the rules must produce the toolchain's own table. Otherwise the toolchain is
// refused.
package rebuild

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/format"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
)

// program is the package that is built.
const program = "wirelab.dev/cmd/wirelab"

// Build builds wirelab's program with a runtime that has the limit, in bytes, and prints its
// progress. It needs a Go toolchain of this program's version, and a clone as working directory.
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
		return "", fmt.Errorf("the go command is %s, and this wirelab was built by %s: the runtimes would differ in more than the limit; build wirelab with the former, or install the latter", version, runtime.Version())
	}
	stock := filepath.Join(root, "src", "internal", "runtime", "gc", "sizeclasses.go")
	theirs, err := os.ReadFile(stock)
	if err != nil || !isUsual(theirs) {
		return "", fmt.Errorf("the runtime of %s has another table of size classes than wirelab can make (known are go1.26's)", version)
	}
	if folder, err := ask(ctx, golang, "list", "-f", "{{.Dir}}", program); err != nil || folder == "" {
		return "", errors.Join(fmt.Errorf("%s cannot be found from here: run wirelab in a clone of its repository", program), err)
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
		return "", errors.Join(fmt.Errorf("the new program has a limit of %s bytes, want %d", text, limit), err)
	}
	return path, nil
}

// writeOverlay writes the table, and the overlay file for the go command.
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

// usualFlags returns the flags that this program was built with, as far as they are known.
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

// SmallObject returns the limit of this program's runtime. It finds it by allocating: a small
// object gets the room of its class, a large one whole pages.
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

// Constants of the runtime's table, runtime/_mkmalloc/constants.go.
const (
	usualLimit = 32 << 10 // for small objects
	leastAlign = 8
	smallStep  = 8
	smallMost  = 1024
	largeStep  = 128
	pageShift  = 13
	pageBytes  = 1 << pageShift
	tinyBytes  = 16
)

// A class is a size of small objects, and the pages that are cut into such objects.
type class struct{ size, pages int }

// classesUpTo returns the size classes for a limit, the empty one first: their sizes lie far
// enough apart, and at most an eighth of a page is lost.
func classesUpTo(limit int) []class {
	classes := []class{{}}
	align := leastAlign
	for size := align; size <= limit; size += align {
		if isPowerOfTwo(size) {
			switch {
			case size >= 2048:
				align = 256
			case size >= 128:
				align = size / 8
			case size >= 32:
				align = 16
			}
		}
		span := pageBytes
		for span%size > span/8 {
			span += pageBytes
		}
		last := &classes[len(classes)-1]
		if last.size > 0 && span/pageBytes == last.pages && span/size == span/last.size {
			last.size = size // as many objects of this size fit
			continue
		}
		classes = append(classes, class{size, span / pageBytes})
	}
	for i := range classes[1:] { // the largest size that still fits as often
		c := &classes[i+1]
		span := c.pages * pageBytes
		c.size = max(c.size, span/(span/c.size)&^(largeStep-1))
	}
	return classes
}

func isPowerOfTwo(n int) bool { return n > 0 && n&(n-1) == 0 }

// divides reports whether the runtime's multiplication finds every object's number in a page run.
func (c class) divides() bool {
	magic := ^uint32(0)/uint32(c.size) + 1
	for place := range c.pages*pageBytes + 1 {
		if uint32(uint64(place)*uint64(magic)>>32) != uint32(place/c.size) {
			return false
		}
	}
	return true
}

// table returns the text of internal/runtime/gc/sizeclasses.go for a limit.
func table(limit int) ([]byte, error) {
	classes := classesUpTo(limit)
	var most, mostPages int
	for _, c := range classes[1:] {
		if !c.divides() {
			return nil, fmt.Errorf("a limit of %d bytes: the runtime cannot number objects of %d bytes in %d pages", limit, c.size, c.pages)
		}
		most, mostPages = max(most, c.pages*pageBytes/c.size), max(mostPages, c.pages)
	}
	classOf := func(size int) int {
		for i, c := range classes {
			if c.size >= size {
				return i
			}
		}
		return 0 // the largest class has the limit's size
	}
	number := "uint16"
	if limit > 1<<16-1 {
		number = "uint32"
	}
	var code bytes.Buffer
	fmt.Fprintf(&code, "package gc\n\nconst (\nMinHeapAlign = %d\nMaxSmallSize = %d\nSmallSizeDiv = %d\nSmallSizeMax = %d\nLargeSizeDiv = %d\n", leastAlign, limit, smallStep, smallMost, largeStep)
	fmt.Fprintf(&code, "NumSizeClasses = %d\nPageShift = %d\nMaxObjsPerSpan = %d\nMaxSizeClassNPages = %d\nTinySize = %d\nTinySizeClass = %d\n)\n\n", len(classes), pageShift, most, mostPages, tinyBytes, classOf(tinyBytes))
	list := func(name, of, kind string, n int, value func(int) string) {
		values := make([]string, n)
		for i := range values {
			values[i] = value(i)
		}
		fmt.Fprintf(&code, "var %s = [%s]%s{%s}\n", name, of, kind, strings.Join(values, ", "))
	}
	list("SizeClassToSize", "NumSizeClasses", number, len(classes), func(i int) string { return strconv.Itoa(classes[i].size) })
	list("SizeClassToNPages", "NumSizeClasses", "uint8", len(classes), func(i int) string { return strconv.Itoa(classes[i].pages) })
	list("SizeClassToDivMagic", "NumSizeClasses", "uint32", len(classes), func(i int) string {
		if i == 0 {
			return "0"
		}
		return fmt.Sprintf("^uint32(0)/%d + 1", classes[i].size)
	})
	list("SizeToSizeClass8", "SmallSizeMax/SmallSizeDiv + 1", "uint8", smallMost/smallStep+1, func(i int) string { return strconv.Itoa(classOf(i * smallStep)) })
	list("SizeToSizeClass128", "(MaxSmallSize-SmallSizeMax)/LargeSizeDiv + 1", "uint8", (limit-smallMost)/largeStep+1, func(i int) string { return strconv.Itoa(classOf(smallMost + i*largeStep)) })
	return format.Source(code.Bytes())
}

// isUsual reports whether a toolchain's table equals ours for the usual limit, without comments.
func isUsual(theirs []byte) bool {
	ours, err := table(usualLimit)
	if err != nil {
		return false
	}
	bare := func(text []byte) string {
		text = regexp.MustCompile(`(?m)^//.*$`).ReplaceAll(text, nil)
		return strings.Join(strings.Fields(string(text)), " ")
	}
	return bare(ours) == bare(theirs)
}
