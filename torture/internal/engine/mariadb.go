// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"maps"
	"net"
	"strconv"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/sqlstore"
	"github.com/fencelock/fencelock/torture/internal/fault"
	"github.com/fencelock/fencelock/torture/internal/server"
	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
)

// mariadb is one server, with grace. Nobody is told of a grant: waiters look.
var mariadb = Engine{Name: "mariadb", Lock: "mariadb", Remembers: true, Fair: true, Quiet: 1, start: startMariaDB,
	Shape: fault.Shape{Servers: 1}, Can: []fault.Verb{fault.Flush, fault.Clock, fault.ClockBack}, Lacks: lacksMaria()}

func lacksMaria() map[fault.Verb]string {
	l := maps.Clone(lacksSQL)
	l[fault.CutPush] = "nobody is told of a grant, waiters look again and again"
	return l
}

func startMariaDB(ttl time.Duration, w fault.Wants) (*Rig, error) {
	s, err := servers.MariaDB()
	if err != nil {
		return nil, err
	}
	d, err := newDatabase(s, "mysql", fmt.Sprintf("root@tcp(%s)/test", s.Addr), &sqlstore.Options{MaxTTL: ttl, Grace: true}, w)
	if err != nil {
		return nil, err
	}
	return &Rig{Servers: []server.Server{d}, Addrs: []string{d.Addr}}, nil
}

// port is the port of an address of ours.
func port(addr string) int {
	_, text, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(text)
	return n
}
