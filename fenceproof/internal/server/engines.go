// SPDX-License-Identifier: Apache-2.0

package server

import (
	"path/filepath"
	"strconv"
	"syscall"
)

// Postgres starts PostgreSQL with a database "postgres" and a user "postgres"
// that needs no password.
func Postgres() (*Server, error) {
	program, err := find("postgres", "postgresql-15", "/usr/lib/postgresql/*/bin")
	if err != nil {
		return nil, err
	}
	// initdb lies beside the program, not beside a link to it.
	if program, err = filepath.EvalSymlinks(program); err != nil {
		return nil, err
	}
	s, err := newServer("postgres", "postgres")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(s.dir, "data")
	initdb := filepath.Join(filepath.Dir(program), "initdb")
	if err := s.once(initdb, "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "--no-sync"); err != nil {
		s.Stop()
		return nil, err
	}
	s.args = []string{program, "-D", data, "-p", strconv.Itoa(s.Port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=" + s.dir, "-c", "logging_collector=off", "-c", "log_destination=stderr"}
	s.ready = "ready to accept connections"
	s.halt = syscall.SIGQUIT // "immediate": as after a crash, but no process stays behind
	return s.begin()
}

// MariaDB starts MariaDB with a database "test" and a user "root" that needs no
// password.
func MariaDB() (*Server, error) {
	program, err := find("mariadbd", "mariadb-server", "/usr/sbin")
	if err != nil {
		return nil, err
	}
	install, err := find("mariadb-install-db", "mariadb-server", "/usr/bin")
	if err != nil {
		return nil, err
	}
	s, err := newServer("mariadb", "mysql")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(s.dir, "data")
	if err := s.once(install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal"); err != nil {
		s.Stop()
		return nil, err
	}
	s.args = []string{program, "--no-defaults", "--datadir=" + data, "--port=" + strconv.Itoa(s.Port), "--bind-address=127.0.0.1",
		"--socket=" + filepath.Join(s.dir, "sock"), "--pid-file=" + filepath.Join(s.dir, "pid"), "--innodb-buffer-pool-size=32M"}
	s.ready = "ready for connections"
	s.halt = syscall.SIGKILL
	return s.begin()
}

// Redis starts Redis without persistence.
func Redis() (*Server, error) {
	program, err := find("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	s, err := newServer("redis", "")
	if err != nil {
		return nil, err
	}
	s.args = []string{program, "--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no"}
	s.ready = "Ready to accept connections"
	return s.begin()
}

// begin starts the server for the first time.
func (s *Server) begin() (*Server, error) {
	if err := s.start(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}
