package host

import (
	"strings"
	"testing"
	"time"
)

const (
	ipv4Folder = "proc/sys/net/ipv4/"
	portRange  = ipv4Folder + "ip_local_port_range"
	timeReuse  = ipv4Folder + "tcp_tw_reuse"
	timestamps = ipv4Folder + "tcp_timestamps"
)

func TestReadLimits(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		ports int64
		held  time.Duration
	}{
		"reuse on loopback":     {map[string]string{portRange: "32768\t60999\n", timeReuse: "2", timestamps: "1"}, 28_232, time.Second},
		"no reuse":              {map[string]string{portRange: "32768\t34767\n", timeReuse: "0", timestamps: "1"}, 2_000, time.Minute},
		"no stamps to tell by":  {map[string]string{portRange: "1 1", timeReuse: "1", timestamps: "0"}, 1, time.Minute},
		"nothing can be read":   {nil, 0, time.Minute},
		"a range that is none":  {map[string]string{portRange: "32768"}, 0, time.Minute},
		"reuse, stamps unknown": {map[string]string{timeReuse: "1"}, 0, time.Minute},
	} {
		limits := readLimits(machine(test.files))
		if limits.Ports != test.ports || limits.TimeWait != test.held {
			t.Errorf("%s: %d ports, held for %v; want %d and %v", name, limits.Ports, limits.TimeWait, test.ports, test.held)
		}
	}
}

func TestReadLimitsOfThisMachine(t *testing.T) {
	limits := ReadLimits()
	if limits.Files < 64 || limits.Ports < 1 || limits.Backlog < 1 || limits.UDPReceive < 1<<10 || limits.UDPReceive > QUICReceiveBuffer {
		t.Errorf("%+v", limits)
	}
}

func TestReadDrops(t *testing.T) {
	root := machine(map[string]string{
		"proc/7/net/netstat": "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 12 13\nIpExt: InNoRoutes\nIpExt: 4\n",
		"proc/7/net/snmp":    "Udp: InDatagrams InErrors RcvbufErrors\nUdp: 900 5 3\nUdpLite: RcvbufErrors\nUdpLite: 77\n",
		"proc/8/net/netstat": "TcpExt: ListenOverflows\n",
	})
	drops, err := readDrops(root, 7)
	if want := (Drops{Accept: 12, UDP: 3}); err != nil || drops != want {
		t.Errorf("%+v, %v; want %+v", drops, err, want)
	}
	if since := drops.Since(Drops{Accept: 2, UDP: 3}); since != (Drops{Accept: 10}) {
		t.Errorf("since: %+v", since)
	}
	for pid, says := range map[int]string{8: "no such counter for the protocol TcpExt", 9: "netstat"} {
		if _, err := readDrops(root, pid); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("process %d: %v, want something of %q", pid, err, says)
		}
	}
}
