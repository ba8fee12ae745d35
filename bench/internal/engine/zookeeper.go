// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/bench/internal/child"
)

// zookeeperJar is where Debian's package has it.
const zookeeperJar = "/usr/share/java/zookeeper.jar"

// zookeepers is the size of the ensemble: one server would not show what agreeing
// costs.
const zookeepers = 3

// ZooKeeper is a running ensemble with ZooKeeper's default settings.
type ZooKeeper struct {
	addrs []string
	cmds  []*exec.Cmd
	dir   string
}

// StartZooKeeper starts an ensemble. The caller stops it.
func StartZooKeeper(ctx context.Context) (Server, error) {
	if _, err := os.Stat(zookeeperJar); err != nil {
		return nil, errors.New("zookeeper is not installed; on Debian: apt-get install zookeeper default-jre-headless")
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	z := &ZooKeeper{dir: dir}
	if err := z.start(ctx); err != nil {
		z.Stop()
		return nil, err
	}
	return z, nil
}

func (z *ZooKeeper) start(ctx context.Context) error {
	var ports []int
	for range 3 * zookeepers {
		port, err := freePort()
		if err != nil {
			return err
		}
		ports = append(ports, port)
	}
	var members strings.Builder
	for i := range zookeepers {
		fmt.Fprintf(&members, "server.%d=127.0.0.1:%d:%d\n", i+1, ports[zookeepers+i], ports[2*zookeepers+i])
	}
	for i := range zookeepers {
		dir := filepath.Join(z.dir, strconv.Itoa(i+1))
		config := fmt.Sprintf("tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\n"+
			"admin.enableServer=false\nmaxClientCnxns=0\n4lw.commands.whitelist=*\n%s", dir, ports[i], members.String())
		err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "zoo.cfg"), []byte(config), 0o644),
			os.WriteFile(filepath.Join(dir, "myid"), []byte(strconv.Itoa(i+1)), 0o644))
		if err != nil {
			return err
		}
		cmd := exec.Command("java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", zookeeperJar,
			"org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(dir, "zoo.cfg"))
		child.EndWithParent(cmd)
		if err := cmd.Start(); err != nil {
			return err
		}
		z.cmds = append(z.cmds, cmd)
		z.addrs = append(z.addrs, net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[i])))
	}
	return z.serves(ctx)
}

// serves waits until all servers do.
func (z *ZooKeeper) serves(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, addr := range z.addrs {
		for !strings.Contains(four(addr, "srvr"), "Mode: ") {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("zookeeper on %s does not serve: %w", addr, ctx.Err())
			}
		}
	}
	return nil
}

// four sends one of the four-letter commands.
func four(addr, command string) string {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	fmt.Fprint(conn, command)
	text, _ := io.ReadAll(conn)
	return string(text)
}

// Received is how many requests the servers have received on the connections that
// they have now and that have a session.
func (z *ZooKeeper) Received() (n int) {
	for _, addr := range z.addrs {
		for line := range strings.Lines(four(addr, "cons")) {
			if _, rest, ok := strings.Cut(line, "recved="); ok && strings.Contains(line, "sid=") {
				count, _, _ := strings.Cut(rest, ",")
				one, _ := strconv.Atoi(count)
				n += one
			}
		}
	}
	return n
}

// Addr implements Server: all of them, separated by commas.
func (z *ZooKeeper) Addr() string { return strings.Join(z.addrs, ",") }

// Version implements Server.
func (z *ZooKeeper) Version(context.Context) (string, error) {
	line, _, _ := strings.Cut(four(z.addrs[0], "srvr"), ",")
	version, _, _ := strings.Cut(strings.TrimPrefix(line, "Zookeeper version: "), "-")
	return fmt.Sprintf("ZooKeeper %s, %d servers", version, zookeepers), nil
}

// ResetStats implements Server.
func (z *ZooKeeper) ResetStats(context.Context) error { return nil }

// Stats implements Server: ZooKeeper does not count by kind.
func (z *ZooKeeper) Stats(context.Context) (Stats, error) { return nil, nil }

// CPU implements Server: it is not measured.
func (z *ZooKeeper) CPU(context.Context) (float64, error) { return 0, nil }

// Memory implements Server: it is not measured.
func (z *ZooKeeper) Memory(context.Context) (float64, error) { return 0, nil }

// Stop implements Server.
func (z *ZooKeeper) Stop() {
	for _, cmd := range z.cmds {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	_ = os.RemoveAll(z.dir)
}
