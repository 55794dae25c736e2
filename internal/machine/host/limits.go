package host

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// Limits holds the limits for connections in the calling thread's network namespace. 0 means that a
// limit could not be read.
type Limits struct {
	Files   int64 // descriptors per process
	Ports   int64 // local ports per address, which limit the connections to one server
	Backlog int64 // greatest number of connections that wait until a server accepts them
	// TimeWait is the time for which a closed loopback connection blocks its ports.
	TimeWait time.Duration
	// UDPReceive is the size of the receive buffer, in bytes, that a UDP socket gets when it asks
	// for QUICReceiveBuffer.
	UDPReceive int64
}

// QUICReceiveBuffer is the size of the receive buffer, in bytes, that quic-go requests.
const QUICReceiveBuffer = 7 << 20

// Times for which a closed connection blocks its ports.
const (
	timeWaitDefault   = time.Minute // TCP_TIMEWAIT_LEN of include/net/tcp.h
	timeWaitWithReuse = time.Second // the default of tcp_tw_reuse_delay in ip-sysctl
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
		// Workers raise their soft limit to the hard limit.
		limits.Files = int64(min(files.Hard, 1<<62))
	}
	if bytes, err := tryUDPReceive(QUICReceiveBuffer); err == nil {
		limits.UDPReceive = int64(bytes)
	}
	return limits
}

// timeWait returns how long a closed loopback connection blocks its ports. With tcp_tw_reuse (1:
// always, 2: on loopback) and TCP timestamps, a new connection may use the ports earlier.
func timeWait(from *facts) time.Duration {
	const ipv4 = "proc/sys/net/ipv4/"
	if from.number(ipv4+"tcp_tw_reuse") > 0 && from.number(ipv4+"tcp_timestamps") > 0 {
		return timeWaitWithReuse
	}
	return timeWaitDefault
}

// Drops counts the connections and datagrams that the kernel dropped because a queue was full.
type Drops struct {
	Accept int64 // connections dropped because a listening socket's backlog was full
	UDP    int64 // datagrams dropped because a socket's receive buffer was full
}

// Since returns the drops after an earlier count.
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

// protocolCounter reads a counter from the file snmp or netstat (proc_pid_net(5)). The file has two
// lines for each protocol: the names, then the values.
func protocolCounter(root fs.FS, file, protocol, name string) (int64, error) {
	text, err := readText(root, file)
	if err != nil {
		return 0, fmt.Errorf("read the counter %s: %w", name, err)
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
	return 0, fmt.Errorf("read the counter %s: /%s has no such counter for the protocol %s", name, file, protocol)
}
