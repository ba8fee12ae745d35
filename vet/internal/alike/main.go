// SPDX-License-Identifier: Apache-2.0

// Command alike runs the checks of fencelock on programs that know nothing of fencelock: it takes for leases what has
// the same shape there, something that is opened with an error and must be ended, and for the function of Do every function with a
// context that is given to a call with another context. What it reports in well-kept projects is a leak of theirs or a
// false alarm of ours; make figures-vet counts the second.
package main

import (
	"golang.org/x/tools/go/analysis/multichecker"

	"github.com/fencelock/fencelock/vet/internal/checks"
)

func main() { multichecker.Main(append(checks.Analyzers(&table), checks.Shapes(&table))...) }

const (
	concurrency = "go.etcd.io/etcd/client/v3/concurrency"
	pgx         = "github.com/jackc/pgx/v5"
	redis       = "github.com/redis/go-redis/v9"
)

var table = checks.API{
	AnyScope: true,
	Leases: map[string][]string{
		"os.File": {"Close"}, "os.Root": {"Close"},
		"net.Listener": {"Close"}, "net.Conn": {"Close"}, "net.PacketConn": {"Close"}, "net.UDPConn": {"Close"}, "net.TCPListener": {"Close"},
		"net.TCPConn": {"Close"}, "net.UnixConn": {"Close"}, "crypto/tls.Conn": {"Close"}, "archive/zip.ReadCloser": {"Close"},
		"io/fs.File": {"Close"}, "net/http.File": {"Close"},
		"github.com/dgraph-io/badger/v2.Txn": {"Discard"}, "github.com/dgraph-io/badger/v2.Iterator": {"Close"},
		"github.com/dgraph-io/badger.Txn": {"Discard"}, "github.com/dgraph-io/badger.Iterator": {"Close"},
		"go.etcd.io/bbolt.DB": {"Close"}, "go.etcd.io/bbolt.Tx": {"Commit", "Rollback"},
		"github.com/go-zookeeper/zk.Conn": {"Close"},
		"time.Ticker":                     {"Stop"}, // not time.Timer: one that has fired need not be stopped
		"database/sql.Tx":                 {"Commit", "Rollback"}, "database/sql.Conn": {"Close"}, "database/sql.Rows": {"Close"}, "database/sql.Stmt": {"Close"},
		"database/sql.DB":                         {"Close"},
		pgx + ".Tx":                               {"Commit", "Rollback"},
		pgx + ".Rows":                             {"Close"},
		pgx + ".Conn":                             {"Close"},
		pgx + "/pgxpool.Conn":                     {"Release", "Hijack"},
		pgx + "/pgconn.PgConn":                    {"Close"},
		redis + ".PubSub":                         {"Close"},
		"github.com/bsm/redislock.Lock":           {"Release"},
		concurrency + ".Session":                  {"Close", "Orphan"},
		"go.etcd.io/etcd/client/v3.Client":        {"Close"},
		"google.golang.org/grpc.ClientConn":       {"Close"},
		"k8s.io/apimachinery/pkg/watch.Interface": {"Stop"},
	},
	Acquire: []string{
		"os.Open", "os.Create", "os.OpenFile", "os.CreateTemp", "os.OpenRoot", "(*os.Root).Open", "(*os.Root).Create", "(*os.Root).OpenFile",
		"crypto/tls.Dial", "crypto/tls.DialWithDialer", "archive/zip.OpenReader", "(io/fs.FS).Open", "(net/http.FileSystem).Open", "(net/http.Dir).Open",
		"(*github.com/dgraph-io/badger/v2.DB).NewTransaction", "(*github.com/dgraph-io/badger/v2.Txn).NewIterator",
		"(*github.com/dgraph-io/badger.DB).NewTransaction", "(*github.com/dgraph-io/badger.Txn).NewIterator",
		"go.etcd.io/bbolt.Open", "(*go.etcd.io/bbolt.DB).Begin", "github.com/go-zookeeper/zk.Connect",
		"net.Listen", "net.ListenUDP", "net.ListenTCP", "net.ListenPacket", "net.Dial", "net.DialTimeout", "net.DialUDP", "net.DialTCP",
		"(*net.Dialer).Dial", "(*net.Dialer).DialContext", "(*net.ListenConfig).Listen", "(*net.ListenConfig).ListenPacket", "(net.Listener).Accept",
		"time.NewTicker",
		"database/sql.Open", "(*database/sql.DB).Begin", "(*database/sql.DB).BeginTx", "(*database/sql.DB).Conn", "(*database/sql.DB).Query",
		"(*database/sql.DB).QueryContext", "(*database/sql.DB).Prepare", "(*database/sql.DB).PrepareContext", "(*database/sql.Conn).BeginTx",
		"(*database/sql.Conn).QueryContext", "(*database/sql.Tx).Query", "(*database/sql.Tx).QueryContext",
		pgx + ".Connect", pgx + ".ConnectConfig", "(*" + pgx + ".Conn).Begin", "(*" + pgx + ".Conn).BeginTx", "(*" + pgx + ".Conn).Query",
		"(" + pgx + ".Tx).Begin", "(" + pgx + ".Tx).Query", pgx + "/pgconn.Connect", pgx + "/pgconn.ConnectConfig",
		"(*" + pgx + "/pgxpool.Pool).Acquire", "(*" + pgx + "/pgxpool.Pool).Begin", "(*" + pgx + "/pgxpool.Pool).BeginTx", "(*" + pgx + "/pgxpool.Pool).Query",
		"(*" + redis + ".Client).Subscribe", "(*" + redis + ".ClusterClient).Subscribe", "(" + redis + ".UniversalClient).Subscribe",
		"(*github.com/bsm/redislock.Client).Obtain", concurrency + ".NewSession", "go.etcd.io/etcd/client/v3.New",
		"google.golang.org/grpc.NewClient", "google.golang.org/grpc.Dial", "google.golang.org/grpc.DialContext",
		"(sigs.k8s.io/controller-runtime/pkg/client.WithWatch).Watch",
	},
	Clients: []string{
		redis + ".NewClient", redis + ".NewClusterClient", redis + ".NewUniversalClient", "database/sql.Open", "go.etcd.io/etcd/client/v3.New",
		"google.golang.org/grpc.NewClient", pgx + "/pgxpool.New", pgx + "/pgxpool.NewWithConfig", "k8s.io/client-go/kubernetes.NewForConfig",
		"sigs.k8s.io/controller-runtime/pkg/client.New",
	},
	Close: []string{"(*" + redis + ".Client).Close", "(*database/sql.DB).Close"},
	Tokens: []string{
		"(*go.etcd.io/etcd/api/v3/etcdserverpb.ResponseHeader).GetRevision",
		"(k8s.io/apimachinery/pkg/apis/meta/v1.Object).GetGeneration", "(k8s.io/apimachinery/pkg/apis/meta/v1.Object).GetResourceVersion",
	},
}
