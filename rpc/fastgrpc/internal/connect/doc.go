// Package connect holds what a client needs to know of connecting before it has a connection:
// targets with their resolvers and authorities, proxies, pauses between attempts, the watch
// over a server's health, and the serializer on which resolvers and balancers run.
//
// It must not know the client's connections or calls.
package connect
