// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/internal/servers"
)

// A suite is a column of the table.
type suite string

const (
	conformance suite = "conformance"
	failover    suite = "failover"
	torture     suite = "torture"
)

var suites = []suite{conformance, failover, torture}

// A server is a kind of server, and which tests are about it.
type server struct {
	name        string
	variable    string
	pkg         string
	conformance string // patterns of go test -run
	failover    string
	deployments string // of the torture, separated by commas
	tortureAs   string // the variable of the server that the deployments start
}

// Tests of the stores that take away a server, its network or its data.
const (
	redisFaults = "^(TestClusterFailoverKeepsTheLease|TestFailoverKeepsTheLease|TestFailoverWithoutGrace|TestSlotMoves|TestSplitBrain)$"
	sqlFaults   = "^(TestFailoverTo.*|TestServerPausedBeyondTheTTL|TestServerRestartsAfterACrash|TestConnectionsAreCut|TestLostReply|TestRowLockedByOthers.*)$"
	redisCells  = "redis,redis-grace,quorum-5,sentinel-grace,cluster,cluster-grace"
)

var kinds = []server{
	{name: "PostgreSQL", variable: "POSTGRES", pkg: "./store/sqlstore", conformance: "^TestConformance$/^postgres$",
		failover: sqlFaults + "/^postgres$", deployments: "postgres,postgres-pair"},
	{name: "pgbouncer", variable: "PGBOUNCER", pkg: "./store/sqlstore", conformance: "^TestConformance$/^pgbouncer$",
		failover: "^(TestPooler.*|TestDeafForAWhile)$", deployments: "pgbouncer"},
	{name: "MySQL", variable: "MYSQLD", pkg: "./store/sqlstore", conformance: "^TestConformance$/^mysql$", failover: sqlFaults + "/^mysql$",
		deployments: "mysql"},
	{name: "MariaDB", variable: "MARIADBD", pkg: "./store/sqlstore", conformance: "^TestConformance$/^mariadb$",
		failover: sqlFaults + "/^mariadb$", deployments: "mariadb"},
	{name: "Redis", variable: "REDIS_SERVER", pkg: "./store/redisstore/internal/native", conformance: "^TestConformance$/^(one|sentinel|cluster)$/^redis$",
		failover: redisFaults + "/^redis$", deployments: redisCells},
	{name: "Valkey", variable: "VALKEY_SERVER", pkg: "./store/redisstore/internal/native", conformance: "^TestConformance$/^(one|sentinel|cluster)$/^valkey$",
		failover: redisFaults + "/^valkey$", deployments: redisCells, tortureAs: "REDIS_SERVER"},
	{name: "etcd", variable: "ETCD", pkg: "./store/etcdstore", conformance: "^TestConformance$",
		failover:    "^(TestLeaderKilled|TestMemberPaused|TestLeaderPaused|TestHolderDies|TestAllMembersRestart|TestNoMajority|TestJWTEnds|TestRenewalOfADeposedLeaderDoesNotCount|TestLowerRevisionIsRefused)$",
		deployments: "etcd"},
	{name: "ZooKeeper", variable: "ZOOKEEPER", pkg: "./store/zkstore", conformance: "^TestConformance(OnAnEnsemble)?$",
		failover:    "^(TestLeaderKilled|TestServerPaused|TestMinorityKeepsNothingAlive|TestCutOff.*|TestAllServersRestart)$",
		deployments: "zookeeper"},
	{name: "memcached", variable: "MEMCACHED", pkg: "./store/memcachestore", conformance: "^TestConformance$", failover: "^TestRestartIsALoss$"},
}

// A version is a server of one version, a row of the table.
type version struct {
	server
	number  string
	program string // what the variable names; empty for the server of the machine
}

func (v version) title() string { return v.name + " " + v.number }

// find returns the servers of the machine, and those in a folder of .ci/servers-new.
func find(dir string) (all []version, err error) {
	installed, err := filepath.Glob(filepath.Join(dir, "*", "env"))
	if err != nil {
		return nil, err
	}
	named := map[string][]string{}
	for _, file := range installed {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		variable, program, _ := strings.Cut(strings.TrimSpace(string(text)), "=")
		named[variable] = append(named[variable], program)
	}
	for _, k := range kinds {
		for _, program := range append([]string{""}, named[k.variable]...) {
			number, err := servers.Installed(k.variable, program)
			if errors.Is(err, servers.ErrMissing) {
				continue
			}
			if err != nil {
				return nil, err
			}
			v := version{k, number, program}
			if !slices.ContainsFunc(all, func(o version) bool { return o.title() == v.title() }) {
				all = append(all, v)
			}
		}
	}
	return all, nil
}
