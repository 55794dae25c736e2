package host

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Proc returns the files of /proc. They are read without Go's poller, in half the time of os.DirFS.
func Proc() fs.FS { return procFiles{} }

type procFiles struct{}

var (
	_ fs.ReadFileFS = procFiles{}
	_ fs.ReadDirFS  = procFiles{}
	_ fs.ReadLinkFS = procFiles{}
	_ socketLister  = procFiles{}
)

func (procFiles) Open(name string) (fs.File, error) { return os.Open("/proc/" + name) }

func (procFiles) ReadLink(name string) (string, error) {
	var text [64]byte
	n, err := unix.Readlink("/proc/"+name, text[:])
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(text[:n]), nil
}

func (procFiles) Lstat(name string) (fs.FileInfo, error) { return os.Lstat("/proc/" + name) }

func (procFiles) ReadFile(name string) ([]byte, error) {
	content := make([]byte, 0, 2048)
	err := withFile(name, unix.O_RDONLY, func(file int) error {
		for {
			n, err := unix.Read(file, content[len(content):cap(content)])
			if n <= 0 || err != nil {
				return err
			}
			if content = content[:len(content)+n]; len(content) == cap(content) {
				content = append(content, 0)[:len(content)]
			}
		}
	})
	return content, err
}

// ReadDir returns the names of a directory, in no order, as entries that have nothing else.
func (procFiles) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = withFile(name, unix.O_RDONLY|unix.O_DIRECTORY, func(file int) error {
		var buffer [8 << 10]byte
		for {
			n, err := unix.ReadDirent(file, buffer[:])
			if n <= 0 || err != nil {
				return err
			}
			_, _, names := unix.ParseDirent(buffer[:n], -1, nil)
			for _, name := range names {
				entries = append(entries, procEntry(name))
			}
		}
	})
	return entries, err
}

func withFile(name string, flags int, do func(file int) error) error {
	file, err := unix.Open("/proc/"+name, flags|unix.O_CLOEXEC, 0)
	if err == nil {
		defer func() { _ = unix.Close(file) }()
		err = do(file)
	}
	if err != nil {
		return &fs.PathError{Op: "read", Path: "/proc/" + name, Err: err}
	}
	return nil
}

// A procEntry is the name of a file in /proc.
type procEntry string

func (e procEntry) Name() string             { return string(e) }
func (procEntry) IsDir() bool                { return false }
func (procEntry) Type() fs.FileMode          { return fs.ModeIrregular }
func (procEntry) Info() (fs.FileInfo, error) { return nil, fs.ErrInvalid }

// Sizes and offsets of struct inet_diag_req_v2 and struct inet_diag_msg (linux/inet_diag.h), and the
// state of a listening socket (net/tcp_states.h).
const (
	diagRequestBytes = 56
	diagStatesAt     = 4
	diagPortAt       = 8
	diagAnswerBytes  = 72
	diagAnswerPortAt = 4
	diagUnreadAt     = 56
	diagUnsentAt     = 60
	diagInodeAt      = 68
	tcpEstablished   = 1
	tcpListen        = 10
)

// The library finds out the machine's byte order at its first use, and would do so in several goroutines at
// once: here it does so before any begins.
var _ = nl.NativeEndian()

// listeningTCP returns the inodes of the sockets that listen on a TCP port. /proc/net/tcp has them, too,
// but to read it the kernel walks over its table of all connections, which takes milliseconds even if
// the table is empty.
func (procFiles) listeningTCP(port uint16) (inodes []string, err error) {
	err = dumpTCP(port, tcpListen, func(answer []byte) {
		inodes = append(inodes, strconv.FormatUint(uint64(binary.NativeEndian.Uint32(answer[diagInodeAt:])), 10))
	})
	if err != nil {
		return nil, fmt.Errorf("list the listening sockets: %w", err)
	}
	return inodes, nil
}

// QueuedConnections returns for how many connections to a TCP port of this machine there are bytes that the
// server has not read, and bytes of the server that the other end has not acknowledged. It also counts
// connections that the server has not accepted.
func QueuedConnections(port uint16) (unread, unacknowledged int, err error) {
	err = dumpTCP(port, tcpEstablished, func(answer []byte) {
		if binary.NativeEndian.Uint32(answer[diagUnreadAt:]) > 0 {
			unread++
		}
		if binary.NativeEndian.Uint32(answer[diagUnsentAt:]) > 0 {
			unacknowledged++
		}
	})
	if err != nil {
		return 0, 0, fmt.Errorf("list the connections to port %d: %w", port, err)
	}
	return unread, unacknowledged, nil
}

// dumpTCP lists the sockets in a state whose own port is this one, as the kernel describes them.
func dumpTCP(port uint16, state int, each func(answer []byte)) error {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		request := make([]byte, diagRequestBytes)
		request[0], request[1] = family, unix.IPPROTO_TCP
		binary.NativeEndian.PutUint32(request[diagStatesAt:], 1<<state)
		binary.BigEndian.PutUint16(request[diagPortAt:], port)
		dump := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
		dump.AddRawData(request)
		err := dump.ExecuteIter(unix.NETLINK_INET_DIAG, nl.SOCK_DIAG_BY_FAMILY, func(answer []byte) bool {
			if len(answer) >= diagAnswerBytes && binary.BigEndian.Uint16(answer[diagAnswerPortAt:]) == port {
				each(answer)
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}
