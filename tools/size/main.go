// Size prints what each module adds to the program, largest first:
//
//	size -of ../bin/wirelab -symbols wirelab-with-symbols
//
// The linker's symbols have sizes. Go's descriptions of functions, lines and types have no symbols:
// each module gets a share of them by its code. A -limit makes a larger program an
// error.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"debug/buildinfo"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

func main() {
	program := flag.String("of", "../bin/wirelab", "the `program` as it is released")
	symbols := flag.String("symbols", "", "the same `program`, built without -s -w")
	limit := flag.Float64("limit", 0, "largest size in `MB`, 0 for any")
	flag.Parse()
	if err := run(os.Stdout, *program, *symbols, *limit); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, program, symbols string, limit float64) error {
	info, err := buildinfo.ReadFile(symbols)
	if err != nil {
		return fmt.Errorf("read %s: %w: build it without -ldflags='-s -w'", symbols, err)
	}
	file, err := os.Stat(program)
	if err != nil {
		return err
	}
	listed, err := exec.Command("go", "tool", "nm", "-size", symbols).Output() //nolint:gosec,noctx // the caller's own program
	if err != nil {
		return fmt.Errorf("go tool nm %s: %w", symbols, err)
	}
	modules := []string{info.Main.Path}
	for _, m := range info.Deps {
		modules = append(modules, m.Path)
	}
	parts := sizes(bytes.NewReader(listed), modules)
	total := float64(file.Size()) / 1e6
	if err := write(out, parts, total); err != nil {
		return err
	}
	if limit > 0 && total > limit {
		return fmt.Errorf("%s has %.1f MB, more than the limit of %.1f MB", program, total, limit)
	}
	return nil
}

// A part is what one module adds, in bytes.
type part struct {
	module     string
	code, data int64
}

// sizes sums the symbols by module. Symbols without content in the file count as nothing.
func sizes(listed io.Reader, modules []string) []part {
	byModule := map[string]*part{}
	lines := bufio.NewScanner(listed)
	lines.Buffer(nil, 1<<20) // names of generic functions are long
	for lines.Scan() {
		fields := strings.Fields(lines.Text()) // address, size, kind, name
		if len(fields) < 4 {
			continue
		}
		size, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil || size < 0 {
			continue
		}
		kind, module := fields[2], moduleOf(fields[3], modules)
		if strings.EqualFold(kind, "b") || inMemoryOnly(fields[3]) {
			continue
		}
		p := byModule[module]
		if p == nil {
			p = &part{module: module}
			byModule[module] = p
		}
		if strings.EqualFold(kind, "t") {
			p.code += size
		} else {
			p.data += size
		}
	}
	var all []part
	for _, p := range byModule {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b part) int {
		return cmp.Or(cmp.Compare(b.code+b.data, a.code+a.data), cmp.Compare(a.module, b.module))
	})
	return all
}

// inMemoryOnly reports whether nm takes a variable without content for one with content.
func inMemoryOnly(symbol string) bool {
	return symbol == "crypto/internal/fips140/drbg.memory" || strings.HasPrefix(symbol, "runtime.") && strings.HasSuffix(symbol, "heap_")
}

// moduleOf returns the module of a symbol; std if it has none.
func moduleOf(symbol string, modules []string) string {
	symbol = strings.NewReplacer("type:.eq.", "", "type:.hash.", "", "go:itab.", "", "type:", "", "*", "", "%2e", ".").Replace(symbol)
	best := "std"
	for _, m := range modules {
		if strings.HasPrefix(symbol, m) && len(m) > len(best) && strings.ContainsRune("/.", rune(symbol[min(len(m), len(symbol)-1)])) {
			best = m
		}
	}
	if best == "std" && strings.HasPrefix(symbol, "main.") {
		return modules[0]
	}
	return best
}

func write(out io.Writer, parts []part, total float64) error {
	var known, code float64
	for _, p := range parts {
		known, code = known+float64(p.code+p.data)/1e6, code+float64(p.code)/1e6
	}
	tables := total - known
	const shown = 25
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, "%8s %8s %8s  %s\n", "MB", "code", "data", "module")
	var rest part
	for i, p := range parts {
		if i >= shown {
			rest.code, rest.data = rest.code+p.code, rest.data+p.data
			continue
		}
		line(w, p, tables/code)
	}
	rest.module = fmt.Sprintf("%d others", max(0, len(parts)-shown))
	line(w, rest, tables/code)
	fmt.Fprintf(w, "%8.1f MB in all; %.1f MB describe functions, lines and types, and are divided among modules by their code\n", total, tables)
	return w.Flush()
}

func line(w io.Writer, p part, tablesPerCode float64) {
	code, data := float64(p.code)/1e6, float64(p.data)/1e6
	fmt.Fprintf(w, "%8.2f %8.2f %8.2f  %s\n", code+data+code*tablesPerCode, code, data, p.module)
}
