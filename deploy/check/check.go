// Package check tests the files in deploy with the code that reads such files: the types of
// Kubernetes, kustomize, the schema of Compose, and systemd's settings. It has only tests. Each test must also find small mistakes in changed files. The tests of cmd/wirelab
// check the commands in these files.
package check
