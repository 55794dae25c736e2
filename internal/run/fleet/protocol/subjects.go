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

// GotSubject returns the subject on which an agent learns that the controller has a message.
func (c *Credentials) GotSubject(agent string) string { return toSubject(c.Project, agent, "got") }

// AnswerSubject returns the subject of an agent's answer to an order or a question. Its last part is
// the asker's choice. An agent may answer nowhere else.
func (c *Credentials) AnswerSubject(agent, to string) string {
	return fromSubject(c.Project, agent, "answer."+to)
}

// FromSubjects returns the subjects of all that an agent tells.
func (c *Credentials) FromSubjects(agent string) string { return fromSubject(c.Project, agent, ">") }

// CardSubject returns the subject of an agent's card.
func (c *Credentials) CardSubject(agent string) string { return fromSubject(c.Project, agent, "card") }

// LiveSubject returns the subject of a worker's messages that may be lost. "*" matches any name.
func (c *Credentials) LiveSubject(agent, run, worker string) string {
	return fromSubject(c.Project, agent, "live."+run+"."+worker)
}

// KeptSubject returns the subject of an agent's messages that must arrive.
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
func (c *Credentials) InboxPrefix() string { return Inboxes(c.Project, c.Role, c.Name) }

func toSubject(project, agent, what string) string {
	return fmt.Sprintf("wl.%s.to.%s.%s", project, agent, what)
}

func fromSubject(project, agent, what string) string {
	return fmt.Sprintf("wl.%s.from.%s.%s", project, agent, what)
}

// Inboxes returns the first part of the subjects on which the owners of a role receive answers of the hub.
// The name may be empty, for all owners.
func Inboxes(project, role, name string) string {
	return fmt.Sprintf("wl.%s.inbox.%s.%s", project, role, name)
}

// CardStream returns the name of the stream with the latest card of each agent of a project.
func CardStream(project string) string { return "wl_" + project + "_card" }

// ListSubject returns the subject on which a NATS server tells the cards of a project.
func ListSubject(project string) string { return "$JS.API.DIRECT.GET." + CardStream(project) }

// CardSubjects returns the subject of all agents' cards.
func CardSubjects(project string) string { return fromSubject(project, "*", "card") }
