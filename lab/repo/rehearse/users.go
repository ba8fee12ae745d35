// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// user is a program of a user.
type user struct {
	imports []string
	// links are the modules other than ours that may be compiled into the program;
	// one more is a decision, not an accident.
	links []string
	// alone: nothing but the modules of the imports may be downloaded.
	alone bool
	// most is how many modules other than ours may be in the graph; 0 means unchecked.
	most int
}

// graphs bound what "go mod download" gets, tests of dependencies included.
var graphs = map[string]int{
	"fence/etcdfence": 77, "fence/gormfence": 9, "fence/grpcfence": 45, "fence/pgxfence": 15, "fence/redisfence": 10, "fence/s3fence": 11,
	"otelfencelock":   17,
	"store/etcdstore": 77, "store/memcachestore": 1, "store/redisstore": 12, "store/sqlstore": 17, "store/zkstore": 1,
}

// users are the programs a rehearsal writes: one that uses the core only, and
// one for each module with what the client library of its server brings.
func users(mods []*module) []user {
	root := mods[0].path // needs nothing, so it is the first
	all := []user{{imports: []string{root, root + "/store/memstore"}, alone: true}}
	for _, m := range mods {
		if links, ok := clients[m.dir]; ok {
			all = append(all, user{imports: []string{root, m.path}, links: links, most: graphs[m.dir]})
		}
	}
	return all
}

// clients are the modules that a store may link into a program.
var clients = map[string][]string{
	"fence/etcdfence":     etcdClient,
	"fence/gormfence":     {"gorm.io/gorm", "github.com/jinzhu/inflection", "github.com/jinzhu/now", "golang.org/x/text"},
	"fence/grpcfence":     grpcClient,
	"fence/pgxfence":      pgxClient,
	"fence/redisfence":    redisClient,
	"fence/s3fence":       s3Client,
	"store/etcdstore":     etcdClient,
	"store/memcachestore": {"github.com/bradfitz/gomemcache"},
	"otelfencelock": {"go.opentelemetry.io/otel", "go.opentelemetry.io/otel/metric", "go.opentelemetry.io/otel/trace",
		"go.opentelemetry.io/otel/log", "go.opentelemetry.io/auto/sdk", "github.com/go-logr/logr", "github.com/go-logr/stdr", "github.com/cespare/xxhash/v2"},
	"store/redisstore": redisClient,
	"store/sqlstore": {"github.com/jackc/pgx/v5", "github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", "github.com/jackc/puddle/v2",
		"github.com/go-sql-driver/mysql", "filippo.io/edwards25519", "golang.org/x/text", "golang.org/x/sync"},
	"store/zkstore": {"github.com/go-zookeeper/zk"},
}

// redisClient is what the client of Redis links.
var redisClient = []string{"github.com/redis/go-redis/v9", "github.com/cespare/xxhash/v2", "go.uber.org/atomic", "golang.org/x/sys"}

// pgxClient is what pgx links, without its pool.
var pgxClient = []string{"github.com/jackc/pgx/v5", "github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", "golang.org/x/text"}

// s3Client is what the SDK of S3 links.
var s3Client = []string{
	"github.com/aws/smithy-go", "github.com/aws/aws-sdk-go-v2", "github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream",
	"github.com/aws/aws-sdk-go-v2/internal/configsources", "github.com/aws/aws-sdk-go-v2/internal/endpoints/v2", "github.com/aws/aws-sdk-go-v2/internal/v4a",
	"github.com/aws/aws-sdk-go-v2/service/internal/accept-encoding", "github.com/aws/aws-sdk-go-v2/service/internal/checksum",
	"github.com/aws/aws-sdk-go-v2/service/internal/presigned-url", "github.com/aws/aws-sdk-go-v2/service/internal/s3shared", "github.com/aws/aws-sdk-go-v2/service/s3",
}

// grpcClient is what gRPC links.
var grpcClient = []string{"google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto/googleapis/rpc",
	"golang.org/x/net", "golang.org/x/sys", "golang.org/x/text"}

// etcdClient is what the client of etcd links.
var etcdClient = []string{
	"go.etcd.io/etcd/api/v3", "go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/client/pkg/v3",
	"google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto/googleapis/api", "google.golang.org/genproto/googleapis/rpc",
	"github.com/golang/protobuf", "github.com/grpc-ecosystem/grpc-gateway/v2", "github.com/coreos/go-semver", "github.com/coreos/go-systemd/v22",
	"go.uber.org/zap", "go.uber.org/multierr", "golang.org/x/net", "golang.org/x/sys", "golang.org/x/text",
}

// use writes a user's program and checks what it downloads and links.
func (s *stage) use(u user) error {
	dir, err := os.MkdirTemp(s.dir, "user")
	if err != nil {
		return err
	}
	text := "package main\n\nimport (\n"
	for _, imp := range u.imports {
		text += fmt.Sprintf("\t_ %q\n", imp)
	}
	text += ")\n\nfunc main() {}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(text), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{{"mod", "init", "example.com/user"}, {"mod", "tidy"}, {"build", "./..."}} {
		if _, err := s.command(dir, args...); err != nil {
			return err
		}
	}
	graph, err := s.command(dir, "list", "-m", "-f", "{{.Path}}", "all")
	if err != nil {
		return err
	}
	linked, err := s.command(dir, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	if err != nil {
		return err
	}
	downloads, links := others(string(graph), u), others(string(linked), u)
	fmt.Printf("rehearse: a user of %s: %d more modules in the graph, linked: %v\n", strings.Join(u.imports, ", "), len(downloads), links)
	if u.most > 0 && len(downloads) > u.most {
		return fmt.Errorf("%d modules are in the graph, at most %d may be; if one more is needed, add it to graphs in lab/repo/rehearse/users.go: %s", len(downloads), u.most, strings.Join(downloads, " "))
	}
	if u.most > 0 {
		fmt.Printf("ok rehearse: modules other than ours in the graph of a user of %s: %d, at most %d\n", u.imports[1], len(downloads), u.most)
	}
	if u.alone {
		fmt.Printf("ok rehearse: the graph of a user of the core: the user's own module and %s\n", u.imports[0])
	}
	if u.alone && len(downloads) > 0 {
		return fmt.Errorf("the module graph must not have %v; the root requires nothing, ever", downloads)
	}
	for _, l := range links {
		if !slices.Contains(u.links, l) {
			return fmt.Errorf("%s is linked into the program; if it is needed, add it to clients in lab/repo/rehearse/users.go", l)
		}
	}
	return nil
}

// others returns the modules of a list that are neither the user's nor ours.
func others(list string, u user) []string {
	var found []string
	for _, path := range strings.Fields(list) {
		ours := path == u.imports[0] || strings.HasPrefix(path, u.imports[0]+"/")
		if path != "example.com/user" && !ours {
			found = append(found, path)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
