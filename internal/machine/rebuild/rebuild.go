// Package rebuild builds wirelab with a changed Go runtime, which has another size limit between
// small and large objects. Only the runtime's table of size classes differs. The go command reads
// the changed file from an overlay.
//
// The package computes the table like the Go project's generator. As a check, it first computes the
// table for the usual limit. Build returns an error if that table differs from the toolchain's.
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

const programPackage = "wirelab.dev/cmd/wirelab"

// Build builds wirelab with a runtime whose small objects have at most limit bytes. It needs the Go
// version that built this program. The working directory must be a clone of the repository.
func Build(ctx context.Context, limit int, progress io.Writer) (path string, _ error) {
	golang, err := exec.LookPath("go")
	if err != nil {
		return "", fmt.Errorf("the go command is missing: install %s: %w", runtime.Version(), err)
	}
	toolchain, err := runCommand(ctx, golang, "env", "GOROOT", "GOVERSION")
	if err != nil {
		return "", err
	}
	root, version, _ := strings.Cut(toolchain, "\n")
	if version != runtime.Version() {
		return "", fmt.Errorf("the go command has version %s, but this wirelab was built with %s: build wirelab again with this go command, because only the limit may differ", version, runtime.Version())
	}
	stock := filepath.Join(root, "src", "internal", "runtime", "gc", "sizeclasses.go")
	theirs, err := os.ReadFile(stock)
	if err != nil || !isStandardTable(theirs) {
		return "", fmt.Errorf("wirelab cannot change the size classes of %s: use go1.26", version)
	}
	if folder, err := runCommand(ctx, golang, "list", "-f", "{{.Dir}}", programPackage); err != nil || folder == "" {
		return "", errors.Join(fmt.Errorf("the package %s is not in the working directory: run wirelab in a clone of its repository", programPackage), err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache folder: %w", err)
	}
	folder := filepath.Join(cache, "wirelab", fmt.Sprintf("smallobject-%d-%s", limit, version))
	path = filepath.Join(folder, "wirelab")
	fmt.Fprintf(progress, "building wirelab in %s with a Go runtime whose small objects have up to %d KiB; the first build takes some minutes\n", folder, limit>>10)
	overlay, err := writeOverlay(folder, stock, limit)
	if err != nil {
		return "", err
	}
	arguments := append([]string{"build", "-overlay", overlay, "-o", path}, ownBuildFlags()...)
	if _, err := runCommand(ctx, golang, append(arguments, programPackage)...); err != nil {
		return "", err
	}
	if text, err := runCommand(ctx, path, "small-object"); err != nil || text != fmt.Sprint(limit) {
		return "", errors.Join(fmt.Errorf("the new program treats objects of up to %s bytes as small, but the limit should be %d bytes", text, limit), err)
	}
	return path, nil
}

func writeOverlay(folder, stock string, limit int) (string, error) {
	text, err := sizeClassTable(limit)
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

func ownBuildFlags() []string {
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

func runCommand(ctx context.Context, name string, arguments ...string) (string, error) {
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

// SmallObjectLimit returns the limit of this program's runtime. It allocates to find the limit: a
// small object gets the size of its class, and a large object gets whole pages.
func SmallObjectLimit() int {
	// If objects of these sizes are small, their classes have 36,864 bytes (4.5 pages) and 18,432
	// bytes (2.25 pages).
	switch {
	case cap(append([]byte(nil), make([]byte, 33_000)...))%pageBytes != 0:
		return 64 << 10
	case cap(append([]byte(nil), make([]byte, 18_000)...))%pageBytes != 0:
		return usualLimit
	}
	return 16 << 10
}

// Constants of the runtime's generator, runtime/_mkmalloc/constants.go.
const (
	usualLimit   = 32 << 10 // limit of small objects in an unchanged runtime
	minAlign     = 8
	smallSizeDiv = 8
	smallSizeMax = 1024
	largeSizeDiv = 128
	pageShift    = 13
	pageBytes    = 1 << pageShift
	tinyBytes    = 16
)

// A sizeClass is a size of small objects, and the number of pages that are divided into them.
type sizeClass struct{ size, pages int }

// sizeClassesUpTo returns the size classes for a limit. The first class is empty. Each class wastes
// at most an eighth of its pages.
func sizeClassesUpTo(limit int) []sizeClass {
	classes := []sizeClass{{}}
	align := minAlign
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
			last.size = size // the same number of objects of this size fits
			continue
		}
		classes = append(classes, sizeClass{size, span / pageBytes})
	}
	for i := range classes[1:] { // raise each size as long as the same number of objects fits
		c := &classes[i+1]
		span := c.pages * pageBytes
		c.size = max(c.size, span/(span/c.size)&^(largeSizeDiv-1))
	}
	return classes
}

func isPowerOfTwo(n int) bool { return n > 0 && n&(n-1) == 0 }

// canNumberObjects reports whether the runtime's division by multiplication is exact for the class.
// The runtime uses this division to compute an object's number from its address.
func (c sizeClass) canNumberObjects() bool {
	magic := ^uint32(0)/uint32(c.size) + 1
	for place := range c.pages*pageBytes + 1 {
		if uint32(uint64(place)*uint64(magic)>>32) != uint32(place/c.size) {
			return false
		}
	}
	return true
}

// sizeClassTable returns the source of internal/runtime/gc/sizeclasses.go for a limit.
func sizeClassTable(limit int) ([]byte, error) {
	classes := sizeClassesUpTo(limit)
	var most, mostPages int
	for _, c := range classes[1:] {
		if !c.canNumberObjects() {
			return nil, fmt.Errorf("the runtime cannot have a limit of %d bytes: it could not number objects of %d bytes in %d pages; choose another limit", limit, c.size, c.pages)
		}
		most, mostPages = max(most, c.pages*pageBytes/c.size), max(mostPages, c.pages)
	}
	classOf := func(size int) int {
		for i, c := range classes {
			if c.size >= size {
				return i
			}
		}
		return 0 // the largest class has the size of the limit
	}
	number := "uint16"
	if limit > 1<<16-1 {
		number = "uint32"
	}
	var code bytes.Buffer
	fmt.Fprintf(&code, "package gc\n\nconst (\nMinHeapAlign = %d\nMaxSmallSize = %d\nSmallSizeDiv = %d\nSmallSizeMax = %d\nLargeSizeDiv = %d\n", minAlign, limit, smallSizeDiv, smallSizeMax, largeSizeDiv)
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
	list("SizeToSizeClass8", "SmallSizeMax/SmallSizeDiv + 1", "uint8", smallSizeMax/smallSizeDiv+1, func(i int) string { return strconv.Itoa(classOf(i * smallSizeDiv)) })
	list("SizeToSizeClass128", "(MaxSmallSize-SmallSizeMax)/LargeSizeDiv + 1", "uint8", (limit-smallSizeMax)/largeSizeDiv+1, func(i int) string { return strconv.Itoa(classOf(smallSizeMax + i*largeSizeDiv)) })
	return format.Source(code.Bytes())
}

// isStandardTable reports whether a toolchain's table equals sizeClassTable's table for the usual
// limit, apart from comments.
func isStandardTable(theirs []byte) bool {
	ours, err := sizeClassTable(usualLimit)
	if err != nil {
		return false
	}
	bare := func(text []byte) string {
		text = regexp.MustCompile(`(?m)^//.*$`).ReplaceAll(text, nil)
		return strings.Join(strings.Fields(string(text)), " ")
	}
	return bare(ours) == bare(theirs)
}
