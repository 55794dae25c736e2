package catalog

import (
	"strings"
	"testing"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/peer"
)

func TestPeersPlayTheEndsThatAVariantSays(t *testing.T) {
	for text, want := range map[string][2]string{
		"grpc":                        {"", ""},
		"grpc:server=rust":            {"rust", ""},
		"grpc:client=cpp":             {"", "cpp"},
		"grpc:server=go,client=cpp":   {"", "cpp"},
		"grpc:server=rust,client=cpp": {"rust", "cpp"},
		"tcp:peer=rust":               {"rust", "rust"},
		"tcp:client=naive":            {"", ""},
		"grpc:server=rust,library=ntex,caller=h2load": {"rust", ""},
	} {
		v := variant(t, text)
		server, _ := ServerPeer(v)
		client, _ := ClientPeer(v)
		if err := Check(v); err != nil || server.Name != want[0] || client.Name != want[1] {
			t.Errorf("%s is served by %q and called by %q: %v; want %q", text, server.Name, client.Name, err, want)
		}
	}
}

func TestPeersAreToldTheirOwnOptions(t *testing.T) {
	v := variant(t, "grpc:peer=cpp,api=async,queues=8,conn=pool:4")
	cpp, _ := ServerPeer(v)
	if told := ForPeer(v, cpp, peer.Server).String(); told != "grpc:queues=8" {
		t.Errorf("the server is told %s", told)
	}
	if told := ForPeer(v, cpp, peer.Client).String(); told != "grpc:api=async" {
		t.Errorf("the client is told %s", told)
	}
}

func TestWhatPeersDoNotHaveIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		"grpc:api=async":              "api=async is an option of cpp: select this peer, as in peer=cpp",
		"grpc:peer=java,api=callback": "the peer java supports only api=sync or async",
		"grpc:peer=cpp,server=rust":   "peer= sets both ends: leave out server= and client=",
		"grpc:server=cpp,api=async":   "api=async is a client option, but cpp is the server",
		"grpc:client=cpp,inflight=5":  "the client in C++ does not have inflight=5",
		"grpc:client=cpp,window=1MiB": "the client in C++ does not have window=1MiB",
		"grpc:server=cpp,window=1MiB": "the peer in C++ does not have window=1MiB",
		"h1:server=cpp":               "server",
		"tcp:client=c":                "client",
		"grpc:peer=cpp,queues=many":   "queues",
		"grpc:library=ntex":           "library=ntex is an option of rust: select this peer, as in peer=rust",
		"grpc:peer=cpp,library=ntex":  "library=ntex is an option of rust",
		"grpc:peer=rust,library=nets": "library=nets: want one of tonic, ntex",
	} {
		v, err := scenario.ParseVariant(text)
		if err == nil {
			err = Check(v)
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want something of %q", text, err, says)
		}
	}
}

func TestPartsThatPeersDoNotPlay(t *testing.T) {
	part := func(change func(*scenario.Part)) scenario.Part {
		p := scenario.Part{Workload: "echo", Load: scenario.Load{Model: scenario.Closed}, Sizes: []scenario.Payload{{Request: 64, Response: 64}}, Clients: []int{4}}
		change(&p)
		return p
	}
	for says, p := range map[string]scenario.Part{
		"": part(func(*scenario.Part) {}),
		"supports only the workloads echo, all without options, but the workload is users": part(func(p *scenario.Part) { p.Workload = "users" }),
		"answers with the request's size":                                                  part(func(p *scenario.Part) { p.Sizes[0].Response = 65 }),
		"supports only a closed loop":                                                      part(func(p *scenario.Part) { p.Load.Model = scenario.Open }),
		"supports only the connection modes shared, per-worker, pool":                      part(func(p *scenario.Part) { p.Connection.Mode = scenario.Resumed }),
	} {
		err := CheckLoad(variant(t, "tcp:peer=cpp"), p)
		if (says == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want something of %q", err, says)
		}
	}
}

// A library without streams is refused for the workload that needs them, at either end.
func TestALibraryMayHaveFewerWorkloads(t *testing.T) {
	for _, c := range []struct {
		variant, workload string
		refused           bool
	}{
		{"grpc:peer=rust", "chat", false},
		{"grpc:peer=rust,library=tonic", "chat", false},
		{"grpc:peer=rust,library=ntex", "echo", false},
		{"grpc:peer=rust,library=ntex", "ping", false},
		{"grpc:server=rust,library=ntex", "chat", true},
		{"grpc:client=rust,library=ntex", "chat", true},
	} {
		p := scenario.Part{Workload: c.workload, Load: scenario.Load{Model: scenario.Closed}, Sizes: []scenario.Payload{{Request: 64, Response: 64}}, Clients: []int{4}}
		const says = "supports only the workloads echo, ping, all without options, but the workload is chat"
		err := CheckLoad(variant(t, c.variant), p)
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s with %s: %v; want it refused: %v", c.variant, c.workload, err, c.refused)
		}
	}
}
