package life

import "golang.org/x/sys/unix"

// System calls that send to sockets, and that receive from them.
var (
	sending   = []int{unix.SYS_WRITE, unix.SYS_WRITEV, unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_SENDMMSG, unix.SYS_SENDFILE, unix.SYS_SPLICE}
	receiving = []int{unix.SYS_READ, unix.SYS_READV, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_RECVMMSG}
)
