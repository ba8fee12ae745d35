// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"crypto/tls"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// Login is how a test comes to a server, or to a set of them.
type Login struct {
	Addr       string   // of one server,
	Sentinels  []string // or of the sentinels that know it,
	Nodes      []string // or of nodes of a cluster
	User, Pass string
	TLS        *tls.Config
	// Hook and Wrap see the commands of the two libraries, if they are not nil.
	Hook redis.Hook
	Wrap func(rueidis.Client) rueidis.Client
}

// GoRedis returns a client of go-redis.
func (l Login) GoRedis() (c redis.UniversalClient) {
	switch {
	case l.Sentinels != nil:
		c = redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: MasterName, SentinelAddrs: l.Sentinels,
			Username: l.User, Password: l.Pass, TLSConfig: l.TLS, ContextTimeoutEnabled: true,
		})
	case l.Nodes != nil:
		c = redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: l.Nodes, Username: l.User, Password: l.Pass, TLSConfig: l.TLS, ContextTimeoutEnabled: true,
		})
	default:
		c = redis.NewClient(&redis.Options{
			Addr: l.Addr, Username: l.User, Password: l.Pass, TLSConfig: l.TLS, ContextTimeoutEnabled: true,
		})
	}
	if l.Hook != nil {
		c.AddHook(l.Hook)
	}
	return c
}

// Rueidis returns a client of rueidis.
func (l Login) Rueidis() (rueidis.Client, error) {
	o := rueidis.ClientOption{
		InitAddress: []string{l.Addr}, Username: l.User, Password: l.Pass, TLSConfig: l.TLS, DisableCache: true,
		PipelineMultiplex: -1, // one connection, so that a ping reports whether it is good
		// The default of half a megabyte each way is a lot for so many clients.
		ReadBufferEachConn: 1 << 14, WriteBufferEachConn: 1 << 14,
	}
	switch {
	case l.Sentinels != nil:
		o.InitAddress, o.Sentinel.MasterSet = l.Sentinels, MasterName
	case l.Nodes != nil:
		o.InitAddress = l.Nodes
	default:
		o.ForceSingleClient = true
	}
	c, err := rueidis.NewClient(o)
	if err == nil && l.Wrap != nil {
		c = l.Wrap(c)
	}
	return c, err
}
