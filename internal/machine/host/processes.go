package host

import (
	"bufio"
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"wirelab.dev/internal/base/lists"
)

// A ProcessTable maps process numbers to the CPU times of all processes at one instant.
type ProcessTable map[int]process

// A process holds some fields of /proc/PID/stat.
type process struct {
	name     string
	parent   int
	started  string        // start time, which distinguishes processes with the same number
	own      time.Duration // CPU time of the process itself, in steps of 10 ms
	children time.Duration // CPU time of ended children that the process waited for
}

// A CPUConsumer is a process and the CPU time that it used.
type CPUConsumer struct {
	PID  int
	Name string
	Time time.Duration
}

// ReadProcessTable reads all visible processes. It takes 10 µs per process.
func ReadProcessTable() ProcessTable { return readProcessTable(Proc()) }

func readProcessTable(proc fs.FS) ProcessTable {
	entries, err := fs.ReadDir(proc, ".")
	if err != nil {
		return nil
	}
	census := ProcessTable{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := readText(proc, entry.Name()+"/stat")
		if err != nil {
			continue // the process has ended since ReadDir
		}
		if p, ok := parseProcess(stat); ok {
			census[pid] = p
		}
	}
	return census
}

func parseProcess(stat string) (process, bool) {
	const (
		tick       = 10 * time.Millisecond // USER_HZ is 100 on all systems that Go supports
		firstField = 3                     // number of the first field after the name
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
	var ticks [4]int64 // user and system time of the process, then of its children
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
func (c ProcessTable) Family(ancestor int) []int {
	family := []int{ancestor}
	for pid := range c {
		if pid != ancestor && c.descendsFrom(pid, ancestor) {
			family = append(family, pid)
		}
	}
	slices.Sort(family[1:])
	return family
}

// Families returns some processes and all of their descendants, each once.
func (c ProcessTable) Families(ancestors []int) []int {
	var all []int
	for _, ancestor := range ancestors {
		for _, pid := range c.Family(ancestor) {
			all = lists.AppendNew(all, pid)
		}
	}
	return all
}

// Since returns the processes that used CPU time after an earlier table, the largest first. It
// leaves out self and its descendants. An ended process counts for its parent.
func (c ProcessTable) Since(earlier ProcessTable, self int) []CPUConsumer {
	var consumers []CPUConsumer
	for pid, now := range c {
		if c.descendsFrom(pid, self) {
			continue
		}
		took := now.own + now.children
		if before, known := earlier[pid]; known && before.started == now.started {
			took -= before.own + before.children + earlier.endedChildrenTime(pid, c)
		}
		if took > 0 {
			consumers = append(consumers, CPUConsumer{PID: pid, Name: now.name, Time: took})
		}
	}
	slices.SortFunc(consumers, func(a, b CPUConsumer) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(a.PID, b.PID))
	})
	return consumers
}

// endedChildrenTime returns the CPU time in this table of children that ended before now. The
// parent's time in now includes that CPU time.
func (c ProcessTable) endedChildrenTime(parent int, now ProcessTable) time.Duration {
	var sum time.Duration
	for pid, p := range c {
		if p.parent != parent {
			continue
		}
		if still, lives := now[pid]; lives && still.started == p.started {
			continue
		}
		sum += p.own + p.children + c.endedChildrenTime(pid, now)
	}
	return sum
}

func (c ProcessTable) descendsFrom(pid, ancestor int) bool {
	for range c { // limits the loop if the table has a cycle
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

// FindListeners returns the processes that listen on a port of this machine, or on a Unix socket.
// It finds only processes that this process may inspect, usually those of the same user.
func FindListeners(network, address string) []int {
	return findListeners(Proc(), network, address)
}

// socketTables describes the kernel's files that list sockets, by network (proc_net_tcp.rst,
// proc_net_unix(5)).
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
	address, state int    // column numbers
	listens        string // state of a listening socket
	inode          int    // column number of the inode
}

func findListeners(proc fs.FS, network, address string) []int {
	ends := address
	var port uint64
	if network != "unix" {
		var err error
		if port, err = strconv.ParseUint(address[strings.LastIndexByte(address, ':')+1:], 10, 16); err != nil {
			return nil
		}
		ends = fmt.Sprintf(":%04X", port)
	}
	var inodes []string
	lister, listed := proc.(socketLister)
	if listed = listed && network == "tcp"; listed {
		var err error
		inodes, err = lister.listeningTCP(uint16(port))
		listed = err == nil // a kernel without this list still has the tables
	}
	if !listed {
		for _, table := range socketTables[network] {
			inodes = append(inodes, table.listeningInodes(proc, ends)...)
		}
	}
	if len(inodes) == 0 {
		return nil
	}
	return processesWithSockets(proc, inodes)
}

// A socketLister lists listening sockets without their tables.
type socketLister interface {
	listeningTCP(port uint16) (inodes []string, err error)
}

func (t socketTable) listeningInodes(proc fs.FS, ends string) (inodes []string) {
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

func processesWithSockets(proc fs.FS, inodes []string) (pids []int) {
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
			continue // the process has ended, or belongs to another user
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
