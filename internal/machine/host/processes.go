package host

import (
	"bufio"
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Census is the CPU time of every process at one instant, by process number.
type Census map[int]process

// A process holds the needed fields of /proc/PID/stat.
type process struct {
	name     string
	parent   int
	started  string        // in ticks since the machine started; with the number it is unique
	own      time.Duration // to 10 ms
	children time.Duration // of ended children that were waited for, and of their children
}

// A Consumer is a process and the CPU time that it took.
type Consumer struct {
	PID  int
	Name string
	Time time.Duration
}

// TakeCensus reads all processes that this one may see. It costs 10 µs per process.
func TakeCensus() Census { return takeCensus(os.DirFS("/proc")) }

func takeCensus(proc fs.FS) Census {
	entries, err := fs.ReadDir(proc, ".")
	if err != nil {
		return nil
	}
	census := Census{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := readText(proc, entry.Name()+"/stat")
		if err != nil {
			continue // it has ended since it was listed
		}
		if p, ok := parseProcess(stat); ok {
			census[pid] = p
		}
	}
	return census
}

// parseProcess reads /proc/PID/stat, proc_pid_stat(5).
func parseProcess(stat string) (process, bool) {
	const (
		tick       = 10 * time.Millisecond // USER_HZ is 100 wherever Go runs
		firstField = 3                     // after the name, which may hold any character
		parent     = 4 - firstField
		user       = 14 - firstField
		started    = 22 - firstField
	)
	open, end := strings.IndexByte(stat, '('), strings.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return process{}, false
	}
	fields := strings.Fields(stat[end+1:])
	if len(fields) <= started {
		return process{}, false
	}
	p := process{name: stat[open+1 : end], started: fields[started]}
	var ticks [4]int64 // user and system, its own and its children's
	for i := range ticks {
		value, err := strconv.ParseInt(fields[user+i], 10, 64)
		if err != nil {
			return process{}, false
		}
		ticks[i] = value
	}
	p.own, p.children = time.Duration(ticks[0]+ticks[1])*tick, time.Duration(ticks[2]+ticks[3])*tick
	var err error
	p.parent, err = strconv.Atoi(fields[parent])
	return p, err == nil
}

// Family returns a process and all of its descendants.
func (c Census) Family(ancestor int) []int {
	family := []int{ancestor}
	for pid := range c {
		if pid != ancestor && c.descends(pid, ancestor) {
			family = append(family, pid)
		}
	}
	slices.Sort(family[1:])
	return family
}

// Since returns the processes that took CPU time since an earlier census, most first, without self
// and its descendants. The time of an ended process counts for the parent that waited for it.
func (c Census) Since(earlier Census, self int) []Consumer {
	var consumers []Consumer
	for pid, now := range c {
		if c.descends(pid, self) {
			continue
		}
		took := now.own + now.children
		if before, known := earlier[pid]; known && before.started == now.started {
			took -= before.own + before.children + earlier.ended(pid, c)
		}
		if took > 0 {
			consumers = append(consumers, Consumer{PID: pid, Name: now.name, Time: took})
		}
	}
	slices.SortFunc(consumers, func(a, b Consumer) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.PID, b.PID))
	})
	return consumers
}

// ended returns the earlier CPU time of children that have ended: their parent now includes it.
func (c Census) ended(parent int, now Census) time.Duration {
	var sum time.Duration
	for pid, p := range c {
		if p.parent != parent {
			continue
		}
		if still, lives := now[pid]; lives && still.started == p.started {
			continue
		}
		sum += p.own + p.children + c.ended(pid, now)
	}
	return sum
}

// descends reports whether a process is the ancestor or one of its descendants.
func (c Census) descends(pid, ancestor int) bool {
	for range c { // no chain of ancestors is longer
		if pid == ancestor {
			return true
		}
		p, known := c[pid]
		if !known {
			return false
		}
		pid = p.parent
	}
	return false
}

// Listeners returns the processes that listen at a port of this machine, or at a unix socket. It
// does not find processes that this one may not inspect, such as those of other users.
func Listeners(network, address string) []int {
	return listeners(os.DirFS("/proc"), network, address)
}

// socketTables describes the kernel's lists of sockets (proc_net_tcp.rst, proc_net_unix(5)).
var socketTables = map[string][]socketTable{
	"tcp": {
		{file: "net/tcp", address: 1, state: 3, listens: "0A", inode: 9},
		{file: "net/tcp6", address: 1, state: 3, listens: "0A", inode: 9},
	},
	"udp": {
		{file: "net/udp", address: 1, state: 3, listens: "07", inode: 9},
		{file: "net/udp6", address: 1, state: 3, listens: "07", inode: 9},
	},
	"unix": {{file: "net/unix", address: 7, state: 3, listens: "00010000", inode: 6}},
}

type socketTable struct {
	file           string
	address, state int // columns
	listens        string
	inode          int // a column
}

func listeners(proc fs.FS, network, address string) []int {
	ends := address
	if network != "unix" {
		port, err := strconv.ParseUint(address[strings.LastIndexByte(address, ':')+1:], 10, 16)
		if err != nil {
			return nil
		}
		ends = fmt.Sprintf(":%04X", port)
	}
	var inodes []string
	for _, table := range socketTables[network] {
		inodes = append(inodes, table.find(proc, ends)...)
	}
	if len(inodes) == 0 {
		return nil
	}
	return holders(proc, inodes)
}

// find returns the inodes of listening sockets whose address ends like this.
func (t socketTable) find(proc fs.FS, ends string) (inodes []string) {
	file, err := proc.Open(t.file)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		columns := strings.Fields(lines.Text())
		if len(columns) > max(t.address, t.state, t.inode) && columns[t.state] == t.listens && strings.HasSuffix(columns[t.address], ends) {
			inodes = append(inodes, columns[t.inode])
		}
	}
	return inodes
}

// holders returns the processes that have one of the sockets open.
func holders(proc fs.FS, inodes []string) (pids []int) {
	processes, err := fs.ReadDir(proc, ".")
	if err != nil {
		return nil
	}
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil {
			continue
		}
		open, err := fs.ReadDir(proc, p.Name()+"/fd")
		if err != nil {
			continue // it has ended, or belongs to another user
		}
		if slices.ContainsFunc(open, func(f fs.DirEntry) bool {
			name, err := fs.ReadLink(proc, p.Name()+"/fd/"+f.Name())
			inode, is := strings.CutPrefix(name, "socket:[")
			return err == nil && is && slices.Contains(inodes, strings.TrimSuffix(inode, "]"))
		}) {
			pids = append(pids, pid)
		}
	}
	return pids
}
