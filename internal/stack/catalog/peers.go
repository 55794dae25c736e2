package catalog

import (
	"fmt"
	"slices"

	"wirelab.dev/internal/peer"
	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/stack"
)

const (
	serverBy = "server"
	own      = "go" // its value for wirelab's own server
)

// commonOf returns the options that the adapter of a stack never sees: those of every
// stack, and who serves it, where a peer does.
func commonOf(stack string) []scenario.Option {
	values := []string{own}
	for _, p := range peer.All() {
		if slices.Contains(p.Stacks, stack) {
			values = append(values, p.Name)
		}
	}
	if len(values) == 1 {
		return Common()
	}
	return append(Common(), scenario.Option{
		Key: serverBy, Values: values, Default: own,
		Help: "who serves: go is wirelab's own server, the others are peers in other languages, by their usual libraries (wirelab peers list), built when they are first asked for",
	})
}

// Options are those of a stack's own, and who serves it.
func Options(s stack.Stack) []scenario.Option {
	info := s.Info()
	return append(slices.Clone(info.Options), commonOf(info.Name)[len(Common()):]...)
}

// ServerPeer is the peer that serves a variant, if it is not wirelab's own server.
func ServerPeer(v scenario.Variant) (peer.Peer, bool) {
	if len(commonOf(v.Stack)) == len(Common()) {
		return peer.Peer{}, false
	}
	return peer.Find(readCommon(v).Text(serverBy))
}

// clientsOwn are the options that a server knows nothing of.
var clientsOwn = []string{inFlight, connection, client, messages}

// checkPeer refuses options that the variant's peer does not have.
func checkPeer(v scenario.Variant) error {
	p, foreign := ServerPeer(v)
	if !foreign {
		return nil
	}
	for _, o := range v.Options {
		if o.Key != serverBy && !slices.Contains(clientsOwn, o.Key) {
			return fmt.Errorf("variant %s: the peer in %s does not have %s=%s: leave it out", v, p.Language, o.Key, o.Value)
		}
	}
	return nil
}

// checkPeersPart refuses what no peer serves.
func checkPeersPart(v scenario.Variant, part scenario.Part) error {
	p, foreign := ServerPeer(v)
	if !foreign {
		return nil
	}
	const served = "echo"
	if part.Workload != served {
		return fmt.Errorf("variant %s: the peer in %s serves the workload %s, without options, and not %s", v, p.Language, served, part.Workload)
	}
	for _, size := range part.Sizes {
		if size.Request != size.Response {
			return fmt.Errorf("variant %s: the peer in %s answers with as many bytes as came, and the size is %s", v, p.Language, size)
		}
	}
	return nil
}
