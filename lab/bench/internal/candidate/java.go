// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// The Java candidates are a Maven project that is built when one of them is wanted
// for the first time, into the user's cache.
//
//go:embed java
var javaSource embed.FS

// javaWorker is the command of a Java worker.
var javaWorker = sync.OnceValues(func() ([]string, error) {
	for _, tool := range []string{"mvn", "java"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%s is not installed; on Debian: apt-get install maven", tool)
		}
	}
	dir, err := javaFolder()
	if err != nil {
		return nil, err
	}
	classes, libraries := filepath.Join(dir, "java", "target", "classes"), filepath.Join(dir, "java", "target", "lib")
	command := []string{"java", "-Xmx256m", "-cp", classes + string(os.PathListSeparator) + libraries + "/*", "bench.Worker"}
	built := filepath.Join(dir, "built")
	if _, err := os.Stat(built); err == nil {
		return command, nil
	}
	if err := os.RemoveAll(dir); err != nil { // what an interrupted build left
		return nil, err
	}
	if err := os.CopyFS(dir, javaSource); err != nil {
		return nil, err
	}
	build := exec.Command("mvn", "-q", "-B", "-f", filepath.Join(dir, "java", "pom.xml"),
		"package", "dependency:copy-dependencies", "-DoutputDirectory="+libraries)
	var out bytes.Buffer
	build.Stdout, build.Stderr = &out, &out
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("mvn: %w\n%s", err, out.Bytes())
	}
	return command, os.WriteFile(built, nil, 0o644)
})

// javaFolder is a folder for this version of the source.
func javaFolder() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	err = fs.WalkDir(javaSource, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := javaSource.ReadFile(path)
		sum.Write(text)
		return err
	})
	return filepath.Join(cache, "fencelock-bench", hex.EncodeToString(sum.Sum(nil)[:8])), err
}

// notHere is the Open of a candidate that runs only in separate processes.
func notHere(context.Context, Place, int) ([]Locker, error) {
	return nil, errors.New("the candidate is not written in Go; it runs only in separate processes")
}

// Curator is Java's best known client of ZooKeeper. Its lock has no tokens, and a holder
// is notified of a loss only if it listens to the connection.
var Curator = &Candidate{
	Name: "curator", Server: "zk", Settings: "Curator 5.9.0, InterProcessMutex, session timeout 15 s, ExponentialBackoffRetry(1 s, 3)", Waits: true,
	Open: notHere, Command: javaWorker,
}

// Redisson is Java's best known client with locks, as it comes.
var Redisson = newRedisson("redisson", "Redisson 4.7, getLock, defaults: a watchdog of 30 s; its DEL after each unlock is not counted")

// RedissonFair is its lock that keeps the order of asking.
var RedissonFair = newRedisson("redisson-fair", "Redisson 4.7, getFairLock, defaults; its DEL after each unlock is not counted")

func newRedisson(name, settings string) *Candidate {
	return &Candidate{
		Name: name, Server: "redis", Settings: settings, Plain: []string{"subscribe", "unsubscribe"}, Uncounted: []string{"del"}, Waits: true,
		Open: notHere, Command: javaWorker,
	}
}
