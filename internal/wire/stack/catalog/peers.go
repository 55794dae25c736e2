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
	serverKey   = "server"
	bothEndsKey = "peer"
	ownPeer     = "go" // the value for wirelab's own worker
)

// commonOptions returns the options that the stack's own code never gets: the options of every
// stack, the choice of a peer for each end, and the options of these peers.
func commonOptions(stack string) []scenario.Option {
	all := Common()
	ends := []struct {
		key  string
		ends peer.End
		help string
	}{
		{serverKey, peer.Server, "the server: go is wirelab's own, the others are peers in other languages, with their usual libraries (wirelab peers list), built at first use"},
		{clientKey, peer.Client, "; or a peer in another language, which then calls and measures"},
		{bothEndsKey, peer.Both, "the same peer at both ends"},
	}
	for _, one := range ends {
		var names []string
		for _, p := range peer.All() {
			if _, speaks := p.WireFor(stack, one.ends); speaks && !p.OwnEngine {
				names = append(names, p.Name)
			}
		}
		if len(names) == 0 {
			continue
		}
		names = append([]string{ownPeer}, names...)
		if i := slices.IndexFunc(all, func(o scenario.Option) bool { return o.Key == one.key }); i >= 0 {
			all[i].Values = append(all[i].Values, names...)
			all[i].Help += one.help
		} else {
			all = append(all, scenario.Option{Key: one.key, Values: names, Default: ownPeer, Help: one.help})
		}
	}
	return append(all, peerOptions(stack)...)
}

// peerOptions returns the options of all peers of a stack. An option means the same to each peer.
func peerOptions(stack string) []scenario.Option {
	var all []scenario.Option
	for _, p := range peer.All() {
		wire, _ := p.WireFor(stack, 0)
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

// Options returns the options of a stack and of its peers.
func Options(s stack.Stack) []scenario.Option {
	info := s.Info()
	return append(slices.Clone(info.Options), commonOptions(info.Name)[len(Common()):]...)
}

// ServerPeer returns the peer that serves a variant, or false for wirelab's own server.
func ServerPeer(v scenario.Variant) (peer.Peer, bool) { return peerOf(v, serverKey) }

// ClientPeer returns the peer that makes a variant's calls, or false for wirelab's own client.
func ClientPeer(v scenario.Variant) (peer.Peer, bool) { return peerOf(v, clientKey) }

func peerOf(v scenario.Variant, key string) (peer.Peer, bool) {
	for _, k := range []string{key, bothEndsKey} {
		name, given := v.Get(k)
		if p, found := peer.Find(name); given && found {
			return p, true
		}
	}
	return peer.Peer{}, false
}

// Carrier returns the peer that has both ends of the variant's stack, or false if the stack is in
// wirelab itself.
func Carrier(v scenario.Variant) (peer.Peer, bool) {
	s, err := Find(v.Stack)
	if err != nil {
		return peer.Peer{}, false
	}
	carried, is := s.(stack.PeerCarried)
	if !is {
		return peer.Peer{}, false
	}
	return peer.Find(carried.CarriedBy())
}

// ForPeer returns the variant with only the options that the peer uses at this end.
func ForPeer(v scenario.Variant, p peer.Peer, end peer.End) scenario.Variant {
	if p.OwnEngine {
		return v
	}
	wire, _ := p.WireFor(v.Stack, end)
	v.Options = slices.DeleteFunc(slices.Clone(v.Options), func(s scenario.Setting) bool { return !hasSetting(wire, s.Key, end) })
	return v
}

func hasSetting(wire peer.Wire, key string, end peer.End) bool {
	return slices.ContainsFunc(wire.Options, func(o peer.Option) bool { return o.Key == key && o.End&end != 0 })
}

// A server ignores clientKeys. peerChoiceKeys choose the peer of an end.
var (
	clientKeys     = []string{inFlightKey, connectionKey, messagesKey, stack.CallerKey}
	peerChoiceKeys = []string{serverKey, clientKey, bothEndsKey}
)

// checkPeer refuses options that the variant's peers do not have, and options of unchosen peers.
func checkPeer(v scenario.Variant) error {
	if carrier, carried := Carrier(v); carried && SmallObject(v) != 0 {
		return fmt.Errorf("variant %s: the peer %s cannot be rebuilt with another %s: leave the option out", v, carrier.Name, smallLimitKey)
	}
	_, server := v.Get(serverKey)
	_, caller := v.Get(clientKey)
	if _, both := v.Get(bothEndsKey); both && (server || caller) {
		return fmt.Errorf("variant %s: %s= sets both ends: leave out %s= and %s=", v, bothEndsKey, serverKey, clientKey)
	}
	servedBy, foreignServer := ServerPeer(v)
	calledBy, foreignClient := ClientPeer(v)
	serverWire, _ := servedBy.WireFor(v.Stack, peer.Server)
	clientWire, _ := calledBy.WireFor(v.Stack, peer.Client)
	for _, o := range v.Options {
		if err := cmp.Or(checkValue(v, o, servedBy, peer.Server), checkValue(v, o, calledBy, peer.Client)); err != nil {
			return err
		}
		switch {
		case slices.Contains(peerChoiceKeys, o.Key), hasSetting(serverWire, o.Key, peer.Server), hasSetting(clientWire, o.Key, peer.Client):
		case hasSetting(serverWire, o.Key, peer.Client):
			return fmt.Errorf("variant %s: %s=%s is a client option, but %s is the server: leave the option out, or write %s=%[4]s", v, o.Key, o.Value, servedBy.Name, clientKey)
		case hasSetting(clientWire, o.Key, peer.Server):
			return fmt.Errorf("variant %s: %s=%s is a server option, but %s is the client: leave the option out, or write %s=%[4]s", v, o.Key, o.Value, calledBy.Name, serverKey)
		case isOneOf(peerOptions(v.Stack), o):
			return fmt.Errorf("variant %s: %s=%s is an option of %s: select this peer, as in %s=%[4]s", v, o.Key, o.Value, peerWithOption(v.Stack, o.Key), bothEndsKey)
		case foreignClient && o.Key != connectionKey:
			return fmt.Errorf("variant %s: the client in %s does not have %s=%s: leave it out", v, calledBy.Language, o.Key, o.Value)
		case foreignServer && !slices.Contains(clientKeys, o.Key):
			return fmt.Errorf("variant %s: the peer in %s does not have %s=%s: leave it out", v, servedBy.Language, o.Key, o.Value)
		}
	}
	return nil
}

// checkValue refuses an option's value that the chosen peer does not have.
func checkValue(v scenario.Variant, set scenario.Setting, p peer.Peer, end peer.End) error {
	wire, _ := p.WireFor(v.Stack, end)
	for _, o := range wire.Options {
		if o.Key == set.Key && len(o.Values) > 0 && !slices.Contains(o.Values, set.Value) {
			return fmt.Errorf("variant %s: the peer %s supports only %s=%s", v, p.Name, o.Key, strings.Join(o.Values, " or "))
		}
	}
	return nil
}

func peerWithOption(stack, key string) string {
	for _, p := range peer.All() {
		if wire, _ := p.WireFor(stack, 0); hasSetting(wire, key, peer.Both) {
			return p.Name
		}
	}
	return ""
}

// checkPeersPart refuses a part with settings that a variant's peers do not support.
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
		wire, _ := p.WireFor(v.Stack, end.is)
		if workloads := wire.WorkloadsWith(v.Get); !slices.Contains(workloads, part.Workload) {
			return refuse("supports only the workloads %s, all without options, but the workload is %s", strings.Join(workloads, ", "), part.Workload)
		}
		for _, size := range part.Sizes {
			if size.Request != size.Response {
				return refuse("answers with the request's size, but the sizes are %s: use equal sizes", size)
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
			return refuse("supports only a closed loop, but the load is %q: set `model: closed`", part.Load.Model)
		case !slices.Contains(wire.Connections, string(mode.Mode)):
			return refuse("supports only the connection modes %s, but the mode is %s", strings.Join(wire.Connections, ", "), mode)
		}
	}
	return nil
}
