package symbol

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"sort"
	"strconv"
	"sync"

	"wirelab.dev/internal/machine/host"
)

// Kernel holds the functions of the running kernel.
type Kernel struct {
	starts []uint64
	names  []string
}

// OfKernel reads them once.
var OfKernel = sync.OnceValues(func() (*Kernel, error) {
	file, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, fmt.Errorf("name the kernel's functions: %w: %w", host.ErrUnsupported, err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	return parseKernel(bufio.NewScanner(file))
})

var errHidden = fmt.Errorf("name the kernel's functions: %w: their addresses are hidden; sysctl kernel.kptr_restrict=0, or run as root", host.ErrUnsupported)

// parseKernel reads lines such as `ffffffff81000000 T _stext [module]`.
func parseKernel(lines *bufio.Scanner) (*Kernel, error) {
	k := &Kernel{}
	for lines.Scan() {
		fields := bytes.Fields(lines.Bytes())
		if len(fields) < 3 || len(fields[1]) != 1 || !bytes.ContainsAny(fields[1], "tTwW") {
			continue
		}
		start, err := strconv.ParseUint(string(fields[0]), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("parse /proc/kallsyms: %w", err)
		}
		if start > 0 {
			k.starts, k.names = append(k.starts, start), append(k.names, string(fields[2]))
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read /proc/kallsyms: %w", err)
	}
	if len(k.starts) == 0 {
		return nil, errHidden
	}
	sort.Stable(k)
	return k, nil
}

// Name returns the function that a program counter lies in.
func (k *Kernel) Name(pc uint64) string {
	if k == nil {
		return "" // hidden
	}
	after := sort.Search(len(k.starts), func(i int) bool { return k.starts[i] > pc })
	if after == 0 {
		return ""
	}
	return k.names[after-1]
}

func (k *Kernel) Len() int           { return len(k.starts) }
func (k *Kernel) Less(i, j int) bool { return k.starts[i] < k.starts[j] }
func (k *Kernel) Swap(i, j int) {
	k.starts[i], k.starts[j] = k.starts[j], k.starts[i]
	k.names[i], k.names[j] = k.names[j], k.names[i]
}
