// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// program is the program of a server: how it is found, and how it is installed.
type program struct {
	name     string
	variable string   // names the program, before all else
	install  string   // for the error if it is not installed
	folders  []string // where distributions hide it from the path
}

// The programs. README.md has the table of their variables.
var (
	postgres = program{"postgres", "POSTGRES", "on Debian: apt-get install postgresql-15",
		[]string{"/usr/lib/postgresql/*/bin"}}
	pgbouncer = program{"pgbouncer", "PGBOUNCER", "on Debian: apt-get install pgbouncer", []string{"/usr/sbin"}}
	mariadbd  = program{"mariadbd", "MARIADBD", "on Debian: apt-get install mariadb-server", []string{"/usr/sbin"}}
	// The mysqld of a Debian is MariaDB's, so the path is not searched for it.
	mysqld      = program{"", "MYSQLD", "make servers-new installs it, or set MYSQLD to the path of the program", nil}
	redisServer = program{"redis-server", "REDIS_SERVER", "on Debian: apt-get install redis-server", nil}
	valkey      = program{"valkey-server", "VALKEY_SERVER",
		"on Debian: apt-get install valkey-server; Debian 12 has it in its backports, from where .ci/run servers installs it", nil}
	etcd      = program{"etcd", "ETCD", "on Debian: apt-get install etcd-server etcd-client", nil}
	memcached = program{"memcached", "MEMCACHED", "on Debian: apt-get install memcached", nil}
	// Beyond the path it is looked for where .ci/run servers builds it.
	versitygw = program{"versitygw", "VERSITYGW", "go install github.com/versity/versitygw/cmd/versitygw@v1.8.0",
		[]string{filepath.Join(os.TempDir(), "fencelock-servers", "bin")}}
	java = program{"java", "", "on Debian: apt-get install default-jre-headless", nil}
	// A directory stands for all archives in it.
	zookeeper = program{"zookeeper.jar", "ZOOKEEPER", "on Debian: apt-get install zookeeper", []string{"/usr/share/java"}}
)

// programs are those with a variable.
var programs = []program{postgres, pgbouncer, mariadbd, mysqld, redisServer, valkey, etcd, zookeeper, memcached, versitygw}

// find returns the path that the variable of the program has, or else searches the path
// of programs, and the folders. A variable that names nothing is an error and not
// ErrMissing: its tests must not skip.
func (p program) find() (string, error) {
	if named := p.named(); named != "" {
		if _, err := os.Stat(named); err != nil {
			return "", fmt.Errorf("%s: %w; set it to the path of %s, or unset it", p.variable, err, p.what())
		}
		return named, nil
	}
	if p.name != "" {
		if found, err := exec.LookPath(p.name); err == nil {
			return found, nil
		}
	}
	for _, f := range p.folders {
		if found, _ := filepath.Glob(filepath.Join(f, p.name)); len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	return "", fmt.Errorf("%s is %w; %s", p.what(), ErrMissing, p.install)
}

// named returns the path that the variable has.
func (p program) named() string {
	if p.variable == "" {
		return ""
	}
	return os.Getenv(p.variable)
}

// what is the program in words of an error.
func (p program) what() string {
	if p.name == "" {
		return "MySQL"
	}
	return p.name
}

// beside returns a tool that was installed with the program at path: in its folder, or in
// one next to it. The tool of another version, from the path of programs, is the last
// resort.
func beside(path, tool string) string {
	dir := filepath.Dir(path)
	for _, f := range []string{dir, filepath.Join(dir, "../bin"), filepath.Join(dir, "../scripts")} {
		if found := filepath.Join(f, tool); exists(found) {
			return found
		}
	}
	return tool
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// numbered is a version in what a program prints, or in the name of an archive.
var numbered = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

// Installed returns the version of the program that a variable has, or would have: path, or
// if it is empty the one that Start uses.
func Installed(variable, path string) (string, error) {
	i := slices.IndexFunc(programs, func(p program) bool { return p.variable == variable })
	if i < 0 {
		return "", fmt.Errorf("unknown variable %s", variable)
	}
	if path == "" {
		found, err := programs[i].find()
		if err != nil {
			return "", err
		}
		path = found
	}
	text, err := versionText(path)
	if err != nil {
		return "", fmt.Errorf("version of %s: %w", path, err)
	}
	number := numbered.FindString(text)
	if number == "" {
		return "", fmt.Errorf("version of %s: no number in %q", path, text)
	}
	return number, nil
}

// versionText is what a program prints, without its own path, or the name of the archive
// or of a link to it.
func versionText(path string) (string, error) {
	dir := path
	if filepath.Ext(path) == ".jar" {
		dir = filepath.Dir(path)
	}
	if archives, _ := filepath.Glob(filepath.Join(dir, "zookeeper-[0-9]*.jar")); len(archives) > 0 {
		return filepath.Base(archives[0]), nil
	}
	out, err := exec.Command(path, "--version").Output()
	return strings.ReplaceAll(string(out), path, ""), err
}

// The ports of servers. The kernel takes those for connections, and for programs that
// listen at port 0, from above them by default.
const firstPort, lastPort = 20000, 32767

// remembered is how many ports are given before one of them may be given again:
// about half of them, and so many that their servers are gone by then.
const remembered = 6000

var given = struct {
	sync.Mutex
	ports map[int]bool
	order [remembered]int // a ring
	next  int
}{ports: map[int]bool{}}

// FreePort returns a loopback port at which no program listens, and none of the last six
// thousand that it returned in this process. A server keeps its port while it is down.
// If another test were given the port in that time, the clients of one test would talk
// to the server of the other, and a connection from the port would keep the server from
// coming back. Another process can still take the port: then the server does not start,
// and says so. Older ports are given again, or a long run would use up all ports; no
// test has to give them back.
func FreePort() (int, error) {
	given.Lock()
	defer given.Unlock()
	last := errors.New("all that were tried had been given before")
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if given.ports[port] {
			continue
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			last = err
			continue
		}
		delete(given.ports, given.order[given.next])
		given.ports[port] = true
		given.order[given.next] = port
		given.next = (given.next + 1) % remembered
		return port, l.Close()
	}
	return 0, fmt.Errorf("no port between %d and %d is free: %w", firstPort, lastPort, last)
}
