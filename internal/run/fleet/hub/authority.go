package hub

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"wirelab.dev/internal/run/fleet/protocol"
)

// A userAuthority says who may connect to a hub, in NATS's own form: an operator signs the fleet's
// account, and the account's keys sign a JWT for each user. A hub therefore needs no list of users.
type userAuthority struct {
	project                            string
	operator, account                  nkeys.KeyPair
	operatorKey, accountKey, systemKey string
	signers                            map[string]nkeys.KeyPair // by role

	revoked map[string]time.Time // by public key; the gate guards it
}

func newUserAuthority(k *keys) (*userAuthority, error) {
	a := &userAuthority{
		project: k.Project, signers: map[string]nkeys.KeyPair{}, revoked: map[string]time.Time{},
		operatorKey: protocol.PublicKeyOf([]byte(k.Operator)), accountKey: protocol.PublicKeyOf([]byte(k.Account)), systemKey: protocol.PublicKeyOf([]byte(k.System)),
	}
	var err error
	if a.operator, err = nkeys.FromSeed([]byte(k.Operator)); err != nil {
		return nil, err
	}
	if a.account, err = nkeys.FromSeed([]byte(k.Account)); err != nil {
		return nil, err
	}
	for role, seed := range map[string]string{protocol.RoleJoin: k.JoinSigner, protocol.RoleAgent: k.AgentSigner, protocol.RoleController: k.ControllerSigner} {
		if a.signers[role], err = nkeys.FromSeed([]byte(seed)); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// setOptions makes nats-server accept the users of the authority, and no others.
func (a *userAuthority) setOptions(config *server.Options) error {
	resolver := &server.MemAccResolver{}
	system, err := jwt.NewAccountClaims(a.systemKey).Encode(a.operator)
	if err != nil {
		return err
	}
	if err := resolver.Store(a.systemKey, system); err != nil {
		return err
	}
	fleet, err := a.accountClaims().Encode(a.operator)
	if err != nil {
		return err
	}
	config.TrustedKeys, config.SystemAccount, config.AccountResolver = []string{a.operatorKey}, a.systemKey, resolver
	return resolver.Store(a.accountKey, fleet)
}

func (a *userAuthority) accountClaims() *jwt.AccountClaims {
	claims := jwt.NewAccountClaims(a.accountKey)
	claims.Name = a.project
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{
		MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
	}
	for role, signer := range a.signers {
		scope := jwt.NewUserScope()
		scope.Key, _ = signer.PublicKey() // fails only for a key that was wiped
		scope.Role, scope.Template = role, a.permissionsOf(role)
		claims.SigningKeys.AddScopedSigner(scope)
	}
	for key, at := range a.revoked {
		claims.RevokeAt(key, at)
	}
	return claims
}

// permissionsOf returns what the users of a role may do. nats-server puts each user's name into it.
func (a *userAuthority) permissionsOf(role string) jwt.UserPermissionLimits {
	may := protocol.PermissionsOf(a.project, role, "{{name()}}")
	limits := jwt.NewUserClaims(a.accountKey).UserPermissionLimits // without limits
	limits.Pub.Allow, limits.Sub.Allow = may.Publish, may.Subscribe
	switch role {
	case protocol.RoleAgent:
		limits.Payload, limits.Subs = maxAgentPayload, maxUserSubs
	case protocol.RoleJoin:
		limits.Payload, limits.Subs = maxJoinerPayload, maxUserSubs
	}
	return limits
}

// enforce makes a running server shut out the users whose keys are revoked.
func (a *userAuthority) enforce(s *server.Server) error {
	account, err := s.LookupAccount(a.accountKey)
	if err != nil {
		return err
	}
	s.UpdateAccountClaims(account, a.accountClaims())
	return nil
}

// Limits on what an agent or a joining machine may hold at the hub.
const (
	maxUserSubs      = 32
	maxAgentPayload  = protocol.MaxAgentMessage
	maxJoinerPayload = 16 << 10
)

// A grant describes a user of the hub.
type grant struct {
	role, name string
	key        string // the user's public key
	validFor   time.Duration
	agents     int            // how many agents a join token admits; 0 means any number
	serve      []netip.Prefix // where an agent's servers may listen, besides its own address
}

// Prefixes of the tags in a user's JWT.
const (
	roleTag   = "role:"
	nameTag   = "name:"
	agentsTag = "agents:"
	serveTag  = "serve:"
)

// sign returns the JWT of a user.
func (a *userAuthority) sign(g grant) (string, error) {
	claims := jwt.NewUserClaims(g.key)
	claims.Name = g.name
	if g.validFor != 0 {
		claims.Expires = time.Now().Add(g.validFor).Unix()
	}
	claims.SetScoped(true)
	claims.IssuerAccount = a.accountKey
	claims.Tags.Add(nameTag+g.name, roleTag+g.role)
	if g.role == protocol.RoleJoin {
		claims.Tags.Add(agentsTag + strconv.Itoa(g.agents))
	}
	for _, r := range g.serve {
		claims.Tags.Add(serveTag + r.String())
	}
	return claims.Encode(a.signers[g.role])
}

// A user is what a JWT says.
type user struct {
	grant
	issued time.Time
}

// readJoin returns what the JWT of a join token says, if this authority has signed it and it is still valid.
func (a *userAuthority) readJoin(text string) (user, error) {
	claims, err := jwt.DecodeUserClaims(text)
	switch {
	case err != nil:
		return user{}, errors.New("the JWT cannot be read")
	case claims.IssuerAccount != a.accountKey:
		return user{}, errors.New("the JWT is of another fleet")
	case claims.Expires != 0 && time.Now().Unix() >= claims.Expires:
		return user{}, errors.New("the token has expired")
	}
	signer, err := a.signers[protocol.RoleJoin].PublicKey()
	if err != nil || claims.Issuer != signer {
		return user{}, errors.New("the token does not admit agents")
	}
	u := user{grant{key: claims.Subject}, time.Unix(claims.IssuedAt, 0)}
	u.fromTags(claims.Tags)
	return u, nil
}

func (g *grant) fromTags(tags []string) {
	for _, tag := range tags {
		if text, is := strings.CutPrefix(tag, agentsTag); is {
			g.agents, _ = strconv.Atoi(text) // we wrote it
		}
		if text, is := strings.CutPrefix(tag, nameTag); is {
			g.name = text
		}
		if text, is := strings.CutPrefix(tag, roleTag); is {
			g.role = text
		}
		if text, is := strings.CutPrefix(tag, serveTag); is {
			if r, err := netip.ParsePrefix(text); err == nil {
				g.serve = append(g.serve, r)
			}
		}
	}
}

// everything returns the credentials of the hub itself, which may do all in the fleet's account.
func (a *userAuthority) everything(c *protocol.Credentials) (*protocol.Credentials, error) {
	var err error
	if c.Seed, err = protocol.NewUserSeed(); err != nil {
		return nil, err
	}
	claims := jwt.NewUserClaims(protocol.PublicKeyOf(c.Seed))
	claims.Name = c.Name
	c.JWT, err = claims.Encode(a.account)
	return c, err
}
