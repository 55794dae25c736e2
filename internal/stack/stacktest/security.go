package stacktest

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"wirelab.dev/internal/failure"
	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/secure"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/stack/stacktest/testpb"
)

// Plaintext is the ability to tell a caller that one end speaks TLS and the
// other does not. Without, the connection ends, and the call with it.
const Plaintext Ability = "plaintext noticed"

// RunSecurity runs the checks of a variant over TLS, in every lifecycle that it
// has: whom a client trusts, and what it says of the rest. The variant's
// cleartext form, where it has one, is the other end of the misunderstandings.
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
		{"plaintext/client", checkPlaintextClient},
		{"plaintext/server", checkPlaintextServer},
	}
}

func checkTrusted(t testing.TB, s Subject) {
	r := start(t, s)
	dialer := &stack.Dialer{}
	target := s.target(stack.Target{Address: r.address, Dialer: dialer})
	target.Trust = secure.Trust{RootPEM: r.rootPEM()}
	client, err := s.Stack.NewClient(bounded(t), s.Variant, target)
	if err != nil {
		t.Fatalf("NewClient: %v", err)
	}
	expectEcho(t, testpb.NewTestServiceClient(client), "a secret")
	if err := client.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if counts := dialer.Counts(); counts.Full < 1 || counts.HandshakeFail != 0 {
		t.Errorf("a call over TLS, and the dialer counts %+v", counts)
	}
}

// rootPEM is what the rig's clients must trust.
func (r *rig) rootPEM() []byte {
	r.t.Helper()
	secured, is := r.server.(stack.TLSServer)
	if !is || len(secured.RootPEM()) == 0 {
		r.t.Fatalf("a server of %s does not say whom its clients must trust", r.subject.Variant)
	}
	return secured.RootPEM()
}

func checkUnknownAuthority(t testing.TB, s Subject) {
	stranger := issue(t, secure.NoFlaw)
	expectRefusal(t, s, refusal{
		of: "a server whose root is unknown", address: start(t, s).address,
		trust: secure.Trust{RootPEM: stranger.RootPEM()}, class: "certificate: unknown authority",
	})
}

// checkFlaw has a peer show a certificate that is wrong in one way.
func checkFlaw(flaw secure.Flaw, kind string) func(testing.TB, Subject) {
	return func(t testing.TB, s Subject) {
		identity := issue(t, flaw)
		expectRefusal(t, s, refusal{
			of: "a certificate with a flaw", address: tlsPeer(t, s, identity.ServerConfig()),
			trust: secure.Trust{RootPEM: identity.RootPEM()}, class: "certificate: " + failure.Class(kind),
		})
	}
}

func issue(t testing.TB, flaw secure.Flaw) *secure.Identity {
	t.Helper()
	identity, err := secure.Issue(secure.Choice{}, flaw)
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

// checkHandshakeUnanswered has a peer that takes connections and no more.
func checkHandshakeUnanswered(t testing.TB, s Subject) {
	p := rawPeer(t, s, nil)
	expectHandshakeTimeout(t, p.asked.Load, func(ctx context.Context) error {
		return callUntrusted(ctx, s, refusal{address: p.address})
	})
}

// expectHandshakeTimeout makes calls that end while they shake hands. A busy
// machine may come to no handshake within the first deadline: then the peer has
// not been asked, and the next call has more time.
func expectHandshakeTimeout(t testing.TB, asked func() int64, call func(context.Context) error) {
	t.Helper()
	before := asked()
	promptly(t, "a call whose handshake is not answered", func() {
		for limit := 100 * time.Millisecond; ; limit *= 2 {
			err := call(within(t, limit))
			if asked() == before && err != nil && limit < patienceOf(t) {
				continue
			}
			if class := failure.Of(err); class != failure.HandshakeTimeout {
				t.Errorf("a handshake that is not answered ended with %v, which is of class %q, want %q", err, class, failure.HandshakeTimeout)
			}
			return
		}
	})
}

// checkHandshakeLost has the peer go when a client knows it already.
func checkHandshakeLost(t testing.TB, s Subject) {
	if s.Lifecycle == stack.Kept {
		t.Logf("%s: a connection that is kept has shaken hands when a call begins", s.Variant)
		return
	}
	p := newProxy(t, s, start(t, s).address)
	stub := testpb.NewTestServiceClient(dial(t, s, stack.Target{Address: p.address()}))
	expectEcho(t, stub, "before")
	p.setSilent(true)
	expectHandshakeTimeout(t, p.asked, func(ctx context.Context) error {
		_, err := stub.Unary(ctx, &testpb.TestRequest{Body: []byte("lost")})
		return err
	})
	p.setSilent(false)
	expectRecovery(t, stub)
}

// checkMuteClient has a client that never begins its handshake, which must hold
// up neither others nor the server's end.
func checkMuteClient(t testing.TB, s Subject) {
	if s.Datagrams {
		t.Logf("%s: a client that says nothing is none on UDP", s.Variant)
		return
	}
	r := start(t, s)
	mute, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	expectEcho(t, r.stub(), "beside it")
	promptly(t, "Close of the server with a handshake that never began", r.stop)
}

func checkPlaintextClient(t testing.TB, s Subject) {
	plain, has := s.cleartext(t)
	if !has {
		return
	}
	address := start(t, s).address
	expectRefusal(t, plain, refusal{
		of: "a server that speaks TLS to one that does not", address: address,
		class: failure.PlaintextPeer, unless: Plaintext, or: hungUp,
	})
}

func checkPlaintextServer(t testing.TB, s Subject) {
	plain, has := s.cleartext(t)
	if !has {
		return
	}
	expectRefusal(t, s, refusal{
		of: "a server that does not speak TLS", address: start(t, plain).address,
		class: failure.PlaintextPeer, unless: Plaintext, or: hungUp,
	})
}

// cleartext is the subject without TLS.
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
	s.Lifecycle = stack.Kept // without TLS there is nothing to resume
	return s, true
}

// refusal is a peer that a client must not talk to.
type refusal struct {
	of      string // what is wrong with it
	address string
	trust   secure.Trust
	class   failure.Class

	// What may be said in its place where the subject lacks an ability.
	unless Ability
	or     []failure.Class
}

// hungUp is what a call meets whose peer has gone without a word.
var hungUp = []failure.Class{failure.PlaintextPeer, failure.Closed, failure.Reset}

// permits tells whether the subject may be told this.
func (r refusal) permits(t testing.TB, s Subject, class failure.Class) bool {
	t.Helper()
	return class == r.class || r.unless != "" && s.lacks(t, r.unless) && slices.Contains(r.or, class)
}

// expectRefusal wants the client to say what is wrong, soon, whether it notices
// in NewClient or in the call.
func expectRefusal(t testing.TB, s Subject, r refusal) {
	t.Helper()
	promptly(t, "refusing "+r.of, func() {
		err := callUntrusted(bounded(t), s, r)
		if err == nil {
			t.Errorf("%s was called", r.of)
		} else if class := failure.Of(err); !r.permits(t, s, class) {
			t.Errorf("%s was refused with %q, which is of class %q, want %q", r.of, err, class, r.class)
		}
	})
}

func callUntrusted(ctx context.Context, s Subject, r refusal) error {
	target := s.target(stack.Target{Address: r.address})
	target.Trust = r.trust
	client, err := s.Stack.NewClient(ctx, s.Variant, target)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	_, err = testpb.NewTestServiceClient(client).Unary(ctx, &testpb.TestRequest{Body: []byte("anyone?")})
	return err
}

// tlsPeer shakes hands with whoever comes, in whatever protocol they ask for,
// and says nothing else.
func tlsPeer(t testing.TB, s Subject, config *tls.Config) (address string) {
	t.Helper()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		own := config.Clone()
		own.GetConfigForClient, own.NextProtos = nil, hello.SupportedProtos
		return own, nil
	}
	if s.Datagrams {
		return quicPeer(t, config)
	}
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("the peer cannot listen: %v", err)
	}
	listener := stack.Admit(raw, config, 1)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			conn, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				t.Cleanup(func() { _ = conn.Close() })
			}
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		accepting.Wait()
	})
	return raw.Addr().String()
}

func quicPeer(t testing.TB, config *tls.Config) (address string) {
	t.Helper()
	listener, err := quic.ListenAddr("127.0.0.1:0", config, nil)
	if err != nil {
		t.Fatalf("the peer cannot listen: %v", err)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			if _, err := listener.Accept(context.Background()); err != nil {
				return
			}
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		accepting.Wait()
	})
	return listener.Addr().String()
}
