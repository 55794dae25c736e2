package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/base/spelling"
	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/fleet/protocol"
)

// A TokenWanted holds the user's options for a new token, before they are parsed.
type TokenWanted struct {
	Role   string // of TokenRoles
	Name   string
	Agents int
	Valid  time.Duration
	Serve  []string
}

// TokenRoles lists who a token can be for. The token of an agent admits it, and is of no use after.
func TokenRoles() []string { return []string{protocol.RoleAgent, protocol.RoleController} }

// Request returns the request for the token. Errors name the wrong flag.
func (w *TokenWanted) Request() (protocol.TokenRequest, error) {
	r := protocol.TokenRequest{Role: protocol.RoleJoin, Name: w.Name, Agents: w.Agents, ValidFor: w.Valid}
	if !slices.Contains(TokenRoles(), w.Role) {
		return r, fmt.Errorf("--role %q: %s", w.Role, spelling.Suggest(w.Role, TokenRoles()))
	}
	switch controller := w.Role == protocol.RoleController; {
	case controller && (w.Agents != 1 || len(w.Serve) > 0):
		return r, errors.New("--agents and --serve are for an agent's token: leave them out")
	case controller && w.Name == "":
		return r, errors.New("a controller's token needs --name: `wirelab fleet revoke` shuts it out by this name")
	case !controller && w.Name != "":
		return r, fmt.Errorf("--name %s: an agent's token has no name: give the name to `wirelab agent`", w.Name)
	case w.Agents < 0 || w.Valid < 0:
		return r, errors.New("--agents and --valid must not be negative; 0 means no limit")
	case controller:
		r.Role, r.Agents = protocol.RoleController, 0
		if err := protocol.CheckName(w.Name); err != nil {
			return r, fmt.Errorf("--name: %w", err)
		}
		return r, nil
	}
	ranges, err := parseRanges(w.Serve)
	if err != nil {
		return r, fmt.Errorf("--serve: %w", err)
	}
	r.Serve = ranges
	return r, nil
}

// parseRanges parses ranges of addresses, and single addresses.
func parseRanges(texts []string) ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	for _, text := range texts {
		one, err := netip.ParsePrefix(text)
		if single, wrong := netip.ParseAddr(text); wrong == nil {
			one, err = single.Prefix(single.BitLen())
		}
		if err != nil {
			return nil, fmt.Errorf("found %q: want a range of addresses, as in 10.0.0.0/8, or one address", text)
		}
		ranges = append(ranges, one.Masked())
	}
	return ranges, nil
}

// ReadNATSWanted parses the options of `fleet up --nats`. Errors name the wrong flag.
func ReadNATSWanted(o hub.UserNATS, agentCreds, serve []string) (hub.UserNATS, error) {
	o.AgentCreds = map[string]string{}
	for _, text := range agentCreds {
		name, file, ok := strings.Cut(text, "=")
		if !ok || file == "" {
			return o, fmt.Errorf("--agent-creds %q: want NAME=FILE, the agent's name and its .creds file", text)
		}
		if err := protocol.CheckName(name); err != nil {
			return o, fmt.Errorf("--agent-creds: %w", err)
		}
		o.AgentCreds[name] = file
	}
	var err error
	if o.Serve, err = parseRanges(serve); err != nil {
		return o, fmt.Errorf("--serve: %w", err)
	}
	return o, nil
}

// A NewToken is a token that a hub made.
type NewToken struct {
	Project string   `json:"project"` // name of the fleet
	Role    string   `json:"role"`
	Name    string   `json:"name"` // name of the controller; empty in an agent's token
	URLs    []string `json:"urls"` // addresses of the hub
	Token   string   `json:"token"`
}

// Revoked names a member that is shut out of a fleet.
type Revoked struct {
	Project string `json:"project"` // name of the fleet
	Revoked string `json:"revoked"` // name of the agent or controller
}

// An EndedHub names a hub that was ended.
type EndedHub struct {
	Project string `json:"project"` // name of the fleet
	PID     int    `json:"pid"`     // number of its process
}

// MakeToken asks a hub for a token.
func MakeToken(ctx context.Context, credentials *protocol.Credentials, r protocol.TokenRequest) (*protocol.Credentials, error) {
	answer, err := askHub(ctx, credentials, protocol.TokenQuestion, r)
	if err != nil {
		return nil, err
	}
	return protocol.ParseToken(answer.Token)
}

// Revoke shuts an agent or a controller out of a fleet, at once.
func Revoke(ctx context.Context, credentials *protocol.Credentials, name string) error {
	_, err := askHub(ctx, credentials, protocol.RevokeQuestion, protocol.RevokeRequest{Name: name})
	return err
}

func askHub(ctx context.Context, credentials *protocol.Credentials, question string, about any) (protocol.GateAnswer, error) {
	conn, err := protocol.Connect(ctx, credentials, "visit", nil)
	if err != nil {
		return protocol.GateAnswer{}, err
	}
	defer conn.Close()
	return protocol.AskGate(ctx, conn, credentials.GateSubject(question), about)
}

// PermissionRoles lists the roles of users of a NATS server.
func PermissionRoles() []string {
	return []string{protocol.RoleAgent, protocol.RoleController, protocol.RolePrepare}
}

// ReadPermissions returns what a role may do, or an error that names the wrong flag.
func ReadPermissions(project, role, name string) (protocol.Permissions, error) {
	err := errors.Join(protocol.CheckProject(project), protocol.CheckName(name))
	if !slices.Contains(PermissionRoles(), role) {
		err = fmt.Errorf("--role %q: %s", role, spelling.Suggest(role, PermissionRoles()))
	}
	return protocol.PermissionsOf(project, role, name), err
}

// PrintPermissions writes what a role may do at a NATS server, in the form of its configuration.
func PrintPermissions(to io.Writer, p protocol.Permissions) error {
	_, err := fmt.Fprintf(to, "permissions: {\n  publish: { allow: [%s] }\n  subscribe: { allow: [%s] }\n}\n", quoteSubjects(p.Publish), quoteSubjects(p.Subscribe))
	return err
}

func quoteSubjects(subjects []string) string {
	var lines strings.Builder
	for _, s := range subjects {
		fmt.Fprintf(&lines, "\n    %q", s)
	}
	return lines.String() + "\n  "
}
