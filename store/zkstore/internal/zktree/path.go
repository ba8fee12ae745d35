// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"fmt"
	"hash/fnv"
	"net/url"
	"strings"
)

// paths are the places of a namespace in the tree:
//
//	/fencelock/s/<session>                a session, ephemeral
//	/fencelock/l/<bucket>/<name>          a lock, a container
//	/fencelock/l/<bucket>/<name>/<claim>  a claim, ephemeral
//	/fencelock/l/<bucket>/<name>/pin      a stored limit, which keeps the container
type paths struct{ root string }

func (p paths) sessions() string { return p.root + "/s" }

func (p paths) session(id string) string { return p.root + "/s/" + id }

func (p paths) locks() string { return p.root + "/l" }

func (p paths) bucket(b string) string { return p.root + "/l/" + b }

func (p paths) lock(name string) string { return p.bucket(bucketOf(name)) + "/" + escape(name) }

// pinName is the child that keeps a container with a stored limit.
const pinName = "pin"

// bucketOf spreads the names over 256 nodes, because ZooKeeper lists the children of
// a node in one answer, which must stay below jute.maxbuffer.
func bucketOf(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name))
	return fmt.Sprintf("%02x", h.Sum32()&0xff)
}

// escape makes a node's name of a lock's name. Every byte but letters, digits, _ and
// - becomes %XX, so no two names meet, and no name is special.
func escape(name string) string {
	if name == "" {
		return "%" // no other name becomes that
	}
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// unescape undoes escape.
func unescape(node string) (string, bool) {
	if node == "%" {
		return "", true
	}
	name, err := url.PathUnescape(node)
	return name, err == nil
}
