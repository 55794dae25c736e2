package secret

import (
	"fmt"
	"io"
	"os"
	"strings"

	"wirelab.dev/internal/base/pattern"
)

const maxSecretBytes = 64 << 10

var variable = pattern.Lazy(`^\$[A-Za-z_][A-Za-z0-9_]*$`)

// Read returns the secret that a flag's value names: the content of a file, if the value is @FILE,
// or an environment variable, if it is $NAME. Any other value is the secret itself. So a secret need
// not be on a command line, where other users of the machine see it.
func Read(value string) (string, error) {
	if variable().MatchString(value) {
		text, is := os.LookupEnv(value[1:])
		if !is || text == "" {
			return "", fmt.Errorf("the environment variable %s is not set: export it, or give @FILE", value[1:])
		}
		return text, nil
	}
	name, is := strings.CutPrefix(value, "@")
	if !is {
		return value, nil
	}
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(file, maxSecretBytes+1))
	if err == nil && len(text) > maxSecretBytes {
		err = fmt.Errorf("%s has more than %d KiB: want a file with one token or password", name, maxSecretBytes>>10)
	}
	kept := strings.TrimRight(string(text), "\r\n")
	if err == nil && (kept == "" || strings.ContainsAny(kept, "\r\n")) {
		err = fmt.Errorf("%s: want one line with a token or password", name)
	}
	return kept, err
}
