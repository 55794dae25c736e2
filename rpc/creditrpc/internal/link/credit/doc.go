// Package credit decides who may send, and when. It knows neither frames nor sockets.
//
// A receiver grants what it has room for. Messages without credit wait in the sender's memory, in
// the order in which they were sent, and not in the receiver's.
//
//   - bytes of the connection, which may be sent and not yet taken in. A [Window] counts them
//     at the receiver, a [Sender] at the sender.
//   - bytes of one stream, which may lie unread. So a stream that nobody reads stops no other.
//   - requests, the calls that may begin.
//
// A message is sent in turns of at most [Turn] bytes. After each turn a stream with more to send
// goes to the end of the queue, so that a short message waits for at most one turn of each long
// one. A turn waits until there is credit for all of it: streams that need less never overtake
// the first one in the queue, so none starves.
//
// Each frame costs its bytes and [Overhead], since a message of no bytes takes memory too.
package credit

const (
	// Turn is the most bytes of one turn.
	Turn = 68 << 10
	// Overhead is the cost of a frame beside its bytes.
	Overhead = 64
	// LeastWindow is the least that a receiver may grant: a sender waits for a whole turn,
	// and a receiver may keep half of the window back, so that it need not renew it for each frame.
	LeastWindow = 2 * (Turn + Overhead)
)

// Cost returns the cost of a frame with a number of bytes.
func Cost(bytes int) int64 { return int64(bytes) + Overhead }
