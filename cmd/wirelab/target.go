package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"slices"
	"strings"
	"syscall"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
)

// parseTargets reads [STACK=]HOST:PORT. Without a stack the scenario must have
// just one.
func parseTargets(texts []string, s *scenario.Scenario) (map[string]string, error) {
	targets := map[string]string{}
	variants := s.Parts[0].Stacks
	for _, text := range texts {
		i := strings.LastIndex(text, "=") // a variant may have some of its own
		stack, address := text[:max(i, 0)], text[i+1:]
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("--target %s: want [STACK=]HOST:PORT, as in tcp=127.0.0.1:9000", text)
		}
		if _, err := net.LookupPort("tcp", port); err != nil {
			return nil, fmt.Errorf("--target %s: there is no port %q", text, port)
		}
		if stack == "" {
			if len(variants) != 1 {
				return nil, fmt.Errorf("--target %s: this address does not say which of the %d variants it serves: write for example %s=%s", text, len(variants), variants[0], address)
			}
			stack = variants[0].String()
		}
		if !slices.ContainsFunc(variants, func(v scenario.Variant) bool { return v.Stack == stack || v.String() == stack }) {
			return nil, fmt.Errorf("--target %s: no variant of this comparison is %s", text, stack)
		}
		targets[stack] = address
	}
	return targets, nil
}

// checkTargets calls each target once before anything is measured. A target that cannot be
// called would fail every trial alike.
func checkTargets(ctx context.Context, workshop *lab.Lab, plan []scenario.Planned) error {
	if len(workshop.Targets) > 0 {
		// net/http tells there, also after the call, what it did not expect of a server of
		// another protocol; what is said below says it better.
		log.SetOutput(io.Discard) //nolint:forbidigo // nothing is logged, but kept from being
	}
	if fault := workshop.TryTargets(ctx, plan); fault != nil {
		return fmt.Errorf("--target %s=%s: %s", fault.Variant, fault.Address, sayFault(fault))
	}
	return nil
}

// sayFault says what was found at a target, and what to do.
func sayFault(f *lab.TargetFault) string {
	found, wants, err := f.Found, sayProtocol(f.Wants()), firstOf(f.Err)
	switch {
	case strings.HasPrefix(string(f.Class), string(failure.Certificate)):
		return fmt.Sprintf("its certificate is not trusted: %s: give the root with --cacert FILE, or take any certificate with -k", err)
	case isQUIC(f.Variant):
		return fmt.Sprintf("%s calls over QUIC, on UDP, and that failed: %s: check that a server of %s listens there", f.Variant, err, wants)
	case errors.Is(found.Err, syscall.ECONNREFUSED):
		return "nothing listens there (connection refused): start the server, or name the address that it listens on"
	case found.Err != nil:
		return fmt.Sprintf("it cannot be reached: %s: check the address, and that this machine may connect to it", firstOf(found.Err))
	case f.WantsTLS() && !found.TLS:
		return fmt.Sprintf("%s goes over TLS, and %s is there: leave TLS out, or name the address of a server with TLS", f.Variant, sayListening(found))
	case !f.WantsTLS() && found.TLS:
		return fmt.Sprintf("%s goes without TLS, and %s is there: add --tls, with --cacert FILE or -k for a certificate of your own", f.Variant, sayListening(found))
	case found.Protocol != "" && found.Protocol != f.Wants() && !(found.HTTP2 && f.Wants() == "HTTP/2"):
		return fmt.Sprintf("%s speaks %s, and %s is there: measure it over a stack of that protocol (%s), or name the address of a server for %s",
			f.Variant, wants, sayListening(found), strings.Join(stacksOf(found.Protocol), ", "), f.Variant.Stack)
	case found == lab.Listening{} && isHTTP(f.Wants()):
		return fmt.Sprintf("%s speaks %s, and %s is there (%s): name the address of a server for %s", f.Variant, wants, sayListening(found), err, f.Variant.Stack)
	case f.Class == failure.Deadline:
		return fmt.Sprintf("%s is there, and does not answer a call of %s: check that it speaks %s", sayListening(found), f.Variant, wants)
	default:
		return fmt.Sprintf("%s is there, and the call fails: %s: let it serve the method that is called, or name one of its own with --proto and --call", sayListening(found), err)
	}
}

// firstOf is the first line of an error, as far as it is for people: some servers answer
// with a page.
func firstOf(err error) string {
	const longest = 240
	text, _, _ := strings.Cut(err.Error(), "\n")
	text, _, _ = strings.Cut(text, `: "<`)
	if letters := []rune(text); len(letters) > longest {
		text = string(letters[:longest]) + "…"
	}
	return text
}

// sayListening describes what listens at a target.
func sayListening(l lab.Listening) string {
	with := "without TLS"
	if l.TLS {
		with = "over TLS"
	}
	if l.Protocol == "" {
		if l.TLS {
			return "a server over TLS"
		}
		return "a server that speaks neither TLS nor HTTP"
	}
	protocol := l.Protocol
	if l.HTTP2 {
		protocol += " and HTTP/2"
	}
	return fmt.Sprintf("a server of %s %s", protocol, with)
}

// sayProtocol names a stack's protocol, or says that it is its own.
func sayProtocol(protocol string) string {
	if isHTTP(protocol) {
		return protocol
	}
	return "a protocol of its own (see `wirelab list`)"
}

func isHTTP(protocol string) bool { return strings.HasPrefix(protocol, "HTTP/") }

// stacksOf are the stacks that speak a protocol.
func stacksOf(protocol string) []string {
	var names []string
	for _, s := range catalog.Stacks() {
		if stack.ProtocolFor(s, scenario.Variant{Stack: s.Info().Name}) == protocol {
			names = append(names, s.Info().Name)
		}
	}
	return names
}

func isQUIC(v scenario.Variant) bool {
	s, err := catalog.Find(v.Stack)
	return err == nil && s.Info().QUIC
}
