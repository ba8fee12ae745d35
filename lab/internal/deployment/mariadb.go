// SPDX-License-Identifier: Apache-2.0

package deployment

import (
	"fmt"
	"maps"
	"net"
	"strconv"
	"time"

	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/lab/internal/fault"
	"github.com/fencelock/fencelock/lab/internal/server"
	"github.com/fencelock/fencelock/store/sqlstore"
	_ "github.com/go-sql-driver/mysql" // the driver "mysql"
)

// mariadb is one server, with grace. It does not notify waiters of a grant: they poll.
var mariadb = Deployment{Name: "mariadb", Lock: "mariadb", SurvivesDataLoss: true, Fair: true, Quiet: 1, start: startMariaDB,
	Shape: fault.Shape{Servers: 1}, Can: []fault.Verb{fault.Flush, fault.Clock, fault.ClockBack, fault.ClockRate}, Lacks: lacksMaria()}

func lacksMaria() map[fault.Verb]string {
	l := maps.Clone(lacksSQL)
	l[fault.CutPush] = "the server does not notify waiters; they poll"
	return l
}

// mysql is the same on MySQL, where MYSQLD names it.
var mysql = Deployment{Name: "mysql", Lock: "mysql", SurvivesDataLoss: true, Fair: true, Quiet: 1, start: startMySQL,
	Shape: mariadb.Shape, Can: mariadb.Can, Lacks: mariadb.Lacks}

func startMariaDB(ttl time.Duration, w fault.Wants) (*Rig, error) {
	return startMaria(servers.MariaDB, ttl, w)
}

func startMySQL(ttl time.Duration, w fault.Wants) (*Rig, error) {
	return startMaria(servers.MySQL, ttl, w)
}

func startMaria(start func(...string) (*servers.Server, error), ttl time.Duration, w fault.Wants) (*Rig, error) {
	s, err := start()
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
