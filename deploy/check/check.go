// Package check holds the files in deploy against what reads them: the types of Kubernetes, the
// schema of Compose, the parser of BuildKit, and the settings that systemd knows. It has tests
// only, and each is shown small mistakes that it must find. cmd/wirelab tests the commands that
// the files have.
package check
