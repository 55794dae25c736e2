package protocol

import (
	"fmt"
	"strings"

	"wirelab.dev/internal/base/pattern"
)

var namePattern = pattern.Lazy(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// CheckName checks an agent's name. It must not contain a dot, which separates parts of a subject.
func CheckName(name string) error { return checkNamePattern("an agent's name", name) }

// CheckProject checks the name of a fleet (its project).
func CheckProject(name string) error { return checkNamePattern("a fleet's name", name) }

func checkNamePattern(what, name string) error {
	if namePattern().MatchString(name) {
		return nil
	}
	const shown = 80
	if len(name) > shown {
		name = name[:shown] + "…"
	}
	return fmt.Errorf("%s %q: want 1 to 63 of a-z, 0-9, _ and -, and a letter or a digit first", what, name)
}

// OrderSubject returns the subject on which an agent receives orders.
func (c *Credentials) OrderSubject(agent string) string { return toSubject(c.Project, agent, "order") }

// ClockSubject returns the subject on which an agent answers questions about its clock.
func (c *Credentials) ClockSubject(agent string) string { return toSubject(c.Project, agent, "clock") }

// NameSubject returns the subject on which an agent answers whether its name is taken.
func (c *Credentials) NameSubject(agent string) string { return toSubject(c.Project, agent, "name") }

// CardSubject returns the subject of an agent's card.
func (c *Credentials) CardSubject(agent string) string { return fromSubject(c.Project, agent, "card") }

// LiveSubject returns the subject of a worker's messages that may be lost. "*" matches any name.
func (c *Credentials) LiveSubject(agent, run, worker string) string {
	return fromSubject(c.Project, agent, "live."+run+"."+worker)
}

// KeptSubject returns the subject of an agent's messages that must arrive. "*" matches any agent.
func (c *Credentials) KeptSubject(agent string) string { return fromSubject(c.Project, agent, "kept") }

// SampleSubject returns the subject of an agent's samples.
func (c *Credentials) SampleSubject(agent string) string {
	return fromSubject(c.Project, agent, "samples")
}

// GateSubject returns the subject of a question to the hub's gate.
func (c *Credentials) GateSubject(question ...string) string {
	return "wl." + c.Project + ".gate." + strings.Join(question, ".")
}

// InboxPrefix returns the prefix of the subjects on which the owner receives answers.
func (c *Credentials) InboxPrefix() string { return inboxPrefix(c.Project, c.Role, c.Name) }

func toSubject(project, agent, what string) string {
	return fmt.Sprintf("wl.%s.to.%s.%s", project, agent, what)
}

func fromSubject(project, agent, what string) string {
	return fmt.Sprintf("wl.%s.from.%s.%s", project, agent, what)
}

func inboxPrefix(project, role, name string) string {
	return fmt.Sprintf("wl.%s.inbox.%s.%s", project, role, name)
}

// A Stream is one of a fleet's streams. Each agent publishes on a subject of its own, and the stream
// bounds the number of messages of each subject: an agent can push out its own messages, not others'.
type Stream string

// The streams of a fleet.
const (
	Cards   Stream = "card"    // the latest card of each agent
	Kept    Stream = "kept"    // messages that must arrive
	Samples Stream = "samples" // parts of files of samples
)

// Streams returns all streams of a fleet.
func Streams() []Stream { return []Stream{Cards, Kept, Samples} }

// Name returns the stream's name in a project.
func (s Stream) Name(project string) string { return "wl_" + project + "_" + string(s) }

// Subject returns the subject of all agents' messages in the stream.
func (s Stream) Subject(project string) string { return fromSubject(project, "*", string(s)) }
