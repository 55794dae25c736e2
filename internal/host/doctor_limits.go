package host

import "fmt"

// closedPorts reports how soon the port of a closed connection can be used again.
func (e examination) closedPorts() Finding {
	finding := Finding{Name: "closed connections", Status: OK}
	held := timeWait(&facts{root: e.root})
	finding.Detail = fmt.Sprintf("a closed loopback connection keeps its ports for %v", held)
	if held == timeWaitDefault {
		finding.Status = Limited
		finding.Remedy = "sysctl net.ipv4.tcp_tw_reuse=2 net.ipv4.tcp_timestamps=1; until then clients take more source addresses"
	}
	return finding
}

func (e examination) backlog() Finding {
	have := e.info.TCP.ListenBacklog
	finding := Finding{
		Name: "listen backlog", Status: OK,
		Detail: fmt.Sprintf("%d connections may wait for a server", have),
	}
	const comfortable = 1024 // twice the most clients of the published studies
	if have < comfortable {
		finding.Status, finding.Remedy = Limited, "sysctl net.core.somaxconn=4096"
	}
	return finding
}

func (e examination) udpBuffer() Finding {
	finding := Finding{Name: "UDP receive buffer", Status: OK}
	have, err := tryUDPReceive(WantUDPReceive)
	finding.Detail = fmt.Sprintf("QUIC gets %d KiB of the %d KiB that it asks for", have>>10, WantUDPReceive>>10)
	if err != nil {
		finding.Detail = err.Error()
	}
	if have < WantUDPReceive {
		finding.Status, finding.Remedy = Limited, fmt.Sprintf("sysctl net.core.rmem_max=%d, or grant CAP_NET_ADMIN", WantUDPReceive)
	}
	return finding
}

func (e examination) networkNamespaces() Finding {
	finding := Finding{Name: "network namespaces", Status: OK, Detail: "a scenario can use `network`"}
	if err := OnDisposableThread(tryNetworkNamespace); err != nil {
		finding.Status, finding.Detail = Missing, fmt.Sprintf("parts with their own `network` fail: %v", err)
		finding.Remedy = "run as root, or grant CAP_SYS_ADMIN and CAP_NET_ADMIN"
	}
	return finding
}
