package link

import (
	"io/fs"
	"strings"
)

// Check makes a network and closes it. If this process may not make one, or the machine
// cannot, the error wraps host.ErrUnsupported.
func Check() error {
	network, err := New(Settings{Emulated: true})
	if err != nil {
		return err
	}
	return network.Close()
}

// switches are the sysctls that keep ordinary users from user namespaces, with the value
// that does.
var switches = []struct{ file, value, remedy string }{
	{"user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"},
	{"kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"},
	{"kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile for wirelab with `userns,`"},
}

// whatForbids returns what keeps an ordinary user from the rights that networks need, as far
// as the root folder shows, and how to allow it.
func whatForbids(root fs.FS) string {
	for _, s := range switches {
		text, err := fs.ReadFile(root, "proc/sys/"+s.file)
		if err == nil && strings.TrimSpace(string(text)) == s.value {
			name := strings.ReplaceAll(s.file, "/", ".")
			return name + " is " + s.value + ": run as root, or set " + s.remedy
		}
	}
	status, err := fs.ReadFile(root, "proc/self/status")
	if err == nil && strings.Contains(string(status), "\nSeccomp:\t2\n") {
		return "a filter of system calls (seccomp) is in force, as containers have it: give the container the capabilities SYS_ADMIN and NET_ADMIN, or a seccomp profile that allows user namespaces"
	}
	if err == nil && strings.Contains(string(status), "\nUid:\t0\t") {
		return "this root has not all rights, as in a container: grant it CAP_SYS_ADMIN and CAP_NET_ADMIN, or run as an ordinary user, who may have user namespaces"
	}
	return "run as root, or grant CAP_SYS_ADMIN and CAP_NET_ADMIN, or use a kernel with CONFIG_USER_NS"
}
