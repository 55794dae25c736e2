package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"wirelab.dev/internal/run/fleet/protocol"
)

// keys holds a fleet's secrets. The first hub makes and stores them, so tokens stay valid after the
// hub has ended. All hubs of a cluster have the same keys.
type keys struct {
	Project    string `json:"project"`
	Agent      string `json:"agent_seed"`
	Controller string `json:"controller_seed"`
	Orders     string `json:"orders_seed"`
	Cluster    string `json:"cluster_password"`
	Root       string `json:"root_certificate"`
	RootKey    string `json:"root_key"`
}

// File modes that only allow the owner to read.
const (
	secretFolderMode = 0o700
	secretFileMode   = 0o600
)

// openKeys reads the project's keys from a file. If there is no file, it makes keys and writes
// them. If several hubs do this at the same time, all use the keys of the first hub.
func openKeys(path, project string) (*keys, error) {
	k, err := readKeys(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeKeys(path, project); err != nil {
			return nil, fmt.Errorf("make the fleet's keys: %w", err)
		}
		k, err = readKeys(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the fleet's keys: %w", err)
	}
	if k.Project != project {
		return nil, fmt.Errorf("%s has the keys of the fleet %q, not of %q: give another --state, or --name %[2]s", path, k.Project, project)
	}
	return k, nil
}

func readKeys(path string) (*keys, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var k keys
	if json.Unmarshal(text, &k) != nil { // the error could show a secret
		return nil, fmt.Errorf("%s is not a file of keys: remove the file; existing tokens then become invalid", path)
	}
	for _, seed := range []string{k.Agent, k.Controller, k.Orders} {
		if protocol.PublicKeyOf([]byte(seed)) == "" {
			return nil, fmt.Errorf("%s lacks a key: remove the file; existing tokens then become invalid", path)
		}
	}
	return &k, nil
}

func makeKeys(path, project string) error {
	k := keys{Project: project}
	for _, made := range []struct {
		kind nkeys.PrefixByte
		seed *string
	}{
		{nkeys.PrefixByteUser, &k.Agent},
		{nkeys.PrefixByteUser, &k.Controller},
		{nkeys.PrefixByteAccount, &k.Orders},
		{nkeys.PrefixByteUser, &k.Cluster},
	} {
		pair, err := nkeys.CreatePair(made.kind)
		if err != nil {
			return err
		}
		seed, err := pair.Seed()
		if err != nil {
			return err
		}
		*made.seed = string(seed)
	}
	root, key, err := makeAuthority()
	if err != nil {
		return err
	}
	k.Root, k.RootKey = string(root), string(key)
	text, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	return writeIfAbsent(path, text)
}

// writeIfAbsent writes a complete file, unless a file of that name exists.
func writeIfAbsent(path string, text []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".keys-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	_, err = file.Write(text) // CreateTemp makes files that only the owner can read
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Link(file.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// credentials returns the credentials of a role for the hubs at these URLs.
func (k *keys) credentials(role string, urls []string, encrypted tlsEnabled) *protocol.Credentials {
	c := &protocol.Credentials{Project: k.Project, URLs: urls, Seed: []byte(k.Agent), OrdersKey: protocol.PublicKeyOf([]byte(k.Orders))}
	if role == protocol.RoleController {
		c.Seed, c.OrdersSeed = []byte(k.Controller), []byte(k.Orders)
	}
	if encrypted {
		c.RootPEM = []byte(k.Root)
	}
	return c
}

// tlsEnabled says whether the clients of a hub use TLS.
type tlsEnabled bool

// Limits on an agent's answers to one request.
const (
	maxAnswers    = 4
	answerTimeout = 2 * time.Minute
)

// users returns the users that may connect to a hub. All agents share one key: an agent can read
// orders to another agent and send in that agent's name, but cannot give orders.
func (k *keys) users() []*server.NkeyUser {
	bucket, samples, kept := protocol.CardBucketName(k.Project), protocol.SampleStoreName(k.Project), protocol.KeptStreamName(k.Project)
	mine := "wl." + k.Project
	return []*server.NkeyUser{
		{Nkey: protocol.PublicKeyOf([]byte(k.Agent)), Permissions: &server.Permissions{
			Subscribe: &server.SubjectPermission{Allow: []string{
				mine + ".to.>",
				protocol.InboxPrefix(k.Project, protocol.RoleAgent) + ".>",
			}},
			Publish: &server.SubjectPermission{Allow: []string{
				mine + ".from.>",
				"$KV." + bucket + ".*", "$JS.API.STREAM.INFO.KV_" + bucket, // for writing its card
				"$JS.API.DIRECT.GET.KV_" + bucket + ".$KV." + bucket + ".*", // for reading whether its name is taken
				"$O." + samples + ".>", "$JS.API.STREAM.INFO.OBJ_" + samples, // for writing its samples
				"$JS.API.DIRECT.GET.OBJ_" + samples + ".$O." + samples + ".M.*", // for reading whether samples exist
			}},
			Response: &server.ResponsePermission{MaxMsgs: maxAnswers, Expires: answerTimeout},
		}},
		{Nkey: protocol.PublicKeyOf([]byte(k.Controller)), Permissions: &server.Permissions{
			Subscribe: &server.SubjectPermission{Allow: []string{mine + ".>"}},
			Publish: &server.SubjectPermission{Allow: []string{
				mine + ".>", "$KV." + bucket + ".>", "$O." + samples + ".>",
				"$JS.API.>", "$JS.ACK." + kept + ".>", "$JS.ACK.KV_" + bucket + ".>", "$JS.ACK.OBJ_" + samples + ".>", "$JS.FC.>",
			}},
		}},
	}
}

// makeSecretFolder makes a folder that only its owner can read.
func makeSecretFolder(path string) error {
	if err := os.MkdirAll(path, secretFolderMode); err != nil {
		return fmt.Errorf("make the folder of the fleet's state: %w", err)
	}
	return os.Chmod(path, secretFolderMode)
}
