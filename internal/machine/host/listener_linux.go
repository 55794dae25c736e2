package host

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Listeners returns the processes that listen at a port of this machine, or at a unix
// socket: a server may have several. It returns none where nothing can be seen, as of
// processes of other users.
func Listeners(network, address string) []int {
	return listeners(os.DirFS("/proc"), network, address)
}

// socketTables describes the kernel's lists of sockets: the column of the address and its ending,
// the column of the state, and the state of a listening socket (proc_net_tcp.rst,
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

// find returns the inodes of the sockets that listen at addresses with this end.
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
			continue // it has ended, or is another user's
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
