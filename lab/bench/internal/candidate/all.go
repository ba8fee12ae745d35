// SPDX-License-Identifier: Apache-2.0

package candidate

// All are the candidates.
var All = []*Candidate{
	BareRueidis, BareGoRedis, PingPong, Channel,
	FencelockRueidis, FencelockGoRedis, FencelockCluster, FencelockLinger,
	RueidislockDefault, RueidislockFast,
	RedsyncRueidis, RedsyncGoRedis, RedsyncTuned,
	Redislock, RedislockTuned,
	Redisson, RedissonFair,
	BareQuorum, FencelockQuorum, RedsyncQuorum, RedsyncFailFast,
	BareEtcd, FencelockEtcd, EtcdRecipe,
	FencelockZK, ZKLock, Curator,
	BareMemcached, FencelockMemcached, MemcachedRecipe,
	PostgresCommits, FencelockPostgres, AdvisoryLock, MariaDBCommits, FencelockMariaDB, GetLock,
	MySQLCommits, FencelockMySQL, GetLockMySQL,
}
