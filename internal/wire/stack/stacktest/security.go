package stacktest

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// Plaintext is the ability to report that only one end speaks TLS. Without it, the call just fails.
const Plaintext Ability = "plaintext noticed"

// RunSecurity runs the checks of a variant over TLS in every lifecycle. They check which servers a
// client trusts, how it reports untrusted servers, and what happens if only one end uses TLS.
func RunSecurity(t *testing.T, s Subject) {
	t.Helper()
	s.inEveryLifecycle(t, func(t *testing.T, s Subject) {
		for _, c := range securityChecks() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				runGuarded(t, s, c)
			})
		}
	})
}

func securityChecks() []check {
	return []check{
		{"certificate/trusted", checkTrusted},
		{"certificate/unknown-authority", checkUnknownAuthority},
		{"certificate/expired", checkFlaw(secure.Expired, "expired")},
		{"certificate/wrong-name", checkFlaw(secure.WrongName, "wrong name")},
		{"handshake/never-answered", checkHandshakeUnanswered},
		{"handshake/answered-no-longer", checkHandshakeLost},
		{"handshake/mute-client", checkMuteClient},
		{"plaintext/client", checkPlaintext(true)},
		{"plaintext/server", checkPlaintext(false)},
	}
}

func checkTrusted(t testing.TB, s Subject) {
	r := startService(t, s)
	dialer := &conn.Dialer{}
	target := s.target(stack.Target{Address: r.address, Dialer: dialer})
	target.Trust = secure.Trust{RootPEM: r.rootPEM()}
	useClient(t, s, target, func(stub testpb.TestServiceClient) { expectEcho(t, stub, "a secret") })
	if counts := dialer.Counts(); counts.Full < 1 || counts.HandshakeFail != 0 {
		t.Errorf("after a call over TLS the dialer counts %+v", counts)
	}
}

func (r *rig) rootPEM() []byte {
	r.t.Helper()
	secured, is := r.server.(stack.TLSServer)
	if !is || len(secured.RootPEM()) == 0 {
		r.t.Fatalf("a server of %s has no root certificate for its clients to trust", r.subject.Variant)
	}
	return secured.RootPEM()
}

func checkUnknownAuthority(t testing.TB, s Subject) {
	stranger := issueIdentity(t, secure.NoFlaw)
	expectRefusal(t, s, expectedRefusal{
		of: "a server whose root is unknown", address: startService(t, s).address,
		trust: secure.Trust{RootPEM: stranger.RootPEM()}, class: "certificate: unknown authority",
	})
}

// checkFlaw returns a check that calls a server whose certificate has one flaw.
func checkFlaw(flaw secure.Flaw, kind string) func(testing.TB, Subject) {
	return func(t testing.TB, s Subject) {
		identity := issueIdentity(t, flaw)
		expectRefusal(t, s, expectedRefusal{
			of: "a certificate with a flaw", address: listenTLS(t, s, identity.ServerConfig()),
			trust: secure.Trust{RootPEM: identity.RootPEM()}, class: "certificate: " + failure.Class(kind),
		})
	}
}

func issueIdentity(t testing.TB, flaw secure.Flaw) *secure.Identity {
	t.Helper()
	identity, err := secure.Issue(secure.Choice{}, flaw)
	requireNoError(t, "issue a certificate", err)
	return identity
}

func checkHandshakeUnanswered(t testing.TB, s Subject) {
	p := rawPeer(t, s, nil)
	expectHandshakeTimeout(t, &p.asked, func(ctx context.Context) error {
		target := s.target(stack.Target{Address: p.address})
		target.Trust = secure.Trust{}
		return dialAndCall(ctx, s, target)
	})
}

// expectHandshakeTimeout makes calls that should end during the handshake. On a busy machine, a
// call may end before the peer gets a packet. Then the next call gets more time.
func expectHandshakeTimeout(t testing.TB, asked *atomic.Int64, call func(context.Context) error) {
	t.Helper()
	before := asked.Load()
	expectPrompt(t, "a call whose handshake is not answered", func() {
		withMoreTime(t, 100*time.Millisecond, func(limit time.Duration) (reached bool) {
			err := call(timeoutContext(t, limit))
			class := failure.Of(err)
			early := class == failure.Backlog || class == failure.Deadline
			if reached = err == nil || asked.Load() > before && (!early || limit > waitLimit(t)); reached && class != failure.HandshakeTimeout {
				t.Errorf("the call ended with %v of class %q, want class %q: nobody answered its handshake", err, class, failure.HandshakeTimeout)
			}
			return reached
		})
	})
}

func checkHandshakeLost(t testing.TB, s Subject) {
	if s.Lifecycle == conn.Kept {
		t.Logf("%s: a kept connection has completed its handshake when a call begins", s.Variant)
		return
	}
	p := newProxy(t, s, startService(t, s).address)
	stub := testpb.NewTestServiceClient(dial(t, s, stack.Target{Address: p.address}))
	expectEcho(t, stub, "before")
	p.setSilent(true)
	expectHandshakeTimeout(t, &p.requests, func(ctx context.Context) error {
		_, err := stub.Unary(ctx, &testpb.TestRequest{Body: []byte("lost")})
		return err
	})
	p.setSilent(false)
	expectRecovery(t, stub)
}

// checkMuteClient connects and sends nothing. This must not delay other clients or Close.
func checkMuteClient(t testing.TB, s Subject) {
	if s.Datagrams {
		t.Logf("%s: a server cannot notice a client that sends nothing over UDP", s.Variant)
		return
	}
	r := startService(t, s)
	mute, err := net.Dial("tcp", r.address)
	requireNoError(t, "dial", err)
	t.Cleanup(func() { _ = mute.Close() })
	expectEcho(t, r.stub(), "beside it")
	expectPrompt(t, "Close of the server with a handshake that never began", r.stop)
}

// checkPlaintext returns a check in which only one of client and server speaks TLS.
func checkPlaintext(serverSpeaksTLS bool) func(testing.TB, Subject) {
	return func(t testing.TB, client Subject) {
		server, has := client.cleartext(t)
		if !has {
			return
		}
		of := "a server that does not speak TLS"
		if serverSpeaksTLS {
			of, client, server = "a server that speaks TLS to one that does not", server, client
		}
		expectRefusal(t, client, expectedRefusal{of: of, address: startService(t, server).address, class: failure.PlaintextPeer, unless: Plaintext})
	}
}

func (s Subject) cleartext(t testing.TB) (plain Subject, has bool) {
	t.Helper()
	own := stack.TLSOptions(stack.OptionalTLS)
	optional := slices.ContainsFunc(s.Stack.Info().Options, func(o scenario.Option) bool { return o.Key == own[0].Key && o.Default == own[0].Default })
	if !optional {
		t.Logf("%s has no cleartext form", s.Variant)
		return s, false
	}
	s.Variant.Options = slices.DeleteFunc(slices.Clone(s.Variant.Options), func(set scenario.Setting) bool {
		return slices.ContainsFunc(own, func(o scenario.Option) bool { return o.Key == set.Key })
	})
	s.Lifecycle = conn.Kept // resuming a session needs TLS
	return s, true
}

type expectedRefusal struct {
	of      string // describes the server's fault, in errors
	address string
	trust   secure.Trust
	class   failure.Class // the expected class of the error
	unless  Ability       // without this ability, a client may report only a lost connection
}

// expectRefusal checks that the client soon returns an error that says what is wrong.
func expectRefusal(t testing.TB, s Subject, r expectedRefusal) {
	t.Helper()
	expectPrompt(t, "refusing "+r.of, func() {
		target := s.target(stack.Target{Address: r.address})
		target.Trust = r.trust
		err := dialAndCall(checkContext(t), s, target)
		class := failure.Of(err)
		switch {
		case err == nil:
			t.Errorf("the call to %s succeeded, want an error", r.of)
		case class == r.class:
		case r.unless != "" && s.lacks(t, r.unless) && (class == failure.Closed || class == failure.Reset):
		default:
			t.Errorf("the call to %s failed with %q of class %q, want class %q", r.of, err, class, r.class)
		}
	})
}

// listenTLS completes TLS handshakes for any application protocol, and then sends nothing.
func listenTLS(t testing.TB, s Subject, config *tls.Config) (address string) {
	t.Helper()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		own := config.Clone()
		own.GetConfigForClient, own.NextProtos = nil, hello.SupportedProtos
		return own, nil
	}
	if s.Datagrams {
		listener, err := quic.ListenAddr("127.0.0.1:0", config, nil)
		requireNoError(t, "listen on QUIC", err)
		t.Cleanup(func() { _ = listener.Close() })
		return listener.Addr().String()
	}
	listener := conn.LimitHandshakes(listen(t, s), config, 1)
	acceptAll(t, listener, func(net.Conn) {})
	return listener.Addr().String()
}
