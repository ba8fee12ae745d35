// SPDX-License-Identifier: Apache-2.0

package interop

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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

//go:embed redisson spring curator jetcd lines
var javaSource embed.FS

// linesSource is what the peers share: how they are driven by lines.
const linesSource = "lines/peer/Lines.java"

// versions of Redisson: the oldest that is supported, those at which something on the wire
// changed, and the newest.
var versions = []string{"3.17.7", "3.27.2", "3.45.1", "3.52.0", "4.7.0"}

// newest is the version of a short run.
const newest = "4.7.0"

var built sync.Map // of libraries and versions, to functions

// command returns the command of a Java peer with a library, redisson, spring, curator or jetcd. The peer is built
// when it is wanted for the first time, into the user's cache.
func command(library, version string) ([]string, error) {
	build, _ := built.LoadOrStore(library+" "+version, sync.OnceValues(func() ([]string, error) { return buildPeer(library, version) }))
	return build.(func() ([]string, error))()
}

// longestBuild bounds one program of a build. A repository of Maven that does not answer would take the time of all tests of the
// package; if it took so long once, no other build tries it.
const longestBuild = 2 * time.Minute

var tooSlow atomic.Bool

// runStep runs a program of a build.
func runStep(step []string) error {
	if tooSlow.Load() {
		return fmt.Errorf("%s: a build took longer than %v before", step[0], longestBuild)
	}
	ctx, cancel := context.WithTimeout(context.Background(), longestBuild)
	defer cancel()
	run := exec.CommandContext(ctx, step[0], step[1:]...)
	run.WaitDelay = 30 * time.Second
	out, err := run.CombinedOutput()
	if ctx.Err() != nil {
		tooSlow.Store(true)
	}
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", step[0], err, out)
	}
	return nil
}

func buildPeer(library, version string) ([]string, error) {
	for _, tool := range []string{"mvn", "javac", "java"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%s is not installed; on Debian: apt-get install maven default-jdk-headless", tool)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, file := range []string{library + "/pom.xml", library + "/peer/Peer.java", linesSource} {
		text, err := javaSource.ReadFile(file)
		if err != nil {
			return nil, err
		}
		sum.Write(text)
	}
	dir := filepath.Join(cache, "fencelock-interop", hex.EncodeToString(sum.Sum(nil)[:8]), version)
	command := []string{"java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp",
		filepath.Join(dir, "classes") + string(os.PathListSeparator) + filepath.Join(dir, "lib") + "/*", "peer.Peer"}
	if _, err := os.Stat(dir); err == nil {
		return command, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	building, err := os.MkdirTemp(filepath.Dir(dir), "building") // another process may build the same
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(building)
	if err := os.CopyFS(building, javaSource); err != nil {
		return nil, err
	}
	source, libraries, classes := filepath.Join(building, library), filepath.Join(building, "lib"), filepath.Join(building, "classes")
	classPath := libraries + "/*"
	for _, step := range [][]string{
		{"mvn", "-q", "-B", "-f", filepath.Join(source, "pom.xml"), "dependency:copy-dependencies", "-D" + library + ".version=" + version, "-DoutputDirectory=" + libraries},
		{"javac", "-nowarn", "-cp", classPath, "-d", classes, filepath.Join(source, "peer", "Peer.java"), filepath.Join(building, linesSource)},
	} {
		if err := runStep(step); err != nil {
			return nil, err
		}
	}
	if err := os.Rename(building, dir); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTEMPTY) {
		return nil, err
	}
	return command, nil
}

// TestWithoutJavaScenesAreSkipped: where Maven gets no libraries, the scenes with Java are skipped, and the package does not panic.
func TestWithoutJavaScenesAreSkipped(t *testing.T) {
	t.Parallel()
	if err := servers.Redis.Need(); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "mvn"), []byte("#!/bin/sh\nexit 1\n"), 0o755))
	program, err := os.Executable()
	must.OK(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	run := exec.CommandContext(ctx, program, "-test.v", "-test.run", "^(TestRedisson|TestMixedFleet)$")
	run.Env = append(os.Environ(), "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"), "XDG_CACHE_HOME="+t.TempDir())
	run.WaitDelay = 30 * time.Second
	out, err := run.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("SKIP: TestRedisson/")) || !bytes.Contains(out, []byte("SKIP: TestMixedFleet/")) {
		t.Errorf("with a Maven that fails: %v\n%s", err, out)
	}
}
