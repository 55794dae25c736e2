package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"wirelab.dev/internal/secure"
)

// trustFlags say what to believe of a server that wirelab did not start. Those
// that it starts have certificates of its own making.
type trustFlags struct {
	insecure bool
	rootFile string
}

func (t *trustFlags) register(f *pflag.FlagSet) {
	f.BoolVarP(&t.insecure, "insecure", "k", false, "take any certificate of a --target over TLS")
	f.StringVar(&t.rootFile, "cacert", "", "trust the root certificates in this PEM `file` (default: the system's) for a --target over TLS")
}

// read turns the flags into what they mean for the targets.
func (t *trustFlags) read(targets map[string]string) (secure.Trust, error) {
	switch {
	case *t == (trustFlags{}):
		return secure.Trust{}, nil
	case len(targets) == 0:
		return secure.Trust{}, errors.New("--insecure and --cacert are about a server of your own: name it with --target")
	case t.insecure && t.rootFile != "":
		return secure.Trust{}, errors.New("--insecure and --cacert: give one of them")
	case t.insecure:
		return secure.Trust{SkipVerify: true}, nil
	}
	roots, err := os.ReadFile(t.rootFile)
	if err != nil {
		return secure.Trust{}, fmt.Errorf("--cacert: %w", err)
	}
	return secure.Trust{RootPEM: roots}, nil
}
