package check

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/sirupsen/logrus"
)

// checkCompose reads the file as docker compose does, all profiles on, and holds it against
// Compose's schema.
func checkCompose(t *testing.T, name, text string) error {
	t.Helper()
	details := types.ConfigDetails{
		WorkingDir: folder, Environment: types.Mapping{},
		ConfigFiles: []types.ConfigFile{{Filename: name, Content: []byte(text)}},
	}
	project, err := loader.LoadWithContext(context.WithoutCancel(t.Context()), details, func(o *loader.Options) {
		o.Profiles = []string{"*"}
	})
	if err != nil {
		return err
	}
	clients := 0
	for name, service := range project.Services {
		if !service.ReadOnly || len(service.CapDrop) == 0 || len(service.SecurityOpt) == 0 {
			return fmt.Errorf("%s: may write into its image, or keeps rights", name)
		}
		if name == "measure" && (len(service.Profiles) != 1 || service.Profiles[0] != "measure") {
			return errors.New("measure starts with the fleet: want it in a profile of its own")
		}
		for _, secret := range service.Secrets {
			if _, ok := project.Secrets[secret.Source]; !ok {
				return fmt.Errorf("%s: no secret %s", name, secret.Source)
			}
		}
		for _, volume := range service.Volumes {
			if volume.Tmpfs != nil && volume.Tmpfs.Mode != 0o1777 {
				return fmt.Errorf("%s: its folder has mode %o", name, volume.Tmpfs.Mode)
			}
		}
		if len(service.Secrets) > 0 && name != "server" {
			clients++
		}
	}
	if clients != 2 {
		return fmt.Errorf("%d clients, want two", clients)
	}
	return nil
}

func TestCompose(t *testing.T) {
	logrus.SetOutput(io.Discard) // compose-go says there what variables are not set
	const file = "compose.yaml"
	if err := checkCompose(t, file, read(t, file)); err != nil {
		t.Error(err)
	}
	mustFind(t, []mistake{
		{name: "an unknown key", file: file, old: "read_only:", new: "readonly:", want: "readonly false schema"},
		{name: "a wrong type", file: file, old: "cap_drop: [ALL]", new: "cap_drop: ALL", want: "cap_drop"},
		{name: "a key at another place", file: file, old: "    hostname: hub", new: "    ipv4_address: 10.0.0.1\n    hostname: hub", want: "ipv4_address"},
		{name: "an unknown section", file: file, old: "\nvolumes:\n", new: "\nvolume:\n", want: "volume"},
		{name: "a service that is not there", file: file, old: "client-1, client-2]", new: "client-1, client-3]", want: "client-3"},
		{name: "a secret that is not there", file: file, old: "secrets: [agent-token]", new: "secrets: [agents-token]", want: "agents-token"},
		{name: "a network that is not there", file: file, old: "networks: [fleet]", new: "networks: [fleets]", want: "fleets"},
		{name: "no duration", file: file, old: "stop_grace_period: 30s", new: "stop_grace_period: long", want: "long"},
		{name: "always measured", file: file, old: "    profiles: [measure]\n", new: "", want: "profile of its own"},
	}, checkCompose)
}
