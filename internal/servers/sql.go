// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Postgres starts PostgreSQL with a database "postgres" and a user "postgres" that needs
// no password. Settings are as in its configuration: "fsync=off".
func Postgres(settings ...string) (*Server, error) {
	program, err := postgres.find()
	if err != nil {
		return nil, err
	}
	// initdb lies beside the program, not beside a link to it.
	program, err = filepath.EvalSymlinks(program)
	if err != nil {
		return nil, err
	}
	s, err := newServer("postgres", "postgres")
	if err != nil {
		return nil, err
	}
	s.bin = filepath.Dir(program)
	if err := s.once(filepath.Join(s.bin, "initdb"), "-D", s.data(), "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "--no-sync"); err != nil {
		s.Stop()
		return nil, err
	}
	s.postgresArgs(settings)
	return s.begin()
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) postgresArgs(settings []string) {
	s.args = []string{filepath.Join(s.bin, "postgres"), "-D", s.data(), "-p", strconv.Itoa(s.Port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=" + s.dir, "-c", "logging_collector=off", "-c", "log_destination=stderr"}
	for _, v := range settings {
		s.args = append(s.args, "-c", v)
	}
	s.ready = "ready to accept connections"
	s.halt = syscall.SIGQUIT // "immediate": as after a crash, but no process stays behind
}

// Replica starts a PostgreSQL server that follows the given one, asynchronously, by way of
// a port: its own, or that of a proxy in front of it.
func (s *Server) Replica(port int) (*Server, error) {
	r, err := newServer("replica", "postgres")
	if err != nil {
		return nil, err
	}
	r.bin = s.bin
	if err := r.once(filepath.Join(r.bin, "pg_basebackup"), "-D", r.data(), "-h", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "postgres", "-R", "-X", "stream", "-c", "fast"); err != nil {
		r.Stop()
		return nil, err
	}
	r.postgresArgs(nil)
	r.ready = "ready to accept read-only connections"
	return r.begin()
}

// Promote makes a replica a primary, on a new timeline.
func (s *Server) Promote() error {
	return s.once(filepath.Join(s.bin, "pg_ctl"), "-D", s.data(), "-w", "promote")
}

// MariaDB starts MariaDB with a database "test" and a user "root" that needs no
// password. Settings are flags without the dashes.
func MariaDB(settings ...string) (*Server, error) {
	program, err := mariadbd.find()
	if err != nil {
		return nil, err
	}
	s, err := newServer("mariadb", "mysql")
	if err != nil {
		return nil, err
	}
	// A separate folder: servers that were made at the same time have lost temporary
	// tables from a folder that they shared.
	tmp := "--tmpdir=" + s.dir
	if err := s.once(beside(program, "mariadb-install-db"), "--no-defaults", "--basedir="+filepath.Dir(filepath.Dir(program)),
		"--datadir="+s.data(), tmp, "--auth-root-authentication-method=normal"); err != nil {
		s.Stop()
		return nil, err
	}
	s.args = []string{program, "--no-defaults", "--datadir=" + s.data(), tmp, "--port=" + strconv.Itoa(s.Port), "--bind-address=127.0.0.1",
		"--socket=" + filepath.Join(s.dir, "sock"), "--pid-file=" + filepath.Join(s.dir, "pid"), "--innodb-buffer-pool-size=32M"}
	for _, v := range settings {
		s.args = append(s.args, "--"+v)
	}
	s.ready = "ready for connections"
	return s.begin()
}

// MySQL starts MySQL with a database "test" and a user "root" that needs no password.
// Settings are flags without the dashes.
func MySQL(settings ...string) (*Server, error) {
	program, err := mysqld.find()
	if err != nil {
		return nil, err
	}
	s, err := newServer("mysql", "mysql")
	if err != nil {
		return nil, err
	}
	base := []string{"--no-defaults", "--datadir=" + s.data(), "--tmpdir=" + s.dir, "--plugin-dir=" + s.dir, "--secure-file-priv=NULL"}
	if share := filepath.Join(filepath.Dir(program), "../share/mysql"); exists(share) {
		base = append(base, "--lc-messages-dir="+share) // it was built for another folder
	}
	setup := filepath.Join(s.dir, "init.sql")
	text := "CREATE DATABASE IF NOT EXISTS test;\nCREATE USER IF NOT EXISTS 'root'@'127.0.0.1';\nGRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION;\n"
	err = os.WriteFile(setup, []byte(text), 0o644)
	if err == nil {
		err = s.once(program, append(base, "--initialize-insecure")...)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	s.args = append(append([]string{program}, base...), "--port="+strconv.Itoa(s.Port), "--bind-address=127.0.0.1", "--init-file="+setup,
		"--socket="+filepath.Join(s.dir, "sock"), "--pid-file="+filepath.Join(s.dir, "pid"), "--innodb-buffer-pool-size=32M", "--mysqlx=OFF")
	for _, v := range settings {
		s.args = append(s.args, "--"+v)
	}
	s.ready = "ready for connections"
	return s.begin()
}

// Pgbouncer starts a pooler in transaction mode in front of a PostgreSQL server.
func (s *Server) Pgbouncer() (*Server, error) { return s.PgbouncerWith("server_round_robin = 1") }

// PgbouncerWith is Pgbouncer with other settings.
func (s *Server) PgbouncerWith(settings ...string) (b *Server, err error) {
	for range 3 { // the port may be taken by the time it starts, and it says so too late
		b, err = s.pgbouncer(settings)
		if err != nil {
			return nil, err
		}
		var c net.Conn
		c, err = net.Dial("tcp", b.Addr)
		if err == nil {
			return b, c.Close()
		}
		b.Stop()
	}
	return nil, err
}

func (s *Server) pgbouncer(settings []string) (*Server, error) {
	program, err := pgbouncer.find()
	if err != nil {
		return nil, err
	}
	b, err := newServer("pgbouncer", "postgres")
	if err != nil {
		return nil, err
	}
	ini := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%d user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 10
max_client_conn = 500
server_login_retry = 0.5
ignore_startup_parameters = extra_float_digits
%s
`, s.Port, b.Port, strings.Join(settings, "\n"))
	path := filepath.Join(b.dir, "pgbouncer.ini")
	if err := os.WriteFile(path, []byte(ini), 0o644); err != nil {
		b.Stop()
		return nil, err
	}
	b.args = []string{program, path}
	b.ready = "process up"
	return b.begin()
}
