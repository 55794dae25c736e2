package host

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// Limits holds the machine's limits for connections in the calling thread's network namespace;
// 0: could not be read.
type Limits struct {
	Files   int64 // descriptors per process
	Ports   int64 // per local address, for connections to one server
	Backlog int64 // connections that may wait for a server to accept them
	// TimeWait is the time that a closed connection on loopback keeps its ports.
	TimeWait time.Duration
	// UDPReceive is the receive buffer, in bytes, of a UDP socket that asks for WantUDPReceive.
	UDPReceive int64
}

// WantUDPReceive is the receive buffer that quic-go asks for.
const WantUDPReceive = 7 << 20

// How long a closed connection keeps its ports.
const (
	timeWaitDefault = time.Minute // TCP_TIMEWAIT_LEN of include/net/tcp.h
	timeWaitReused  = time.Second // tcp_tw_reuse_delay of ip-sysctl, which older kernels have built in
)

// ReadLimits reads the current limits.
func ReadLimits() Limits { return readLimits(os.DirFS("/")) }

func readLimits(root fs.FS) Limits {
	from := &facts{root: root}
	tcp := describeTCP(from)
	limits := Limits{Backlog: int64(tcp.ListenBacklog), TimeWait: timeWait(from)}
	if tcp.LastPort > 0 {
		limits.Ports = int64(tcp.LastPort - tcp.FirstPort + 1)
	}
	if files, err := fileLimit(); err == nil {
		// Go raises its own soft limit at start, and a lab raises its workers' limit.
		limits.Files = int64(min(files.Hard, 1<<62))
	}
	if bytes, err := tryUDPReceive(WantUDPReceive); err == nil {
		limits.UDPReceive = int64(bytes)
	}
	return limits
}

// timeWait returns how long a closed connection keeps its ports. tcp_tw_reuse (ip-sysctl; 1:
// everywhere, 2: on loopback) lets a new connection take over the ports, and needs timestamps.
func timeWait(from *facts) time.Duration {
	const ipv4 = "proc/sys/net/ipv4/"
	if from.number(ipv4+"tcp_tw_reuse") > 0 && from.number(ipv4+"tcp_timestamps") > 0 {
		return timeWaitReused
	}
	return timeWaitDefault
}

// Drops counts what the kernel dropped in a network namespace because a queue was full.
type Drops struct {
	Accept int64 // connections that found a listening socket's backlog full
	UDP    int64 // datagrams that found a socket's receive buffer full
}

// Since returns the drops since an earlier count.
func (d Drops) Since(earlier Drops) Drops {
	return Drops{Accept: d.Accept - earlier.Accept, UDP: d.UDP - earlier.UDP}
}

// ReadDrops reads the counts of a process's network namespace.
func ReadDrops(pid int) (Drops, error) { return readDrops(os.DirFS("/"), pid) }

func readDrops(root fs.FS, pid int) (Drops, error) {
	folder := fmt.Sprintf("proc/%d/net/", pid)
	accept, err := protocolCounter(root, folder+"netstat", "TcpExt", "ListenOverflows")
	if err != nil {
		return Drops{}, err
	}
	udp, err := protocolCounter(root, folder+"snmp", "Udp", "RcvbufErrors")
	return Drops{Accept: accept, UDP: udp}, err
}

// protocolCounter reads one counter of snmp or netstat (proc_pid_net(5)): a line of names, then a
// line of values, each after the protocol's name.
func protocolCounter(root fs.FS, file, protocol, name string) (int64, error) {
	text, err := readText(root, file)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	var names []string
	for line := range strings.Lines(text) {
		rest, found := strings.CutPrefix(line, protocol+": ")
		if !found {
			continue
		}
		if names == nil {
			names = strings.Fields(rest)
			continue
		}
		for i, value := range strings.Fields(rest) {
			if i < len(names) && names[i] == name {
				return strconv.ParseInt(value, 10, 64)
			}
		}
	}
	return 0, fmt.Errorf("read %s: /%s has no such counter of %s", name, file, protocol)
}
