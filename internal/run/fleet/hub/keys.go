package hub

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/nkeys"

	"wirelab.dev/internal/run/fleet/protocol"
)

// keys holds a fleet's secrets. The first hub makes and stores them, so credentials stay valid after
// the hub has ended. All hubs of a cluster have the same keys.
type keys struct {
	Project string `json:"project"`
	// Operator signs the accounts, which nats-server trusts. Account signs the fleet's users.
	Operator string `json:"operator_seed"`
	System   string `json:"system_account_seed"`
	Account  string `json:"account_seed"`
	// Each role has a key that signs its users, and that can give no other rights than the role's.
	JoinSigner       string `json:"join_signer_seed"`
	AgentSigner      string `json:"agent_signer_seed"`
	ControllerSigner string `json:"controller_signer_seed"`
	Controller       string `json:"controller_seed"` // the user of controllers on the hub's machine
	Orders           string `json:"orders_seed"`
	Cluster          string `json:"cluster_password"`
	Root             string `json:"root_certificate"`
	RootKey          string `json:"root_key"`
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
	for _, seed := range []string{k.Operator, k.System, k.Account, k.JoinSigner, k.AgentSigner, k.ControllerSigner, k.Controller, k.Orders} {
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
		{nkeys.PrefixByteOperator, &k.Operator},
		{nkeys.PrefixByteAccount, &k.System},
		{nkeys.PrefixByteAccount, &k.Account},
		{nkeys.PrefixByteAccount, &k.JoinSigner},
		{nkeys.PrefixByteAccount, &k.AgentSigner},
		{nkeys.PrefixByteAccount, &k.ControllerSigner},
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

// tlsEnabled says whether the clients of a hub use TLS.
type tlsEnabled bool

// credentials returns credentials without a key for the hubs at these URLs. Controllers can sign orders.
func (k *keys) credentials(role, name string, urls []string, encrypted tlsEnabled) *protocol.Credentials {
	c := &protocol.Credentials{Project: k.Project, Role: role, Name: name, URLs: urls, OrdersKey: protocol.PublicKeyOf([]byte(k.Orders))}
	if role == protocol.RoleController {
		c.OrdersSeed = []byte(k.Orders)
	}
	if encrypted {
		c.RootPEM = []byte(k.Root)
	}
	return c
}

// makeSecretFolder makes a folder that only its owner can read.
func makeSecretFolder(path string) error {
	if err := os.MkdirAll(path, secretFolderMode); err != nil {
		return fmt.Errorf("make the folder of the fleet's state: %w", err)
	}
	return os.Chmod(path, secretFolderMode)
}
