package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/peer"
	"wirelab.dev/internal/wire/stack"
)

const (
	serverBy = "server"
	bothBy   = "peer"
	own      = "go" // wirelab's own worker, in the place of a peer
)

// commonOf returns the options that a stack's adapter never sees: those of every stack, the choice
// of a peer for each end, and the options of those peers.
func commonOf(stack string) []scenario.Option {
	all := Common()
	ends := []struct {
		key  string
		ends peer.End
		help string
	}{
		{serverBy, peer.Server, "the server: go is wirelab's own, the others are peers in other languages, with their usual libraries (wirelab peers list), built at first use"},
		{client, peer.Client, "; or a peer in another language, which then calls and measures"},
		{bothBy, peer.Both, "the same peer at both ends"},
	}
	for _, one := range ends {
		var names []string
		for _, p := range peer.All() {
			if _, speaks := p.Speaks(stack, one.ends); speaks {
				names = append(names, p.Name)
			}
		}
		if len(names) == 0 {
			continue
		}
		names = append([]string{own}, names...)
		if i := slices.IndexFunc(all, func(o scenario.Option) bool { return o.Key == one.key }); i >= 0 {
			all[i].Values = append(all[i].Values, names...)
			all[i].Help += one.help
		} else {
			all = append(all, scenario.Option{Key: one.key, Values: names, Default: own, Help: one.help})
		}
	}
	return append(all, optionsOfPeers(stack)...)
}

// optionsOfPeers returns the options of all peers of the stack; they mean the same for each.
func optionsOfPeers(stack string) []scenario.Option {
	var all []scenario.Option
	for _, p := range peer.All() {
		wire, _ := p.Speaks(stack, 0)
		for _, o := range wire.Options {
			first := scenario.Option{Key: o.Key, Default: o.Default, Help: p.Name + ": " + o.Help}
			if o.Values == nil {
				first.Parse = scenario.Count
			}
			one := lists.FindOrAdd(&all, first, func(of scenario.Option) bool { return of.Key == o.Key })
			for _, value := range o.Values {
				one.Values = lists.AppendNew(one.Values, value)
			}
		}
	}
	return all
}

// Options returns the options of a stack itself, and the options of its peers.
func Options(s stack.Stack) []scenario.Option {
	info := s.Info()
	return append(slices.Clone(info.Options), commonOf(info.Name)[len(Common()):]...)
}

// ServerPeer returns the peer that serves a variant, if it is not wirelab's own server.
func ServerPeer(v scenario.Variant) (peer.Peer, bool) { return peerOf(v, serverBy) }

// ClientPeer returns the peer that calls, if it is not wirelab's own client.
func ClientPeer(v scenario.Variant) (peer.Peer, bool) { return peerOf(v, client) }

func peerOf(v scenario.Variant, key string) (peer.Peer, bool) {
	for _, k := range []string{key, bothBy} {
		name, given := v.Get(k)
		if p, found := peer.Find(name); given && found {
			return p, true
		}
	}
	return peer.Peer{}, false
}

// ForPeer returns the variant with the options of the peer at one end only.
func ForPeer(v scenario.Variant, p peer.Peer, end peer.End) scenario.Variant {
	wire, _ := p.Speaks(v.Stack, end)
	v.Options = slices.DeleteFunc(slices.Clone(v.Options), func(s scenario.Setting) bool { return !has(wire, s.Key, end) })
	return v
}

func has(wire peer.Wire, key string, end peer.End) bool {
	return slices.ContainsFunc(wire.Options, func(o peer.Option) bool { return o.Key == key && o.End&end != 0 })
}

// Options that a server ignores, and options that choose the peer of an end.
var (
	ofClients = []string{inFlight, connection, messages, stack.CallerKey}
	ofEnds    = []string{serverBy, client, bothBy}
)

// checkPeer refuses options that a variant's peers do not have, and peers' options without a peer.
func checkPeer(v scenario.Variant) error {
	_, server := v.Get(serverBy)
	_, caller := v.Get(client)
	if _, both := v.Get(bothBy); both && (server || caller) {
		return fmt.Errorf("variant %s: %s= sets both ends: leave out %s= and %s=", v, bothBy, serverBy, client)
	}
	servedBy, foreignServer := ServerPeer(v)
	calledBy, foreignClient := ClientPeer(v)
	serverWire, _ := servedBy.Speaks(v.Stack, peer.Server)
	clientWire, _ := calledBy.Speaks(v.Stack, peer.Client)
	for _, o := range v.Options {
		if err := cmp.Or(checkValue(v, o, servedBy, peer.Server), checkValue(v, o, calledBy, peer.Client)); err != nil {
			return err
		}
		switch {
		case slices.Contains(ofEnds, o.Key), has(serverWire, o.Key, peer.Server), has(clientWire, o.Key, peer.Client):
		case has(serverWire, o.Key, peer.Client):
			return fmt.Errorf("variant %s: %s=%s is for the client, and %s serves: leave it out, or say %s=%[4]s", v, o.Key, o.Value, servedBy.Name, client)
		case has(clientWire, o.Key, peer.Server):
			return fmt.Errorf("variant %s: %s=%s is for the server, and %s calls: leave it out, or say %s=%[4]s", v, o.Key, o.Value, calledBy.Name, serverBy)
		case isOneOf(optionsOfPeers(v.Stack), o):
			return fmt.Errorf("variant %s: %s=%s is for %s: say so, as in %s=%[4]s", v, o.Key, o.Value, whoHas(v.Stack, o.Key), bothBy)
		case foreignClient && o.Key != connection:
			return fmt.Errorf("variant %s: the client in %s does not have %s=%s: leave it out", v, calledBy.Language, o.Key, o.Value)
		case foreignServer && !slices.Contains(ofClients, o.Key):
			return fmt.Errorf("variant %s: the peer in %s does not have %s=%s: leave it out", v, servedBy.Language, o.Key, o.Value)
		}
	}
	return nil
}

// checkValue refuses a value that this peer does not have, but another one has.
func checkValue(v scenario.Variant, set scenario.Setting, p peer.Peer, end peer.End) error {
	wire, _ := p.Speaks(v.Stack, end)
	for _, o := range wire.Options {
		if o.Key == set.Key && len(o.Values) > 0 && !slices.Contains(o.Values, set.Value) {
			return fmt.Errorf("variant %s: the peer %s has %s=%s", v, p.Name, o.Key, strings.Join(o.Values, " or "))
		}
	}
	return nil
}

func whoHas(stack, key string) string {
	for _, p := range peer.All() {
		if wire, _ := p.Speaks(stack, 0); has(wire, key, peer.Both) {
			return p.Name
		}
	}
	return ""
}

// checkPeersPart refuses operations that a variant's peers do not serve, or do not call.
func checkPeersPart(v scenario.Variant, part scenario.Part) error {
	for _, end := range []struct {
		of   func(scenario.Variant) (peer.Peer, bool)
		is   peer.End
		name string
	}{{ServerPeer, peer.Server, "server"}, {ClientPeer, peer.Client, "client"}} {
		p, foreign := end.of(v)
		if !foreign {
			continue
		}
		refuse := func(format string, args ...any) error {
			return fmt.Errorf("variant %s: the %s in %s %s", v, end.name, p.Language, fmt.Sprintf(format, args...))
		}
		wire, _ := p.Speaks(v.Stack, end.is)
		if !slices.Contains(wire.Workloads, part.Workload) {
			return refuse("knows the workloads %s, without options, and not %s", strings.Join(wire.Workloads, ", "), part.Workload)
		}
		for _, size := range part.Sizes {
			if size.Request != size.Response {
				return refuse("answers with as many bytes as the request has, and the size is %s", size)
			}
		}
		if end.is == peer.Server {
			continue
		}
		s, err := Find(v.Stack)
		if err != nil {
			return err
		}
		mode := ConnectionOf(s, v, part.Connection)
		switch {
		case part.Load.Model != scenario.Closed:
			return refuse("keeps a closed loop, and the load is %q: set `model: closed`", part.Load.Model)
		case !slices.Contains(wire.Connections, string(mode.Mode)):
			return refuse("has the connection modes %s, and not %s", strings.Join(wire.Connections, ", "), mode)
		}
	}
	return nil
}
