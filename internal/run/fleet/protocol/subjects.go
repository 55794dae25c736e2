package protocol

import (
	"fmt"

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
func (c *Credentials) OrderSubject(agent string) string { return c.agentSubject(agent, "order") }

// ClockSubject returns the subject on which an agent answers questions about its clock.
func (c *Credentials) ClockSubject(agent string) string { return c.agentSubject(agent, "clock") }

// LiveSubject returns the subject of a worker's messages that may be lost. "*" matches any name.
func (c *Credentials) LiveSubject(agent, run, worker string) string {
	return fmt.Sprintf("wl.%s.from.%s.live.%s.%s", c.Project, agent, run, worker)
}

// KeptSubject returns the subject of a worker's messages that must arrive. "*" matches any name.
func (c *Credentials) KeptSubject(agent, run, worker string) string {
	return fmt.Sprintf("wl.%s.from.%s.kept.%s.%s", c.Project, agent, run, worker)
}

// KeptStreamName returns the name of the stream that stores messages that must not be lost.
func (c *Credentials) KeptStreamName() string { return KeptStreamName(c.Project) }

// CardBucketName returns the name of the key-value bucket with the agents' cards.
func (c *Credentials) CardBucketName() string { return CardBucketName(c.Project) }

// SampleStoreName returns the name of the object store for samples.
func (c *Credentials) SampleStoreName() string { return SampleStoreName(c.Project) }

// InboxPrefix returns the prefix of the subjects on which the role receives answers.
func (c *Credentials) InboxPrefix() string { return InboxPrefix(c.Project, c.Role()) }

func (c *Credentials) agentSubject(agent, what string) string {
	return fmt.Sprintf("wl.%s.to.%s.%s", c.Project, agent, what)
}

// KeptStreamName returns the name of a project's stream of messages that must arrive.
func KeptStreamName(project string) string { return "wl_" + project + "_kept" }

// CardBucketName returns the name of a project's key-value bucket of cards.
func CardBucketName(project string) string { return "wl_" + project + "_agents" }

// SampleStoreName returns the name of the object store for a project's samples.
func SampleStoreName(project string) string { return "wl_" + project + "_samples" }

// InboxPrefix returns the prefix of the subjects on which a role of a project receives answers.
func InboxPrefix(project, role string) string { return "wl." + project + ".inbox." + role }
