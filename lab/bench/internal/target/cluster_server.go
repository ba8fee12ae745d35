// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"fmt"
	"strconv"
)

// Cluster is a RedisCluster that candidates are measured on.
type Cluster struct{ *RedisCluster }

// StartCluster starts six servers. The caller stops them.
func StartCluster(context.Context) (Server, error) {
	c, err := StartRedisCluster()
	if err != nil {
		return nil, err
	}
	return Cluster{c}, nil
}

// Addr implements Server: one node is enough to find the others.
func (c Cluster) Addr() string { return c.Nodes[0].Addr }

// Version implements Server.
func (c Cluster) Version(context.Context) (string, error) {
	return fmt.Sprintf("%d masters and as many replicas, Redis %s", len(c.Clients), c.Nodes[0].Info("server", "redis_version")), nil
}

// ResetStats implements Server.
func (c Cluster) ResetStats(ctx context.Context) error {
	for _, client := range c.Clients {
		if err := client.ConfigResetStat(ctx).Err(); err != nil {
			return err
		}
	}
	return nil
}

// Stats implements Server. It is the sum of the masters.
func (c Cluster) Stats(ctx context.Context) (Stats, error) {
	sum := Stats{}
	for _, client := range c.Clients {
		text, err := client.Info(ctx, "commandstats").Result()
		if err != nil {
			return nil, err
		}
		s, err := ParseStats(text)
		if err != nil {
			return nil, err
		}
		sum.add(s)
	}
	return sum, nil
}

// CPU implements Server. It is the sum of masters and replicas.
func (c Cluster) CPU(context.Context) (sum float64, err error) {
	for _, n := range c.Nodes {
		ran, err := processTime(n.PID())
		if err != nil {
			return 0, err
		}
		sum += ran
	}
	return sum, nil
}

// Memory implements Server. It is the sum of the masters.
func (c Cluster) Memory(context.Context) (float64, error) { return c.sum("used_memory") }

// Data is Memory without the buffers of connections.
func (c Cluster) Data(context.Context) (float64, error) {
	all, err := c.sum("used_memory")
	if err != nil {
		return 0, err
	}
	clients, err := c.sum("mem_clients_normal")
	return all - clients, err
}

// sum adds up a number of INFO memory of the masters.
func (c Cluster) sum(field string) (sum float64, err error) {
	for _, n := range c.Nodes[:len(c.Clients)] {
		v, err := strconv.ParseFloat(n.Info("memory", field), 64)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
}
